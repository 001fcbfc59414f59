//! Devices: classes of them, claims to them and what drivers tell of them.

mod claims;
mod parts;
mod policies;
mod slices;
mod status;

use serde_json::Value;

use super::place::{Find, Findings, Place};
use super::{pods, rules, storage};

/// How many selectors and configurations there may be.
const MOST: usize = 32;

pub(crate) use slices::slice;

pub(crate) fn class(object: &Place<'_>, findings: &mut Findings) {
    let spec = object.field("spec");
    parts::selectors(&spec.field("selectors"), findings);
    parts::each(&spec.field("config"), MOST, findings, parts::configuration);
    let name = spec.field("extendedResourceName");
    if name.is_set() && !pods::is_extended(name.text()) {
        findings.invalid(&name, "must be a valid extended resource name");
    }
}

/// A claim never changes what it asks for; its status is written by those who find devices for it.
pub(crate) fn claim(object: &Place<'_>, old: Option<&Value>, subresource: &str, findings: &mut Findings) {
    let spec = object.field("spec");
    match old {
        None => claims::spec(&spec.field("devices"), findings),
        Some(old) if subresource == "status" => status::check(object, old, findings),
        Some(old) => rules::immutable(&spec, &old["spec"], findings),
    }
}

pub(crate) fn template(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let spec = object.field("spec");
    storage::template_metadata(&spec.field("metadata"), findings);
    claims::spec(&spec.field("spec").field("devices"), findings);
    if let Some(old) = old {
        rules::immutable(&spec, &old["spec"], findings);
    }
}
