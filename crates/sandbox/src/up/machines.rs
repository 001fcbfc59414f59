//! The Machines of `up`: one for each node it begins with, and three MachineSets, one a zone.
//!
//! The nodes keep their names, and nothing boots for them: their cloud is told of instances that run already. Objects
//! are written as the machine controllers would leave them, by the same planners, so that those find nothing to do.

use std::collections::BTreeMap;

use anyhow::Context as _;
use api::labels::{MACHINE_CLUSTER, MACHINE_ROLE, MACHINE_SET, MACHINE_TYPE};
use api::machine::{Machine, MachineSet};
use api::names::{MACHINE_API_NAMESPACE, MACHINE_FINALIZER};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use machine::lifecycle::{self, Answer, LinkedNode, Snapshot};
use machine::link::{self, Match};
use machine::provider::{Instance, Mark, Request};
use serde_json::{Value, json};

use super::cloud::{Cloud, Platform};
use super::content::MANAGER;
use super::nodes::zone_of;

/// The id of this cluster in its cloud.
pub(super) const CLUSTER: &str = "up";
/// Writes at once.
const AT_ONCE: usize = 32;

/// A node with its provider ID, and with what it has from its Machine.
pub(super) fn dressed(platform: Platform, mut node: Node, role: &str) -> Node {
    let name = node.name_any();
    node.spec.get_or_insert_default().provider_id = Some(platform.provider_id(&name));
    let machine = machine_of(platform, &name, role, None);
    let plan = link::plan(&link::Snapshot { node: &node, machine: Match::One(&machine), linked: None });
    for action in plan.actions {
        if let link::Action::PatchNode(patch) = action {
            let set = |(key, value): (String, Option<String>)| value.map(|value| (key, value));
            node.labels_mut().extend(patch.labels.into_iter().filter_map(set));
            node.annotations_mut().extend(patch.annotations.into_iter().filter_map(set));
        }
    }
    node
}

/// Makes the sets and Machines that are not there yet, and tells the cloud of their instances.
///
/// It may be ended between any two writes. A set wants its machines before they exist, so that whatever comes next, the
/// controllers included, never finds a set with more machines than it wants.
pub(super) async fn install(
    client: &Client,
    names: &[(String, &'static str)],
    nodes: Vec<Node>,
    cloud: &Cloud,
) -> anyhow::Result<()> {
    let api: Api<Machine> = Api::namespaced(client.clone(), MACHINE_API_NAMESPACE);
    let known = api.list(&ListParams::default()).await.context("cannot list machines")?.items;
    let known: BTreeMap<String, Machine> = known.into_iter().map(|machine| (machine.name_any(), machine)).collect();
    let new: Vec<_> = names.iter().filter(|(name, _)| !known.contains_key(name)).collect();
    let platform = cloud.platform();
    let sets = install_sets(client, platform, &known, &new).await?;
    let new = new.into_iter().map(|(name, role)| {
        let machine = machine_of(platform, name, role, sets.iter().find(|set| belongs_to(name, role, &set.name_any())));
        let api = &api;
        async move { api.create(&post(), &machine).await.with_context(|| format!("cannot create machine {name}")) }
    });
    let new: Vec<Machine> = stream::iter(new).buffer_unordered(AT_ONCE).try_collect().await?;
    let initial = names.iter().filter_map(|(name, _)| known.get(name)).chain(&new);
    cloud.adopt(initial.map(adopted))?;
    write_status(&api, &new, nodes, cloud).await
}

/// The sets, each with room for the machines that it has and those that it is about to be given.
async fn install_sets(
    client: &Client,
    platform: Platform,
    known: &BTreeMap<String, Machine>,
    new: &[&(String, &'static str)],
) -> anyhow::Result<Vec<MachineSet>> {
    let api: Api<MachineSet> = Api::namespaced(client.clone(), MACHINE_API_NAMESPACE);
    let mut sets = Vec::new();
    for zone in ["a", "b", "c"] {
        let name = format!("worker-{zone}");
        let is_its = |machine: &&Machine| {
            machine.metadata.deletion_timestamp.is_none() && machine.labels().get(MACHINE_SET) == Some(&name)
        };
        let given = new.iter().filter(|(machine, role)| belongs_to(machine, role, &name)).count();
        let count = i32::try_from(known.values().filter(is_its).count() + given).unwrap_or(i32::MAX);
        let mut set: MachineSet = serde_json::from_value(set_of(platform, &name, &format!("zone-{zone}")))
            .context("our own manifest is not valid")?;
        set.spec.replicas = Some(count);
        let made = match api.create(&post(), &set).await {
            Err(error) if cluster::problem(&error) == cluster::Problem::Conflict => {
                grow(&api, &name, given, count).await
            }
            made => made,
        };
        sets.push(made.with_context(|| format!("cannot create machineset {name}"))?);
    }
    Ok(sets)
}

/// A set that is there already wants what it wanted, besides the machines that it is about to be given.
async fn grow(api: &Api<MachineSet>, name: &str, given: usize, count: i32) -> Result<MachineSet, kube::Error> {
    let set = api.get(name).await?;
    if given == 0 || set.spec.replicas.unwrap_or(1) >= count {
        return Ok(set);
    }
    cluster::write::merge(api, MANAGER, name, &json!({"spec": {"replicas": count}})).await
}

/// Says of new Machines what their controller would: that they run, and as which node.
async fn write_status(api: &Api<Machine>, new: &[Machine], nodes: Vec<Node>, cloud: &Cloud) -> anyhow::Result<()> {
    let nodes: BTreeMap<String, Node> = nodes.into_iter().map(|node| (node.name_any(), node)).collect();
    let requests: Vec<Request> = new.iter().map(request).collect();
    let instances = cloud.provider().instances(&requests).await;
    let found = new.iter().zip(instances).filter_map(|(machine, instances)| {
        let instance = instances.ok()?.into_iter().next()?;
        Some((machine, instance, nodes.get(&machine.name_any())?))
    });
    let writes = found.map(|(machine, instance, node)| {
        let (name, status) = (machine.name_any(), status_of(machine, instance, node));
        async move {
            let patch = json!({"status": status});
            let written = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
            written.map(drop).with_context(|| format!("cannot write the status of machine {name}"))
        }
    });
    stream::iter(writes).buffer_unordered(AT_ONCE).try_collect().await
}

fn status_of(machine: &Machine, instance: Instance, node: &Node) -> Value {
    let mut machine = machine.clone();
    machine.status.get_or_insert_default().node_ref = Some(ObjectReference {
        kind: Some("Node".to_owned()),
        name: node.metadata.name.clone(),
        uid: node.metadata.uid.clone(),
        ..ObjectReference::default()
    });
    let linked = LinkedNode::of(&machine, Some(node));
    let mut snapshot = Snapshot::from_objects(&machine, [], linked, Timestamp::now());
    snapshot.sighting = Some(Ok(vec![instance.clone()]));
    snapshot.answer = Some(Answer::Updated(Ok(instance)));
    json!(lifecycle::plan(&snapshot).status)
}

fn request(machine: &Machine) -> Request {
    Request {
        mark: mark(machine),
        labels: machine.labels().clone(),
        control_plane: false,
        spec: std::sync::Arc::default(),
        provider_id: machine.spec.provider_id.clone(),
        provider_status: None,
        intent: None,
        secrets: std::sync::Arc::default(),
    }
}

fn adopted(machine: &Machine) -> (Mark, String, Value) {
    let spec = machine.spec.provider_value().cloned().unwrap_or_default();
    (mark(machine), machine.spec.provider_id.clone().unwrap_or_default(), spec)
}

fn mark(machine: &Machine) -> Mark {
    Mark {
        cluster: CLUSTER.to_owned(),
        namespace: MACHINE_API_NAMESPACE.to_owned(),
        machine: machine.name_any(),
        uid: machine.uid().unwrap_or_default(),
    }
}

fn belongs_to(name: &str, role: &str, set: &str) -> bool {
    role == "worker" && set.strip_prefix("worker-") == zone_of(name).strip_prefix("zone-")
}

/// The Machine of a node that `up` begins with. The kubelet gives a node its role when it registers; were the role a label of
/// the Machine too, a person who takes it off would find it put back.
fn machine_of(platform: Platform, name: &str, role: &str, set: Option<&MachineSet>) -> Machine {
    let zone = zone_of(name);
    let machine_role = if role == "worker" { "worker" } else { "master" };
    let spec = platform.provider_spec(machine_role, &zone);
    let (region, instance_type) = platform.size(&spec);
    let mut labels = labels_of(machine_role);
    labels[api::labels::MACHINE_REGION] = json!(region);
    labels[api::labels::MACHINE_ZONE] = json!(zone);
    labels[api::labels::MACHINE_INSTANCE_TYPE] = json!(instance_type);
    let mut owners = json!([]);
    if let Some(set) = set {
        labels[MACHINE_SET] = json!(set.name_any());
        owners = json!([{
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "name": set.name_any(), "uid": set.uid(),
            "controller": true, "blockOwnerDeletion": true,
        }]);
    }
    let object = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {
            "name": name, "namespace": MACHINE_API_NAMESPACE, "labels": labels, "ownerReferences": owners,
            "finalizers": [MACHINE_FINALIZER], "annotations": {api::annotations::INSTANCE_STATE: "running"},
        },
        "spec": {
            "metadata": {}, "providerID": platform.provider_id(name), "providerSpec": {"value": spec},
        },
    });
    serde_json::from_value(object).expect("our own manifest is valid: its only variables are names")
}

fn set_of(platform: Platform, name: &str, zone: &str) -> Value {
    let mut labels = labels_of("worker");
    labels[MACHINE_SET] = json!(name);
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
        "metadata": {"name": name, "namespace": MACHINE_API_NAMESPACE, "labels": {MACHINE_CLUSTER: CLUSTER}},
        "spec": {
            "selector": {"matchLabels": {MACHINE_CLUSTER: CLUSTER, MACHINE_SET: name}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "metadata": {}, "providerSpec": {"value": platform.provider_spec("worker", zone)},
                },
            },
        },
    })
}

fn labels_of(role: &str) -> Value {
    json!({MACHINE_CLUSTER: CLUSTER, MACHINE_ROLE: role, MACHINE_TYPE: role})
}

fn post() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use machine::lifecycle::{Call, Next, Waiting};
    use memory::Nothing;

    use super::*;
    use crate::up::nodes;

    fn node(name: &str, role: &str) -> Node {
        let mut node = dressed(Platform::Memory, nodes::blank(name, role, &zone_of(name), ""), role);
        node.metadata.uid = Some(format!("uid-of-node-{name}"));
        node
    }

    fn machine(name: &str, role: &str) -> Machine {
        let mut set: MachineSet =
            serde_json::from_value(set_of(Platform::Memory, "worker-b", "zone-b")).expect("it is valid");
        set.metadata.uid = Some("uid-of-set".to_owned());
        let mut machine =
            machine_of(Platform::Memory, name, role, Some(&set).filter(|set| belongs_to(name, role, &set.name_any())));
        machine.metadata.uid = Some(format!("uid-of-{name}"));
        machine
    }

    #[tokio::test]
    async fn the_controllers_find_nothing_to_do_about_an_initial_machine() {
        let cloud = Cloud::Memory(memory::Cloud::new(Arc::new(Nothing)));
        for (name, role) in [("worker-2", "worker"), ("control-plane-1", "control-plane")] {
            let (mut machine, node) = (machine(name, role), node(name, role));
            cloud.adopt([adopted(&machine)].into_iter()).expect("it is kept nowhere");
            let instances = cloud.provider().instances(&[request(&machine)]).await.remove(0);
            let instance = instances.expect("it can be looked up").remove(0);
            let status = status_of(&machine, instance.clone(), &node);
            machine.status = serde_json::from_value(status).expect("it is a status");

            let linked = LinkedNode::of(&machine, Some(&node));
            let mut snapshot = Snapshot::from_objects(&machine, [], linked, Timestamp::now());
            snapshot.sighting = Some(Ok(vec![instance.clone()]));
            let asked = lifecycle::plan(&snapshot);
            assert!(matches!(asked.next, Next::Ask(Call::Update(_))), "{asked:?}");
            snapshot.answer = Some(Answer::Updated(Ok(instance)));
            let plan = lifecycle::plan(&snapshot);
            assert_eq!((plan.actions, plan.next), (Vec::new(), Next::OnChange(Waiting::Settled)), "{name}");
            assert_eq!(Some(plan.status), machine.status, "{name}");

            let plan = link::plan(&link::Snapshot { node: &node, machine: Match::One(&machine), linked: Some(&node) });
            assert_eq!(plan.actions, Vec::new(), "{name}");
        }
    }

    /// A client that is cut off when it first writes a status: the process was stopped there.
    fn cut_off_at_the_first_status(client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let client = client.clone();
            async move {
                if request.uri().path().ends_with("/status") {
                    return Err(kube::Error::LinesCodecMaxLineLengthExceeded);
                }
                client.send(request).await
            }
        });
        Client::new(service, namespace)
    }

    #[tokio::test]
    async fn a_start_that_was_cut_off_leaves_no_set_that_wants_fewer_machines_than_it_has() {
        let server = apiserver::Server::builder().in_memory().start().await.expect("it starts");
        let folder = tempfile::tempdir().expect("a folder");
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, server.kubeconfig()).expect("a file");
        let client = cluster::connect(Some(&kubeconfig)).await.expect("it answers");
        crate::up::content::install(&client, false).await.expect("the kinds");
        cluster::ensure_namespace(&client, MACHINE_API_NAMESPACE).await.expect("the namespace");
        let cloud = Cloud::Memory(memory::Cloud::new(Arc::new(Nothing)));
        let names = nodes::names(1, 4);
        let all = || names.iter().map(|(name, role)| node(name, role)).collect::<Vec<_>>();

        let cut_off = install(&cut_off_at_the_first_status(client.clone()), &names, all(), &cloud).await;
        assert!(cut_off.is_err());
        install(&client, &names, all(), &cloud).await.expect("the second start");

        let sets: Api<MachineSet> = Api::namespaced(client.clone(), MACHINE_API_NAMESPACE);
        let sets = sets.list(&ListParams::default()).await.expect("sets").items;
        let wanted: Vec<_> = sets.iter().map(|set| (set.name_any(), set.spec.replicas)).collect();
        let expected = [("worker-a", 2), ("worker-b", 1), ("worker-c", 1)];
        assert_eq!(wanted, expected.map(|(name, count)| (name.to_owned(), Some(count))));
        server.shutdown().await;
    }

    #[test]
    fn workers_belong_to_the_set_of_their_zone_and_the_control_plane_to_none() {
        let owner = |name: &str, role: &str| machine(name, role).metadata.owner_references.map(|owners| owners.len());
        assert_eq!(owner("worker-2", "worker"), Some(1));
        assert_eq!(owner("worker-3", "worker"), Some(0), "its zone is another one");
        assert_eq!(owner("control-plane-2", "control-plane"), Some(0));
        let labels = machine("worker-2", "worker");
        let set: MachineSet =
            serde_json::from_value(set_of(Platform::Memory, "worker-b", "zone-b")).expect("it is valid");
        let wanted = set.spec.selector.and_then(|selector| selector.match_labels).expect("it selects by labels");
        assert!(
            wanted.iter().all(|(key, value)| labels.labels().get(key) == Some(value)),
            "the set does not select it"
        );
    }
}
