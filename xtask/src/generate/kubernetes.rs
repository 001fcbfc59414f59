//! Extracts the tables of built-in Kubernetes resources from the Go module of the real server.
//!
//! The module contains the server's responses for discovery and OpenAPI v3. We keep the resources listed here and the
//! schemas they refer to, without descriptions. Nothing of the module itself is kept.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

/// The release whose behaviour the embedded API follows.
const MODULE: &str = "k8s.io/kubernetes@v1.36.3";

/// Files of group versions, and the resources that we keep of each.
const KEPT: &[(&str, &[&str])] = &[
    (
        "api__v1",
        &[
            "bindings",
            "componentstatuses",
            "configmaps",
            "endpoints",
            "events",
            "limitranges",
            "namespaces",
            "nodes",
            "persistentvolumeclaims",
            "persistentvolumes",
            "pods",
            "podtemplates",
            "replicationcontrollers",
            "resourcequotas",
            "secrets",
            "serviceaccounts",
            "services",
        ],
    ),
    (
        "apis__admissionregistration.k8s.io__v1",
        &[
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            "mutatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "validatingwebhookconfigurations",
        ],
    ),
    ("apis__apiextensions.k8s.io__v1", &["customresourcedefinitions"]),
    ("apis__apiregistration.k8s.io__v1", &["apiservices"]),
    ("apis__apps__v1", &["controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"]),
    ("apis__authentication.k8s.io__v1", &["selfsubjectreviews", "tokenreviews"]),
    (
        "apis__authorization.k8s.io__v1",
        &["localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews"],
    ),
    ("apis__autoscaling__v1", &["horizontalpodautoscalers"]),
    ("apis__autoscaling__v2", &["horizontalpodautoscalers"]),
    ("apis__batch__v1", &["cronjobs", "jobs"]),
    ("apis__certificates.k8s.io__v1", &["certificatesigningrequests"]),
    ("apis__coordination.k8s.io__v1", &["leases"]),
    ("apis__discovery.k8s.io__v1", &["endpointslices"]),
    ("apis__events.k8s.io__v1", &["events"]),
    ("apis__flowcontrol.apiserver.k8s.io__v1", &["flowschemas", "prioritylevelconfigurations"]),
    ("apis__networking.k8s.io__v1", &["ingressclasses", "ingresses", "ipaddresses", "networkpolicies", "servicecidrs"]),
    ("apis__node.k8s.io__v1", &["runtimeclasses"]),
    ("apis__policy__v1", &["poddisruptionbudgets"]),
    ("apis__rbac.authorization.k8s.io__v1", &["clusterrolebindings", "clusterroles", "rolebindings", "roles"]),
    ("apis__resource.k8s.io__v1", &["deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"]),
    ("apis__scheduling.k8s.io__v1", &["priorityclasses"]),
    (
        "apis__storage.k8s.io__v1",
        &[
            "csidrivers",
            "csinodes",
            "csistoragecapacities",
            "storageclasses",
            "volumeattachments",
            "volumeattributesclasses",
        ],
    ),
];

/// Definitions that no resource refers to but that occur in requests.
const ALWAYS: &[&str] = &[
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
    "io.k8s.api.autoscaling.v1.Scale",
];

const REFERENCE: &str = "#/components/schemas/";

/// Returns the generated files as path in the workspace and content.
pub(crate) fn tables() -> Result<Vec<(PathBuf, String)>> {
    let module = download(MODULE)?;
    let mut resources = Vec::new();
    let mut schemas: BTreeMap<String, Value> = BTreeMap::new();
    for (file, kept) in KEPT {
        let open_api = read(&module.join(format!("api/openapi-spec/v3/{file}_openapi.json")))?;
        let definitions = open_api["components"]["schemas"].as_object().context("no components.schemas")?;
        for (name, definition) in definitions {
            schemas.entry(name.clone()).or_insert_with(|| without_prose(definition));
        }
        let discovery = read(&module.join(format!("api/discovery/{file}.json")))?;
        resources.extend(kept_resources(&discovery, kept, definitions)?);
    }
    let scale = read(&module.join("api/openapi-spec/v3/apis__apps__v1_openapi.json"))?;
    for (name, definition) in scale["components"]["schemas"].as_object().into_iter().flatten() {
        schemas.entry(name.clone()).or_insert_with(|| without_prose(definition));
    }
    let reached = reached(&schemas, &resources);
    schemas.retain(|name, _| reached.contains(name));
    let text = serde_json::to_string(&json!({ "resources": resources, "definitions": schemas }))?;
    let names: Vec<String> = schemas.keys().cloned().collect();
    let folder = PathBuf::from("kubernetes/tables/src");
    Ok(vec![
        (folder.join("tables.json"), one_entry_per_line(&text)?),
        (folder.join("wire.txt"), super::wire::lines(&names)?),
    ])
}

pub(super) fn download(module: &str) -> Result<PathBuf> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", module])
        .env("GOFLAGS", "-mod=mod")
        .current_dir(std::env::temp_dir())
        .output()
        .context("the tables are read from a Go module: install go")?;
    let answer: Value = serde_json::from_slice(&output.stdout).context("go mod download did not answer JSON")?;
    let folder = answer["Dir"].as_str().with_context(|| format!("cannot download {module}: {}", answer["Error"]))?;
    Ok(PathBuf::from(folder))
}

fn read(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(serde_json::from_str(&text)?)
}

fn kept_resources(discovery: &Value, kept: &[&str], definitions: &Map<String, Value>) -> Result<Vec<Value>> {
    let group_version = discovery["groupVersion"].as_str().context("no groupVersion")?;
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    let list = discovery["resources"].as_array().context("no resources")?;
    let mut answer = Vec::new();
    for name in kept {
        let entry =
            list.iter().find(|r| r["name"] == *name).with_context(|| format!("{group_version} has no {name}"))?;
        let kind = entry["kind"].as_str().context("no kind")?;
        let subresources: Vec<Value> = list
            .iter()
            .filter_map(|r| {
                let sub = r["name"].as_str()?.strip_prefix(name)?.strip_prefix('/')?;
                Some(json!({
                    "name": sub,
                    "group": r["group"].as_str().unwrap_or(group),
                    "version": r["version"].as_str().unwrap_or(version),
                    "kind": r["kind"],
                    "verbs": r["verbs"],
                }))
            })
            .collect();
        answer.push(json!({
            "group": group,
            "version": version,
            "kind": kind,
            "plural": name,
            "singular": entry["singularName"],
            "short_names": entry.get("shortNames").cloned().unwrap_or(json!([])),
            "categories": entry.get("categories").cloned().unwrap_or(json!([])),
            "namespaced": entry["namespaced"],
            "verbs": entry["verbs"],
            "storage_version_hash": entry.get("storageVersionHash").cloned().unwrap_or(json!("")),
            "subresources": subresources,
            "schema": definition_of(definitions, group, version, kind)?,
        }));
    }
    Ok(answer)
}

fn definition_of(definitions: &Map<String, Value>, group: &str, version: &str, kind: &str) -> Result<String> {
    let wanted = json!({ "group": group, "version": version, "kind": kind });
    definitions
        .iter()
        .find(|(_, d)| {
            d["x-kubernetes-group-version-kind"].as_array().is_some_and(|k| k.len() == 1 && k.contains(&wanted))
        })
        .map(|(name, _)| name.clone())
        .with_context(|| format!("no schema for {group}/{version} {kind}"))
}

fn without_prose(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(key, value)| !(key.as_str() == "description" && value.is_string()))
                .map(|(key, value)| (key.clone(), without_prose(value)))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.iter().map(without_prose).collect()),
        other => other.clone(),
    }
}

fn reached(schemas: &BTreeMap<String, Value>, resources: &[Value]) -> BTreeSet<String> {
    let mut waiting: Vec<String> = ALWAYS.iter().map(ToString::to_string).collect();
    for resource in resources {
        waiting.extend(resource["schema"].as_str().map(str::to_string));
        for sub in resource["subresources"].as_array().into_iter().flatten() {
            let wanted = json!({ "group": sub["group"], "version": sub["version"], "kind": sub["kind"] });
            waiting.extend(
                schemas
                    .iter()
                    .filter(|(_, s)| {
                        s["x-kubernetes-group-version-kind"].as_array().is_some_and(|k| k.contains(&wanted))
                    })
                    .map(|(name, _)| name.clone()),
            );
        }
    }
    let mut answer = BTreeSet::new();
    while let Some(name) = waiting.pop() {
        let Some(schema) = schemas.get(&name) else {
            continue;
        };
        if answer.insert(name) {
            references(schema, &mut waiting);
        }
    }
    answer
}

fn references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                match value.as_str().and_then(|v| v.strip_prefix(REFERENCE)) {
                    Some(name) if key == "$ref" => found.push(name.to_string()),
                    _ => references(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

/// Puts each resource and each definition on its own line, so that changes of a new release are easy to review.
fn one_entry_per_line(text: &str) -> Result<String> {
    let value: Value = serde_json::from_str(text)?;
    let mut lines = String::from("{\"resources\":[\n");
    let list = value["resources"].as_array().context("no resources")?;
    let entries: Vec<String> = list.iter().map(ToString::to_string).collect();
    lines.push_str(&entries.join(",\n"));
    lines.push_str("\n],\"definitions\":{\n");
    let map = value["definitions"].as_object().context("no definitions")?;
    let entries: Vec<String> = map.iter().map(|(k, v)| format!("{}:{v}", json!(k))).collect();
    lines.push_str(&entries.join(",\n"));
    lines.push_str("\n}}\n");
    Ok(lines)
}
