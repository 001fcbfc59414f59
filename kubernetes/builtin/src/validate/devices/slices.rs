//! What drivers tell of their devices.

use schema::{FieldError, names};
use serde_json::Value;

use super::super::place::{Find, Findings, Place};
use super::super::{pods, rules, sources};
use super::{parts, policies};

/// How long the keys of attributes and capacities are shown.
const KEY: usize = 63 + 1 + 32;
const COUNTERS: usize = 32;

pub(crate) fn slice(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    const PLAIN: usize = 128;
    const ADVANCED: usize = 64;
    const SETS: usize = 8;
    let spec = object.field("spec");
    let (driver, pool) = (spec.field("driver"), spec.field("pool"));
    sources::driver_name(&driver, findings);
    parts::pool_name(&pool.field("name"), findings);
    let (count, generation) = (pool.field("resourceSliceCount"), pool.field("generation"));
    if count.number() <= 0 {
        findings.invalid_as(&count, count.number(), "must be greater than zero");
    }
    if generation.number() < 0 {
        findings.invalid(&generation, "must be greater than or equal to zero");
    }
    if let Some(old) = old {
        rules::immutable(&pool.field("name"), &old["spec"]["pool"]["name"], findings);
        rules::immutable(&driver, &old["spec"]["driver"], findings);
        rules::immutable(&spec.field("nodeName"), &old["spec"]["nodeName"], findings);
    }
    nodes(&spec, findings);
    let (devices, sets) = (spec.field("devices"), spec.field("sharedCounters"));
    if devices.is_set() && sets.is_set() {
        findings.invalid_as(&spec, "", "only one of `sharedCounters` or `devices` is allowed");
    }
    let advanced =
        devices.items().any(|own| !own.field("taints").is_empty() || !own.field("consumesCounters").is_empty());
    let apart = spec.field("perDeviceNodeSelection").is_true();
    let before = Value::Null;
    let before = Place::root(old.map_or(&before, |old| &old["spec"]["devices"]));
    let check = |own: &Place<'_>, findings: &mut Findings| {
        let known = before.items().find(|known| known.field("name").text() == own.field("name").text());
        device(own, known.as_ref(), apart, findings);
    };
    parts::set(&devices, if advanced { ADVANCED } else { PLAIN }, findings, check, parts::name_of);
    parts::set(&sets, SETS, findings, |set, findings| counters(set, "name", findings), parts::name_of);
}

/// The nodes that a slice is about.
fn nodes(spec: &Place<'_>, findings: &mut Findings) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let mut ways = named(spec, "must be either unset or set to a non-empty string", findings);
    let selector = spec.field("nodeSelector");
    let terms = selector.field("nodeSelectorTerms");
    if selector.is_set() && terms.count() != 1 {
        findings.invalid(&terms, "must have exactly one node selector term");
    }
    for (flag, way) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")] {
        flagged(&spec.field(flag), way, &mut ways, findings);
    }
    match ways.len() {
        0 => findings.required(spec, ONE),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", ways.join(", "));
            findings.invalid_as(spec, shown, format!("{ONE}, but multiple fields are set"));
        }
    }
}

/// The ways in which nodes are named: one of them, or by a selector. `empty` is said of a name without letters.
fn named(own: &Place<'_>, empty: &str, findings: &mut Findings) -> Vec<&'static str> {
    let (name, selector) = (own.field("nodeName"), own.field("nodeSelector"));
    let mut ways = Vec::new();
    if name.is_set() && name.is_empty() {
        findings.invalid(&name, empty);
    } else if name.is_set() {
        ways.push("`nodeName`");
        rules::subdomain(&name, findings);
    }
    if selector.is_set() {
        ways.push("`nodeSelector`");
        pods::node_selector(&selector, findings);
    }
    ways
}

fn flagged(flag: &Place<'_>, way: &'static str, ways: &mut Vec<&'static str>, findings: &mut Findings) {
    if flag.is_true() {
        ways.push(way);
    } else if flag.is_set() {
        findings.invalid(flag, "must be either unset or set to true");
    }
}

fn device(own: &Place<'_>, before: Option<&Place<'_>>, apart: bool, findings: &mut Findings) {
    const TOGETHER: usize = 32;
    const TAINTS: usize = 16;
    const SETS: usize = 2;
    rules::label(&own.field("name"), findings);
    let (attributes, capacity, taints) = (own.field("attributes"), own.field("capacity"), own.field("taints"));
    let together = attributes.count() + capacity.count();
    if together > TOGETHER {
        let detail = format!("the total number of attributes and capacities must not exceed {TOGETHER}");
        findings.invalid_as(own, together, detail);
    }
    if attributes.count() > 48 {
        let detail = "the total number of attribute values must not exceed 48";
        findings.invalid_as(own, attributes.count(), detail);
    }
    for (key, value) in attributes.entries() {
        parts::qualified_name(&attributes, key, findings);
        attribute(&keyed(&attributes, key, &value), findings);
    }
    let shared = own.field("allowMultipleAllocations").is_true();
    for (key, value) in capacity.entries() {
        parts::qualified_name(&capacity, key, findings);
        let policy = keyed(&capacity, key, &value).field("requestPolicy");
        if policy.is_set() && !shared {
            findings.forbidden(&policy, "allowMultipleAllocations must be true");
        } else if policy.is_set() {
            policies::check(value.field("value").value, &policy, findings);
        }
    }
    if before.is_none_or(|before| !rules::same(before.field("taints").value, taints.value)) {
        parts::each(&taints, TAINTS, findings, parts::taint);
    }
    parts::set(
        &own.field("consumesCounters"),
        SETS,
        findings,
        |own, findings| counters(own, "counterSet", findings),
        |own| own.field("counterSet").text().to_owned(),
    );
    node_of_device(own, apart, findings);
    parts::binding_conditions(own, findings);
}

/// The value of a map under its key, which is shown cut short in the middle where it is long.
fn keyed<'v>(map: &Place<'_>, key: &str, value: &Place<'v>) -> Place<'v> {
    let shown = match key.len() > KEY {
        false => key.to_owned(),
        true => {
            let rest = KEY - 3;
            let (start, end) = (rest.div_ceil(2), key.len() - rest / 2);
            let (start, end) = (key.floor_char_boundary(start), key.ceil_char_boundary(end));
            format!("{}...{}", &key[..start], &key[end..])
        }
    };
    value.known_as(format!("{}[{shown}]", map.path))
}

fn attribute(own: &Place<'_>, findings: &mut Findings) {
    const LONGEST: usize = 64;
    let (text, version) = (own.field("string"), own.field("version"));
    if version.is_set() && !is_version(version.text()) {
        findings.invalid(&version, "must be a string compatible with semver.org spec 2.0.0");
    }
    for value in [&text, &version] {
        if value.text().len() > LONGEST {
            findings.too_long(value, LONGEST as u64);
        }
    }
    match ["bool", "int", "string", "version"].iter().filter(|field| own.field(field).is_set()).count() {
        0 => findings.invalid_as(own, "", "exactly one value must be specified"),
        1 => {}
        _ => findings.invalid(own, "exactly one value must be specified"),
    }
}

/// A semantic version: three numbers, then perhaps what comes before and what it was built from.
fn is_version(text: &str) -> bool {
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (text, early) = text.split_once('-').map_or((text, None), |(text, early)| (text, Some(early)));
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_plain = |word: &str| word == "0" || !word.starts_with('0');
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let numbers: Vec<&str> = text.split('.').collect();
    numbers.len() == 3
        && numbers.iter().all(|word| is_number(word) && is_plain(word))
        && early.is_none_or(|early| early.split('.').all(|word| is_word(word) && (!is_number(word) || is_plain(word))))
        && build.is_none_or(|build| build.split('.').all(is_word))
}

/// Counters under the name of their set.
fn counters(own: &Place<'_>, name: &str, findings: &mut Findings) {
    let (name, counters) = (own.field(name), own.field("counters"));
    match name.is_empty() {
        true => findings.required(&name, ""),
        false => rules::label(&name, findings),
    }
    if counters.is_empty() {
        findings.required(&counters, "");
    } else if counters.count() > COUNTERS {
        findings.push(FieldError::too_many(&counters.path, counters.count(), COUNTERS as u64));
    } else {
        for (key, _) in counters.entries() {
            for problem in names::is_label(key) {
                findings.invalid_as(&counters, key, problem);
            }
        }
    }
}

/// A device says where it is only if its slice leaves that to its devices.
fn node_of_device(own: &Place<'_>, apart: bool, findings: &mut Findings) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let (name, selector, all) = (own.field("nodeName"), own.field("nodeSelector"), own.field("allNodes"));
    if !apart {
        if name.is_set() || selector.is_set() || all.is_set() {
            let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
            findings.invalid_as(own, Value::Null, detail);
        }
        return;
    }
    let mut ways = named(own, "must not be empty", findings);
    flagged(&all, "`allNodes`", &mut ways, findings);
    match ways.len() {
        0 => findings.required(own, ONE),
        1 => {}
        _ => findings.invalid_as(own, format!("{{{}}}", ways.join(", ")), ONE),
    }
}
