//! What the API says of pods, and of kinds that hold a template of pods, without refusing them.
//!
//! The texts are the real server's. Pods are looked at when they are made, templates also when they change.

use std::collections::BTreeMap;

use schema::names;
use serde_json::Value;

use crate::{text, validate::items};

/// Where a kind holds a pod or a template of pods.
pub(crate) struct Holder {
    /// The fields that lead to it; none if the object is a pod.
    pub(crate) place: &'static [&'static str],
    /// What its own name is used for in pods.
    pub(crate) named: Option<&'static str>,
    pub(crate) looked_at: LookedAt,
}

/// When pods and templates are looked at, other than at creation.
#[derive(Clone, Copy)]
pub(crate) enum LookedAt {
    /// At no other time.
    Created,
    /// When the template has changed.
    Changed,
    /// When the generation has.
    Counted,
    /// As `Counted`, but the real server looks at the old template of these, and so tells of a change one change later.
    OldWhenCounted,
}

/// What is said of an object that holds a pod or a template of pods.
pub(crate) fn of_pods(holder: &Holder, old: Option<&Value>, new: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(what) = holder.named.filter(|_| old.is_none()) {
        name(what, text(&new["metadata"]["name"]), &mut warnings);
    }
    let at = |value: &Value| holder.place.iter().fold(value.clone(), |value, field| value[field].clone());
    let looked_at = match old {
        None => Some(at(new)),
        Some(old) => {
            let counted = old["metadata"]["generation"] != new["metadata"]["generation"];
            match holder.looked_at {
                LookedAt::Created => None,
                LookedAt::Changed => Some(at(new)).filter(|template| *template != at(old)),
                LookedAt::Counted => counted.then(|| at(new)),
                LookedAt::OldWhenCounted => counted.then(|| at(old)),
            }
        }
    };
    if let Some(template) = looked_at {
        let path = holder.place.iter().map(|field| format!("{field}.")).collect::<String>();
        pod(&template, &path, &mut warnings);
    }
    warnings
}

/// Names of pods become names of hosts.
fn name(what: &str, name: &str, warnings: &mut Vec<String>) {
    let problems = names::is_label(name);
    if !problems.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in {what}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            problems.join(" ")
        ));
    }
}

fn pod(pod: &Value, path: &str, warnings: &mut Vec<String>) {
    let spec = &pod["spec"];
    node_labels(spec, path, warnings);
    for (at, constraint) in items(&spec["topologySpreadConstraints"]).iter().enumerate() {
        let path = format!("{path}spec.topologySpreadConstraints[{at}]");
        let key = text(&constraint["topologyKey"]);
        if let Some(message) = deprecated_label(key) {
            warnings.push(format!("{path}.topologyKey: {key} is {message}"));
        }
        selects_nothing(constraint, &path, warnings);
    }
    annotations(pod, path, warnings);
    for (at, volume) in items(&spec["volumes"]).iter().enumerate() {
        for (field, since) in VOLUMES {
            if !volume[*field].is_null() {
                warnings.push(format!("{path}spec.volumes[{at}].{field}: {since}"));
            }
        }
    }
    twice(&spec["hostAliases"], "ip", &format!("{path}spec.hostAliases"), warnings);
    twice(&spec["imagePullSecrets"], "name", &format!("{path}spec.imagePullSecrets"), warnings);
    for (at, secret) in items(&spec["imagePullSecrets"]).iter().enumerate() {
        if text(&secret["name"]).is_empty() {
            warnings.push(format!("{path}spec.imagePullSecrets[{at}].name: invalid empty name \"\""));
        }
    }
    fractions(&spec["overhead"], &format!("{path}spec.overhead"), "memory", warnings);
    fractions(&spec["overhead"], &format!("{path}spec.overhead"), "ephemeral-storage", warnings);
    let containers = containers(spec, path);
    for (container, path) in &containers {
        for kind in ["memory", "ephemeral-storage"] {
            for field in ["limits", "requests"] {
                fractions(&container["resources"][field], &format!("{path}.resources.{field}"), kind, warnings);
            }
        }
        environment(container, path, warnings);
    }
    ports(&containers, warnings);
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        let what = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.push(format!("{path}spec.terminationGracePeriodSeconds: {what}"));
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let path = format!("{path}spec.affinity.{kind}");
        let affinity = &spec["affinity"][kind];
        for (field, inner) in [
            ("requiredDuringSchedulingIgnoredDuringExecution", None),
            ("preferredDuringSchedulingIgnoredDuringExecution", Some("podAffinityTerm")),
        ] {
            for (at, term) in items(&affinity[field]).iter().enumerate() {
                let path = format!("{path}.{field}[{at}]");
                match inner {
                    None => selects_nothing(term, &path, warnings),
                    Some(inner) => selects_nothing(&term[inner], &format!("{path}.{inner}"), warnings),
                }
            }
        }
    }
}

/// Kinds of volumes that are no more, and since when.
const VOLUMES: &[(&str, &str)] = &[
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

fn deprecated_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#,
        "beta.kubernetes.io/os" => r#"deprecated since v1.14; use "kubernetes.io/os" instead"#,
        "failure-domain.beta.kubernetes.io/region" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#
        }
        "beta.kubernetes.io/instance-type" => {
            r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => "deprecated since v1.22; use Taints and Tolerations instead",
        "node-role.kubernetes.io/master" => r#"use "node-role.kubernetes.io/control-plane" instead"#,
        _ => return None,
    })
}

/// Labels of nodes that have newer names, in selectors and affinity.
fn node_labels(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    for key in spec["nodeSelector"].as_object().into_iter().flat_map(|map| map.keys()) {
        if let Some(message) = deprecated_label(key) {
            warnings.push(format!("{path}spec.nodeSelector[{key}]: {message}"));
        }
    }
    let affinity = &spec["affinity"]["nodeAffinity"];
    let path = format!("{path}spec.affinity.nodeAffinity");
    let (required, preferred) =
        ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution");
    let mut terms: Vec<(&Value, String)> = Vec::new();
    for (at, term) in items(&affinity[required]["nodeSelectorTerms"]).iter().enumerate() {
        terms.push((term, format!("{path}.{required}.nodeSelectorTerms[{at}]")));
    }
    for (at, term) in items(&affinity[preferred]).iter().enumerate() {
        terms.push((&term["preference"], format!("{path}.{preferred}[{at}].preference")));
    }
    for (term, path) in terms {
        for (at, expression) in items(&term["matchExpressions"]).iter().enumerate() {
            let key = text(&expression["key"]);
            if let Some(message) = deprecated_label(key) {
                warnings.push(format!("{path}.matchExpressions[{at}].key: {key} is {message}"));
            }
        }
    }
}

/// Annotations that fields have taken the place of.
fn annotations(pod: &Value, path: &str, warnings: &mut Vec<String>) {
    let annotations = &pod["metadata"]["annotations"];
    let mut say = |key: &str, what: &str| {
        if !annotations[key].is_null() {
            warnings.push(format!("{path}metadata.annotations[{key}]: {what}"));
        }
    };
    say(
        "scheduler.alpha.kubernetes.io/critical-pod",
        r#"non-functional in v1.16+; use the "priorityClassName" field instead"#,
    );
    for key in ["security.alpha.kubernetes.io/sysctls", "security.alpha.kubernetes.io/unsafe-sysctls"] {
        say(key, r#"non-functional in v1.11+; use the "sysctls" field instead"#);
    }
    const SECCOMP: &str = r#"non-functional in v1.27+; use the "seccompProfile" field instead"#;
    if pod["spec"]["securityContext"]["seccompProfile"].is_null() {
        say("seccomp.security.alpha.kubernetes.io/pod", SECCOMP);
    }
    for (container, _) in containers(&pod["spec"], path) {
        if container["securityContext"]["seccompProfile"].is_null() {
            let key = format!("container.seccomp.security.alpha.kubernetes.io/{}", text(&container["name"]));
            say(&key, SECCOMP);
        }
    }
}

/// All containers with their places, in the order in which they are looked at.
fn containers<'a>(spec: &'a Value, path: &str) -> Vec<(&'a Value, String)> {
    let of = |field: &'static str| {
        items(&spec[field])
            .iter()
            .enumerate()
            .map(move |(at, container)| (container, format!("{path}spec.{field}[{at}]")))
    };
    of("initContainers").chain(of("containers")).chain(of("ephemeralContainers")).collect()
}

fn selects_nothing(term: &Value, path: &str, warnings: &mut Vec<String>) {
    if term["labelSelector"].is_null() {
        warnings.push(format!("{path}.labelSelector: a null labelSelector results in matching no pod"));
    }
}

fn twice(list: &Value, field: &str, path: &str, warnings: &mut Vec<String>) {
    let list = items(list);
    for (at, item) in list.iter().enumerate() {
        let own = text(&item[field]);
        if list[..at].iter().any(|other| text(&other[field]) == own) {
            warnings.push(format!("{path}[{at}].{field}: duplicate {field} {own:?}"));
        }
    }
}

/// Amounts of bytes that are no whole number of them.
pub(crate) fn fractions(resources: &Value, path: &str, kind: &str, warnings: &mut Vec<String>) {
    let Ok(amount) = schema::quantity(text(&resources[kind])) else { return };
    if amount.ends_with(['m', 'u', 'n']) {
        warnings.push(format!("{path}[{kind}]: fractional byte value {amount:?} is invalid, must be an integer"));
    }
}

/// A variable may build on an earlier one of its name; otherwise it hides it.
fn environment(container: &Value, path: &str, warnings: &mut Vec<String>) {
    let variables = items(&container["env"]);
    for (at, variable) in variables.iter().enumerate() {
        let name = text(&variable["name"]);
        if !variables[..at].iter().any(|other| text(&other["name"]) == name) {
            continue;
        }
        let (reference, value) = (format!("$({name})"), text(&variable["value"]));
        if !variable["valueFrom"].is_null() || value == reference || !value.contains(&reference) {
            let what = format!("hides previous definition of {name:?}, which may be dropped when using apply");
            warnings.push(format!("{path}.env[{at}]: {what}"));
        }
    }
}

fn ports(containers: &[(&Value, String)], warnings: &mut Vec<String>) {
    let all = || {
        containers.iter().flat_map(|(container, path)| {
            items(&container["ports"]).iter().enumerate().map(move |(at, port)| (port, format!("{path}.ports[{at}]")))
        })
    };
    let host = |port: &Value| (text(&port["hostIP"]).to_owned(), port["hostPort"].as_i64().unwrap_or(0));
    let mut known: BTreeMap<(i64, String), Vec<(&Value, String)>> = BTreeMap::new();
    for (port, path) in all() {
        let (address, number) = host(port);
        let (own, protocol) = (port["containerPort"].as_i64().unwrap_or(0), text(&port["protocol"]));
        if !address.is_empty() && number == 0 {
            let shown = format!(
                "{{Name:{} HostPort:0 ContainerPort:{own} Protocol:{protocol} HostIP:{address}}}",
                text(&port["name"])
            );
            warnings.push(format!("{path}: hostIP set without hostPort: {shown}"));
        }
        let others = known.entry((own, protocol.to_owned())).or_default();
        for (other, place) in others.iter() {
            let (other_address, other_number) = host(other);
            let how = if (&address, number) == (&other_address, other_number) {
                "duplicate"
            } else if number == 0 || other_number == 0 {
                "overlapping"
            } else if number == other_number && address.is_empty() != other_address.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            warnings.push(format!("{path}: {how} port definition with {place}"));
        }
        others.push((port, path));
    }
    let mut named: BTreeMap<&str, String> = BTreeMap::new();
    for (port, path) in all() {
        let name = text(&port["name"]);
        if name.is_empty() {
            continue;
        }
        match named.get(name) {
            None => drop(named.insert(name, path)),
            Some(other) => warnings.push(format!(
                "{path}: duplicate port name {name:?} with {other}, services and probes that select ports by name will use {other}"
            )),
        }
    }
}
