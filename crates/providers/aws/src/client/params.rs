//! Parameters of the Query API, in which lists and structures are spelled out in the names.

use crate::spec::Filter;

/// The parameters of one request, in the order in which they were given. User data is among them, so none is printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn set(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.push(name, value);
        self
    }

    pub(crate) fn push(&mut self, name: impl Into<String>, value: impl ToString) {
        self.0.push((name.into(), value.to_string()));
    }

    pub(crate) fn push_some(&mut self, name: impl Into<String>, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.push(name, value);
        }
    }

    /// `Name.1`, `Name.2` and so on.
    pub(crate) fn list<V: ToString>(mut self, name: &str, values: impl IntoIterator<Item = V>) -> Self {
        for (index, value) in values.into_iter().enumerate() {
            self.push(format!("{name}.{}", index + 1), value);
        }
        self
    }

    /// `Filter.1.Name`, `Filter.1.Value.1` and so on.
    pub(crate) fn filters(mut self, filters: &[Filter]) -> Self {
        for (index, filter) in filters.iter().enumerate() {
            let prefix = format!("Filter.{}", index + 1);
            self.push(format!("{prefix}.Name"), &filter.name);
            self = self.list(&format!("{prefix}.Value"), &filter.values);
        }
        self
    }

    #[cfg(test)]
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    pub(super) fn encode(&self, action: &str, version: &str) -> String {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.append_pair("Action", action).append_pair("Version", version);
        form.extend_pairs(&self.0);
        form.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_filters_are_spelled_out() {
        let filter = Filter { name: "tag:Name".into(), values: vec!["a b".into(), "c&d".into()] };
        let mut params = Params::new().set("MinCount", 1).list("InstanceId", ["i-1", "i-2"]).filters(&[filter]);
        params.push_some("KeyName", None::<&str>);
        assert_eq!(
            params.encode("RunInstances", "2016-11-15"),
            "Action=RunInstances&Version=2016-11-15&MinCount=1&InstanceId.1=i-1&InstanceId.2=i-2\
             &Filter.1.Name=tag%3AName&Filter.1.Value.1=a+b&Filter.1.Value.2=c%26d"
        );
    }
}
