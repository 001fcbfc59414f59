//! What a good spec of the simulated cloud looks like.

use std::time::Duration;

use machine::duration;
use machine::provider::{ErrorKind, Surroundings, Verdict};
use machine::spec::{Path, secret};

use super::types::{Faults, MemorySpec};

/// The kinds of errors that a creation can be refused with.
const KINDS: [(&str, ErrorKind); 8] = [
    ("NotFound", ErrorKind::NotFound),
    ("InvalidSpec", ErrorKind::InvalidSpec),
    ("NoCapacity", ErrorKind::NoCapacity),
    ("Quota", ErrorKind::Quota),
    ("Throttled", ErrorKind::Throttled { retry_after: None }),
    ("Credentials", ErrorKind::Credentials),
    ("Unreachable", ErrorKind::Unreachable),
    ("Other", ErrorKind::Other),
];

pub(super) fn check(spec: &MemorySpec, _: &Surroundings, verdict: &mut Verdict) {
    super::IDENTITY.check(&spec.api_version, &spec.kind, verdict);
    let types = super::TYPES.map(|(name, ..)| name);
    if !types.contains(&spec.instance_type.as_str()) {
        verdict.unsupported(&Path::spec().child("instanceType"), &spec.instance_type, &types);
    }
    for (name, value) in [("region", &spec.region), ("zone", &spec.zone)] {
        check_name(&Path::spec().child(name), value, verdict);
    }
    for (name, value) in
        [("createDelay", &spec.create_delay), ("bootDelay", &spec.boot_delay), ("deleteDelay", &spec.delete_delay)]
    {
        check_delay(&Path::spec().child(name), value, verdict);
    }
    secret::check_user_data(spec.user_data_secret.as_ref(), verdict);
    if let Some(faults) = &spec.faults {
        check_faults(faults, verdict);
    }
}

/// Both become labels and parts of provider ids.
fn check_name(path: &Path, value: &str, verdict: &mut Verdict) {
    let is_good = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    if value.is_empty() {
        verdict.required(path, "name one, such as zone-a");
    } else if value.len() > 63 || !value.chars().all(is_good) || value.starts_with('-') || value.ends_with('-') {
        verdict.invalid(path, value, "must be a label: at most 63 lower-case letters, digits and dashes");
    }
}

pub(super) fn check_delay(path: &Path, value: &str, verdict: &mut Verdict) {
    match duration::parse(value) {
        _ if value.is_empty() => {}
        Ok(delay) if delay.is_negative() => verdict.invalid(path, value, "must not be negative"),
        Ok(_) => {}
        Err(error) => verdict.invalid(path, value, error),
    }
}

fn check_faults(faults: &Faults, verdict: &mut Verdict) {
    let path = Path::spec().child("faults");
    if !faults.create.is_empty() && error_kind(&faults.create).is_none() {
        verdict.unsupported(&path.child("create"), &faults.create, &KINDS.map(|(name, _)| name));
    }
    if faults.create.is_empty() && faults.create_times > 0 {
        verdict.warn(&path.child("createTimes"), "does nothing without faults.create");
    }
    check_delay(&path.child("vanishAfter"), &faults.vanish_after, verdict);
}

/// The kind of this name.
pub(super) fn error_kind(name: &str) -> Option<ErrorKind> {
    KINDS.into_iter().find(|(known, _)| *known == name).map(|(_, kind)| kind)
}

/// A delay that was validated; what cannot be read is none.
pub(super) fn delay(text: &str) -> Duration {
    duration::parse(text).ok().and_then(|delay| Duration::try_from(delay).ok()).unwrap_or_default()
}
