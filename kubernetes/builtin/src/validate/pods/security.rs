//! As whom containers run and what they may do.

use super::super::place::{Find, Findings, Place};
use super::super::rules;
use serde_json::{Value, json};

pub(super) fn of_pod(spec: &Place<'_>, findings: &mut Findings) {
    let context = spec.field("securityContext");
    let field = |name: &str| context.field(name);
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        rules::id(&field(name), findings);
    }
    for group in field("supplementalGroups").items() {
        rules::id(&group, findings);
    }
    let shared = spec.field("shareProcessNamespace");
    if shared.is_true() && spec.field("hostPID").is_true() {
        let place = shared.known_as(context.child("shareProcessNamespace"));
        findings.invalid(&place, "ShareProcessNamespace and HostPID cannot both be enabled");
    }
    sysctls(&field("sysctls"), spec, findings);
    if field("fsGroupChangePolicy").is_set() {
        findings.one_of(&field("fsGroupChangePolicy"), &["Always", "OnRootMismatch"]);
    }
    seccomp(&field("seccompProfile"), findings);
    windows(&field("windowsOptions"), findings);
    app_armor(&field("appArmorProfile"), findings);
    if field("supplementalGroupsPolicy").is_set() {
        findings.one_of(&field("supplementalGroupsPolicy"), &["Merge", "Strict"]);
    }
    if field("seLinuxChangePolicy").is_set() {
        findings.one_of(&field("seLinuxChangePolicy"), &["Recursive"]);
    }
}

fn sysctls(list: &Place<'_>, spec: &Place<'_>, findings: &mut Findings) {
    const RULE: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
    let mut seen = Vec::new();
    for name in list.items().map(|item| item.field("name")) {
        let text = name.text();
        if name.is_empty() {
            findings.required(&name, "");
        } else if !is_sysctl(text) {
            findings.invalid(&name, RULE);
        } else if seen.contains(&text) {
            findings.duplicate(&name);
        }
        let plain = text.replace('/', ".");
        let net = plain.starts_with("net.");
        let ipc =
            ["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."].iter().any(|prefix| plain.starts_with(prefix));
        if net && spec.field("hostNetwork").is_true() {
            findings.invalid_as(&name, text, "may not be specified when 'hostNetwork' is true");
        } else if ipc && spec.field("hostIPC").is_true() {
            findings.invalid_as(&name, text, "may not be specified when 'hostIPC' is true");
        }
        seen.push(text);
    }
}

fn is_sysctl(name: &str) -> bool {
    let is_edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_part = |part: &str| {
        let part = part.as_bytes();
        let known = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(byte);
        is_edge(part.first()) && is_edge(part.last()) && part.iter().all(known)
    };
    name.len() <= 253 && name.split(['.', '/']).all(is_part)
}

fn seccomp(profile: &Place<'_>, findings: &mut Findings) {
    if !profile.is_set() {
        return;
    }
    let (kind, local) = (profile.field("type"), profile.field("localhostProfile"));
    match kind.text() {
        "" => findings.required(&kind, "type is required when seccompProfile is set"),
        _ => findings.one_of(&kind, &["Localhost", "RuntimeDefault", "Unconfined"]),
    }
    if kind.text() == "Localhost" {
        match local.is_set() {
            true => rules::descending_path(&local, findings),
            false => findings.required(&local, "must be set when seccomp type is Localhost"),
        }
    } else if local.is_set() {
        let shown = json!({"Type": kind.text(), "LocalhostProfile": local.value});
        findings.invalid_as(&local, shown, "can only be set when seccomp type is Localhost");
    }
}

fn app_armor(profile: &Place<'_>, findings: &mut Findings) {
    const MISSING: &str = "must be set when AppArmor type is Localhost";
    if !profile.is_set() {
        return;
    }
    let (kind, local) = (profile.field("type"), profile.field("localhostProfile"));
    match kind.text() {
        "Localhost" if !local.is_set() => findings.required(&local, MISSING),
        "Localhost" => {
            if local.text().trim() != local.text() {
                findings.invalid(&local, "must not be padded with whitespace");
            } else if local.is_empty() {
                findings.required(&local, MISSING);
            }
            if local.text().len() > 4095 {
                findings.too_long(&local, 4095);
            }
        }
        "RuntimeDefault" | "Unconfined" if local.is_set() => {
            findings.invalid(&local, "can only be set when AppArmor type is Localhost");
        }
        "RuntimeDefault" | "Unconfined" => {}
        "" => findings.required(&kind, "type is required when appArmorProfile is set"),
        _ => findings.unsupported(&kind, &["Localhost", "RuntimeDefault", "Unconfined"]),
    }
}

pub(super) fn of_container(context: &Place<'_>, spec: &Place<'_>, findings: &mut Findings) {
    if !context.is_set() {
        return;
    }
    let field = |name: &str| context.field(name);
    rules::id(&field("runAsUser"), findings);
    rules::id(&field("runAsGroup"), findings);
    let mount = field("procMount");
    if mount.is_set() {
        findings.one_of(&mount, &["Default", "Unmasked"]);
        let host_users = *spec.field("hostUsers").value != Value::Bool(false);
        if host_users && mount.text() == "Unmasked" {
            findings.invalid(&mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    seccomp(&field("seccompProfile"), findings);
    if *field("allowPrivilegeEscalation").value == Value::Bool(false) {
        if field("privileged").is_true() {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            findings.invalid_as(context, internal(context), detail);
        }
        for _ in field("capabilities").field("add").texts().filter(|own| *own == "CAP_SYS_ADMIN") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            findings.invalid_as(context, internal(context), detail);
        }
    }
    windows(&field("windowsOptions"), findings);
    app_armor(&field("appArmorProfile"), findings);
}

/// The context as the real server has it inside, which is how it shows it.
fn internal(context: &Place<'_>) -> Value {
    let value = |name: &str| context.field(name).value.clone();
    let capabilities = match context.field("capabilities") {
        own if own.is_set() => json!({"Add": own.value["add"], "Drop": own.value["drop"]}),
        _ => Value::Null,
    };
    let profile = |name: &str| match context.field(name) {
        own if own.is_set() => json!({"Type": own.value["type"], "LocalhostProfile": own.value["localhostProfile"]}),
        _ => Value::Null,
    };
    let linux = match context.field("seLinuxOptions") {
        own if own.is_set() => {
            let text = |name: &str| own.field(name).text().to_owned();
            json!({"User": text("user"), "Role": text("role"), "Type": text("type"), "Level": text("level")})
        }
        _ => Value::Null,
    };
    json!({
        "Capabilities": capabilities, "Privileged": value("privileged"), "SELinuxOptions": linux,
        "WindowsOptions": value("windowsOptions"), "RunAsUser": value("runAsUser"), "RunAsGroup": value("runAsGroup"),
        "RunAsNonRoot": value("runAsNonRoot"), "ReadOnlyRootFilesystem": value("readOnlyRootFilesystem"),
        "AllowPrivilegeEscalation": value("allowPrivilegeEscalation"), "ProcMount": value("procMount"),
        "SeccompProfile": profile("seccompProfile"), "AppArmorProfile": profile("appArmorProfile"),
    })
}

fn windows(options: &Place<'_>, findings: &mut Findings) {
    let (spec, user) = (options.field("gmsaCredentialSpec"), options.field("runAsUserName"));
    if options.field("gmsaCredentialSpecName").is_set() {
        rules::subdomain(&options.field("gmsaCredentialSpecName"), findings);
    }
    if spec.is_set() {
        match spec.text().len() {
            0 => findings.invalid(&spec, "gmsaCredentialSpec cannot be an empty string"),
            length if length > 64 * 1024 => findings.invalid(&spec, "gmsaCredentialSpec size must be under 64 KiB"),
            _ => {}
        }
    }
    if user.is_set() {
        windows_user(&user, findings);
    }
}

fn windows_user(place: &Place<'_>, findings: &mut Findings) {
    let text = place.text();
    let problem = match () {
        () if text.is_empty() => "runAsUserName cannot be an empty string",
        () if text.chars().any(|c| c.is_ascii_control()) => "runAsUserName cannot contain control characters",
        () if text.matches('\\').count() > 1 => "runAsUserName cannot contain more than one backslash",
        () => "",
    };
    if !problem.is_empty() {
        return findings.invalid(place, problem);
    }
    let (domain, user) = text.split_once('\\').map_or((None, text), |(domain, user)| (Some(domain), user));
    if let Some(domain) = domain {
        if domain.len() >= 256 {
            findings.invalid(place, "runAsUserName's Domain length must be under 256 characters");
        }
        if !is_windows_domain(domain) {
            findings.invalid(place, "runAsUserName's Domain doesn't match the NetBios nor the DNS format");
        }
    }
    if user.is_empty() {
        findings.invalid(place, "runAsUserName's User cannot be empty");
    } else if user.len() > 104 {
        findings.invalid(place, "runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        findings.invalid(place, "runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(|c: char| "\"/\\:;|=,+*?<>@[]".contains(c)) {
        let detail = "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]";
        findings.invalid(place, detail);
    }
}

fn is_windows_domain(domain: &str) -> bool {
    let net_bios = (1..=15).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(|c: char| "\\/:*?\"<>|".contains(c));
    let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let is_part = |part: &str| {
        let part = part.as_bytes();
        let known = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
        part.len() <= 63 && is_edge(part.first()) && is_edge(part.last()) && part.iter().all(known)
    };
    net_bios || domain.split('.').all(is_part)
}
