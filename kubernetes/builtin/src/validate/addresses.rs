//! Addresses of services and the ranges that they come from.

use std::net::IpAddr;

use schema::names;
use serde_json::Value;

use super::place::{Find, Findings, Place};
use super::rules;

pub(crate) fn address(address: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let parent = address.field("spec").field("parentRef");
    if old.is_some_and(|old| old["spec"]["parentRef"] != *parent.value) {
        findings.invalid(&parent, rules::IMMUTABLE);
    }
    let name = address.field("metadata").field("name");
    if old.is_none() && name.text().parse::<IpAddr>().is_err() {
        findings.invalid(&name, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }
    if !parent.is_set() {
        findings.required(&parent, "");
        return;
    }
    if !parent.field("group").is_empty() {
        rules::subdomain(&parent.field("group"), findings);
    }
    rules::path_segments(&parent, &["resource", "name"], findings);
    let namespace = parent.field("namespace");
    findings.problems(&namespace, names::is_path_segment(namespace.text(), false));
}

/// A range keeps its networks; one of the other family may join a single one.
pub(crate) fn range(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let cidrs = object.field("spec").field("cidrs");
    let Some(old) = old else { return networks(&cidrs, findings) };
    let before: Vec<&str> = Place::root(&old["spec"]["cidrs"]).texts().collect();
    match (before.len(), cidrs.count()) {
        (then, now) if then == now => {
            for (one, _) in cidrs.items().zip(before).filter(|(one, before)| one.text() != *before) {
                findings.invalid_as(&one, one.text(), rules::IMMUTABLE);
            }
        }
        (1, 2) => {
            for one in cidrs.items().take(1).filter(|one| before.first() != Some(&one.text())) {
                findings.invalid_as(&one, one.text(), rules::IMMUTABLE);
            }
            networks(&cidrs, findings);
        }
        _ => findings.invalid(&cidrs, rules::IMMUTABLE),
    }
}

fn networks(cidrs: &Place<'_>, findings: &mut Findings) {
    if cidrs.is_empty() {
        return findings.required(cidrs, "at least one CIDR required");
    }
    if cidrs.count() > 2 {
        let shown = serde_json::json!({"CIDRs": cidrs.value});
        return findings.invalid_as(cidrs, shown, "may only hold up to 2 values");
    }
    for cidr in cidrs.items() {
        if let Some(problem) = problem_of_network(cidr.text()) {
            findings.invalid_as(&cidr, cidr.text(), problem);
        }
    }
    let families: Vec<bool> =
        cidrs.texts().filter_map(rules::sloppy_network).map(|(address, _)| address.is_ipv4()).collect();
    if let [one, other] = families.as_slice()
        && one == other
    {
        let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        findings.invalid(cidrs, detail);
    }
}

/// What keeps a text from being a network in the one form that newer fields take.
fn problem_of_network(text: &str) -> Option<String> {
    let Some((address, length)) = rules::sloppy_network(text) else { return Some(rules::NETWORK.to_owned()) };
    let (host, digits) = text.split_once('/').unwrap_or_default();
    let padded = digits.len() > 1 && digits.starts_with('0');
    if host.parse::<IpAddr>().is_err() || padded {
        return Some("must not have leading 0s in IP or prefix length".to_owned());
    }
    if matches!(address, IpAddr::V6(six) if six.to_ipv4_mapped().is_some()) {
        return Some("must not have an IPv4-mapped IPv6 address".to_owned());
    }
    if masked(address, length) != address {
        return Some("must not have bits set beyond the prefix length".to_owned());
    }
    let canonical = format!("{address}/{length}");
    (text != canonical).then(|| format!("must be in canonical form ({canonical:?})"))
}

fn masked(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(four) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0);
            IpAddr::V4((u32::from(four) & mask).into())
        }
        IpAddr::V6(six) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0);
            IpAddr::V6((u128::from(six) & mask).into())
        }
    }
}
