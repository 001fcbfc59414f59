//! Services: ports, addresses and who may reach them.

use schema::{FieldError, names};
use serde_json::{Value, json};

use super::place::{Find, Findings, Place};
use super::{endpoints, rules};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(crate) fn check(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let spec = object.field("spec");
    let field = |name: &str| spec.field(name);
    // Addresses are looked at before they are given out, and the rest only if they are right.
    let before = findings.len();
    addresses(&spec, findings);
    if findings.len() == before && kind_of(&spec) != "ExternalName" {
        one_family(&spec, findings);
    }
    if findings.len() > before {
        return;
    }
    if let Some(old) = old {
        changes(object, old, findings);
    }
    let kind = field("type");
    if field("ports").is_empty() && !is_headless(spec.value) && kind.text() != "ExternalName" {
        findings.required(&field("ports"), "");
    }
    by_kind(&spec, findings);
    ports(&spec, findings);
    rules::labels(&field("selector"), findings);
    affinity(&spec, findings);
    for address in field("externalIPs").items() {
        match rules::sloppy_address(address.text()) {
            None => rules::legacy_address(&address, findings),
            Some(_) => endpoints::address(&address, findings),
        }
    }
    findings.required_one_of(&kind, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    port_uses(&spec, findings);
    balancer(object, findings);
    traffic(&spec, findings);
}

fn kind_of<'v>(spec: &Place<'v>) -> &'v str {
    spec.field("type").text()
}

/// Addresses are of one family here.
fn one_family(spec: &Place<'_>, findings: &mut Findings) {
    let policy = spec.field("ipFamilyPolicy");
    if policy.text() == "RequireDualStack" {
        findings.invalid(&policy, "this cluster is not configured for dual-stack services");
    }
    for family in spec.field("ipFamilies").items().filter(|family| family.text() == "IPv6") {
        findings.invalid(&family, "not configured on this cluster");
    }
}

fn is_headless(spec: &Value) -> bool {
    spec["clusterIPs"].as_array().is_some_and(|all| all.len() == 1 && all[0] == "None")
}

fn by_kind(spec: &Place<'_>, findings: &mut Findings) {
    let kind = kind_of(spec);
    let addresses = spec.field("clusterIPs");
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(spec.value) => {
            let first = addresses.known_as(format!("{}[0]", addresses.path));
            findings.invalid_as(&first, "None", format!("may not be set to 'None' for {kind} services"));
        }
        "ExternalName" => {
            for name in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if !spec.field(name).is_empty() {
                    findings.forbidden(&spec.field(name), "may not be set for ExternalName services");
                }
            }
            let name = spec.field("externalName");
            let plain = name.text().strip_suffix('.').unwrap_or(name.text());
            if plain.is_empty() {
                findings.required(&name, "");
            }
            for problem in names::is_subdomain(plain).into_iter().filter(|_| !plain.is_empty()) {
                findings.invalid_as(&name, plain, problem);
            }
        }
        _ => {}
    }
}

fn ports(spec: &Place<'_>, findings: &mut Findings) {
    let list = spec.field("ports");
    let mut seen = Vec::new();
    for port in list.items() {
        let name = port.field("name");
        if name.is_empty() {
            if list.count() > 1 {
                findings.required(&name, "");
            }
        } else {
            rules::label(&name, findings);
            match seen.contains(&name.text()) {
                true => findings.duplicate(&name),
                false => seen.push(name.text()),
            }
        }
        rules::port_number(&port.field("port"), findings);
        findings.required_one_of(&port.field("protocol"), &PROTOCOLS);
        rules::port(&port.field("targetPort"), findings);
        let application = port.field("appProtocol");
        if application.is_set() {
            rules::qualified_name(&application, findings);
        }
    }
}

fn affinity(spec: &Place<'_>, findings: &mut Findings) {
    const DETAIL: &str = "when session affinity type is ClientIP";
    let (kind, config) = (spec.field("sessionAffinity"), spec.field("sessionAffinityConfig"));
    findings.required_one_of(&kind, &["ClientIP", "None"]);
    match kind.text() {
        "ClientIP" => {
            let client = config.field("clientIP");
            let seconds = client.field("timeoutSeconds");
            if let Some(missing) = [&config, &client, &seconds].into_iter().find(|place| !place.is_set()) {
                findings.required(missing, DETAIL);
            } else if !(1..=86400).contains(&seconds.number()) {
                findings.invalid(&seconds, "must be greater than 0 and less than 86400");
            }
        }
        "None" if config.is_set() => {
            findings.forbidden(&config, "must not be set when session affinity is None");
        }
        _ => {}
    }
}

fn addresses(spec: &Place<'_>, findings: &mut Findings) {
    if kind_of(spec) == "ExternalName" {
        return;
    }
    let (one, all, families) = (spec.field("clusterIP"), spec.field("clusterIPs"), spec.field("ipFamilies"));
    match (one.is_empty(), all.is_empty()) {
        (false, true) => findings.required(&all, ""),
        (false, false) if all.texts().next() != Some(one.text()) => {
            findings.invalid(&all, "first value must match `clusterIP`");
        }
        (true, false) => findings.invalid(&all, "must be empty when `clusterIP` is not specified"),
        _ => {}
    }
    let mut seen = Vec::new();
    for family in families.items() {
        findings.one_of(&family, &["IPv4", "IPv6"]);
        if seen.contains(&family.text()) {
            findings.duplicate(&family);
        }
        seen.push(family.text());
    }
    let policy = spec.field("ipFamilyPolicy");
    if policy.is_set() {
        findings.one_of(&policy, &["PreferDualStack", "RequireDualStack", "SingleStack"]);
    }
    let before = findings.len();
    for (at, address) in all.items().enumerate() {
        match address.text() {
            "None" if at == 0 => {
                if all.count() > 1 {
                    findings.invalid(&all, "'None' must be the first and only value");
                }
            }
            _ => rules::legacy_address(&address, findings),
        }
    }
    let wrong = findings.len() > before;
    if all.count() > 2 {
        findings.invalid(&all, "may only hold up to 2 values");
    }
    if wrong {
        return;
    }
    let parsed: Vec<bool> = all.texts().filter_map(rules::sloppy_address).map(|address| address.is_ipv6()).collect();
    if all.count() > 1 && (parsed.iter().all(|six| *six) || parsed.iter().all(|six| !six)) {
        findings.invalid(&all, "may specify no more than one IP for each IP family");
    }
    if is_headless(spec.value) {
        return;
    }
    for (at, ((address, six), family)) in all.items().zip(parsed).zip(families.texts()).enumerate() {
        if matches!((family, six), ("IPv4", true) | ("IPv6", false)) {
            findings.invalid(&address, format!("expected an {family} value as indicated by `ipFamilies[{at}]`"));
        }
    }
}

fn port_uses(spec: &Place<'_>, findings: &mut Findings) {
    let list = spec.field("ports");
    if kind_of(spec) == "ClusterIP" {
        for port in list.items().map(|port| port.field("nodePort")).filter(|port| port.number() != 0) {
            findings.forbidden(&port, "may not be used when `type` is 'ClusterIP'");
        }
    }
    // A node port that is asked for twice is found out when ports are given.
    let mut seen = Vec::new();
    for port in list.items() {
        let key = (port.field("protocol").text(), port.field("port").number());
        if seen.contains(&key) {
            let shown = json!({"Name": "", "Protocol": key.0, "AppProtocol": null, "Port": key.1, "TargetPort": 0, "NodePort": 0});
            findings.duplicate_as(&port, shown);
        }
        seen.push(key);
    }
}

fn balancer(object: &Place<'_>, findings: &mut Findings) {
    const ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
    const KEY: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let spec = object.field("spec");
    let balanced = kind_of(&spec) == "LoadBalancer";
    let ranges = spec.field("loadBalancerSourceRanges");
    let ranges = ranges.known_as(spec.child("LoadBalancerSourceRanges"));
    let annotations = object.field("metadata").field("annotations");
    if !ranges.is_empty() {
        if !balanced {
            findings.forbidden(&ranges, ONLY);
        }
        for range in ranges.items() {
            network(&range, range.text().trim(), findings);
        }
    } else if let Some(text) = annotations.value[KEY].as_str() {
        let place = annotations.known_as(format!("{}[{KEY}]", annotations.path));
        if !balanced {
            findings.forbidden(&place, ONLY);
        }
        if !text.trim().is_empty() {
            text.trim().split(',').for_each(|range| network(&place, range.trim(), findings));
        }
    }
    let allocates = spec.field("allocateLoadBalancerNodePorts");
    if allocates.is_set() && !balanced {
        findings.forbidden(&allocates, ONLY);
    }
    if balanced && !allocates.is_set() {
        findings.push(FieldError::required("allocateLoadBalancerNodePorts", ""));
    }
    let class = spec.field("loadBalancerClass");
    if class.is_set() {
        match balanced {
            true => rules::qualified_name(&class, findings),
            false => findings.forbidden(&class, ONLY),
        }
    }
}

fn network(place: &Place<'_>, text: &str, findings: &mut Findings) {
    if rules::sloppy_network(text).is_none() {
        findings.invalid_as(place, text, rules::NETWORK);
    }
}

fn is_external(spec: &Value) -> bool {
    let has = |field: &str| spec[field].as_array().is_some_and(|list| !list.is_empty());
    matches!(spec["type"].as_str(), Some("LoadBalancer" | "NodePort"))
        || (spec["type"] == "ClusterIP" && has("externalIPs"))
}

fn needs_health_check(spec: &Value) -> bool {
    spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

fn traffic(spec: &Place<'_>, findings: &mut Findings) {
    let (policy, health) = (spec.field("externalTrafficPolicy"), spec.field("healthCheckNodePort"));
    if is_external(spec.value) {
        findings.required_one_of(&policy, &["Cluster", "Local"]);
    } else if !policy.is_empty() {
        findings.invalid(&policy, "may only be set for externally-accessible services");
    }
    match (needs_health_check(spec.value), health.number()) {
        // A port that is not asked for is given afterwards.
        (true, 0) => {}
        (true, _) => rules::port_number(&health, findings),
        (false, 0) => {}
        (false, _) => {
            let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            findings.invalid(&health, detail);
        }
    }
    let inner = spec.field("internalTrafficPolicy");
    if inner.is_set() {
        findings.one_of(&inner, &["Cluster", "Local"]);
    } else if kind_of(spec) != "ExternalName" {
        findings.required(&inner, "");
    }
    let distribution = spec.field("trafficDistribution");
    if distribution.is_set() {
        findings.one_of(&distribution, &["PreferClose", "PreferSameZone", "PreferSameNode"]);
    }
}

fn changes(object: &Place<'_>, old: &Value, findings: &mut Findings) {
    let (spec, before) = (object.field("spec"), &old["spec"]);
    let external = kind_of(&spec) == "ExternalName" || before["type"] == "ExternalName";
    if !external {
        kept(&spec, before, "clusterIPs", "primary clusterIP can not be unset", findings);
        kept(&spec, before, "ipFamilies", "primary ipFamily can not be unset", findings);
    }
    let class = spec.field("loadBalancerClass");
    if kind_of(&spec) == "LoadBalancer"
        && before["type"] == "LoadBalancer"
        && *class.value != before["loadBalancerClass"]
    {
        findings.invalid(&class, "may not change once set");
    }
    let health = spec.field("healthCheckNodePort");
    if needs_health_check(spec.value)
        && needs_health_check(before)
        && health.number() != before["healthCheckNodePort"].as_i64().unwrap_or(0)
    {
        findings.forbidden(&health, rules::IMMUTABLE);
    }
}

/// The first address and family of a service stay what they are.
fn kept(spec: &Place<'_>, old: &Value, field: &str, unset: &str, findings: &mut Findings) {
    let (now, was) = (is_headless(spec.value), is_headless(old));
    if field == "ipFamilies" && (now != was || now) || now && was {
        return;
    }
    let list = spec.field(field);
    let before: Vec<&str> = old[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let after: Vec<&str> = list.texts().collect();
    let at = |at: usize| list.known_as(format!("{}[{at}]", list.path));
    if after.len() < before.len() && after.is_empty() {
        findings.invalid(&at(0), unset);
    }
    if before.len() == after.len() {
        for (place, _) in before.iter().zip(&after).enumerate().filter(|(_, (one, other))| one != other) {
            let place = if field == "ipFamilies" { 0 } else { place };
            findings.invalid(&at(place), "may not change once set");
        }
    } else if let (Some(one), Some(other)) = (before.first(), after.first())
        && one != other
    {
        findings.invalid(&at(0), "may not change once set");
    }
}
