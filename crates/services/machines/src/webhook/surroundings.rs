//! What the cluster shows around the Machines that are admitted: its name and platform, the architecture of its control
//! plane, its gates, its DNS zones, and which of the Secrets that a spec names exist.
//!
//! What cannot be read is what it was before, or unknown: nothing is refused and nothing is warned of because of it.

use std::collections::BTreeSet;

use api::known::Reading;
use api::labels::{NODE_ROLE_CONTROL_PLANE, NODE_ROLE_MASTER};
use cluster::read;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use machine::provider::{Architecture, SecretNeed, Surroundings};
use serde_json::Value;

/// More nodes of a control plane would say the same.
const NODES: u32 = 20;

/// What can be read now, and whether that is all of it. `before` stands in for what cannot be read.
pub(super) async fn read(client: &Client, before: Option<&Surroundings>) -> (Surroundings, bool) {
    let (infrastructure, gates, dns, nodes) = tokio::join!(
        openshift(client, "Infrastructure"),
        openshift(client, "FeatureGate"),
        openshift(client, "DNS"),
        masters(client),
    );
    let unknown = Surroundings { public_dns: true, architecture: own_architecture(), ..Surroundings::default() };
    let mut known = before.cloned().unwrap_or(unknown);
    let is_whole = infrastructure.is_some() && gates.is_some() && dns.is_some() && nodes.is_some();
    if let Some(found) = infrastructure {
        let status = found.map(|object| object["status"].clone()).unwrap_or_default();
        known.cluster = status["infrastructureName"].as_str().unwrap_or_default().to_owned();
        known.platform_status = status["platformStatus"].clone();
    }
    if let Some(found) = gates {
        known.features = found.as_ref().map(features).unwrap_or_default();
    }
    if let Some(found) = dns {
        // A cluster that says nothing of its DNS has no zone that could be private.
        known.public_dns = found.is_none_or(|dns| has_public_zone(&dns));
    }
    known.architecture = nodes.and_then(|nodes| architecture(&nodes)).unwrap_or(known.architecture);
    (known, is_whole)
}

/// Which of these Secrets exist; `None` if that cannot be told of one of them.
pub(super) async fn secrets(client: &Client, namespace: &str, needs: &[SecretNeed]) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for need in needs.iter().filter(|need| need.namespace.as_deref().is_none_or(|named| named == namespace)) {
        let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
        if told("secrets", read::get(&api, &need.name).await)?.is_some() {
            names.insert(need.name.clone());
        }
    }
    Some(names)
}

async fn openshift(client: &Client, kind: &str) -> Option<Option<Value>> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("config.openshift.io", "v1", kind));
    // The plural that is guessed for DNS is another one.
    let plural = if kind == "DNS" { "dnses".to_owned() } else { resource.plural.clone() };
    let objects: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource { plural, ..resource });
    let found = told(kind, read::get(&objects, api::names::CLUSTER).await)?;
    Some(found.map(|object| object.data))
}

async fn masters(client: &Client) -> Option<Vec<Node>> {
    let api: Api<Node> = Api::all(client.clone());
    let labelled = |label: &str| ListParams::default().labels(label).limit(NODES);
    let nodes = told("nodes", read::list(&api, labelled(NODE_ROLE_CONTROL_PLANE)).await)?;
    if nodes.is_empty() { told("nodes", read::list(&api, labelled(NODE_ROLE_MASTER)).await) } else { Some(nodes) }
}

/// What was read just now, unless nothing could be. Of a kind that the cluster does not have there is nothing.
fn told<T: Default>(what: &str, reading: Reading<T>) -> Option<T> {
    match reading {
        Reading::Known { value, as_of: _ } => Some(value),
        Reading::NotInstalled => Some(T::default()),
        Reading::Unknown(why) => {
            tracing::warn!(what, why, "admission goes by what was known before");
            None
        }
    }
}

/// Gates that are on. While a cluster is upgraded it lists those of two versions, and one that is on in both is on.
fn features(gates: &Value) -> BTreeSet<String> {
    let names = |list: &Value| -> BTreeSet<String> {
        let all = list.as_array().into_iter().flatten();
        all.filter_map(|gate| gate["name"].as_str().or(gate.as_str())).map(str::to_owned).collect()
    };
    let versions = gates["status"]["featureGates"].as_array().into_iter().flatten();
    let told = versions.map(|version| names(&version["enabled"])).reduce(|one, other| &one & &other);
    // Where nobody keeps a status, those that a person switched on.
    told.unwrap_or_else(|| names(&gates["spec"]["customNoUpgrade"]["enabled"]))
}

fn has_public_zone(dns: &Value) -> bool {
    dns["spec"]["publicZone"].as_object().is_some_and(|zone| !zone.is_empty())
}

/// What all nodes of the control plane have in common.
fn architecture(nodes: &[Node]) -> Option<Architecture> {
    let of = |node: &Node| parse(&node.status.as_ref()?.node_info.as_ref()?.architecture);
    let mut all = nodes.iter().filter_map(of);
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

fn parse(word: &str) -> Option<Architecture> {
    use Architecture::{Amd64, Arm64, Ppc64le, S390x};
    [Amd64, Arm64, Ppc64le, S390x].into_iter().find(|known| known.to_string() == word)
}

/// That of this process, which most often runs on the control plane.
fn own_architecture() -> Architecture {
    match std::env::consts::ARCH {
        "aarch64" => Architecture::Arm64,
        "powerpc64" => Architecture::Ppc64le,
        "s390x" => Architecture::S390x,
        _ => Architecture::Amd64,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn gates_are_on_if_every_listed_version_says_so() {
        let version = |names: &[&str]| {
            let enabled: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"version": "4", "enabled": enabled, "disabled": [{"name": "C"}]})
        };
        let on = |gates: Value| features(&gates).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(on(json!({"status": {"featureGates": [version(&["A", "B"])]}})), "A B");
        assert_eq!(on(json!({"status": {"featureGates": [version(&["A", "B"]), version(&["B"])]}})), "B");
        assert_eq!(on(json!({"spec": {"customNoUpgrade": {"enabled": ["A"]}}})), "A");
        assert_eq!(on(json!({})), "");
    }

    #[test]
    fn a_zone_is_public_if_it_is_named() {
        assert!(has_public_zone(&json!({"spec": {"publicZone": {"id": "z"}}})));
        assert!(!has_public_zone(&json!({"spec": {"privateZone": {"id": "z"}, "publicZone": {}}})));
    }

    #[test]
    fn machines_are_made_for_the_architecture_of_the_control_plane_if_it_has_one() {
        let node = |word: &str| -> Node {
            let info = json!({"architecture": word, "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
                "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "",
                "systemUUID": ""});
            serde_json::from_value(json!({"metadata": {}, "status": {"nodeInfo": info}})).expect("a node")
        };
        assert_eq!(architecture(&[node("arm64"), node("arm64")]), Some(Architecture::Arm64));
        assert_eq!(architecture(&[node("arm64"), node("amd64")]), None, "nobody knows which is meant");
        assert_eq!(architecture(&[node("riscv64")]), None);
        assert_eq!(architecture(&[]), None);
    }
}
