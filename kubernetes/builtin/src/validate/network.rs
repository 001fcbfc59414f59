//! Ingresses and network policies.

use schema::{FieldError, names};
use serde_json::Value;

use super::place::{Find, Findings, Place};
use super::rules;

pub(crate) fn policy(object: &Place<'_>, findings: &mut Findings) {
    let spec = object.field("spec");
    rules::label_selector(&spec.field("podSelector"), findings);
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.field(rules).items() {
            for port in rule.field("ports").items() {
                policy_port(&port, findings);
            }
            for own in rule.field(peers).items() {
                peer(&own, findings);
            }
        }
    }
    let types = spec.field("policyTypes");
    if types.count() > 2 {
        findings.invalid(&types, "may not specify more than two policyTypes");
        return;
    }
    for own in types.items() {
        findings.one_of(&own, &["Ingress", "Egress"]);
    }
}

fn policy_port(place: &Place<'_>, findings: &mut Findings) {
    let (protocol, port, end) = (place.field("protocol"), place.field("port"), place.field("endPort"));
    if protocol.is_set() {
        findings.one_of(&protocol, &["TCP", "UDP", "SCTP"]);
    }
    match port.value {
        Value::Null => {
            if end.is_set() {
                findings.invalid(&end, "may not be specified when `port` is not specified");
            }
        }
        Value::String(_) => {
            if end.is_set() {
                findings.invalid(&end, "may not be specified when `port` is non-numeric");
            }
            rules::port(&port, findings);
        }
        _ => {
            rules::port(&port, findings);
            if end.is_set() {
                if end.number() < port.number() {
                    findings.invalid_as(&end, port.number(), "must be greater than or equal to `port`");
                }
                rules::port_number(&end, findings);
            }
        }
    }
}

fn peer(place: &Place<'_>, findings: &mut Findings) {
    let mut count = 0;
    for selector in ["podSelector", "namespaceSelector"].map(|name| place.field(name)) {
        if selector.is_set() {
            count += 1;
            rules::label_selector(&selector, findings);
        }
    }
    let block = place.field("ipBlock");
    if block.is_set() {
        count += 1;
        ip_block(&block, findings);
    }
    if count == 0 {
        findings.required(place, "must specify a peer");
    } else if count > 1 && block.is_set() {
        findings.forbidden(place, "may not specify both ipBlock and another peer");
    }
}

fn ip_block(block: &Place<'_>, findings: &mut Findings) {
    let range = block.field("cidr");
    if range.is_empty() {
        return findings.required(&range, "");
    }
    rules::legacy_network(&range, findings);
    let Some(whole) = rules::sloppy_network(range.text()) else { return };
    for except in block.field("except").items() {
        rules::legacy_network(&except, findings);
        let Some(part) = rules::sloppy_network(except.text()) else { continue };
        if whole.1 >= part.1 || !rules::contains(whole, part.0) {
            let detail = format!("must be a strict subset of `{}`", range.path.rsplit('.').next().unwrap_or_default());
            findings.invalid(&except, detail);
        }
    }
}

pub(crate) fn ingress(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let spec = object.field("spec");
    let (own, backend) = (spec.field("rules"), spec.field("defaultBackend"));
    if own.is_empty() && !backend.is_set() {
        findings.invalid_as(&spec, Value::Null, "either `defaultBackend` or `rules` must be specified");
    }
    if backend.is_set() {
        self::backend(&backend, findings);
    }
    for rule in own.items() {
        ingress_rule(&rule, findings);
    }
    for tls in spec.field("tls").items() {
        for name in tls.field("hosts").items() {
            host(&name, findings);
        }
        let secret = tls.field("secretName");
        if !secret.is_empty() {
            rules::subdomain(&secret, findings);
        }
    }
    let class = spec.field("ingressClassName");
    if class.is_set() {
        rules::subdomain(&class, findings);
    }
    let annotation = object.value["metadata"]["annotations"]["kubernetes.io/ingress.class"].as_str();
    if let Some(annotation) = annotation.filter(|own| old.is_none() && class.is_set() && *own != class.text()) {
        let detail = "must match `ingressClassName` when both are specified";
        findings.push(FieldError::invalid("annotations.kubernetes.io/ingress.class", annotation, detail));
    }
}

fn host(place: &Place<'_>, findings: &mut Findings) {
    const RULE: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    if !place.text().contains('*') {
        return rules::subdomain(place, findings);
    }
    if place.text().len() > 253 {
        findings.invalid(place, "must be no more than 253 characters");
    }
    let rest = place.text().strip_prefix("*.").unwrap_or_default();
    if names::is_subdomain(rest).iter().any(|problem| !problem.contains("no more than")) {
        findings.invalid(place, RULE);
    }
}

fn ingress_rule(rule: &Place<'_>, findings: &mut Findings) {
    let name = rule.field("host");
    if !name.is_empty() {
        if rules::sloppy_address(name.text()).is_some() {
            findings.invalid(&name, "must be a DNS name, not an IP address");
        }
        host(&name, findings);
    }
    let http = rule.field("http");
    if !http.is_set() {
        return;
    }
    if http.field("paths").is_empty() {
        findings.required(&http.field("paths"), "");
    }
    for path in http.field("paths").items() {
        ingress_path(&path, findings);
    }
}

fn ingress_path(place: &Place<'_>, findings: &mut Findings) {
    let (kind, path) = (place.field("pathType"), place.field("path"));
    if !kind.is_set() {
        return findings.required(&kind, "pathType must be specified");
    }
    let absolute = path.text().starts_with('/');
    match kind.text() {
        "Exact" | "Prefix" => {
            if !absolute {
                findings.invalid_as(&path, path.text(), "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|part| path.text().contains(part)) {
                findings.invalid(&path, format!("must not contain '{part}'"));
            }
            for end in ["/..", "/."].into_iter().filter(|end| path.text().ends_with(end)) {
                findings.invalid(&path, format!("cannot end with '{end}'"));
            }
        }
        "ImplementationSpecific" => {
            if !path.is_empty() && !absolute {
                findings.invalid(&path, "must be an absolute path");
            }
        }
        _ => findings.unsupported(&kind, &["Exact", "ImplementationSpecific", "Prefix"]),
    }
    backend(&place.field("backend"), findings);
}

fn backend(place: &Place<'_>, findings: &mut Findings) {
    let (resource, service) = (place.field("resource"), place.field("service"));
    match (resource.is_set(), service.is_set()) {
        (true, true) => findings.invalid_as(place, "", "cannot set both resource and service backends"),
        (true, false) => reference(&resource, findings),
        (false, true) => {
            let (name, port) = (service.field("name"), service.field("port"));
            match name.is_empty() {
                true => findings.required(&name, ""),
                false => rules::label(&name, findings),
            }
            let (named, numbered) = (port.field("name"), port.field("number"));
            match (!named.is_empty(), numbered.number() != 0) {
                (true, true) => findings.invalid_as(place, "", "cannot set both port name & port number"),
                (true, false) => findings.problems(&named, rules::port_name(named.text())),
                (false, true) => rules::port_number(&numbered, findings),
                (false, false) => findings.required(place, "port name or number is required"),
            }
        }
        (false, false) => findings.invalid_as(place, "", "resource or service backend is required"),
    }
}

fn reference(place: &Place<'_>, findings: &mut Findings) {
    let group = place.field("apiGroup");
    if group.is_set() {
        rules::subdomain(&group, findings);
    }
    for field in ["kind", "name"].map(|name| place.field(name)) {
        match field.is_empty() {
            true => findings.required(&field, ""),
            false => findings.problems(&field, names::is_path_segment(field.text(), false)),
        }
    }
}
