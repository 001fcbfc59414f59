//! What a node's credential reads in an installation: its own pool's configs, the certificates of hosts, and no more.

use std::time::Duration;

use api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use api::{annotations, names};
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use testkit::objects::{file_config, node};
use testkit::{wait_for, wait_until};

use super::stage::{NAMESPACE, Stage};

const ZONE: &str = api::labels::ZONE;

/// The controllers, in this process and with the rights of an administrator.
pub(crate) fn control(client: Client) -> tokio::task::JoinHandle<()> {
    let settings = controllers::Settings {
        settle: Duration::ZERO,
        identity: "story".into(),
        lease: None,
        listen: None,
        ..controllers::Settings::default()
    };
    tokio::spawn(async move {
        controllers::run(client, settings, std::future::pending()).await.unwrap();
    })
}

pub(crate) async fn a_node_reads_its_own_pools_configs_and_no_others(stage: &Stage) {
    let pools: Api<MachineConfigPool> = Api::all(stage.client.clone());
    let configs: Api<MachineConfig> = Api::all(stage.client.clone());
    for (name, role) in [("50-worker", "worker"), ("50-master", "master"), ("50-gpu", "gpu")] {
        let fragment = file_config(name, role, "/etc/key", &format!("secret of {role}"));
        configs.create(&PostParams::default(), &fragment).await.unwrap();
    }
    let gpu = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "metadata": {"name": "gpu"},
        "spec": {
            "machineConfigSelector": {"matchExpressions": [{
                "key": "machineconfiguration.openshift.io/role", "operator": "In", "values": ["worker", "gpu"],
            }]},
            "nodeSelector": {"matchLabels": {"env": "gpu"}}, "paused": true,
        },
    });
    // The older name of the node selector, and a label that kubelets set when they start.
    let rack = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "metadata": {"name": "rack"},
        "spec": {
            "machineConfigSelector": {"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}},
            "machineSelector": {"matchLabels": {"rack": "a", ZONE: "here"}}, "paused": true,
        },
    });
    for pool in [gpu, rack] {
        pools.create(&PostParams::default(), &serde_json::from_value(pool).unwrap()).await.unwrap();
    }
    let nodes: Api<Node> = Api::all(stage.client.clone());
    nodes.create(&PostParams::default(), &node("reader", &[])).await.unwrap();
    let [worker, master, gpu] = [rendered(&pools, "worker"), rendered(&pools, "master"), rendered(&pools, "gpu")];
    let (worker, master, gpu) = (worker.await, master.await, gpu.await);

    let as_node = stage.control_plane.node_client("reader").await;
    let read: Api<MachineConfig> = Api::all(as_node.clone());
    allowed(&read, &worker).await;
    for other in [&master, &gpu, "50-worker", "50-master"] {
        refused(read.get(other).await);
    }
    refused(read.list(&ListParams::default()).await);
    let as_master: Api<MachineConfig> = Api::all(stage.control_plane.node_client("control-plane-1").await);
    allowed(&as_master, &master).await;
    refused(as_master.get(&worker).await);
    let unknown: Api<MachineConfig> = Api::all(stage.control_plane.node_client("nobody").await);
    refused(unknown.get(&worker).await);

    let controller_configs: Api<ControllerConfig> = Api::all(as_node.clone());
    refused(controller_configs.get(names::CONTROLLER_CONFIG).await);
    let secrets: Api<Secret> = Api::namespaced(as_node.clone(), NAMESPACE);
    secrets.get(names::NODE_CREDENTIALS).await.unwrap();
    refused(secrets.list(&ListParams::default()).await);
    refused(secrets.get("machine-config-server-tls").await);

    a_node_does_not_choose_its_pool(stage, &read, &gpu).await;
    a_new_node_gets_the_labels_of_the_pool_that_it_was_let_in_for(stage, &gpu).await;

    // Where an administrator puts it, it reads that pool's configs and the old ones no more.
    label(&nodes, json!({"env": "gpu"})).await.unwrap();
    allowed(&read, &gpu).await;
    wait_until("the old pool's configs to be closed", || async { read.get(&worker).await.err() }).await;
    label(&nodes, json!({"env": null})).await.unwrap();
    allowed(&read, &worker).await;
    wait_until("the other pool's configs to be closed", || async { read.get(&gpu).await.err() }).await;
}

/// Neither by labels that pools select by, nor by what it says it was born into or runs.
async fn a_node_does_not_choose_its_pool(stage: &Stage, read: &Api<MachineConfig>, gpu: &str) {
    let own: Api<Node> = Api::all(stage.control_plane.node_client("reader").await);
    let notes = json!({annotations::CURRENT_CONFIG: gpu, annotations::DESIRED_CONFIG: gpu});
    let says = |notes: Value| Patch::Merge(json!({"metadata": {"annotations": notes}}));
    own.patch("reader", &PatchParams::default(), &says(notes)).await.unwrap();
    // The policy names the labels of pools a moment after the pools.
    for (key, value) in [("env", "gpu"), ("rack", "a")] {
        let denial = wait_until("the node's own label to be refused", || async {
            let refusal = label(&own, json!({key: value})).await.err();
            if refusal.is_none() {
                let admin: Api<Node> = Api::all(stage.client.clone());
                label(&admin, json!({key: null})).await.unwrap();
            }
            refusal
        });
        let denial = denial.await.to_string();
        assert!(denial.contains("labels of its own that MachineConfigPools select by"), "{denial}");
    }
    label(&own, json!({ZONE: "there"})).await.unwrap();
    refused(label(&own, json!({ZONE: "here"})).await);
    refused(label(&own, json!({ZONE: null})).await);
    let by_status = Patch::Merge(json!({"metadata": {"labels": {"env": "gpu"}}}));
    refused(own.patch_status("reader", &PatchParams::default(), &by_status).await);
    let birth = says(json!({annotations::FIRST_PIVOT_CONFIG: gpu}));
    let denial = own.patch("reader", &PatchParams::default(), &birth).await.unwrap_err().to_string();
    assert!(denial.contains("which pool it was born into"), "{denial}");
    refused(own.patch("reader", &PatchParams::default(), &says(json!({annotations::CURRENT_CONFIG: null}))).await);
    // What kubelets do all the time.
    let status = Patch::Merge(json!({"status": {"capacity": {"cpu": "4"}}}));
    own.patch_status("reader", &PatchParams::default(), &status).await.unwrap();
    label(&own, json!({"kubernetes.io/arch": "arm64"})).await.unwrap();
    refused(read.get(gpu).await);
}

/// Before its first report a node may say what it was born into. Its credential decides.
async fn a_new_node_gets_the_labels_of_the_pool_that_it_was_let_in_for(stage: &Stage, gpu: &str) {
    let nodes: Api<Node> = Api::all(stage.client.clone());
    nodes.create(&PostParams::default(), &node("newborn", &[])).await.unwrap();
    let as_node = stage.control_plane.node_client("newborn").await;
    let (own, read): (Api<Node>, Api<MachineConfig>) = (Api::all(as_node.clone()), Api::all(as_node));
    come_in(stage, "worker").await;
    let birth = Patch::Merge(json!({"metadata": {"annotations": {annotations::FIRST_PIVOT_CONFIG: gpu}}}));
    own.patch("newborn", &PatchParams::default(), &birth).await.unwrap();
    refused(read.get(gpu).await);
    come_in(stage, "gpu").await;
    wait_for(&nodes, "newborn", "the label of gpu", |node| {
        node.is_some_and(|node| node.labels().get("env").is_some_and(|env| env == "gpu"))
    })
    .await;
    allowed(&read, gpu).await;
    nodes.delete("newborn", &DeleteParams::default()).await.unwrap();
}

/// As if the machine `newborn` had fetched its first config with a token for this pool.
async fn come_in(stage: &Stage, pool: &str) {
    let machine = Some("newborn".to_owned());
    let grant = serving::token::Grant { pool: pool.to_owned(), machine, ..serving::token::Grant::default() };
    let secret = cluster::tokens::issue(&stage.client, &grant).await.unwrap();
    let tokens: Api<api::machinist::BootstrapToken> = Api::all(stage.client.clone());
    let used = json!({"status": {"uses": 1, "lastUsed": jiff::Timestamp::now().to_string()}});
    let name = serving::token::name(pool, &secret);
    tokens.patch_status(&name, &PatchParams::default(), &Patch::Merge(used)).await.unwrap();
}

async fn label(nodes: &Api<Node>, labels: Value) -> Result<Node, kube::Error> {
    let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
    nodes.patch("reader", &PatchParams::default(), &patch).await
}

async fn rendered(pools: &Api<MachineConfigPool>, pool: &str) -> String {
    let name = |pool: Option<&MachineConfigPool>| pool?.spec.configuration.as_ref()?.name.clone();
    let has = |pool: Option<&MachineConfigPool>| {
        let sources = pool.and_then(|pool| pool.spec.configuration.as_ref()).map(|it| it.source.clone());
        let own = |name: &str| name.starts_with("50-");
        sources.is_some_and(|all| all.iter().any(|one| one.name.as_deref().is_some_and(own)))
    };
    name(wait_for(pools, pool, "its config with the secret", has).await.as_ref()).unwrap()
}

async fn allowed(configs: &Api<MachineConfig>, name: &str) {
    wait_until(&format!("{name} to be readable"), || async { configs.get(name).await.ok() }).await;
}

#[track_caller]
fn refused<T>(answer: Result<T, kube::Error>) {
    match answer {
        Err(kube::Error::Api(status)) => assert!([403, 422].contains(&status.code), "{status:?}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was allowed"),
    }
}
