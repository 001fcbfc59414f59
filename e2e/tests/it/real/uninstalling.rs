//! `machinist uninstall` takes away all that Machinist brought.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::discovery::verbs;
use kube::discovery::Discovery;
use testkit::wait_for;

use super::stage::{NAMESPACE, Stage};

/// Kinds whose objects come and go by themselves, or with objects of other kinds.
const PASSING: [&str; 7] =
    ["Event", "Lease", "Pod", "EndpointSlice", "IPAddress", "APIService", "CertificateSigningRequest"];

/// What the stories before this one have made as users.
fn is_the_users(name: &str) -> bool {
    let is_config = |config: &str| name == format!("MachineConfig {config}");
    ["50-first", "60-second", "70-third"].into_iter().any(is_config) || name.contains("default/web")
}

pub(super) async fn nothing_is_left_but_what_the_user_made(stage: &Stage, before: &BTreeSet<String>) {
    let output = stage.machinist(&["uninstall", "--yes"]);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    for name in [NAMESPACE, api::names::MACHINE_API_NAMESPACE] {
        wait_for(&namespaces, name, "the namespace to go", |namespace| namespace.is_none()).await;
    }

    let after = everything(stage).await;
    let is_said = |name: &str| stdout.lines().any(|line| line.starts_with(&format!("keep {name}: ")));
    let left: Vec<&String> = after.difference(before).filter(|name| !is_the_users(name) && !is_said(name)).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    let lost: Vec<&String> = before.difference(&after).collect();
    assert!(lost.is_empty(), "taken although it was there before: {lost:?}");
    let nodes: Api<Node> = Api::all(stage.client.clone());
    for node in nodes.list(&ListParams::default()).await.unwrap() {
        let marks: Vec<&String> = node.annotations().keys().chain(node.labels().keys()).collect();
        let ours = |mark: &&&String| mark.contains("openshift.io/") || mark.contains("machinist.dev/");
        let ours: Vec<&&String> = marks.iter().filter(ours).collect();
        assert!(ours.is_empty(), "{}: {ours:?}", node.name_any());
        let spec = node.spec.unwrap_or_default();
        assert_ne!(spec.unschedulable, Some(true));
        let taints: Vec<String> = spec.taints.unwrap_or_default().into_iter().map(|taint| taint.key).collect();
        assert!(taints.iter().all(|key| key.starts_with("node-role.kubernetes.io/")), "{taints:?}");
    }
}

/// The kind and name of every object in the cluster that stays until somebody deletes it.
pub(super) async fn everything(stage: &Stage) -> BTreeSet<String> {
    let discovery = Discovery::new(stage.client.clone()).run().await.unwrap();
    let mut found = BTreeSet::new();
    for (resource, capabilities) in discovery.groups().flat_map(kube::discovery::ApiGroup::recommended_resources) {
        if capabilities.supports_operation(verbs::LIST) && !PASSING.contains(&resource.kind.as_str()) {
            found.extend(list(stage, &resource).await);
        }
    }
    found
}

async fn list(stage: &Stage, resource: &ApiResource) -> Vec<String> {
    let api: Api<DynamicObject> = Api::all_with(stage.client.clone(), resource);
    let all = api.list(&ListParams::default()).await;
    let all = all.unwrap_or_else(|error| panic!("cannot list {}: {error}", resource.kind));
    let name = |object: &DynamicObject| match object.namespace() {
        Some(namespace) => format!("{} {namespace}/{}", resource.kind, object.name_any()),
        None => format!("{} {}", resource.kind, object.name_any()),
    };
    all.iter().map(name).collect()
}
