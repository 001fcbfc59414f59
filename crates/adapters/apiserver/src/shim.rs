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
