//! Variables of a container's environment and where their values come from.

use schema::{FieldError, names};

use super::super::place::{Find, Findings, Place};
use super::super::rules;
use super::{containers, resources};

const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

pub(super) fn variables(list: &Place<'_>, findings: &mut Findings) {
    for variable in list.items() {
        let name = variable.field("name");
        match name.is_empty() {
            true => findings.required(&name, ""),
            false => findings.problems(&name, variable_name(name.text())),
        }
        value_from(&variable, findings);
    }
}

/// What is wrong with the name of a variable.
fn variable_name(name: &str) -> Vec<String> {
    const RULE: &str =
        "a valid environment variable name must consist only of printable ASCII characters other than '='";
    let wrong = name.chars().any(|c| !(' '..='~').contains(&c) || c == '=');
    if wrong { vec![RULE.to_owned()] } else { Vec::new() }
}

fn value_from(variable: &Place<'_>, findings: &mut Findings) {
    let from = variable.field("valueFrom");
    if !from.is_set() {
        return;
    }
    let mut sources = 0;
    for source in
        ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"].map(|name| from.field(name))
    {
        if !source.is_set() {
            continue;
        }
        sources += 1;
        match source.path.rsplit('.').next() {
            Some("fieldRef") => field_ref(&source, &FIELDS, findings),
            Some("resourceFieldRef") => resource_ref(&source, false, findings),
            Some("fileKeyRef") => file_key(&source, findings),
            _ => key_ref(&source, findings),
        }
    }
    let detail = match sources {
        0 => "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        _ if !variable.field("value").is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    findings.invalid_as(&from, "", detail);
}

/// A field of the pod itself.
pub(super) fn field_ref(source: &Place<'_>, known: &[&str], findings: &mut Findings) {
    let (version, path) = (source.field("apiVersion"), source.field("fieldPath"));
    if version.is_empty() {
        return findings.required(&version, "");
    }
    if path.is_empty() {
        return findings.required(&path, "");
    }
    if version.text() != "v1" {
        let detail = format!("error converting fieldPath: unsupported pod version: {}", version.text());
        return findings.invalid(&path, detail);
    }
    if let Some((map, key)) = subscript(path.text()) {
        let key = match map {
            "metadata.annotations" => key.to_lowercase(),
            "metadata.labels" => key.to_owned(),
            _ => {
                let detail = "error converting fieldPath: field label does not support subscript";
                return findings.invalid(&path, detail);
            }
        };
        for problem in names::is_qualified_name(&key) {
            findings.invalid_as(source, key.as_str(), problem);
        }
        return;
    }
    const LABELS: [&str; 12] = [
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.schedulerName",
        "status.phase",
        "status.hostIP",
        "status.hostIPs",
    ];
    let own = match path.text() {
        "spec.host" => "spec.nodeName",
        other => other,
    };
    if !LABELS.contains(&own) && !matches!(own, "status.podIP" | "status.podIPs") {
        let detail = format!("error converting fieldPath: field label not supported: {own}");
        return findings.invalid(&path, detail);
    }
    if !known.contains(&own) {
        let supported: Vec<String> = known.iter().map(|&name| name.to_owned()).collect();
        findings.push(FieldError::not_supported(path.path, own, &supported));
    }
}

fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, rest) = path.strip_suffix("']")?.split_once("['")?;
    (!map.is_empty()).then_some((map, rest))
}

/// A resource of a container.
pub(super) fn resource_ref(source: &Place<'_>, volume: bool, findings: &mut Findings) {
    let resource = source.field("resource");
    let pages = ["requests.hugepages-", "limits.hugepages-"].iter().any(|prefix| resource.text().starts_with(prefix));
    if volume && source.field("containerName").is_empty() {
        findings.required(&source.field("containerName"), "");
    } else if resource.is_empty() {
        findings.required(&resource, "");
    } else if !RESOURCES.contains(&resource.text()) && !pages {
        findings.unsupported(&resource, &RESOURCES);
    }
    divisor(source, pages, findings);
}

fn divisor(source: &Place<'_>, pages: bool, findings: &mut Findings) {
    const SIZES: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let (divisor, resource) = (source.field("divisor"), source.field("resource").text());
    if divisor.is_empty() || resources::amount_of(divisor.value).0 == 0 {
        return;
    }
    let (known, detail): (&[&str], String) = match resource.split_once('.').unwrap_or_default().1 {
        "cpu" => (&["1m", "1"], "values 1m and 1 are supported with the cpu".to_owned()),
        "memory" => (&SIZES, format!("values {} are supported with the memory", SIZES.join(", "))),
        "ephemeral-storage" => {
            (&SIZES, format!("values {} are supported with the local ephemeral storage", SIZES.join(", ")))
        }
        _ if pages => (&SIZES, format!("values {} are supported with the hugepages", SIZES.join(", "))),
        _ => return,
    };
    if !known.contains(&divisor.text()) {
        findings.invalid_as(&divisor, resource, format!("only divisor's {detail} resource"));
    }
}

fn key_ref(source: &Place<'_>, findings: &mut Findings) {
    rules::subdomain(&source.field("name"), findings);
    let key = source.field("key");
    match key.is_empty() {
        true => findings.required(&key, ""),
        false => findings.problems(&key, rules::config_key(key.text())),
    }
}

fn file_key(source: &Place<'_>, findings: &mut Findings) {
    for field in ["key", "volumeName", "path"].map(|name| source.field(name)) {
        if field.is_empty() {
            findings.required(&field, "");
            continue;
        }
        match field.path.rsplit('.').next() {
            Some("key") => findings.problems(&field, variable_name(field.text())),
            Some("volumeName") => rules::label(&field, findings),
            _ => rules::no_backsteps(&field, findings),
        }
    }
}

/// Files that variables are read from lie in volumes that start empty.
pub(super) fn files(spec: &Place<'_>, findings: &mut Findings) {
    for container in containers::visited(spec) {
        for variable in container.field("env").items() {
            let name = variable.field("valueFrom").field("fileKeyRef").field("volumeName");
            if !variable.field("valueFrom").field("fileKeyRef").is_set() {
                continue;
            }
            match spec.field("volumes").items().find(|volume| volume.field("name").text() == name.text()) {
                None => findings.not_found(&name),
                Some(volume) if !volume.field("emptyDir").is_set() => {
                    findings.invalid(&name, "referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    }
}

pub(super) fn sources(list: &Place<'_>, findings: &mut Findings) {
    for source in list.items() {
        let prefix = source.field("prefix");
        if !prefix.is_empty() {
            findings.problems(&prefix, variable_name(prefix.text()));
        }
        let mut count = 0;
        for own in ["configMapRef", "secretRef"].map(|name| source.field(name)).into_iter().filter(Place::is_set) {
            count += 1;
            let name = own.field("name");
            match name.is_empty() {
                true => findings.required(&name, ""),
                false => findings.problems(&name, schema::metadata::NameRule::Subdomain.check(name.text(), true)),
            }
        }
        match count {
            0 => findings.invalid_as(list, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => findings.invalid_as(list, "", "may not have more than one field specified at a time"),
        }
    }
}
