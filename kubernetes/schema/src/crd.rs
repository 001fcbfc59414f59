//! Checks and defaults of CustomResourceDefinitions themselves.
//!
//! What a definition may say, in the real server's words. Accepting names and serving versions is the server's business.

mod columns;
mod standard;
mod structural;

use serde_json::{Value, json};

use crate::{error::FieldError, names};

/// Fills in what the server always fills in.
pub fn default(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    if spec["names"].is_object() {
        let kind = spec["names"]["kind"].as_str().unwrap_or("").to_string();
        if spec["names"]["singular"].as_str().unwrap_or("").is_empty() {
            spec["names"]["singular"] = kind.to_lowercase().into();
        }
        if spec["names"]["listKind"].as_str().unwrap_or("").is_empty() && !kind.is_empty() {
            spec["names"]["listKind"] = format!("{kind}List").into();
        }
    }
    if spec["conversion"].is_null() {
        spec["conversion"] = json!({ "strategy": "None" });
    }
    let service = spec.pointer_mut("/conversion/webhook/clientConfig/service").filter(|s| s.is_object());
    if let Some(service) = service.filter(|s| s["port"].is_null()) {
        service["port"] = json!(443);
    }
}

/// What a rule at the root of a structural schema costs at most.
///
/// # Errors
/// The rule does not fit the schema; the text is the real server's.
pub fn rule_cost(schema: &Value, rule: &str) -> Result<u64, String> {
    let declared = cel::Declared::of(schema, true).ok_or("rules cannot see values of this schema")?;
    cel::judge(rule, &declared, false, cel::Purpose::Rule).map(|judged| judged.cost)
}

/// What is wrong with a definition's spec; `old` is the stored definition on update. Metadata is checked by `metadata`,
/// but for the name, which must follow from the spec.
#[must_use]
pub fn validate(crd: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = &crd["spec"];
    let mut errors = Vec::new();
    let text = |key: &str| spec[key].as_str().unwrap_or("");
    if old.is_none() {
        let name = crd["metadata"]["name"].as_str().unwrap_or("");
        let wanted = format!("{}.{}", spec["names"]["plural"].as_str().unwrap_or(""), text("group"));
        if !name.is_empty() && name != wanted {
            let detail = "must be spec.names.plural+\".\"+spec.group";
            errors.push(FieldError::invalid("metadata.name", name, detail));
        }
    }
    check_group(text("group"), &mut errors);
    one_of("spec.scope", text("scope"), &["Cluster", "Namespaced"], &mut errors);
    check_versions(spec, &mut errors);
    check_names(&spec["names"], &mut errors);
    check_shared(spec, &mut errors);
    check_conversion(&spec["conversion"], &mut errors);
    check_stored(crd, &mut errors);
    if spec["preserveUnknownFields"] == true && old.is_none_or(|o| o["spec"]["preserveUnknownFields"] != true) {
        let detail =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, detail));
    }
    if let Some(old) = old {
        check_immutable(crd, old, &mut errors);
    }
    errors
}

fn check_group(group: &str, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "spec.group";
    let problems = names::is_subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required(FIELD, ""));
    } else if !problems.is_empty() {
        errors.push(FieldError::invalid(FIELD, group, problems.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(FIELD, group, "should be a domain with at least one dot"));
    }
}

fn one_of(field: &str, value: &str, accepted: &[&str], errors: &mut Vec<FieldError>) {
    if value.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if !accepted.contains(&value) {
        let accepted: Vec<String> = accepted.iter().map(ToString::to_string).collect();
        errors.push(FieldError::not_supported(field, value, &accepted));
    }
}

fn versions(spec: &Value) -> &[Value] {
    spec["versions"].as_array().map_or(&[], Vec::as_slice)
}

/// Whether all versions say the same of this; the server then speaks of it as of the definition's own.
fn is_shared(spec: &Value, key: &str) -> bool {
    let list = versions(spec);
    let first = list.first().and_then(|v| v.get(key));
    first.is_some_and(|first| list.iter().all(|v| v.get(key) == Some(first)))
}

fn check_versions(spec: &Value, errors: &mut Vec<FieldError>) {
    let list = versions(spec);
    for (at, version) in list.iter().enumerate() {
        if !version["schema"]["openAPIV3Schema"].is_object() {
            let field = format!("spec.versions[{at}].schema.openAPIV3Schema");
            errors.push(FieldError::required(field, ""));
        }
    }
    for (at, version) in list.iter().enumerate() {
        let place = format!("spec.versions[{at}]");
        let name = version["name"].as_str().unwrap_or("");
        let problems = names::is_label_1035(name);
        if !problems.is_empty() {
            errors.push(FieldError::invalid(format!("{place}.name"), name, problems.join(",")));
        }
        let warning = version["deprecationWarning"].as_str();
        if warning.is_some() && version["deprecated"] != true {
            let detail = "can only be set for deprecated versions";
            errors.push(FieldError::invalid(format!("{place}.deprecationWarning"), warning, detail));
        }
        if warning == Some("") {
            errors.push(FieldError::invalid(format!("{place}.deprecationWarning"), "", "must not be an empty string"));
        }
        if !is_shared(spec, "schema") {
            check_schema(&version["schema"], has_status(version), &format!("{place}.schema"), errors);
        }
        if !is_shared(spec, "subresources") {
            columns::check_subresources(&version["subresources"], &format!("{place}.subresources"), errors);
        }
        if !is_shared(spec, "additionalPrinterColumns") {
            columns::check(version, &place, errors);
        }
        if !is_shared(spec, "selectableFields") {
            columns::check_selectable(version, &version["schema"], &place, errors);
        }
    }
    let names: Vec<&str> = list.iter().filter_map(|v| v["name"].as_str()).collect();
    if let Some(first) = names.first() {
        // The server keeps the first version's name a second time, and checks it there too.
        let problems = names::is_label_1035(first);
        if !problems.is_empty() {
            errors.push(FieldError::invalid("spec.version", *first, problems.join(",")));
        }
    }
    if (1..names.len()).any(|at| names[..at].contains(&names[at])) {
        errors.push(FieldError::invalid("spec.versions", shown(spec), "must contain unique version names"));
    }
    if list.iter().filter(|v| v["storage"] == true).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", shown(spec), detail));
    }
}

/// The versions as messages print them: the fields of the server's internal type, without what all versions share.
fn shown(spec: &Value) -> Value {
    let field = |version: &Value, key: &str| match is_shared(spec, key) {
        true => Value::Null,
        false => version[key].clone(),
    };
    let of = |version: &Value| {
        json!({
            "Name": version["name"], "Served": version["served"] == true, "Storage": version["storage"] == true,
            "Deprecated": version["deprecated"] == true, "DeprecationWarning": version["deprecationWarning"],
            "Schema": field(version, "schema"), "Subresources": field(version, "subresources"),
            "AdditionalPrinterColumns": field(version, "additionalPrinterColumns"),
            "SelectableFields": field(version, "selectableFields"),
        })
    };
    versions(spec).iter().map(of).collect()
}

fn check_stored(crd: &Value, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "status.storedVersions";
    let list = versions(&crd["spec"]);
    let name = |version: &Value| version["name"].as_str().unwrap_or("").to_string();
    let stored = crd["status"]["storedVersions"].as_array().into_iter().flatten();
    let mut stored: Vec<String> = stored.filter_map(Value::as_str).map(str::to_string).collect();
    if stored.is_empty() {
        stored.extend(list.iter().find(|v| v["storage"] == true).map(name));
    }
    if stored.is_empty() {
        errors.push(FieldError::invalid(FIELD, Value::Null, "must have at least one stored version"));
        return;
    }
    for version in list.iter().filter(|v| v["storage"] == true) {
        if !stored.contains(&name(version)) {
            let detail = format!("must have the storage version {}", name(version));
            errors.push(FieldError::invalid(FIELD, stored.clone(), detail));
        }
    }
    for (at, known) in stored.iter().enumerate() {
        if !list.iter().any(|v| name(v) == *known) {
            let detail = format!(
                "missing from spec.versions; {known} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {known} and removes {known} from status.storedVersions"
            );
            errors.push(FieldError::invalid(format!("{FIELD}[{at}]"), known.as_str(), detail));
        }
    }
}

/// What all versions share is checked once, under the name the server gives it.
fn check_shared(spec: &Value, errors: &mut Vec<FieldError>) {
    let Some(first) = versions(spec).first() else { return };
    if is_shared(spec, "schema") {
        let status = versions(spec).iter().any(has_status);
        check_schema(&first["schema"], status, "spec.validation", errors);
    }
    if is_shared(spec, "subresources") {
        columns::check_subresources(&first["subresources"], "spec.subresources", errors);
    }
    if is_shared(spec, "additionalPrinterColumns") {
        columns::check(first, "spec", errors);
    }
    if is_shared(spec, "selectableFields") {
        columns::check_selectable(first, &first["schema"], "spec", errors);
    }
}

fn has_status(version: &Value) -> bool {
    version["subresources"]["status"].is_object()
}

fn check_schema(schema: &Value, status: bool, place: &str, errors: &mut Vec<FieldError>) {
    let schema = &schema["openAPIV3Schema"];
    if !schema.is_object() {
        return;
    }
    let place = format!("{place}.openAPIV3Schema");
    if status && schema.get("type").is_some_and(|t| t != "object") {
        let detail =
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(FieldError::invalid(format!("{place}.type"), schema["type"].clone(), detail));
    }
    if schema["nullable"] == true {
        errors.push(FieldError::forbidden(format!("{place}.nullable"), "nullable cannot be true at the root"));
    }
    let found = structural::check(schema, &place);
    let structural = found.is_empty();
    errors.extend(found);
    if structural {
        standard::check_defaults(schema, &place, errors);
    }
    errors.extend(standard::check(schema, &place, structural));
}

fn check_names(names: &Value, errors: &mut Vec<FieldError>) {
    let text = |key: &str| names[key].as_str().unwrap_or("");
    for key in ["plural", "singular", "kind", "listKind"] {
        if text(key).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{key}"), ""));
        }
    }
    let mut label = |field: String, value: &str, shown: &str, prefix: &str| {
        let problems = names::is_label_1035(value);
        if !value.is_empty() && !problems.is_empty() {
            errors.push(FieldError::invalid(field, shown, format!("{prefix}{}", problems.join(","))));
        }
    };
    label("spec.names.plural".into(), text("plural"), text("plural"), "");
    label("spec.names.singular".into(), text("singular"), text("singular"), "");
    let mixed = "may have mixed case, but should otherwise match: ";
    label("spec.names.kind".into(), &text("kind").to_lowercase(), text("kind"), mixed);
    label("spec.names.listKind".into(), &text("listKind").to_lowercase(), text("listKind"), mixed);
    for key in ["shortNames", "categories"] {
        for (at, name) in names[key].as_array().into_iter().flatten().enumerate() {
            let name = name.as_str().unwrap_or("");
            label(format!("spec.names.{key}[{at}]"), name, name, "");
        }
    }
    if !text("kind").is_empty() && text("kind") == text("listKind") {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid("spec.names.listKind", text("listKind"), detail));
    }
}

fn check_conversion(conversion: &Value, errors: &mut Vec<FieldError>) {
    if !conversion.is_object() {
        return;
    }
    let strategy = conversion["strategy"].as_str().unwrap_or("");
    one_of("spec.conversion.strategy", strategy, &["None", "Webhook"], errors);
    let (config, versions) =
        (&conversion["webhook"]["clientConfig"], &conversion["webhook"]["conversionReviewVersions"]);
    let place = "spec.conversion.webhookClientConfig";
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if config.is_object() {
            errors.push(FieldError::forbidden(place, detail));
        }
        if versions.as_array().is_some_and(|versions| !versions.is_empty()) {
            errors.push(FieldError::forbidden("spec.conversion.conversionReviewVersions", detail));
        }
        return;
    }
    if config.is_object() {
        crate::webhook::client_config(config, place, errors);
    } else {
        errors.push(FieldError::required(place, "required when strategy is set to Webhook"));
    }
    crate::webhook::review_versions(versions, "spec.conversion.conversionReviewVersions", false, errors);
}

fn check_immutable(crd: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let conditions = old["status"]["conditions"].as_array().into_iter().flatten();
    let established = conditions.filter(|c| c["type"] == "Established").any(|c| c["status"] == "True");
    let mut fields = vec!["group", "names.plural"];
    if established {
        fields.splice(0..0, ["scope", "names.kind"]);
    }
    for field in fields {
        let pointer = format!("/spec/{}", field.replace('.', "/"));
        let (new, before) = (crd.pointer(&pointer), old.pointer(&pointer));
        if new != before {
            let value = new.cloned().unwrap_or_else(|| "".into());
            errors.push(FieldError::invalid(format!("spec.{field}"), value, "field is immutable"));
        }
    }
}
