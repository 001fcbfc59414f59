//! Rules that several kinds share: names, labels and selectors, ports, addresses, paths, numbers and percentages.

use std::net::IpAddr;

use schema::names;
use serde_json::Value;

use super::place::{Find, Findings, Place};

pub(crate) const IMMUTABLE: &str = "field is immutable";
pub(crate) const NEGATIVE: &str = "must be greater than or equal to 0";
pub(crate) const NETWORK: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const PORT: std::ops::RangeInclusive<i64> = 1..=65535;
const ID: std::ops::RangeInclusive<i64> = 0..=2_147_483_647;

pub(crate) fn label(place: &Place<'_>, findings: &mut Findings) {
    findings.problems(place, names::is_label(place.text()));
}

pub(crate) fn subdomain(place: &Place<'_>, findings: &mut Findings) {
    findings.problems(place, names::is_subdomain(place.text()));
}

pub(crate) fn qualified_name(place: &Place<'_>, findings: &mut Findings) {
    findings.problems(place, names::is_qualified_name(place.text()));
}

/// Fields that must be there and be a part of a path.
pub(crate) fn path_segments(place: &Place<'_>, fields: &[&str], findings: &mut Findings) {
    for field in fields.iter().map(|field| place.field(field)) {
        match field.text() {
            "" => findings.required(&field, ""),
            text => findings.problems(&field, names::is_path_segment(text, false)),
        }
    }
}

/// Labels are told about at the path of their map.
pub(crate) fn labels(place: &Place<'_>, findings: &mut Findings) {
    for (key, value) in place.entries() {
        for problem in names::is_qualified_name(key) {
            findings.invalid_as(place, key, problem);
        }
        for problem in names::is_label_value(value.text()) {
            findings.invalid_as(place, value.text(), problem);
        }
    }
}

/// Annotations of templates; those of objects are looked at with the rest of their metadata.
pub(crate) fn annotations(place: &Place<'_>, findings: &mut Findings) {
    const LIMIT: usize = 256 * 1024;
    let mut size = 0;
    for (key, value) in place.entries() {
        size += key.len() + value.text().len();
        for problem in names::is_qualified_name(&key.to_lowercase()) {
            findings.invalid_as(place, key, problem);
        }
    }
    if size > LIMIT {
        findings.too_long(place, LIMIT as u64);
    }
}

pub(crate) fn label_selector(place: &Place<'_>, findings: &mut Findings) {
    labels(&place.field("matchLabels"), findings);
    for expression in place.field("matchExpressions").items() {
        let (operator, values) = (expression.field("operator"), expression.field("values"));
        if !values_fit(&operator, &values, findings) {
            findings.invalid_as(&operator, operator.text(), "not a valid selector operator");
        }
        let key = expression.field("key");
        findings.problems(&key, names::is_qualified_name(key.text()));
        for value in values.items() {
            findings.problems(&value, names::is_label_value(value.text()));
        }
    }
}

/// Tells of values that do not fit the operator of a selector; false where nothing is known of the operator.
pub(crate) fn values_fit(operator: &Place<'_>, values: &Place<'_>, findings: &mut Findings) -> bool {
    match operator.text() {
        "In" | "NotIn" if values.is_empty() => {
            findings.required(values, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            findings.forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => return false,
    }
    true
}

pub(crate) fn inclusive(range: &std::ops::RangeInclusive<i64>) -> String {
    format!("must be between {} and {}, inclusive", range.start(), range.end())
}

pub(crate) fn in_range(place: &Place<'_>, range: std::ops::RangeInclusive<i64>, findings: &mut Findings) {
    if !range.contains(&place.number()) {
        findings.invalid_as(place, place.number(), inclusive(&range));
    }
}

pub(crate) fn port_number(place: &Place<'_>, findings: &mut Findings) {
    in_range(place, PORT, findings);
}

/// A user or a group.
pub(crate) fn id(place: &Place<'_>, findings: &mut Findings) {
    if place.is_set() {
        in_range(place, ID, findings);
    }
}

/// A port by number or by name.
pub(crate) fn port(place: &Place<'_>, findings: &mut Findings) {
    match place.value {
        Value::String(name) => findings.problems(place, port_name(name)),
        _ => port_number(place, findings),
    }
}

/// What is wrong with the name of a port.
pub(crate) fn port_name(name: &str) -> Vec<String> {
    let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let rules = [
        (name.len() > 15, "must be no more than 15 characters"),
        (
            name.is_empty() || !name.bytes().all(is_known),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (!name.bytes().any(|byte| byte.is_ascii_lowercase()), "must contain at least one letter (a-z)"),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (name.starts_with('-') || name.ends_with('-'), "must not begin or end with a hyphen"),
    ];
    rules.into_iter().filter(|(broken, _)| *broken).map(|(_, rule)| rule.to_owned()).collect()
}

/// What is wrong with a key of a config map or secret.
pub(crate) fn config_key(key: &str) -> Vec<String> {
    const RULE: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
    let mut problems = Vec::new();
    if key.len() > 253 {
        problems.push("must be no more than 253 characters".to_owned());
    }
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        problems.push(RULE.to_owned());
    }
    match key {
        "." | ".." => problems.push(format!("must not be '{key}'")),
        _ if key.starts_with("..") => problems.push("must not start with '..'".to_owned()),
        _ => {}
    }
    problems
}

pub(crate) fn file_mode(place: &Place<'_>, findings: &mut Findings) {
    if place.is_set() && !(0..=0o777).contains(&place.number()) {
        findings.invalid(place, FILE_MODE);
    }
}

pub(crate) fn no_backsteps(place: &Place<'_>, findings: &mut Findings) {
    if place.text().split('/').any(|part| part == "..") {
        findings.invalid(place, "must not contain '..'");
    }
}

/// A path that stays below where it starts.
pub(crate) fn descending_path(place: &Place<'_>, findings: &mut Findings) {
    if place.text().starts_with('/') {
        findings.invalid(place, "must be a relative path");
    }
    no_backsteps(place, findings);
}

/// A path that stays below where it starts, and whose first part the kubelet does not use itself.
pub(crate) fn non_reserved_path(place: &Place<'_>, findings: &mut Findings) {
    descending_path(place, findings);
    if place.text().starts_with("..") && !place.text().starts_with("../") {
        findings.invalid(place, "must not start with '..'");
    }
}

/// An address as the older fields take it: zeros before a number are let pass.
pub(crate) fn legacy_address(place: &Place<'_>, findings: &mut Findings) {
    if sloppy_address(place.text()).is_none() {
        findings.invalid_as(place, place.text(), "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }
}

pub(crate) fn sloppy_address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse().ok();
    }
    let parts: Vec<&str> = text.split('.').collect();
    let plain: Vec<&str> = parts.iter().map(|part| part.trim_start_matches('0')).collect();
    let plain: Vec<&str> = plain
        .iter()
        .zip(&parts)
        .map(|(plain, part)| if plain.is_empty() && !part.is_empty() { "0" } else { plain })
        .collect();
    plain.join(".").parse().ok()
}

/// A network as the older fields take it.
pub(crate) fn sloppy_network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let address = sloppy_address(address)?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length = length.parse().ok().filter(|length| *length <= most)?;
    length_is_plain(text).then_some((address, length))
}

/// Whether a network holds an address.
pub(crate) fn contains((network, length): (IpAddr, u8), address: IpAddr) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(four) => u128::from(u32::from(four)) << 96,
        IpAddr::V6(six) => u128::from(six),
    };
    let mask = if length == 0 { 0 } else { u128::MAX << (128 - u32::from(length)) };
    network.is_ipv4() == address.is_ipv4() && bits(network) & mask == bits(address) & mask
}

fn length_is_plain(text: &str) -> bool {
    text.rsplit('/').next().is_some_and(|length| length.bytes().all(|byte| byte.is_ascii_digit()))
}

pub(crate) fn legacy_network(place: &Place<'_>, findings: &mut Findings) {
    if sloppy_network(place.text()).is_none() {
        findings.invalid_as(place, place.text(), NETWORK);
    }
}

/// A number or a percentage of at least zero.
pub(crate) fn count_or_percent(place: &Place<'_>, findings: &mut Findings) {
    const RULE: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
    match place.value {
        Value::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or_default();
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                findings.invalid(place, RULE);
            }
        }
        _ => {
            if place.number() < 0 {
                findings.invalid(place, NEGATIVE);
            }
        }
    }
}

pub(crate) fn not_more_than_all(place: &Place<'_>, findings: &mut Findings) {
    if percent(place.value).is_some_and(|percent| percent > 100) {
        findings.invalid(place, "must not be greater than 100%");
    }
}

/// The number before a percent sign.
pub(crate) fn percent(value: &Value) -> Option<u64> {
    let digits = value.as_str()?.strip_suffix('%')?;
    digits.parse().ok()
}

/// The count, or the number before the percent sign.
pub(crate) fn plain_count(value: &Value) -> i64 {
    match value {
        Value::String(_) => percent(value).map_or(0, |percent| i64::try_from(percent).unwrap_or(i64::MAX)),
        other => other.as_i64().unwrap_or(0),
    }
}

/// A field that keeps what it had.
pub(crate) fn immutable(new: &Place<'_>, old: &Value, findings: &mut Findings) {
    if !same(new.value, old) {
        findings.invalid(new, IMMUTABLE);
    }
}

/// Whether two values are the same to the real server, for which nothing and emptiness are one.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let get = |map: &serde_json::Map<String, Value>, key: &str| map.get(key).cloned().unwrap_or_default();
            one.keys().chain(other.keys()).all(|key| same(&get(one, key), &get(other, key)))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        _ => one == other || (empty(one) && empty(other)),
    }
}
