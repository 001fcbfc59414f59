//! The containers of a pod: those that run, those that run before them, and those for debugging.

use serde_json::Value;

use super::super::place::{Find, Findings, Place};
use super::super::rules;
use super::volumes::Volumes;
use super::{env, mounts, probes, resources, security};

/// Every container, in the order the real server goes through them.
pub(super) fn visited<'v>(spec: &Place<'v>) -> impl Iterator<Item = Place<'v>> {
    ["initContainers", "containers", "ephemeralContainers"].map(|field| spec.field(field)).into_iter().flat_map(
        |list| {
            let items: Vec<_> = list.items().collect();
            items
        },
    )
}

pub(super) fn all(spec: &Place<'_>, volumes: &Volumes, findings: &mut Findings) {
    running(spec, volumes, findings);
    initial(spec, volumes, findings);
    ephemeral(spec, volumes, findings);
}

fn running(spec: &Place<'_>, volumes: &Volumes, findings: &mut Findings) {
    let list = spec.field("containers");
    if list.is_empty() {
        return findings.required(&list, "");
    }
    let mut seen = Vec::new();
    for container in list.items() {
        any(&container, spec, volumes, findings);
        let name = container.field("name");
        if seen.contains(&name.text()) {
            findings.duplicate_as(&name, name.text());
        }
        seen.push(name.text());
        probes::lifecycle(&container, spec, findings);
        probes::all(&container, findings);
        restart_policy(&container, findings);
    }
    host_ports(list.items(), findings);
}

fn initial(spec: &Place<'_>, volumes: &Volumes, findings: &mut Findings) {
    let mut seen: Vec<&str> =
        spec.field("containers").items().map(|container| container.field("name").text()).collect();
    let list = spec.field("initContainers");
    for container in list.items() {
        any(&container, spec, volumes, findings);
        if !container.field("restartPolicy").is_set() && !container.field("restartPolicyRules").is_empty() {
            let detail = "must specify restartPolicy when restart rules are used";
            findings.required(&container.field("restartPolicy"), detail);
        } else {
            initial_restart_policy(&container, findings);
        }
        let name = container.field("name");
        if seen.contains(&name.text()) {
            findings.duplicate_as(&name, name.text());
        } else if !name.is_empty() {
            seen.push(name.text());
        }
        // The real server looks at one container at a time, and calls each the first.
        host_ports(std::iter::once(container.known_as(format!("{}[0]", list.path))), findings);
        let stays = container.field("restartPolicy").text() == "Always";
        if stays {
            probes::lifecycle(&container, spec, findings);
            probes::all(&container, findings);
        } else {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if container.field(field).is_set() {
                    let detail = "may not be set for init containers without restartPolicy=Always";
                    findings.forbidden(&container.field(field), detail);
                }
            }
            for policy in container.field("resizePolicy").items() {
                if policy.field("restartPolicy").text() == "RestartContainer" {
                    let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                    findings.invalid(&policy.field("restartPolicy"), detail);
                }
            }
        }
    }
}

/// Containers for debugging, which are only ever added to a pod that is there.
fn ephemeral(spec: &Place<'_>, volumes: &Volumes, findings: &mut Findings) {
    const DETAIL: &str = "cannot be set for an Ephemeral Container";
    let name = |container: Place<'_>| container.field("name").text().to_owned();
    let others: Vec<String> = ["containers", "initContainers"]
        .iter()
        .flat_map(|field| spec.field(field).items().collect::<Vec<_>>())
        .map(name)
        .collect();
    let mut seen = others.clone();
    for container in spec.field("ephemeralContainers").items() {
        any(&container, spec, volumes, findings);
        super::trimmed_image(&container, findings);
        let own = container.field("name");
        if seen.iter().any(|name| name == own.text()) {
            findings.duplicate_as(&own, own.text());
        } else {
            seen.push(own.text().to_owned());
        }
        let target = container.field("targetContainerName");
        if !target.is_empty() && !others.iter().any(|name| name == target.text()) {
            findings.not_found(&target);
        }
        for field in [
            "ports",
            "resources",
            "resizePolicy",
            "restartPolicy",
            "restartPolicyRules",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
            "lifecycle",
        ] {
            if !container.field(field).is_empty() {
                findings.forbidden(&container.field(field), DETAIL);
            }
        }
        for mount in container.field("volumeMounts").items() {
            for field in ["subPath", "subPathExpr"] {
                if !mount.field(field).is_empty() {
                    findings.forbidden(&mount.field(field), DETAIL);
                }
            }
        }
    }
}

/// Containers for debugging stay as they are once they were added.
pub(crate) fn ephemeral_changes(new: &Place<'_>, old: &Value, findings: &mut Findings) {
    let list = new.field("spec").field("ephemeralContainers");
    for before in old["spec"]["ephemeralContainers"].as_array().into_iter().flatten() {
        let after = list.items().find(|after| after.value["name"] == before["name"]);
        let what = match after {
            Some(after) if after.value == before => continue,
            Some(_) => "changed",
            None => "removed",
        };
        let name = before["name"].as_str().unwrap_or_default();
        findings.forbidden(&list, format!("existing ephemeral containers {name:?} may not be {what}\n"));
    }
}

/// What holds for any container.
fn any(container: &Place<'_>, spec: &Place<'_>, volumes: &Volumes, findings: &mut Findings) {
    let field = |name: &str| container.field(name);
    match field("name").is_empty() {
        true => findings.required(&field("name"), ""),
        false => rules::label(&field("name"), findings),
    }
    if field("image").is_empty() {
        findings.required(&field("image"), "");
    }
    findings.required_one_of(&field("terminationMessagePolicy"), &["File", "FallbackToLogsOnError"]);
    ports(&field("ports"), findings);
    env::variables(&field("env"), findings);
    env::sources(&field("envFrom"), findings);
    mounts::mounts(container, volumes, findings);
    mounts::devices(container, volumes, findings);
    findings.required_one_of(&field("imagePullPolicy"), &["Always", "IfNotPresent", "Never"]);
    resources::of_container(&field("resources"), spec, findings);
    resources::resize_policy(&field("resizePolicy"), spec, findings);
    security::of_container(&field("securityContext"), spec, findings);
}

fn ports(ports: &Place<'_>, findings: &mut Findings) {
    let mut seen = Vec::new();
    for port in ports.items() {
        let name = port.field("name");
        if !name.is_empty() {
            let problems = rules::port_name(name.text());
            if !problems.is_empty() {
                findings.problems(&name, problems);
            } else if seen.contains(&name.text()) {
                findings.duplicate(&name);
            } else {
                seen.push(name.text());
            }
        }
        match port.field("containerPort").number() {
            0 => findings.required(&port.field("containerPort"), ""),
            _ => rules::port_number(&port.field("containerPort"), findings),
        }
        if port.field("hostPort").number() != 0 {
            rules::port_number(&port.field("hostPort"), findings);
        }
        findings.required_one_of(&port.field("protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

fn host_ports<'v>(containers: impl Iterator<Item = Place<'v>>, findings: &mut Findings) {
    let mut seen = Vec::new();
    for port in containers.flat_map(|container| container.field("ports").items().collect::<Vec<_>>()) {
        let host = port.field("hostPort");
        if host.number() == 0 {
            continue;
        }
        let text = format!("{}/{}/{}", port.field("protocol").text(), port.field("hostIP").text(), host.number());
        match seen.contains(&text) {
            true => findings.duplicate_as(&host, text),
            false => seen.push(text),
        }
    }
}

fn initial_restart_policy(container: &Place<'_>, findings: &mut Findings) {
    let (policy, rules) = (container.field("restartPolicy"), container.field("restartPolicyRules"));
    if !policy.is_set() {
        return;
    }
    match policy.text() {
        "Always" if !rules.is_empty() => {
            findings
                .forbidden(&rules, "restartPolicyRules are not allowed for init containers with restart policy Always");
        }
        "Always" => {}
        _ => restart_policy(container, findings),
    }
}

fn restart_policy(container: &Place<'_>, findings: &mut Findings) {
    const MOST_RULES: usize = 20;
    const MOST_CODES: usize = 255;
    let (policy, rules) = (container.field("restartPolicy"), container.field("restartPolicyRules"));
    match policy.is_set() {
        true => findings.one_of(&policy, &["Always", "Never", "OnFailure"]),
        false if rules.is_empty() => return,
        false => findings.required(&policy, "must specify restartPolicy when restart rules are used"),
    }
    if rules.count() > MOST_RULES {
        findings.push(schema::FieldError::too_many(&rules.path, rules.count(), MOST_RULES as u64));
    }
    for rule in rules.items() {
        findings.one_of(&rule.field("action"), &["Restart"]);
        let codes = rule.field("exitCodes");
        if !codes.is_set() {
            findings.required(&codes, "must be specified");
            continue;
        }
        findings.one_of(&codes.field("operator"), &["In", "NotIn"]);
        let values = codes.field("values");
        if values.count() > MOST_CODES {
            findings.push(schema::FieldError::too_many(&values.path, values.count(), MOST_CODES as u64));
        }
    }
}
