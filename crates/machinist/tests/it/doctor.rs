//! Every failure that `doctor` knows, made to happen on a fleet: found, explained, repaired, and quiet afterwards.

use api::machineconfiguration::{KubeletConfig, MachineConfig, MachineConfigPool};
use api::names::NAMESPACE;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::fleet::Fleet;

/// A fleet and its administrator.
struct Ward {
    fleet: Fleet,
    client: Client,
}

impl Ward {
    async fn new() -> Self {
        let fleet = Fleet::start(&["--nodes", "2"]);
        let client = fleet.client().await;
        let ward = Self { fleet, client };
        ward.quiet();
        ward
    }

    /// Waits until doctor finds this, and returns what it says of it.
    #[track_caller]
    fn found(&self, id: &str) -> Value {
        let is_it = |finding: &&Value| finding["id"] == id;
        let doctor = self.fleet.wait(&["doctor"], |doctor| findings(doctor).iter().any(|it| is_it(&it)));
        let finding = findings(&doctor).iter().find(is_it).unwrap().clone();
        assert!(finding["effect"].as_str().is_some_and(|effect| !effect.is_empty()), "{finding:#}");
        finding
    }

    /// Waits until doctor finds nothing.
    #[track_caller]
    fn quiet(&self) {
        self.fleet.wait(&["doctor"], |doctor| findings(doctor).is_empty());
    }

    /// Repairs what can be; the exit code tells whether that was all.
    #[track_caller]
    fn fix(&self, code: i32) -> String {
        let run = self.fleet.run(&["doctor", "--fix", "--yes"]);
        assert_eq!(run.code, code, "{}{}", run.stdout, run.stderr);
        run.stdout
    }

    fn all<K: kube::Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    /// The operator first, which would scale the others up again.
    async fn scale_to_zero(&self) {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        for name in ["machine-config-operator", "machine-config-controller"] {
            let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
            deployments.patch_scale(name, &PatchParams::default(), &none).await.unwrap();
            self.fleet.wait(&["doctor"], |doctor| {
                let subject = format!("deployment/{name}");
                findings(doctor).iter().any(|it| it["id"] == "scaled-to-zero" && it["subject"] == *subject)
            });
        }
        let log = self.fleet.folder.path().join("fleet/machinist.log");
        // It has stopped as often as it was started.
        let has_stopped = || {
            let text = std::fs::read_to_string(&log).unwrap();
            let count = |word: &str| text.matches(&format!("{word} component=\"machine-config-controller\"")).count();
            count("starting") == count("stopped")
        };
        self.fleet.wait(&["status"], |_| has_stopped());
    }

    async fn write(&self, name: &str, path: &str) {
        let config: MachineConfig = serde_json::from_value(json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": {"name": name, "labels": {api::labels::ROLE: "worker"}},
            "spec": {"config": {"ignition": {"version": "3.5.0"},
                "storage": {"files": [{"path": path, "mode": 420, "contents": {"source": "data:,x"}}]}}},
        }))
        .unwrap();
        self.all::<MachineConfig>().create(&PostParams::default(), &config).await.unwrap();
    }

    async fn patch<K>(&self, name: &str, patch: Value)
    where
        K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        self.all::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn label(&self, node: &str, label: &str, value: Value) {
        self.patch::<Node>(node, json!({"metadata": {"labels": {label: value}}})).await;
    }
}

fn findings(doctor: &Value) -> &[Value] {
    doctor["findings"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A command that doctor proposes.
#[track_caller]
fn proposes(finding: &Value, command: &str) {
    let moves = finding["moves"].as_array().unwrap();
    assert!(moves.iter().any(|step| step["command"].as_str().unwrap().contains(command)), "{command}: {finding:#}");
}

#[track_caller]
fn says(finding: &Value, words: &str) {
    assert!(finding["problem"].as_str().unwrap().contains(words), "{words}: {finding:#}");
}

#[tokio::test]
async fn every_failure_is_found_explained_repaired_and_then_quiet() {
    let ward = Ward::new().await;
    deployments_scaled_to_zero_and_a_rendered_config_deleted_meanwhile(&ward).await;
    a_file_that_somebody_edited_on_a_node(&ward);
    a_pool_stuck_after_a_bad_change(&ward).await;
    a_node_in_two_pools(&ward).await;
    a_node_in_no_pool(&ward).await;
    a_pause_that_keeps_a_change_from_nodes(&ward).await;
    a_drain_held_by_a_budget(&ward).await;
    a_kubelet_config_with_a_dangling_finalizer(&ward).await;
    an_expired_certificate(&ward).await;
    a_machine_that_is_gone_while_it_has_something_to_do(&ward).await;
}

async fn deployments_scaled_to_zero_and_a_rendered_config_deleted_meanwhile(ward: &Ward) {
    let target = ward.fleet.updated("");
    ward.scale_to_zero().await;
    ward.all::<MachineConfig>().delete(&target, &DeleteParams::default()).await.unwrap();
    let finding = ward.found("rendered-config-deleted");
    says(&finding, "pool worker and the nodes worker-1, worker-2 refer to it");
    let zero = ward.found("scaled-to-zero");
    proposes(&zero, "scale deploy/machine-config-controller --replicas=1");
    assert!(ward.all::<MachineConfig>().get_opt(&target).await.unwrap().is_none(), "nobody puts it back meanwhile");
    ward.fix(0);
    ward.quiet();
    assert!(ward.all::<MachineConfig>().get_opt(&target).await.unwrap().is_some());
}

fn a_file_that_somebody_edited_on_a_node(ward: &Ward) {
    let unit = ward.fleet.on_node("worker-1", "etc/systemd/system/kubelet.service");
    let before = std::fs::read_to_string(&unit).unwrap();
    std::fs::write(&unit, "by hand").unwrap();
    let finding = ward.found("content-mismatch");
    says(&finding, "/etc/systemd/system/kubelet.service");
    proposes(&finding, "machinist blame worker-1");
    ward.fix(0);
    ward.quiet();
    assert_eq!(std::fs::read_to_string(&unit).unwrap(), before);
}

async fn a_pool_stuck_after_a_bad_change(ward: &Ward) {
    let good = ward.fleet.updated("");
    ward.write("60-worker-broken", "/etc/passwd/broken").await;
    let finding = ward.found("pool-stuck-after-change");
    says(&finding, "/etc/passwd/broken");
    proposes(&finding, "machinist rollback worker");
    // While the node tries once more there is nothing to find for a moment.
    ward.fleet.until(|| Some(ward.fix(0)).filter(|said| said.contains(&good)));
    ward.quiet();
    assert_eq!(ward.fleet.updated(""), good);
    assert!(ward.all::<MachineConfig>().get_opt("60-worker-broken").await.unwrap().is_none());
}

async fn a_node_in_two_pools(ward: &Ward) {
    let pools = ward.all::<MachineConfigPool>();
    let label = |pool: &str| format!("{}{pool}", api::labels::NODE_ROLE_PREFIX);
    for name in ["infra", "storage"] {
        let pool: MachineConfigPool = serde_json::from_value(json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "metadata": {"name": name},
            "spec": {
                "machineConfigSelector": {"matchExpressions": [{"key": api::labels::ROLE, "operator": "In", "values": ["worker", name]}]},
                "nodeSelector": {"matchLabels": {label(name): ""}},
            },
        }))
        .unwrap();
        pools.create(&PostParams::default(), &pool).await.unwrap();
        ward.label("worker-2", &label(name), json!("")).await;
    }
    let finding = ward.found("node-in-two-pools");
    says(&finding, "infra and storage both want it");
    proposes(&finding, &format!("kubectl label node worker-2 {}-", label("storage")));
    ward.fix(3);
    // Only a person knows which of the two it shall be.
    for name in ["storage", "infra"] {
        ward.label("worker-2", &label(name), Value::Null).await;
    }
    ward.quiet();
    for name in ["storage", "infra"] {
        pools.delete(name, &DeleteParams::default()).await.unwrap();
    }
    ward.fleet.updated("");
}

async fn a_node_in_no_pool(ward: &Ward) {
    let pool = ward.all::<MachineConfigPool>().get("worker").await.unwrap();
    let before = serde_json::to_value(&pool.spec.node_selector).unwrap();
    let role = api::labels::NODE_ROLE_WORKER;
    let selector = json!({"matchLabels": {role: ""}, "matchExpressions": null});
    ward.patch::<MachineConfigPool>("worker", json!({"spec": {"nodeSelector": selector}})).await;
    ward.label("worker-2", role, Value::Null).await;
    let finding = ward.found("node-in-no-pool");
    proposes(&finding, &format!("kubectl label node worker-2 {role}="));
    ward.fix(3);
    ward.label("worker-2", role, json!("")).await;
    ward.quiet();
    let mut selector = json!({"matchLabels": null});
    selector["matchExpressions"] = before["matchExpressions"].clone();
    ward.patch::<MachineConfigPool>("worker", json!({"spec": {"nodeSelector": selector}})).await;
    ward.quiet();
}

async fn a_pause_that_keeps_a_change_from_nodes(ward: &Ward) {
    let before = ward.fleet.updated("");
    ward.patch::<MachineConfigPool>("worker", json!({"spec": {"paused": true}})).await;
    ward.write("50-worker-a", "/etc/a").await;
    let finding = ward.found("pool-paused");
    says(&finding, "2 of its nodes wait for");
    ward.fix(0);
    ward.fleet.updated(&before);
    ward.quiet();
    assert!(ward.fleet.on_node("worker-2", "etc/a").exists());
}

async fn a_drain_held_by_a_budget(ward: &Ward) {
    let before = ward.fleet.updated("");
    let deployments: Api<Deployment> = Api::namespaced(ward.client.clone(), "default");
    let shop = json!({
        "metadata": {"name": "shop"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "shop"}}, "template": {
            "metadata": {"labels": {"app": "shop"}},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "example.org/shop"}]}}},
    });
    deployments.create(&PostParams::default(), &serde_json::from_value(shop).unwrap()).await.unwrap();
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(ward.client.clone(), "default");
    let budget = json!({"metadata": {"name": "shop-stays"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "shop"}}}});
    budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    ward.write("50-worker-b", "/etc/b").await;
    let finding = ward.found("drain-held-by-budget");
    says(&finding, "shop-stays");
    proposes(&finding, "scale deploy/shop");
    ward.fix(3);
    let two = Patch::Merge(json!({"spec": {"replicas": 2}}));
    deployments.patch_scale("shop", &PatchParams::default(), &two).await.unwrap();
    ward.fleet.updated(&before);
    ward.quiet();
    deployments.delete("shop", &DeleteParams::default()).await.unwrap();
    budgets.delete("shop-stays", &DeleteParams::default()).await.unwrap();
}

/// The controller takes its finalizers off itself. Without it somebody else has to.
async fn a_kubelet_config_with_a_dangling_finalizer(ward: &Ward) {
    ward.scale_to_zero().await;
    let configs = ward.all::<KubeletConfig>();
    let config = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "KubeletConfig",
        "metadata": {"name": "max-pods", "finalizers": ["99-worker-generated-kubelet"]},
        "spec": {"kubeletConfig": {"maxPods": 100}},
    });
    configs.create(&PostParams::default(), &serde_json::from_value(config).unwrap()).await.unwrap();
    configs.delete("max-pods", &DeleteParams::default()).await.unwrap();
    let finding = ward.found("dangling-finalizer");
    says(&finding, "99-worker-generated-kubelet");
    assert!(configs.get_opt("max-pods").await.unwrap().is_some(), "it cannot go by itself");
    ward.fix(0);
    ward.quiet();
    assert!(configs.get_opt("max-pods").await.unwrap().is_none());
}

async fn an_expired_certificate(ward: &Ward) {
    ward.scale_to_zero().await;
    let secrets: Api<Secret> = Api::namespaced(ward.client.clone(), NAMESPACE);
    let name = "machine-config-server-tls";
    let expired = expired();
    let patch = Patch::Merge(json!({"stringData": {"tls.crt": expired}}));
    secrets.patch(name, &PatchParams::default(), &patch).await.unwrap();
    let finding = ward.found("certificate-expired");
    says(&finding, "CN=forgotten of machine-config-server-tls ended on 2001-02-03");
    proposes(&finding, "get deploy machine-config-operator");
    // Whoever renews it has to run; it does the rest.
    ward.fix(3);
    ward.quiet();
    let renewed = secrets.get(name).await.unwrap().data.unwrap().remove("tls.crt").unwrap();
    assert_ne!(renewed.0, expired.into_bytes());
}

/// A certificate that ended long ago.
fn expired() -> String {
    let mut parameters = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(rcgen::DnType::CommonName, "forgotten");
    parameters.not_before = rcgen::date_time_ymd(2000, 2, 3);
    parameters.not_after = rcgen::date_time_ymd(2001, 2, 3);
    parameters.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
}

async fn a_machine_that_is_gone_while_it_has_something_to_do(ward: &Ward) {
    let before = ward.fleet.updated("");
    let switch = ward.fleet.folder.path().join("fleet/nodes/worker-1/off");
    std::fs::write(&switch, "").unwrap();
    ward.fleet.wait(&["why", "node", "worker-1"], |why| why["summary"].as_str().unwrap().contains("NotReady"));
    ward.scale_to_zero().await;
    // Somebody wants another config of it, and nobody has heard of it since.
    let configs = ward.all::<MachineConfig>().list(&ListParams::default()).await.unwrap();
    let mut rendered = configs.items.iter().map(kube::ResourceExt::name_any);
    let other = rendered.find(|name| name.starts_with("rendered-worker-") && *name != before).unwrap();
    ward.patch::<Node>("worker-1", json!({"metadata": {"annotations": {api::annotations::DESIRED_CONFIG: other}}}))
        .await;
    // When it got it is in the node's records, and too lately for anybody to worry.
    ward.patch::<Node>("worker-1", json!({"metadata": {"managedFields": [{}]}})).await;
    ward.all::<api::machineconfiguration::MachineConfigNode>()
        .delete("worker-1", &DeleteParams::default())
        .await
        .unwrap();
    let finding = ward.found("nobody-is-working");
    says(&finding, "the machine is NotReady");
    proposes(&finding, "kubectl describe node worker-1");
    ward.fix(3);
    std::fs::remove_file(&switch).unwrap();
    ward.quiet();
    assert_eq!(ward.fleet.updated(""), before);
    let pods: Api<Pod> = Api::namespaced(ward.client.clone(), NAMESPACE);
    let daemons = pods.list(&ListParams::default().labels("k8s-app=machine-config-daemon")).await.unwrap();
    assert_eq!(
        daemons.items.len(),
        3,
        "{:?}",
        daemons.items.iter().map(kube::ResourceExt::name_any).collect::<Vec<_>>()
    );
}
