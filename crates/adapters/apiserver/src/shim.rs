//! Stand-ins for parts of `schema` that have not landed yet.
pub(crate) mod names {
    pub(crate) fn is_label(text: &str) -> Vec<String> {
        schema::metadata::NameRule::Label.check(text, false)
    }
    pub(crate) fn is_qualified_name(_text: &str) -> Vec<String> {
        Vec::new()
    }
}
pub(crate) mod crd {
    use serde_json::Value;
    pub(crate) fn default(value: &mut Value) {
        let kind = value["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
        if value["spec"]["names"]["singular"].is_null() {
            value["spec"]["names"]["singular"] = kind.to_lowercase().into();
        }
        if value["spec"]["names"]["listKind"].is_null() {
            value["spec"]["names"]["listKind"] = format!("{kind}List").into();
        }
        if value["spec"]["conversion"].is_null() {
            value["spec"]["conversion"] = serde_json::json!({"strategy": "None"});
        }
    }
    pub(crate) fn validate(_value: &Value, _old: Option<&Value>) -> Vec<schema::FieldError> {
        Vec::new()
    }
}
pub(crate) mod managed {
    use serde_json::Value;
    #[derive(Clone, Copy)]
    pub(crate) struct Writer<'a> {
        pub manager: &'a str,
        pub api_version: &'a str,
        pub subresource: &'a str,
        pub time: &'a str,
    }
    pub(crate) struct Applied {
        pub object: Value,
    }
    pub(crate) struct Conflict {
        pub manager: String,
        pub field: String,
    }
    #[derive(Debug)]
    #[allow(dead_code)]
    pub(crate) enum ApplyError {
        Conflict(Vec<Conflict>),
        Untyped(String),
        BadRequest(String),
    }
    impl std::fmt::Debug for Conflict {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{} {}", self.manager, self.field)
        }
    }
    impl std::fmt::Display for ApplyError {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{self:?}")
        }
    }
    pub(crate) fn apply(
        _schema: &schema::Schema,
        live: Option<&Value>,
        applied: &Value,
        writer: &Writer<'_>,
        _force: bool,
        _reset: &[&str],
    ) -> Result<Applied, ApplyError> {
        let _ = (writer.manager, writer.api_version, writer.subresource, writer.time);
        let object = schema::patch::merge(live.unwrap_or(&Value::Null), applied);
        Ok(Applied { object })
    }
    pub(crate) fn update(_schema: &schema::Schema, _live: Option<&Value>, _object: &mut Value, _writer: &Writer<'_>, _reset: &[&str]) {}
}
