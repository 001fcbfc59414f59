//! Permissions of a node's credential: its own objects and its pool's configs, but no objects of other nodes.

use api::annotations;
use api::machineconfiguration::{MachineConfig, MachineConfigNode};
use api::machinist::NodeSurvey;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use serde_json::{Value, json};
use testkit::wait_until;

use super::world::World;

fn phases(name: &str) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigNode", "metadata": {"name": name},
        "spec": {"node": {"name": name}, "pool": {"name": "worker"}, "configVersion": {"desired": "not-yet-set"}},
    })
}

#[track_caller]
fn refused<T>(answer: Result<T, kube::Error>, words: &str) {
    match answer {
        Ok(_) => panic!("it was allowed"),
        Err(error) => assert!(error.to_string().contains(words), "{error}"),
    }
}

#[tokio::test]
async fn a_node_writes_its_own_objects_and_no_others() {
    let Some(world) = World::new().await else { return };
    world.control_plane.apply(include_str!("../../../../manifests/node/machinistd-rbac.yaml"));
    for name in ["one", "two", "three"] {
        let object = testkit::objects::node(name, &["worker"]);
        world.nodes().create(&PostParams::default(), &object).await.unwrap();
    }
    world.control_plane.apply(&phases("two").to_string());
    let client = world.control_plane.node_client("one").await;
    let parameters = PatchParams::apply("machinist-daemon").force();

    let all: Api<MachineConfigNode> = Api::all(client.clone());
    let make = |name: &str| serde_json::from_value::<MachineConfigNode>(phases(name)).unwrap();
    let status = |name: &str| {
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigNode", "metadata": {"name": name},
            "status": {"configVersion": {"desired": "not-yet-set"}},
        })
    };
    // It takes a moment until the API server enforces the policy.
    let first = wait_until("the foreign write to be refused", || async {
        all.patch_status("two", &parameters, &Patch::Apply(status("two"))).await.err()
    });
    let only_its_own = "a node may only write its own MachineConfigNode and NodeSurvey";
    refused(Err::<(), _>(first.await), only_its_own);
    refused(all.create(&PostParams::default(), &make("three")).await, only_its_own);
    let spec = json!({"spec": {"pool": {"name": "master"}}});
    refused(all.patch("two", &PatchParams::default(), &Patch::Merge(&spec)).await, only_its_own);
    refused(all.delete("two", &DeleteParams::default()).await, "cannot delete");
    refused(all.list(&ListParams::default()).await, "cannot list");
    all.create(&PostParams::default(), &make("one")).await.unwrap();
    all.patch_status("one", &parameters, &Patch::Apply(status("one"))).await.unwrap();

    // It answers surveys, and reads nobody's answer.
    let surveys: Api<NodeSurvey> = Api::all(client.clone());
    let survey = |name: &str| {
        let spec = json!({"request": "1", "files": []});
        json!({"apiVersion": "machinist.dev/v1alpha1", "kind": "NodeSurvey", "metadata": {"name": name}, "spec": spec})
    };
    surveys.patch("one", &parameters, &Patch::Apply(survey("one"))).await.unwrap();
    refused(surveys.patch("two", &parameters, &Patch::Apply(survey("two"))).await, only_its_own);
    refused(surveys.get("one").await, "cannot get");
    refused(surveys.list(&ListParams::default()).await, "cannot list");

    let nodes: Api<Node> = Api::all(client.clone());
    let report = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"annotations": {annotations::STATE: "Done"}}});
    let own = nodes.patch("one", &parameters, &Patch::Apply(&report)).await.unwrap();
    assert_eq!(own.annotations()[annotations::STATE], "Done");
    refused(nodes.patch("two", &parameters, &Patch::Apply(&report)).await, "is not allowed to modify node");
    let role = json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}});
    let promotion = nodes.patch("one", &PatchParams::default(), &Patch::Merge(&role)).await;
    refused(promotion, "is not allowed to modify labels");
    refused(nodes.get("two").await, "only its own Node object");
    let itself = ListParams::default().fields("metadata.name=one");
    assert_eq!(nodes.list(&itself).await.unwrap().items.len(), 1, "it watches its own Node by field selector");
    refused(nodes.list(&ListParams::default()).await, "cannot list");

    let configs: Api<MachineConfig> = Api::all(client.clone());
    refused(configs.list(&ListParams::default()).await, "cannot list");
    refused(configs.watch(&WatchParams::default(), "0").await.map(drop), "cannot watch");
    // Which configs it reads by name is up to the controller's roles.
    refused(configs.get_opt("none").await, "cannot get");
    let config = testkit::objects::file_config("99-mine", "worker", "/etc/mine", "mine");
    refused(configs.create(&PostParams::default(), &config).await, "cannot create");
    let secrets: Api<Secret> = Api::namespaced(client, "default");
    refused(secrets.list(&ListParams::default()).await, "forbidden");
}
