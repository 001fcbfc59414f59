//! What claims, classes and slices have in common: names, selectors, configurations, taints and lists with an end.

use schema::{FieldError, names};
use serde_json::Value;

use super::super::place::{Find, Findings, Place};
use super::super::{rules, sources};
use super::MOST;

/// Looks at each item of a list that is not too long.
pub(super) fn each(
    list: &Place<'_>,
    most: usize,
    findings: &mut Findings,
    check: impl Fn(&Place<'_>, &mut Findings),
) -> bool {
    if list.count() > most {
        findings.push(FieldError::too_many(&list.path, list.count(), most as u64));
        return false;
    }
    for item in list.items() {
        check(&item, findings);
    }
    true
}

/// As [`each`], and no two items have the same key.
pub(super) fn set(
    list: &Place<'_>,
    most: usize,
    findings: &mut Findings,
    check: impl Fn(&Place<'_>, &mut Findings),
    key: impl Fn(&Place<'_>) -> String,
) {
    if !each(list, most, findings, check) {
        return;
    }
    let mut seen = std::collections::HashSet::new();
    for item in list.items() {
        let own = key(&item);
        if seen.contains(&own) {
            findings.duplicate_as(&item, own.as_str());
        }
        seen.insert(own);
    }
}

pub(super) fn name_of(item: &Place<'_>) -> String {
    item.field("name").text().to_owned()
}

pub(super) fn text_of(item: &Place<'_>) -> String {
    item.text().to_owned()
}

pub(super) fn selectors(list: &Place<'_>, findings: &mut Findings) {
    const LONGEST: usize = 10 * 1024;
    each(list, MOST, findings, |selector, findings| {
        let cel = selector.field("cel");
        if !cel.is_set() {
            return findings.required(&cel, "");
        }
        let expression = cel.field("expression");
        match expression.text().len() > LONGEST {
            true => findings.too_long(&expression, LONGEST as u64),
            false => {
                let wrong = cel::devices::judge_selector(expression.text());
                findings
                    .extend(wrong.map(|wrong| FieldError::of_expression(wrong, &expression.path, expression.text())));
            }
        }
    });
}

pub(super) fn configuration(own: &Place<'_>, findings: &mut Findings) {
    const LONGEST: usize = 10 * 1024;
    let opaque = own.field("opaque");
    if !opaque.is_set() {
        return findings.required(&opaque, "");
    }
    sources::driver_name(&opaque.field("driver"), findings);
    free_object(&opaque.field("parameters"), LONGEST, findings);
}

/// An object of which only its size is judged.
pub(super) fn free_object(place: &Place<'_>, longest: usize, findings: &mut Findings) {
    match place.value {
        Value::Null => findings.required(place, ""),
        value if value.to_string().len() > longest => findings.too_long(place, longest as u64),
        Value::Object(_) => {}
        _ => findings.invalid_as(place, "<value omitted>", "must be a valid JSON object"),
    }
}

/// The names of pools have parts.
pub(super) fn pool_name(place: &Place<'_>, findings: &mut Findings) {
    const LONGEST: usize = 253;
    if place.is_empty() {
        return findings.required(place, "");
    }
    if place.text().len() > LONGEST {
        findings.too_long(place, LONGEST as u64);
    }
    for part in place.text().split('/') {
        for problem in names::is_subdomain(part) {
            findings.invalid_as(place, part, problem);
        }
    }
}

/// A name with or without a domain, told about at the place of whatever holds it.
pub(super) fn qualified_name(at: &Place<'_>, name: &str, findings: &mut Findings) {
    let parts: Vec<&str> = name.split('/').collect();
    match parts.as_slice() {
        [own] => identifier(at, own, findings),
        [domain, own] => {
            match *domain {
                "" => findings.invalid_as(at, "", "the domain must not be empty"),
                domain => {
                    let value = Value::from(domain);
                    sources::driver_name(&Place::root(&value).known_as(&at.path), findings);
                }
            }
            match *own {
                "" => findings.invalid_as(at, "", "the name must not be empty"),
                own => identifier(at, own, findings),
            }
        }
        _ => {}
    }
}

pub(super) fn fully_qualified_name(place: &Place<'_>, findings: &mut Findings) {
    qualified_name(place, place.text(), findings);
    if !place.text().contains('/') {
        findings.invalid(place, "a fully qualified name must be a domain and a name separated by a slash");
    }
}

fn identifier(at: &Place<'_>, text: &str, findings: &mut Findings) {
    const LONGEST: usize = 32;
    const RULE: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
    if text.len() > LONGEST {
        findings.too_long(at, LONGEST as u64);
    }
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if text.is_empty() || text.starts_with(|c: char| c.is_ascii_digit()) || !text.bytes().all(is_known) {
        findings.invalid_as(at, text, RULE);
    }
}

const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

pub(super) fn taint(taint: &Place<'_>, findings: &mut Findings) {
    rules::qualified_name(&taint.field("key"), findings);
    let value = taint.field("value");
    findings.problems(&value, names::is_label_value(value.text()));
    findings.required_one_of(&taint.field("effect"), &EFFECTS);
}

pub(super) fn toleration(toleration: &Place<'_>, findings: &mut Findings) {
    let [key, operator, value, effect] = ["key", "operator", "value", "effect"].map(|field| toleration.field(field));
    if !key.is_empty() {
        rules::qualified_name(&key, findings);
    }
    match operator.text() {
        "Exists" if !value.is_empty() => findings.invalid(&value, "must be empty for operator `Exists`"),
        "Exists" => {}
        "Equal" => findings.problems(&value, names::is_label_value(value.text())),
        _ => findings.required_one_of(&operator, &["Equal", "Exists"]),
    }
    if !effect.is_empty() {
        findings.one_of(&effect, &EFFECTS);
    }
}

/// What must be so, and must not be so, before a pod is bound to a node for a device.
pub(super) fn binding_conditions(own: &Place<'_>, findings: &mut Findings) {
    const MOST: usize = 4;
    let (wanted, failing) = (own.field("bindingConditions"), own.field("bindingFailureConditions"));
    for list in [&wanted, &failing] {
        each(list, MOST, findings, rules::qualified_name);
        let mut seen = Vec::new();
        for name in list.items() {
            match seen.contains(&name.text()) {
                true => findings.duplicate(&name),
                false => seen.push(name.text()),
            }
        }
    }
    for name in failing.items().filter(|name| wanted.texts().any(|own| own == name.text())) {
        findings.invalid(&name, "bindingFailureConditions must not overlap with bindingConditions");
    }
    if wanted.is_empty() && !failing.is_empty() {
        findings.invalid(&wanted, "bindingConditions are required to use bindingFailureConditions");
    }
    if failing.is_empty() && !wanted.is_empty() {
        findings.invalid(&failing, "bindingFailureConditions are required to use bindingConditions");
    }
}

/// A part of a device that several claims share has a uid.
pub(super) fn uid(place: &Place<'_>, findings: &mut Findings) {
    const NORMAL: &str = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters";
    let text = place.text();
    let inner = match text.len() {
        32 | 36 => text,
        38 => text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or_default(),
        45 => text.strip_prefix("urn:uuid:").unwrap_or_default(),
        length => {
            return findings.invalid(place, format!("error validating uid: invalid UUID length: {length}"));
        }
    };
    let is_hex = inner.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 if inner.len() == 36 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    if inner.is_empty() || !is_hex {
        findings.invalid(place, "error validating uid: invalid UUID format");
    } else if text.len() != 36 || text != text.to_lowercase() {
        findings.invalid(place, NORMAL);
    }
}
