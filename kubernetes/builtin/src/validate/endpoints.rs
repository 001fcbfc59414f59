//! Endpoints and slices of them.

use schema::{FieldError, names};
use serde_json::Value;

use super::place::{Find, Findings, Place};
use super::rules;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(crate) fn check(object: &Place<'_>, findings: &mut Findings) {
    for subset in object.field("subsets").items() {
        let (ready, waiting, ports) =
            (subset.field("addresses"), subset.field("notReadyAddresses"), subset.field("ports"));
        if ready.is_empty() && waiting.is_empty() {
            findings.required(&subset, "must specify `addresses` or `notReadyAddresses`");
        }
        for own in ready.items().chain(waiting.items()) {
            endpoint(&own, findings);
        }
        for port in ports.items() {
            let name = port.field("name");
            if name.is_empty() && ports.count() > 1 {
                findings.required(&name, "");
            } else if !name.is_empty() {
                rules::label(&name, findings);
            }
            rules::port_number(&port.field("port"), findings);
            findings.required_one_of(&port.field("protocol"), &PROTOCOLS);
            application(&port, findings);
        }
    }
}

fn application(port: &Place<'_>, findings: &mut Findings) {
    if port.field("appProtocol").is_set() {
        rules::qualified_name(&port.field("appProtocol"), findings);
    }
}

fn endpoint(own: &Place<'_>, findings: &mut Findings) {
    rules::legacy_address(&own.field("ip"), findings);
    if !own.field("hostname").is_empty() {
        rules::label(&own.field("hostname"), findings);
    }
    if own.field("nodeName").is_set() {
        rules::subdomain(&own.field("nodeName"), findings);
    }
    address(&own.field("ip"), findings);
}

/// An address that others can be sent to.
pub(crate) fn address(place: &Place<'_>, findings: &mut Findings) {
    let text = place.text();
    let Some(parsed) = rules::sloppy_address(text) else {
        return findings.invalid_as(place, text, "must be a valid IP address");
    };
    let (link_local, local_multicast) = match parsed {
        std::net::IpAddr::V4(four) => (four.is_link_local(), four.octets()[..3] == [224, 0, 0]),
        std::net::IpAddr::V6(six) => (six.segments()[0] & 0xffc0 == 0xfe80, six.segments()[0] & 0xff0f == 0xff02),
    };
    for (wrong, detail) in [
        (parsed.is_unspecified(), format!("may not be unspecified ({text})")),
        (parsed.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()),
        (link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()),
        (local_multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned()),
    ] {
        if wrong {
            findings.invalid(place, detail);
        }
    }
}

pub(crate) fn slice(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let kind = object.field("addressType");
    findings.required_one_of(&kind, &["FQDN", "IPv4", "IPv6"]);
    slice_ports(&object.field("ports"), findings);
    let endpoints = object.field("endpoints");
    if old.is_none_or(|old| !rules::same(&old["endpoints"], endpoints.value)) {
        if endpoints.count() > 1000 {
            findings.push(FieldError::too_many(&endpoints.path, endpoints.count(), 1000));
            return;
        }
        for own in endpoints.items() {
            slice_endpoint(&own, kind.text(), findings);
        }
    }
    if let Some(old) = old {
        rules::immutable(&kind, &old["addressType"], findings);
    }
}

fn slice_ports(ports: &Place<'_>, findings: &mut Findings) {
    let mut seen = Vec::new();
    for port in ports.items() {
        let name = port.field("name");
        if !name.is_empty() {
            rules::label(&name, findings);
        }
        match seen.contains(&name.text()) {
            true => findings.duplicate_as(&name, name.text()),
            false => seen.push(name.text()),
        }
        findings.one_of(&port.field("protocol"), &PROTOCOLS);
        application(&port, findings);
    }
}

fn slice_endpoint(own: &Place<'_>, kind: &str, findings: &mut Findings) {
    let list = own.field("addresses");
    if list.is_empty() {
        findings.required(&list, "must contain at least 1 address");
    } else if list.count() > 100 {
        findings.push(FieldError::too_many(&list.path, list.count(), 100));
    }
    for one in list.items() {
        let parsed = rules::sloppy_address(one.text());
        match (kind, parsed) {
            ("IPv4" | "IPv6", None) => rules::legacy_address(&one, findings),
            ("IPv4" | "IPv6", Some(parsed)) => {
                if parsed.is_ipv4() != (kind == "IPv4") {
                    findings.invalid_as(&list, one.text(), format!("must be an {kind} address"));
                }
                address(&one, findings);
            }
            ("FQDN", _) => {
                findings.problems(&one, names::is_subdomain(one.text()));
                if names::is_subdomain(one.text()).is_empty() && !one.text().contains('.') {
                    findings.invalid(&one, "should be a domain with at least two segments separated by dots");
                }
            }
            _ => {}
        }
    }
    if own.field("nodeName").is_set() {
        rules::subdomain(&own.field("nodeName"), findings);
    }
    rules::labels(&own.field("deprecatedTopology"), findings);
    if own.field("hostname").is_set() {
        rules::label(&own.field("hostname"), findings);
    }
    let hints = own.field("hints");
    for (field, check) in
        [("forZones", names::is_label_value as fn(&str) -> Vec<String>), ("forNodes", names::is_subdomain)]
    {
        let list = hints.field(field);
        if list.count() > 8 {
            findings.push(FieldError::too_many(&list.path, list.count(), 8));
            continue;
        }
        let mut seen = Vec::new();
        for name in list.items().map(|hint| hint.field("name")) {
            match seen.contains(&name.text()) {
                true => findings.duplicate(&name),
                false => seen.push(name.text()),
            }
            findings.problems(&name, check(name.text()));
        }
    }
}
