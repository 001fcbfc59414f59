//! Checks the selector of a MachineSet, and writes a selector as text.

use std::collections::BTreeMap;

use api::machine::MachineSet;
use api::selector::{Selector, SelectorError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// The selector of a set, if it is well-formed, selects something, and fits the set's own template.
pub fn validate_selector(set: &MachineSet) -> Result<Selector, String> {
    let selector = set.spec.selector.clone().unwrap_or_default();
    let text = || serde_json::to_string(&selector).unwrap_or_default();
    let parsed = Selector::parse(&selector)
        .map_err(|problem| format!("spec.selector: Invalid value: {}: invalid label selector: {problem}", text()))?;
    if parsed.is_empty() {
        return Err(format!("spec.selector: Invalid value: {}: empty selector is not valid for MachineSet.", text()));
    }
    let labels = template_labels(set);
    if !parsed.matches(labels) {
        return Err(labels_do_not_match(labels));
    }
    Ok(parsed)
}

/// What admission says about a selector: unlike the controller it lets an empty one pass here.
pub(crate) fn selector_problem(selector: &LabelSelector, problem: &SelectorError) -> String {
    let text = serde_json::to_string(selector).unwrap_or_default();
    format!("spec.selector: Invalid value: {text}: could not convert label selector to selector: {problem}")
}

pub(crate) fn labels_do_not_match(labels: &BTreeMap<String, String>) -> String {
    let text = serde_json::to_string(labels).unwrap_or_default();
    format!("spec.template.metadata.labels: Invalid value: {text}: `selector` does not match template `labels`")
}

pub(crate) fn template_labels(set: &MachineSet) -> &BTreeMap<String, String> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    let template = set.spec.template.as_ref().and_then(|template| template.metadata.as_ref());
    template.map_or(&NONE, |template| &template.labels)
}

/// A selector as clients of the scale subresource send it back: `a=1,b in (x,y),!c`.
pub fn selector_text(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten();
    let mut parts: Vec<_> = labels.map(|(key, value)| (key.as_str(), format!("{key}={value}"))).collect();
    for expression in selector.match_expressions.iter().flatten() {
        let key = expression.key.as_str();
        let mut values = expression.values.clone().unwrap_or_default();
        values.sort();
        let values = values.join(",");
        let text = match expression.operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        parts.push((key, text));
    }
    parts.sort_by_key(|(key, _)| *key);
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}
