//! The pure half of an external provider: the description that it gave, applied.
//!
//! Only the fields at the top of a spec are described. What lies deeper the provider refuses itself, at the creation.

use std::sync::Arc;

use machine::provider::{Capacity, Problem, SecretNeed, SecretPurpose, SpecRules, Surroundings, Verdict};
use machine::spec::{Path, secret};
use parking_lot::RwLock;
use serde_json::{Map, Value, json};

use crate::wire::{Description, Field, Type};

/// Fields that every spec may have.
const COMMON: [&str; 3] = ["apiVersion", "kind", "metadata"];
const USER_DATA: &str = "userDataSecret";
const CREDENTIALS: &str = "credentialsSecret";

/// What the provider has said of itself; nothing before it first answered.
#[derive(Clone)]
pub(crate) struct Described(pub(crate) Arc<RwLock<Option<Arc<Description>>>>);

impl Described {
    pub(crate) fn get(&self) -> Option<Arc<Description>> {
        self.0.read().clone()
    }
}

impl SpecRules for Described {
    fn default(&self, spec: &Value, _: &Surroundings) -> Result<Value, Problem> {
        let mut spec = object(spec)?;
        for field in self.get().iter().flat_map(|described| &described.fields) {
            if !field.default.is_null() && spec.get(&field.name).is_none_or(Value::is_null) {
                spec.insert(field.name.clone(), field.default.clone());
            }
        }
        if named(&spec, USER_DATA).is_none() {
            spec.insert(USER_DATA.to_owned(), json!({"name": secret::WORKER_USER_DATA}));
        }
        Ok(Value::Object(spec))
    }

    fn validate(&self, spec: &Value, _: &Surroundings) -> Verdict {
        let mut verdict = Verdict::default();
        let spec = match object(spec) {
            Ok(spec) => spec,
            Err(problem) => {
                verdict.problems.push(problem);
                return verdict;
            }
        };
        let Some(described) = self.get() else {
            verdict.warn(&Path::spec(), "the provider does not answer yet, so nothing of this was checked");
            return verdict;
        };
        described.fields.iter().for_each(|field| check(field, spec.get(&field.name), &mut verdict));
        for (is_needed, name) in [(true, USER_DATA), (described.needs_credentials, CREDENTIALS)] {
            if is_needed && named(&spec, name).is_none() {
                verdict.required(&Path::spec().child(name).child("name"), "name the Secret");
            }
        }
        let is_known = |name: &str| {
            COMMON.contains(&name)
                || [USER_DATA, CREDENTIALS].contains(&name)
                || described.fields.iter().any(|field| field.name == name)
        };
        for name in spec.keys().filter(|name| !is_known(name)) {
            verdict.warn(&Path::spec().child(name), format!("provider {} does not know this field", described.name));
        }
        verdict
    }

    fn secrets(&self, spec: &Value) -> Vec<SecretNeed> {
        let Ok(spec) = object(spec) else { return Vec::new() };
        let purposes = [(SecretPurpose::Credentials, CREDENTIALS), (SecretPurpose::UserData, USER_DATA)];
        let need = |(purpose, field): (SecretPurpose, &str)| {
            let path = Path::spec().child(field).child("name");
            let name = named(&spec, field)?.to_owned();
            Some(SecretNeed { purpose, namespace: None, name, field: path.to_string() })
        };
        purposes.into_iter().filter_map(need).collect()
    }

    fn place(&self, spec: &Value) -> Value {
        let Ok(spec) = object(spec) else { return Value::Null };
        let described = self.get();
        let fields = described.iter().flat_map(|described| &described.fields).filter(|field| field.place);
        let names = fields.map(|field| field.name.as_str()).chain([CREDENTIALS]);
        let kept = names.filter_map(|name| Some((name.to_owned(), spec.get(name)?.clone())));
        Value::Object(kept.collect())
    }

    /// The provider is asked.
    fn capacity(&self, _: &Value) -> Option<Capacity> {
        None
    }
}

fn object(spec: &Value) -> Result<Map<String, Value>, Problem> {
    match spec {
        Value::Object(spec) => Ok(spec.clone()),
        Value::Null => Ok(Map::new()),
        other => Err(Problem::invalid(&Path::spec(), other, "write an object")),
    }
}

/// The Secret that a field names.
fn named<'a>(spec: &'a Map<String, Value>, field: &str) -> Option<&'a str> {
    spec.get(field)?.get("name")?.as_str().filter(|name| !name.is_empty())
}

fn check(field: &Field, value: Option<&Value>, verdict: &mut Verdict) {
    let path = Path::spec().child(&field.name);
    let Some(value) = value.filter(|value| !value.is_null()) else {
        if field.required {
            verdict.required(&path, format!("write {}", described(field.type_)));
        }
        return;
    };
    let is_right = match field.type_ {
        Type::String => value.is_string(),
        Type::Integer => value.is_i64() || value.is_u64(),
        Type::Boolean => value.is_boolean(),
        Type::Object => value.is_object(),
        Type::Array => value.is_array(),
    };
    if !is_right {
        verdict.invalid(&path, value, format!("write {}", described(field.type_)));
    } else if !field.allowed.is_empty() && !field.allowed.contains(value) {
        let allowed: Vec<String> = field.allowed.iter().map(plain).collect();
        verdict.unsupported(&path, value, &allowed.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn described(type_: Type) -> &'static str {
    match type_ {
        Type::String => "a text",
        Type::Integer => "a whole number",
        Type::Boolean => "true or false",
        Type::Object => "an object",
        Type::Array => "a list",
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn rules() -> Described {
        let description = json!({
            "version": 1, "name": "shed", "needsCredentials": true,
            "fields": [
                {"name": "size", "type": "string", "default": "small", "allowed": ["small", "large"]},
                {"name": "disk", "type": "integer", "required": true},
                {"name": "rack", "type": "string", "place": true},
            ],
        });
        let description: Description = serde_json::from_value(description).expect("it is one");
        Described(Arc::new(RwLock::new(Some(Arc::new(description)))))
    }

    #[track_caller]
    fn check(spec: Value, expected: Expect) {
        let spec = rules().default(&spec, &Surroundings::default());
        let verdict = spec.map(|spec| rules().validate(&spec, &Surroundings::default()));
        let lines: Vec<_> = match verdict {
            Ok(Verdict { problems, warnings }) => problems.iter().map(ToString::to_string).chain(warnings).collect(),
            Err(problem) => vec![problem.to_string()],
        };
        expected.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn a_spec_is_judged_by_what_the_provider_described() {
        check(json!({"disk": 3, "credentialsSecret": {"name": "shed"}}), expect![""]);
        check(
            json!({"disk": "3", "size": "huge", "color": "red"}),
            expect![[r#"
            providerSpec.size: Unsupported value: "huge": supported values: "small", "large"
            providerSpec.disk: Invalid value: "3": write a whole number
            providerSpec.credentialsSecret.name: Required value: name the Secret
            providerSpec.color: provider shed does not know this field"#]],
        );
        check(json!([]), expect!["providerSpec: Invalid value: []: write an object"]);
    }

    #[test]
    fn the_place_is_what_a_deletion_needs() {
        let spec = json!({"disk": 3, "rack": "b", "credentialsSecret": {"name": "shed"}});
        assert_eq!(rules().place(&spec), json!({"rack": "b", "credentialsSecret": {"name": "shed"}}));
        let needs = rules().secrets(&rules().place(&spec));
        assert_eq!(needs.iter().map(|need| need.name.as_str()).collect::<Vec<_>>(), ["shed"]);
    }

    #[test]
    fn before_it_has_described_itself_nothing_is_refused() {
        let rules = Described(Arc::default());
        let spec = json!({"whatever": 1, "userDataSecret": {"name": "mine"}});
        assert_eq!(rules.default(&spec, &Surroundings::default()).expect("it is left alone"), spec);
        let Verdict { problems, warnings } = rules.validate(&spec, &Surroundings::default());
        assert_eq!((problems.len(), warnings.len()), (0, 1));
        assert_eq!(rules.secrets(&spec).len(), 1);
    }
}
