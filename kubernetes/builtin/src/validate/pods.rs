//! Pods and the templates that pods are made from.

mod annotations;
mod changes;
mod containers;
mod env;
mod mounts;
mod placement;
mod probes;
mod resources;
mod security;
mod systems;
mod volumes;

use schema::names;
use serde_json::Value;

use super::place::{Find, Findings, Place};
use super::rules;

pub(crate) use changes::update;
pub(crate) use containers::ephemeral_changes;
pub(crate) use placement::{node_selector, tolerations};
pub(crate) use resources::{
    amount_of, compare, container_resource, is_extended, may_overcommit, quantity, resource_name, shown,
};

/// Whose pod it is: some rules wait until there is a pod.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'v> {
    /// The metadata of the pod; a template has none.
    pub(super) metadata: Option<&'v Value>,
}

impl Owner<'_> {
    pub(super) const TEMPLATE: Self = Owner { metadata: None };

    fn is_pod(self) -> bool {
        self.metadata.is_some()
    }

    fn name(&self) -> &str {
        self.metadata.and_then(|metadata| metadata["name"].as_str()).unwrap_or_default()
    }
}

pub(crate) fn create(pod: &Place<'_>, findings: &mut Findings) {
    metadata_and_spec(pod, findings);
    let spec = pod.field("spec");
    let ephemeral = spec.field("ephemeralContainers");
    if !ephemeral.is_empty() {
        findings.forbidden(&ephemeral, "cannot be set on create");
    }
    if !spec.field("nodeName").is_empty() && !spec.field("schedulingGates").is_empty() {
        findings.forbidden(&spec.field("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
    annotations::match_fields(&pod.field("metadata").field("annotations"), &spec, findings);
}

/// What holds for a pod whenever it is written.
pub(crate) fn metadata_and_spec(pod: &Place<'_>, findings: &mut Findings) {
    let (metadata, spec) = (pod.field("metadata"), pod.field("spec"));
    annotations::check(&metadata.field("annotations"), &spec, findings);
    self::spec(&spec, Owner { metadata: Some(metadata.value) }, findings);
    if spec.field("serviceAccountName").is_empty() {
        for volume in spec.field("volumes").items() {
            for source in volume.field("projected").field("sources").items() {
                let token = source.field("serviceAccountToken");
                if token.is_set() {
                    findings.forbidden(&token, "must not be specified when serviceAccountName is not set");
                }
            }
        }
    }
    for field in ["containers", "initContainers"] {
        for container in spec.field(field).items() {
            trimmed_image(&container, findings);
        }
    }
}

fn trimmed_image(container: &Place<'_>, findings: &mut Findings) {
    let image = container.field("image");
    if image.text().trim() != image.text() {
        findings.invalid(&image, "must not have leading or trailing whitespace");
    }
}

/// The template of a workload.
pub(crate) fn template(template: &Place<'_>, findings: &mut Findings) {
    let metadata = template.field("metadata");
    // The real server leaves `metadata` out of these paths.
    rules::labels(&metadata.field("labels").known_as(template.child("labels")), findings);
    let annotations = metadata.field("annotations").known_as(template.child("annotations"));
    rules::annotations(&annotations, findings);
    let spec = template.field("spec");
    annotations::check(&annotations, &spec, findings);
    self::spec(&spec, Owner::TEMPLATE, findings);
    annotations::match_fields(&annotations, &spec, findings);
    let ephemeral = spec.field("ephemeralContainers");
    if !ephemeral.is_empty() {
        findings.forbidden(&ephemeral, "ephemeral containers not allowed in pod template");
    }
}

fn spec(spec: &Place<'_>, owner: Owner<'_>, findings: &mut Findings) {
    let field = |name: &str| spec.field(name);
    if !field("terminationGracePeriodSeconds").is_set() {
        findings.required(&field("terminationGracePeriodSeconds"), "");
    }
    let volumes = volumes::all(&field("volumes"), owner, findings);
    resources::claims(&field("resourceClaims"), owner, findings);
    containers::all(spec, &volumes, findings);
    resources::of_pod(spec, findings);
    host_network(spec, owner, findings);
    findings.required_one_of(&field("restartPolicy"), &["Always", "OnFailure", "Never"]);
    findings.required_one_of(&field("dnsPolicy"), &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    rules::labels(&field("nodeSelector"), findings);
    security::of_pod(spec, findings);
    placement::affinity(&field("affinity"), findings);
    dns(spec, findings);
    for gate in field("readinessGates").items() {
        rules::qualified_name(&gate.field("conditionType"), findings);
    }
    scheduling_gates(&field("schedulingGates"), findings);
    placement::topology_spread(&field("topologySpreadConstraints"), findings);
    systems::host_process(spec, findings);
    host_users(spec, findings);
    host_name_override(spec, findings);
    names_of(spec, findings);
    tolerations(&field("tolerations"), findings);
    for alias in field("hostAliases").items() {
        rules::legacy_address(&alias.field("ip"), findings);
        for name in alias.field("hostnames").items() {
            rules::subdomain(&name, findings);
        }
    }
    if !field("priorityClassName").is_empty() {
        rules::subdomain(&field("priorityClassName"), findings);
    }
    if field("runtimeClassName").is_set() {
        rules::subdomain(&field("runtimeClassName"), findings);
    }
    if field("preemptionPolicy").is_set() {
        findings.required_one_of(&field("preemptionPolicy"), &["PreemptLowerPriority", "Never"]);
    }
    resources::overhead(&field("overhead"), findings);
    systems::check(spec, findings);
    if field("schedulingGroup").is_set() {
        let name = field("schedulingGroup").field("podGroupName");
        match name.is_set() {
            true => rules::subdomain(&name, findings),
            false => findings.invalid(&name, "must specify one of: `podGroupName`"),
        }
    }
    env::files(spec, findings);
}

/// Names in a spec that may be absent.
fn names_of(spec: &Place<'_>, findings: &mut Findings) {
    for name in ["serviceAccountName", "nodeName"].map(|name| spec.field(name)) {
        if !name.is_empty() {
            rules::subdomain(&name, findings);
        }
    }
    let deadline = spec.field("activeDeadlineSeconds");
    if deadline.is_set() {
        rules::in_range(&deadline, 1..=i64::from(i32::MAX), findings);
    }
    for name in ["hostname", "subdomain"].map(|name| spec.field(name)) {
        if !name.is_empty() {
            rules::label(&name, findings);
        }
    }
}

fn host_network(spec: &Place<'_>, owner: Owner<'_>, findings: &mut Findings) {
    if !spec.field("hostNetwork").is_true() {
        return;
    }
    for container in spec.field("containers").items() {
        for port in container.field("ports").items() {
            let (host, own) = (port.field("hostPort"), port.field("containerPort"));
            if (owner.is_pod() || host.number() != 0) && host.number() != own.number() {
                findings.invalid_as(&host, host.number(), "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}

fn dns(spec: &Place<'_>, findings: &mut Findings) {
    const SERVERS: usize = 3;
    const SEARCHES: usize = 32;
    const LETTERS: usize = 2048;
    let config = spec.field("dnsConfig");
    let servers = config.field("nameservers");
    if spec.field("dnsPolicy").text() == "None" {
        if !config.is_set() {
            return findings.required(&config, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if servers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return findings.required(&servers, detail);
        }
    }
    if servers.count() > SERVERS {
        findings.invalid(&servers, format!("must not have more than {SERVERS} nameservers"));
    }
    for server in servers.items() {
        rules::legacy_address(&server, findings);
    }
    let searches = config.field("searches");
    if searches.count() > SEARCHES {
        findings.invalid(&searches, format!("must not have more than {SEARCHES} search paths"));
    }
    let length = searches.texts().map(|search| search.len() + 1).sum::<usize>().saturating_sub(1);
    if length > LETTERS {
        let detail = format!("must not have more than {LETTERS} characters (including spaces) in the search list");
        findings.invalid(&searches, detail);
    }
    for search in searches.items() {
        let text = search.text();
        if text != "." {
            let text = text.strip_suffix('.').unwrap_or(text);
            for problem in subdomain_with_underscores(text) {
                findings.invalid_as(&search, text, problem);
            }
        }
    }
    for option in config.field("options").items() {
        if option.field("name").is_empty() {
            findings.required(&option, "must not be empty");
        }
    }
}

/// What is wrong with a DNS subdomain that may have underscores.
fn subdomain_with_underscores(text: &str) -> Vec<String> {
    const RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push("must be no more than 253 characters".to_owned());
    }
    let is_edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_part = |part: &str| {
        let part = part.strip_prefix('_').unwrap_or(part).as_bytes();
        let known = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(byte);
        is_edge(part.first()) && is_edge(part.last()) && part.iter().all(known)
    };
    if !text.split('.').all(is_part) {
        problems.push(RULE.to_owned());
    }
    problems
}

fn scheduling_gates(gates: &Place<'_>, findings: &mut Findings) {
    let mut seen = Vec::new();
    for gate in gates.items() {
        let name = gate.field("name").known_as(&gate.path);
        rules::qualified_name(&name, findings);
        if seen.contains(&name.text()) {
            findings.duplicate_as(&gate, name.text());
        }
        seen.push(name.text());
    }
}

fn host_users(spec: &Place<'_>, findings: &mut Findings) {
    if *spec.field("hostUsers").value != Value::Bool(false) {
        return;
    }
    const DETAIL: &str = "when `hostUsers` is false";
    for (field, told) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.field(field).is_true() {
            findings.forbidden(&spec.field(told), DETAIL);
        }
    }
    for container in containers::visited(spec) {
        let devices = container.field("volumeDevices");
        if !devices.is_empty() {
            findings.forbidden(&devices, DETAIL);
        }
    }
}

fn host_name_override(spec: &Place<'_>, findings: &mut Findings) {
    let name = spec.field("hostnameOverride");
    if !name.is_set() {
        return;
    }
    if spec.field("setHostnameAsFQDN").is_true() {
        return findings.forbidden(&name, "may not be specified when setHostnameAsFQDN is true");
    }
    if spec.field("hostNetwork").is_true() {
        return findings.forbidden(&name, "may not be specified when hostNetwork is true");
    }
    if name.text().len() > 64 {
        findings.too_long(&name, 64);
    }
    findings.problems(&name, names::is_subdomain(name.text()));
}
