//! What holds for pods of one operating system only.

use super::super::place::{Find, Findings, Place};
use super::containers;
use serde_json::Value;

pub(super) fn check(spec: &Place<'_>, findings: &mut Findings) {
    let os = spec.field("os");
    if !os.is_set() {
        return;
    }
    match os.field("name").text() {
        "" => findings.required(&os.field("name"), ""),
        "linux" => linux(spec, findings),
        "windows" => windows(spec, findings),
        _ => findings.unsupported(&os.field("name").known_as(&os.path), &["linux", "windows"]),
    }
}

fn linux(spec: &Place<'_>, findings: &mut Findings) {
    let contexts = std::iter::once(spec.clone()).chain(containers::visited(spec));
    for context in contexts.map(|place| place.field("securityContext")) {
        if context.field("windowsOptions").is_set() {
            findings.forbidden(&context.field("windowsOptions"), "windows options cannot be set for a linux pod");
        }
    }
}

fn windows(spec: &Place<'_>, findings: &mut Findings) {
    const DETAIL: &str = "cannot be set for a windows pod";
    let context = spec.field("securityContext");
    let of_context = |name: &str| context.field(name);
    for place in [
        of_context("appArmorProfile"),
        of_context("seLinuxOptions"),
        spec.field("hostUsers"),
        spec.field("hostPID"),
        spec.field("hostIPC"),
        of_context("seccompProfile"),
        of_context("fsGroup"),
        of_context("fsGroupChangePolicy"),
        of_context("sysctls"),
        spec.field("shareProcessNamespace"),
        of_context("runAsUser"),
        of_context("runAsGroup"),
        of_context("supplementalGroups"),
        of_context("supplementalGroupsPolicy"),
        of_context("seLinuxChangePolicy"),
    ] {
        let plain = place.path.ends_with("hostPID") || place.path.ends_with("hostIPC");
        let set = if plain {
            place.is_true()
        } else {
            place.is_set() && !(place.path.ends_with("sysctls") && place.is_empty())
        };
        if set {
            findings.forbidden(&place, DETAIL);
        }
    }
    for context in containers::visited(spec).map(|container| container.field("securityContext")) {
        for name in [
            "appArmorProfile",
            "seLinuxOptions",
            "seccompProfile",
            "capabilities",
            "readOnlyRootFilesystem",
            "privileged",
            "allowPrivilegeEscalation",
            "procMount",
            "runAsUser",
            "runAsGroup",
        ] {
            if context.field(name).is_set() {
                findings.forbidden(&context.field(name), DETAIL);
            }
        }
    }
}

/// Containers that run as processes of a Windows host: all of a pod, or none.
pub(super) fn host_process(spec: &Place<'_>, findings: &mut Findings) {
    let of =
        |place: &Place<'_>| place.field("securityContext").field("windowsOptions").field("hostProcess").value.as_bool();
    let whole = of(spec);
    let (mut count, mut hosted) = (0, 0);
    for container in containers::visited(spec) {
        count += 1;
        let own = of(&container);
        if let (Some(whole), Some(own)) = (whole, own)
            && whole != own
        {
            let place = container.field("securityContext").field("windowsOptions").field("hostProcess");
            let detail = format!("pod hostProcess value must be identical if both are specified, was {whole}");
            findings.invalid(&place, detail);
        }
        hosted += i32::from(own.or(whole) == Some(true));
    }
    if hosted == 0 {
        return;
    }
    if hosted != count {
        let detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        findings.invalid_as(spec, "", detail);
    }
    let network = spec.field("hostNetwork");
    if !network.is_true() {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        findings.invalid_as(&network, Value::Bool(false), detail);
    }
}
