//! What values a kubelet accepts, checked before any node sees them: a kubelet that refuses its configuration does not start.
//!
//! The rules are the kubelet's own. They are about the merged configuration, because many of them compare two fields; what
//! is already wrong in the cluster's own configuration is not held against a user.

mod relations;
mod resources;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::Error;
use super::fields::{self, Field, Kind};
use crate::duration;

/// One value that a kubelet would refuse.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Path of the field.
    pub field: String,
    /// What is wrong with it, and what would be right.
    pub message: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.field, self.message)
    }
}

/// What `merged` has that a kubelet refuses and `base` has not.
pub fn check(base: &Map<String, Value>, merged: &Map<String, Value>) -> Result<(), Error> {
    let known: BTreeSet<Violation> = violations(base).into_iter().collect();
    refuse(violations(merged).into_iter().filter(|found| !known.contains(found)).collect())
}

/// The same for a drop-in. The file below it is not known; those of kubeadm and k3s leave to the kubelet's defaults whatever
/// is compared here, so the defaults stand for what the drop-in does not set. Kubelets run with what is `in_force`, whatever
/// the file below it says.
pub fn check_dropin(in_force: &Map<String, Value>, dropin: &Map<String, Value>) -> Result<(), Error> {
    let known: BTreeSet<Violation> = violations(in_force).into_iter().collect();
    let found: Vec<_> = violations(dropin).into_iter().filter(|found| !known.contains(found)).collect();
    if found.is_empty() { Ok(()) } else { Err(Error::DropinLimits(found)) }
}

/// Amounts that are reserved for the system, checked where they are written: the largest of them leave the configuration
/// when it is merged, and reach the kubelet as flags. An empty one means the default.
pub fn check_reservations(fields: &Map<String, Value>) -> Result<(), Error> {
    let mut written = fields.clone();
    if let Some(Value::Object(reserved)) = written.get_mut("systemReserved") {
        reserved.retain(|_, amount| amount.as_str() != Some(""));
    }
    let mut found = Vec::new();
    resources::reservations(View(&written), &["systemReserved"], &mut found);
    refuse(found)
}

fn refuse(found: Vec<Violation>) -> Result<(), Error> {
    if found.is_empty() { Ok(()) } else { Err(Error::Limits(found)) }
}

/// Whether a kubelet of this minor version knows every field that is set; the first it does not know is named.
pub fn check_version(fields: &Map<String, Value>, pool: &str, minor: u64) -> Result<(), Error> {
    match newer(fields, fields::CONFIGURATION, minor) {
        Some((path, since)) => Err(Error::TooNew { path, since, pool: pool.to_owned(), runs: minor }),
        None => Ok(()),
    }
}

fn newer(members: &Map<String, Value>, fields: &'static [Field], minor: u64) -> Option<(String, u64)> {
    members.iter().find_map(|(name, value)| {
        let field = fields::find(fields, name)?;
        if field.since > minor {
            return Some((name.clone(), field.since));
        }
        match (field.kind, value) {
            (Kind::Object(inner), Value::Object(members)) => {
                newer(members, inner, minor).map(|(path, since)| (format!("{name}.{path}"), since))
            }
            _ => None,
        }
    })
}

/// Everything a kubelet would refuse.
fn violations(configuration: &Map<String, Value>) -> Vec<Violation> {
    let mut found = tables(configuration);
    relations::check(View(configuration), &mut found);
    found
}

/// What the tables and forms of single values say.
fn tables(configuration: &Map<String, Value>) -> Vec<Violation> {
    let view = View(configuration);
    let mut found = Vec::new();
    ranges(view, &mut found);
    words(view, &mut found);
    negative_durations(configuration, "", fields::CONFIGURATION, &mut found);
    resources::check(view, &mut found);
    found
}

/// A configuration as the kubelet reads it.
#[derive(Clone, Copy)]
struct View<'a>(&'a Map<String, Value>);

impl<'a> View<'a> {
    /// A value by its path, with dots between names.
    fn get(self, path: &str) -> Option<&'a Value> {
        let mut steps = path.split('.');
        let first = self.0.get(steps.next()?)?;
        steps.try_fold(first, |value, step| value.get(step))
    }

    fn int(self, path: &str) -> Option<i64> {
        self.get(path)?.as_i64()
    }

    fn bool(self, path: &str) -> Option<bool> {
        self.get(path)?.as_bool()
    }

    /// A text, empty when it is not set.
    fn text(self, path: &str) -> &'a str {
        self.get(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// A duration in nanoseconds, zero when it is not set.
    fn duration(self, path: &str) -> i64 {
        duration::parse(self.text(path)).unwrap_or_default()
    }

    fn list(self, path: &str) -> impl Iterator<Item = &'a Value> {
        self.get(path).and_then(Value::as_array).into_iter().flatten()
    }

    fn texts(self, path: &str) -> impl Iterator<Item = &'a str> {
        self.list(path).filter_map(Value::as_str)
    }

    /// The entries of a map of texts.
    fn map(self, path: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let members = self.get(path).and_then(Value::as_object).into_iter().flatten();
        members.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }

    /// Whether a feature gate is turned on here.
    fn gate(self, name: &str) -> bool {
        self.0.get("featureGates").and_then(|gates| gates.get(name)) == Some(&Value::Bool(true))
    }
}

fn violate(found: &mut Vec<Violation>, field: impl Into<String>, message: impl Into<String>) {
    found.push(Violation { field: field.into(), message: message.into() });
}

const MOST: i64 = i64::MAX;
/// Bounds of numbers, both included, and a value that fits.
const RANGES: &[(&str, i64, i64, i64)] = &[
    ("nodeLeaseDurationSeconds", 0, MOST, 40),
    ("eventBurst", 0, MOST, 100),
    ("eventRecordQPS", 0, MOST, 50),
    ("healthzPort", 0, 65535, 10248),
    ("imageGCHighThresholdPercent", 0, 100, 85),
    ("imageGCLowThresholdPercent", 0, 100, 80),
    ("iptablesDropBit", 0, 31, 15),
    ("iptablesMasqueradeBit", 0, 31, 14),
    ("kubeAPIBurst", 0, MOST, 100),
    ("kubeAPIQPS", 0, MOST, 50),
    ("nodeStatusMaxImages", -1, MOST, 50),
    ("maxOpenFiles", 0, MOST, 1_000_000),
    ("maxPods", 0, MOST, 250),
    ("oomScoreAdj", -1000, 1000, -999),
    ("podsPerCore", 0, MOST, 10),
    ("port", 0, 65535, 10250),
    ("readOnlyPort", 0, 65535, 0),
    ("registryBurst", 0, MOST, 10),
    ("registryPullQPS", 0, MOST, 5),
    ("maxParallelImagePulls", 1, MOST, 5),
    ("containerLogMaxWorkers", 1, MOST, 1),
    ("containerLogMaxFiles", 2, MOST, 5),
    ("tracing.samplingRatePerMillion", 0, 1_000_000, 100),
];

fn ranges(view: View<'_>, found: &mut Vec<Violation>) {
    for (path, least, most, example) in RANGES {
        let Some(number) = view.int(path).filter(|number| !(least..=most).contains(&number)) else { continue };
        let bounds = match *most {
            MOST => format!("at least {least}"),
            most => format!("between {least} and {most}"),
        };
        violate(found, *path, format!("must be {bounds}, for example {example}, but is {number}"));
    }
}

/// Fields that hold one of a few words. An empty one means the kubelet's default.
const WORDS: &[(&str, &[&str])] = &[
    ("topologyManagerPolicy", &["none", "best-effort", "restricted", "single-numa-node"]),
    ("topologyManagerScope", &["container", "pod"]),
    ("cpuManagerPolicy", &["none", "static"]),
    ("memoryManagerPolicy", &["None", "Static"]),
    ("hairpinMode", &["promiscuous-bridge", "hairpin-veth", "none"]),
    ("configMapAndSecretChangeDetectionStrategy", &["Get", "Cache", "Watch"]),
    ("tlsMinVersion", &["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"]),
    ("authorization.mode", &["AlwaysAllow", "Webhook"]),
    ("memorySwap.swapBehavior", &["NoSwap", "LimitedSwap"]),
    ("logging.format", &["text", "json"]),
    ("memoryReservationPolicy", &["None", "TieredReservation"]),
    (
        "imagePullCredentialsVerificationPolicy",
        &["NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify"],
    ),
];

fn words(view: View<'_>, found: &mut Vec<Violation>) {
    for (path, allowed) in WORDS {
        let word = view.text(path);
        if !word.is_empty() && !allowed.contains(&word) {
            violate(found, *path, format!("must be one of {}, but is {word:?}", allowed.join(", ")));
        }
    }
}

fn negative_durations(members: &Map<String, Value>, at: &str, fields: &'static [Field], found: &mut Vec<Violation>) {
    for (name, value) in members {
        match (fields::find(fields, name).map(|field| field.kind), value) {
            (Some(Kind::Duration), Value::String(text)) if duration::parse(text).is_some_and(|it| it < 0) => {
                violate(found, format!("{at}{name}"), format!("must not be negative, for example 10s, but is {text}"));
            }
            (Some(Kind::Object(inner)), Value::Object(members)) => {
                negative_durations(members, &format!("{at}{name}."), inner, found);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is said of one value at a path.
    fn said(path: &str, value: Value) -> Vec<Violation> {
        let value = path.rsplit('.').fold(value, |value, step| json!({ step: value }));
        let Value::Object(fields) = value else { return Vec::new() };
        let found = tables(&fields);
        found.into_iter().filter(|violation| violation.field == path).collect()
    }

    #[test]
    fn every_number_is_taken_at_its_bounds_and_refused_beyond_them_with_an_example() {
        for (path, least, most, example) in RANGES {
            for fits in [least, most, example] {
                assert_eq!(said(path, json!(fits)), [], "{path}: {fits}");
            }
            let beyond = [least.checked_sub(1), most.checked_add(1)];
            for wrong in beyond.into_iter().flatten() {
                let found = said(path, json!(wrong));
                assert!(
                    matches!(&found[..], [one] if one.message.contains(&format!("for example {example}, but is {wrong}"))),
                    "{path}: {wrong}: {found:?}"
                );
            }
        }
    }

    #[test]
    fn every_word_is_taken_and_others_are_refused_with_those_that_fit() {
        for (path, allowed) in WORDS {
            for word in allowed.iter().chain(&[""]) {
                assert_eq!(said(path, json!(word)), [], "{path}: {word:?}");
            }
            let found = said(path, json!("Sometimes"));
            let expected = format!("must be one of {}, but is \"Sometimes\"", allowed.join(", "));
            assert!(matches!(&found[..], [one] if one.message == expected), "{path}: {found:?}");
        }
    }
}
