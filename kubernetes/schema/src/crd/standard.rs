//! What any schema of a definition may not say, structural or not: unsupported keywords, list types, rules, defaults.

use serde_json::Value;

use crate::{
    error::{ErrorKind, FieldError, go_json},
    node::Schema,
};

const META: [&str; 3] = ["metadata", "kind", "apiVersion"];

#[derive(Clone, Default)]
struct Scope {
    root: bool,
    inside_metadata: bool,
    /// Why defaults are not allowed here.
    no_defaults: Option<String>,
    /// The nearest place whose elements have no identity, where `oldSelf` means nothing.
    uncorrelatable: Option<String>,
    /// How often this place occurs in an object at most; none if a list or map around it has no bound.
    times: Option<u64>,
}

/// Findings about the schema, then about its rules; rules are compiled only in a structural schema.
pub(super) fn check(schema: &Value, place: &str, structural: bool) -> Vec<FieldError> {
    let mut walk = Walk { structural, errors: Vec::new(), rule_errors: Vec::new(), costs: Vec::new() };
    walk.visit(schema, place, &Scope { root: true, times: Some(1), ..Scope::default() }, structural);
    let total = total_cost(&walk.costs, place);
    walk.errors.extend(walk.rule_errors);
    walk.errors.extend(total);
    walk.errors
}

struct Walk {
    structural: bool,
    errors: Vec<FieldError>,
    rule_errors: Vec<FieldError>,
    /// The estimated cost of each rule, by its place.
    costs: Vec<(String, u64)>,
}

/// A complaint that shows the whole rule, field by field as the real server keeps it.
fn about_rule(field: String, rule: &Value, detail: &str) -> FieldError {
    let text = |key: &str| go_json(&rule[key].as_str().unwrap_or("").into());
    let shown = format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        rule["reason"],
        text("fieldPath"),
        rule["optionalOldSelf"],
    );
    FieldError::new(ErrorKind::Invalid, field, None, format!("{shown}: {detail}"))
}

/// Complains if all rules together may cost too much, naming those that do.
fn total_cost(costs: &[(String, u64)], place: &str) -> Vec<FieldError> {
    let total = costs.iter().fold(0_u64, |sum, (_, cost)| sum.saturating_add(*cost));
    let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
    let Some(detail) = cel::cost::complaint(what, total, cel::cost::TOTAL_LIMIT) else { return Vec::new() };
    // Four rules at most, the dearest first; those that cost next to nothing are not to blame.
    let mut dear: Vec<_> = costs.iter().filter(|(_, cost)| *cost >= cel::cost::TOTAL_LIMIT / 100).collect();
    dear.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
    let blamed = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
    let mut errors: Vec<_> = dear.iter().take(4).map(|(field, _)| FieldError::forbidden(field, blamed)).collect();
    errors.push(FieldError::forbidden(place, detail));
    errors
}

impl Walk {
    fn forbid(&mut self, place: &str, key: &str, detail: &str) {
        self.errors.push(FieldError::forbidden(format!("{place}.{key}"), detail));
    }

    fn visit(&mut self, schema: &Value, place: &str, scope: &Scope, rules: bool) {
        let before = self.errors.len();
        self.check_keywords(schema, place, scope);
        let times =
            scope.times.zip(cel::cost::elements(schema)).map(|(times, elements)| times.saturating_mul(elements));
        let inner = Scope { root: false, times, ..scope.clone() };
        self.visit_children(schema, place, scope, &inner, rules);
        self.check_list(schema, place);
        self.check_rules(schema, place, scope, rules && self.structural, before);
    }

    fn check_keywords(&mut self, schema: &Value, place: &str, scope: &Scope) {
        const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
        let kind = schema["type"].as_str().unwrap_or("");
        if !kind.is_empty() && !TYPES.contains(&kind) {
            let supported: Vec<String> = TYPES.iter().map(ToString::to_string).collect();
            self.errors.push(FieldError::not_supported(format!("{place}.type"), kind, &supported));
        }
        if let (false, Some(reason)) = (schema["default"].is_null(), &scope.no_defaults) {
            self.forbid(place, "default", &format!("must not be set {reason}"));
        }
        for key in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
            if !schema[key].is_null() {
                self.forbid(place, key, &format!("{key} is not supported"));
            }
        }
        if kind == "null" {
            self.forbid(place, "type", "type cannot be set to null, use nullable as an alternative");
        }
        if schema["items"].is_array() {
            self.forbid(place, "items", "items must be a schema object and not an array");
        }
        if scope.inside_metadata && schema["x-kubernetes-embedded-resource"] == true {
            self.forbid(place, "x-kubernetes-embedded-resource", "must not be used inside of resource meta");
        }
        if schema["uniqueItems"] == true {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbid(place, "uniqueItems", detail);
        }
        let additional = &schema["additionalProperties"];
        let has_properties = schema["properties"].as_object().is_some_and(|p| !p.is_empty());
        if has_properties && (additional.is_object() || *additional == false) {
            self.forbid(place, "additionalProperties", "additionalProperties and properties are mutual exclusive");
        }
        if schema["x-kubernetes-preserve-unknown-fields"] == false {
            let field = format!("{place}.x-kubernetes-preserve-unknown-fields");
            self.errors.push(FieldError::invalid(field, false, "must be true or undefined"));
        }
    }

    fn visit_children(&mut self, schema: &Value, place: &str, scope: &Scope, inner: &Scope, rules: bool) {
        if schema["additionalProperties"].is_object() {
            let mut below = inner.clone();
            if scope.inside_metadata {
                below.no_defaults = Some("inside additionalProperties applying to object metadata".to_string());
            }
            self.visit(&schema["additionalProperties"], &format!("{place}.additionalProperties"), &below, rules);
        }
        for (name, child) in schema["properties"].as_object().into_iter().flatten() {
            let mut below = inner.clone();
            if schema["x-kubernetes-map-type"] == "atomic" {
                below.uncorrelatable = Some(place.to_string());
            }
            let embedded = schema["x-kubernetes-embedded-resource"] == true;
            if (scope.root || embedded) && META.contains(&name.as_str()) {
                below.inside_metadata = true;
                if scope.root {
                    below.no_defaults = Some(format!("in top-level {name}"));
                }
            }
            self.visit(child, &format!("{place}.properties[{name}]"), &below, rules);
        }
        if schema["not"].is_object() {
            self.visit(&schema["not"], &format!("{place}.not"), inner, false);
        }
        for key in ["allOf", "oneOf", "anyOf"] {
            for (at, branch) in schema[key].as_array().into_iter().flatten().enumerate() {
                self.visit(branch, &format!("{place}.{key}[{at}]"), inner, false);
            }
        }
        if schema["items"].is_object() {
            let mut below = inner.clone();
            if schema["x-kubernetes-list-type"] != "map" {
                below.uncorrelatable = Some(place.to_string());
            }
            self.visit(&schema["items"], &format!("{place}.items"), &below, rules);
        }
    }

    /// A keyword that only makes sense on one type.
    fn wants_type(&mut self, schema: &Value, place: &str, wanted: &str, keyword: &str) -> bool {
        let kind = schema["type"].as_str().unwrap_or("");
        if schema[keyword].is_null() || kind == wanted {
            return false;
        }
        let (field, detail) = (format!("{place}.type"), format!("must be {wanted} if {keyword} is specified"));
        self.errors.push(match kind.is_empty() {
            true => FieldError::required(field, detail),
            false => FieldError::invalid(field, kind, detail),
        });
        true
    }

    fn wants_one_of(&mut self, schema: &Value, place: &str, keyword: &str, accepted: &[&str]) {
        if let Some(value) = schema[keyword].as_str().filter(|v| !accepted.contains(v)) {
            let accepted: Vec<String> = accepted.iter().map(ToString::to_string).collect();
            self.errors.push(FieldError::not_supported(format!("{place}.{keyword}"), value, &accepted));
        }
    }

    fn check_list(&mut self, schema: &Value, place: &str) {
        self.wants_type(schema, place, "object", "x-kubernetes-map-type");
        self.wants_one_of(schema, place, "x-kubernetes-map-type", &["atomic", "granular"]);
        let misplaced = self.wants_type(schema, place, "array", "x-kubernetes-list-type");
        let list_type = schema["x-kubernetes-list-type"].as_str();
        let items = &schema["items"];
        if !misplaced && list_type == Some("set") && items.is_object() {
            let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
            let nested = items["x-kubernetes-list-type"].clone();
            if items["type"] == "array" && !nested.is_null() && nested != "atomic" {
                let field = format!("{place}.items.x-kubernetes-list-type");
                self.errors.push(FieldError::invalid(field, nested.clone(), detail));
            }
            if items["type"] == "object" && items["x-kubernetes-map-type"] != "atomic" {
                let field = format!("{place}.items.x-kubernetes-map-type");
                self.errors.push(FieldError::invalid(field, nested, detail));
            }
        }
        self.wants_one_of(schema, place, "x-kubernetes-list-type", &["atomic", "set", "map"]);
        let keys: Vec<&str> =
            schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if !keys.is_empty() && list_type != Some("map") {
            let (field, detail) =
                (format!("{place}.x-kubernetes-list-type"), "must be map if x-kubernetes-list-map-keys is non-empty");
            self.errors.push(match list_type {
                None => FieldError::required(field, detail),
                Some(other) => FieldError::invalid(field, other, detail),
            });
        }
        if list_type == Some("map") {
            self.check_keys(schema, place, &keys);
        }
        if matches!(list_type, Some("set" | "map")) && items["nullable"] == true {
            let detail = format!("cannot be nullable when x-kubernetes-list-type is {}", list_type.unwrap_or_default());
            self.forbid(place, "items.nullable", &detail);
        }
    }

    fn check_keys(&mut self, schema: &Value, place: &str, keys: &[&str]) {
        let items = &schema["items"];
        let key_field = format!("{place}.x-kubernetes-list-map-keys");
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            self.errors.push(FieldError::required(&key_field, detail));
        }
        if !items.is_object() {
            let detail = "must have a schema if x-kubernetes-list-type is map";
            self.errors.push(FieldError::required(format!("{place}.items"), detail));
            return;
        }
        if items["type"] != "object" {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            let kind = items["type"].as_str().unwrap_or("");
            self.errors.push(FieldError::invalid(format!("{place}.items.type"), kind, detail));
            return;
        }
        let shown = || Value::from(keys.iter().map(ToString::to_string).collect::<Vec<_>>());
        let required = items["required"].as_array();
        for (at, key) in keys.iter().enumerate() {
            let property = &items["properties"][*key];
            let below = format!("{place}.items.properties[{key}]");
            match property["type"].as_str() {
                _ if property.is_null() => {
                    let detail = "entries must all be names of item properties";
                    self.errors.push(FieldError::invalid(&key_field, shown(), detail));
                    continue;
                }
                Some("array" | "object") => {
                    let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.errors.push(FieldError::invalid(format!("{below}.type"), "object", detail));
                }
                _ => {}
            }
            if keys[..at].contains(key) {
                self.errors.push(FieldError::invalid(&key_field, shown(), "must not contain duplicate entries"));
            }
            let is_required = required.is_some_and(|list| list.iter().any(|r| r == key));
            if !is_required && property["default"].is_null() {
                let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                self.errors.push(FieldError::required(format!("{below}.default"), detail));
            }
            if property["nullable"] == true {
                let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                self.errors.push(FieldError::forbidden(format!("{below}.nullable"), detail));
            }
        }
    }

    fn check_rules(&mut self, schema: &Value, place: &str, scope: &Scope, compile: bool, before: usize) {
        const REASONS: [&str; 4] =
            ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
        let rules = schema["x-kubernetes-validations"].as_array().map_or(&[][..], Vec::as_slice);
        for (at, rule) in rules.iter().enumerate() {
            let field = |name: &str| format!("{place}.x-kubernetes-validations[{at}].{name}");
            let raw = |key: &str| rule[key].as_str().unwrap_or("");
            let (text, message) = (raw("rule").trim(), raw("message").trim());
            if text.is_empty() {
                self.errors.push(FieldError::required(field("rule"), "rule is not specified"));
            } else if !raw("message").is_empty() && message.is_empty() {
                let detail = "must be non-empty if specified";
                self.errors.push(FieldError::invalid(field("message"), raw("message"), detail));
            } else if message.contains('\n') {
                let detail = "must not contain line breaks";
                self.errors.push(FieldError::invalid(field("message"), raw("message"), detail));
            } else if text.contains('\n') && message.is_empty() {
                let detail = "message must be specified if rule contains line breaks";
                self.errors.push(FieldError::required(field("message"), detail));
            }
            let reason = raw("reason");
            if !reason.is_empty() && !REASONS.contains(&reason) {
                let supported: Vec<String> = REASONS.iter().map(ToString::to_string).collect();
                self.errors.push(FieldError::not_supported(field("reason"), reason, &supported));
            }
        }
        if !compile || self.errors.len() != before {
            return;
        }
        let resource = scope.root || schema["x-kubernetes-embedded-resource"] == true;
        // What rules cannot see has no rules.
        let Some(declared) = cel::Declared::of(schema, resource).filter(|_| !rules.is_empty()) else { return };
        let times = scope.times.unwrap_or_else(|| declared.occurrences());
        for (at, rule) in rules.iter().enumerate() {
            self.check_rule(rule, &format!("{place}.x-kubernetes-validations[{at}]"), scope, &declared, times);
        }
    }

    fn check_rule(&mut self, rule: &Value, place: &str, scope: &Scope, declared: &cel::Declared, times: u64) {
        let field = |name: &str| format!("{place}.{name}");
        let raw = |key: &str| rule[key].as_str().unwrap_or("");
        let optional = rule["optionalOldSelf"] == true;
        let judged = cel::judge(raw("rule"), declared, optional, cel::Purpose::Rule);
        let cost = judged.as_ref().map_or(0, |judged| judged.cost.saturating_mul(times));
        self.charge("estimated rule cost", field("rule"), cost);
        match &judged {
            Err(detail) => self.rule_errors.push(about_rule(field("rule"), rule, detail)),
            Ok(_) if raw("messageExpression").is_empty() => {}
            Ok(_) => match cel::judge(raw("messageExpression"), declared, optional, cel::Purpose::Message) {
                Ok(spoken) => self.charge("estimated messageExpression cost", field("messageExpression"), spoken.cost),
                Err(detail) => {
                    self.rule_errors.push(about_rule(field("messageExpression"), rule, &detail));
                }
            },
        }
        if judged.is_ok_and(|judged| judged.uses_old_self) {
            if let Some(within) = &scope.uncorrelatable {
                let detail =
                    format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {within}");
                self.rule_errors.push(FieldError::invalid(field("rule"), raw("rule"), detail));
            }
        } else if !rule["optionalOldSelf"].is_null() {
            let detail = "may not be set if oldSelf is not used in rule";
            let value = rule["optionalOldSelf"].clone();
            self.rule_errors.push(FieldError::invalid(field("optionalOldSelf"), value, detail));
        }
    }

    /// Adds to the cost of all rules; what is too dear by itself is refused.
    fn charge(&mut self, what: &str, field: String, cost: u64) {
        if let Some(detail) = cel::cost::complaint(what, cost, cel::cost::RULE_LIMIT) {
            self.rule_errors.push(FieldError::forbidden(&field, detail));
        }
        self.costs.push((field, cost));
    }
}

/// Defaults must be valid values of their own schema and hold nothing that would be pruned.
pub(super) fn check_defaults(schema: &Value, place: &str, errors: &mut Vec<FieldError>) {
    if !schema["default"].is_null() {
        let mut bare = schema.clone();
        if let Some(map) = bare.as_object_mut() {
            map.remove("default");
            map.remove("x-kubernetes-validations");
        }
        // The default is checked as the only field of an object whose field has this schema.
        let around = serde_json::json!({"type": "object", "properties": {"spec": bare}});
        let compiled = Schema::custom(Some(&around), false);
        let mut value = serde_json::json!({ "spec": schema["default"] });
        let field = format!("{place}.default");
        if !compiled.unknown_fields(&value).is_empty() {
            let detail = "must not have unknown fields";
            errors.push(FieldError::invalid(&field, schema["default"].clone(), detail));
        }
        compiled.default(&mut value);
        for mut error in compiled.validate(&value, None) {
            error.field = error.field.replacen("spec", &field, 1);
            // The server checks the default by itself, so its texts start at the default's own root.
            error.detail = match error.detail.strip_prefix("spec.") {
                Some(rest) => rest.to_string(),
                None => error.detail.replacen("spec", "", 1),
            };
            errors.push(error);
        }
    }
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        check_defaults(child, &format!("{place}.properties[{name}]"), errors);
    }
    for (key, child) in [("items", &schema["items"]), ("additionalProperties", &schema["additionalProperties"])] {
        if child.is_object() {
            check_defaults(child, &format!("{place}.{key}"), errors);
        }
    }
}
