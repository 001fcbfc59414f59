//! Tenancy, dedicated hosts and placement groups.

use machine::provider::{Surroundings, Verdict};
use machine::spec::Path;

use crate::spec::types::{AwsSpec, DedicatedHost, HostPlacement, Placement};

/// AWS allows as many tags on one resource.
const MOST_TAGS: usize = 50;

pub(super) fn check(spec: &AwsSpec, surroundings: &Surroundings, verdict: &mut Verdict) {
    check_tenancy(&spec.placement, surroundings, verdict);
    if let Some(partition) = spec.placement_group_partition {
        let path = Path::spec().child("placementGroupPartition");
        if !(1..=7).contains(&partition) {
            verdict.invalid(&path, partition, "must be between 1 and 7");
        }
        if spec.placement_group_name.is_empty() {
            verdict.invalid(&path, partition, "a partition needs the placementGroupName it belongs to");
        }
    }
}

fn check_tenancy(placement: &Placement, surroundings: &Surroundings, verdict: &mut Verdict) {
    let path = Path::spec().child("placement");
    match (placement.tenancy.as_str(), &placement.host) {
        ("" | "default" | "dedicated", None) => {}
        ("" | "default" | "dedicated", Some(_)) => {
            verdict.forbidden(&path.child("host"), "only instances with tenancy host have one");
        }
        ("host", _) if surroundings.control_plane => {
            verdict.forbidden(&path.child("tenancy"), "control-plane machines cannot run on dedicated hosts");
        }
        ("host", None) => {}
        ("host", Some(host)) => check_host(host, &path.child("host"), verdict),
        (other, _) => {
            verdict.invalid(&path.child("tenancy"), other, "write default, dedicated or host, or leave it out");
        }
    }
}

fn check_host(host: &HostPlacement, path: &Path, verdict: &mut Verdict) {
    let affinity_path = path.child("affinity");
    match (host.affinity.as_deref(), &host.dedicated_host) {
        (None, _) => verdict.required(&affinity_path, "write AnyAvailable or DedicatedHost"),
        (Some("AnyAvailable"), None) => {}
        (Some("AnyAvailable"), Some(dedicated)) => {
            if dedicated.allocation_strategy.as_deref() == Some("Dynamic") {
                let detail = "a host that is allocated for the machine needs the affinity DedicatedHost";
                verdict.forbidden(&affinity_path, detail);
            }
            check_dedicated(dedicated, &path.child("dedicatedHost"), verdict);
        }
        (Some("DedicatedHost"), None) => {
            verdict.required(&path.child("dedicatedHost"), "the affinity DedicatedHost needs a host");
        }
        (Some("DedicatedHost"), Some(dedicated)) => check_dedicated(dedicated, &path.child("dedicatedHost"), verdict),
        (Some(other), _) => verdict.invalid(&affinity_path, other, "write AnyAvailable or DedicatedHost"),
    }
}

fn check_dedicated(host: &DedicatedHost, path: &Path, verdict: &mut Verdict) {
    let id_path = path.child("id");
    match host.allocation_strategy.as_deref() {
        None | Some("" | "UserProvided") => {
            let shape = "must be h- followed by 8 or 17 digits of 0-9 and a-f";
            if host.id.is_empty() {
                verdict.required(&id_path, format!("name the host that you allocated; it {shape}"));
            } else if !is_host(&host.id) {
                verdict.invalid(&id_path, &host.id, shape);
            }
            if let Some(allocation) = &host.dynamic_host_allocation {
                let detail = "only the allocationStrategy Dynamic allocates a host";
                verdict.invalid(&path.child("dynamicHostAllocation"), allocation, detail);
            }
        }
        Some("Dynamic") => {
            if !host.id.is_empty() {
                verdict.forbidden(&id_path, "the allocationStrategy Dynamic allocates a host; take the id away");
            }
            check_dynamic(host, path, verdict);
        }
        Some(other) => {
            verdict.invalid(&path.child("allocationStrategy"), other, "write UserProvided or Dynamic");
        }
    }
}

fn check_dynamic(host: &DedicatedHost, path: &Path, verdict: &mut Verdict) {
    let Some(allocation) = &host.dynamic_host_allocation else { return };
    let path = path.child("dynamicHostAllocation").child("tags");
    match &allocation.tags {
        None => verdict.required(&path, "set a field in dynamicHostAllocation, or leave it out"),
        Some(tags) if tags.is_empty() => verdict.invalid(&path, tags.len(), "give at least 1 tag, or leave them out"),
        Some(tags) if tags.len() > MOST_TAGS => {
            verdict.invalid(&path, tags.len(), format!("give at most {MOST_TAGS} tags"));
        }
        Some(_) => {}
    }
}

fn is_host(id: &str) -> bool {
    let digits = id.strip_prefix("h-");
    digits.is_some_and(|digits| matches!(digits.len(), 8 | 17) && is_hexadecimal(digits))
}

pub(super) fn is_hexadecimal(digits: &str) -> bool {
    digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_id_has_8_or_17_lowercase_digits() {
        assert!(is_host("h-01234567") && is_host("h-0123456789abcdef0"));
        for bad in ["", "h-", "h-012345678", "h-0123456A", "01234567", "h-0123456g"] {
            assert!(!is_host(bad), "{bad}");
        }
    }
}
