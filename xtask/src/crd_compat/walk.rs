//! Walks two CRDs side by side and reports how ours differs.
//!
//! The walk follows the keys that either side has and not a list of known keywords, so that unexpected keywords are
//! compared as well. Only descriptions are left out.

use std::collections::BTreeSet;

use serde_json::Value;

/// Keywords that are only for people.
const PROSE: [&str; 4] = ["description", "title", "example", "externalDocs"];

/// Keywords whose value is a set: the order of the elements does not matter.
const SETS: [&str; 3] = ["enum", "required", "x-kubernetes-list-map-keys"];

/// Returns the differences of a whole CRD, as `<where>: <what>`.
pub(super) fn definition(upstream: &Value, ours: &Value) -> Vec<String> {
    let mut walk = Walk::default();
    let (upstream, ours) = (&upstream["spec"], &ours["spec"]);
    for key in keys(upstream, ours) {
        match key.as_str() {
            "names" => walk.names(&upstream["names"], &ours["names"]),
            "versions" => walk.versions(&upstream["versions"], &ours["versions"]),
            _ => walk.value(&key, "", upstream.get(&key), ours.get(&key)),
        }
    }
    walk.found
}

#[derive(Default)]
struct Walk {
    found: Vec<String>,
}

impl Walk {
    fn tell(&mut self, place: &str, what: impl std::fmt::Display) {
        self.found.push(format!("{place}: {what}"));
    }

    fn names(&mut self, upstream: &Value, ours: &Value) {
        for key in keys(upstream, ours) {
            match key.as_str() {
                "shortNames" | "categories" => self.set("names", &key, upstream.get(&key), ours.get(&key)),
                _ => self.value("names", &key, upstream.get(&key), ours.get(&key)),
            }
        }
    }

    fn versions(&mut self, upstream: &Value, ours: &Value) {
        let (upstream, ours) = (list(upstream), list(ours));
        for version in upstream {
            let name = text(&version["name"]);
            match ours.iter().find(|other| other["name"] == version["name"]) {
                Some(other) => self.version(&name, version, other),
                None => self.tell(&name, "we lack the version"),
            }
        }
        for version in ours.iter().filter(|version| !upstream.iter().any(|other| other["name"] == version["name"])) {
            self.tell(&text(&version["name"]), "we add the version");
        }
    }

    fn version(&mut self, name: &str, upstream: &Value, ours: &Value) {
        for key in keys(upstream, ours) {
            match key.as_str() {
                "additionalPrinterColumns" => self.columns(name, &upstream[&key], &ours[&key]),
                "schema" => {
                    let root = "openAPIV3Schema";
                    self.schema(name, &upstream["schema"][root], &ours["schema"][root]);
                }
                "subresources" => self.subresources(name, &upstream[&key], &ours[&key]),
                _ => self.value(name, &key, upstream.get(&key), ours.get(&key)),
            }
        }
    }

    fn columns(&mut self, version: &str, upstream: &Value, ours: &Value) {
        let (upstream, ours) = (list(upstream), list(ours));
        for column in upstream {
            let place = format!("{version} column {}", text(&column["name"]));
            match ours.iter().find(|other| other["name"] == column["name"]) {
                Some(other) => {
                    for key in keys(column, other).into_iter().filter(|key| !PROSE.contains(&key.as_str())) {
                        self.value(&place, &key, column.get(&key), other.get(&key));
                    }
                }
                None => self.tell(&place, "we lack the column"),
            }
        }
        for column in ours.iter().filter(|column| !upstream.iter().any(|other| other["name"] == column["name"])) {
            self.tell(&format!("{version} column {}", text(&column["name"])), "we add the column");
        }
        let order = |columns: &[Value]| columns.iter().map(|column| text(&column["name"])).collect::<Vec<_>>();
        let (theirs, our_order) = (order(upstream), order(ours));
        let same = theirs.iter().collect::<BTreeSet<_>>() == our_order.iter().collect::<BTreeSet<_>>();
        if same && theirs != our_order {
            self.tell(&format!("{version} columns"), format_args!("the order is {our_order:?} instead of {theirs:?}"));
        }
    }

    fn subresources(&mut self, version: &str, upstream: &Value, ours: &Value) {
        for key in keys(upstream, ours) {
            let place = format!("{version} subresource {key}");
            match (upstream.get(&key), ours.get(&key)) {
                (Some(_), None) => self.tell(&place, "we lack the subresource"),
                (None, Some(_)) => self.tell(&place, "we add the subresource"),
                (Some(theirs), Some(other)) => {
                    for path in keys(theirs, other) {
                        self.value(&place, &path, theirs.get(&path), other.get(&path));
                    }
                }
                (None, None) => {}
            }
        }
    }

    fn schema(&mut self, place: &str, upstream: &Value, ours: &Value) {
        for key in keys(upstream, ours).into_iter().filter(|key| !PROSE.contains(&key.as_str())) {
            let (theirs, other) = (upstream.get(&key), ours.get(&key));
            match key.as_str() {
                "properties" => self.properties(place, &upstream[&key], &ours[&key]),
                "items" | "additionalProperties" => match (theirs, other) {
                    (Some(theirs @ Value::Object(_)), Some(other @ Value::Object(_))) => {
                        let below = if key == "items" { "[]" } else { ".*" };
                        self.schema(&format!("{place}{below}"), theirs, other);
                    }
                    _ => self.value(place, &key, theirs, other),
                },
                "x-kubernetes-validations" => self.rules(place, &upstream[&key], &ours[&key]),
                name if SETS.contains(&name) => self.set(place, name, theirs, other),
                _ => self.value(place, &key, theirs, other),
            }
        }
    }

    fn properties(&mut self, place: &str, upstream: &Value, ours: &Value) {
        for key in keys(upstream, ours) {
            let below = format!("{place}.{key}");
            match (upstream.get(&key), ours.get(&key)) {
                (Some(_), None) => self.tell(&below, "we lack the property"),
                (None, Some(_)) => self.tell(&below, "we add the property"),
                (Some(theirs), Some(other)) => self.schema(&below, theirs, other),
                (None, None) => {}
            }
        }
    }

    /// Rules are matched by their expression, and then the message and the other fields are compared. The order of
    /// rules only determines the order of messages in an error.
    fn rules(&mut self, place: &str, upstream: &Value, ours: &Value) {
        let (upstream, ours) = (list(upstream), list(ours));
        for rule in upstream {
            let what = format!("{place} rule {}", rule["rule"]);
            match ours.iter().find(|other| other["rule"] == rule["rule"]) {
                Some(other) => {
                    for key in keys(rule, other) {
                        self.value(&what, &key, rule.get(&key), other.get(&key));
                    }
                }
                None => self.tell(&what, "we lack the rule"),
            }
        }
        for rule in ours.iter().filter(|rule| !upstream.iter().any(|other| other["rule"] == rule["rule"])) {
            self.tell(&format!("{place} rule {}", rule["rule"]), "we add the rule");
        }
    }

    fn set(&mut self, place: &str, keyword: &str, upstream: Option<&Value>, ours: Option<&Value>) {
        let members = |value: Option<&Value>| {
            value.map(list).unwrap_or_default().iter().map(Value::to_string).collect::<BTreeSet<_>>()
        };
        let (theirs, other) = (members(upstream), members(ours));
        for lacking in theirs.difference(&other) {
            self.tell(place, format_args!("{keyword} lacks {lacking}"));
        }
        for added in other.difference(&theirs) {
            self.tell(place, format_args!("{keyword} adds {added}"));
        }
        if upstream.is_some() != ours.is_some() && theirs == other {
            self.value(place, keyword, upstream, ours);
        }
    }

    fn value(&mut self, place: &str, keyword: &str, upstream: Option<&Value>, ours: Option<&Value>) {
        let what = if keyword.is_empty() { String::new() } else { format!("{keyword} ") };
        match (upstream, ours) {
            (Some(theirs), Some(other)) if same(theirs, other) => {}
            (Some(theirs), Some(other)) => self.tell(place, format_args!("{what}is {other} instead of {theirs}")),
            (Some(theirs), None) => self.tell(place, format_args!("{what}is missing, upstream has {theirs}")),
            (None, Some(other)) => self.tell(place, format_args!("{what}is {other}, upstream has none")),
            (None, None) => {}
        }
    }
}

/// Equality in which 1 equals 1.0.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| same(value, other)))
        }
        _ => one == other,
    }
}

fn keys(one: &Value, other: &Value) -> BTreeSet<String> {
    [one, other].into_iter().filter_map(Value::as_object).flat_map(|fields| fields.keys().cloned()).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("without a name").to_owned()
}

#[cfg(test)]
mod tests;
