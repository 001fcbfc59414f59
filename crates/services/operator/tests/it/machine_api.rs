//! The Machine API's operator on the embedded API and on a real kube-apiserver, with the rights that its installation
//! gives it and no others.

use std::time::Duration;

use api::config::ClusterOperator;
use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use operator::Installation;
use operator::machine_api::Settings;
use serde_json::{Value, json};
use testkit::{ControlPlane, Kind, control_plane, needs, wait_for, wait_for_all};
use tokio::task::JoinHandle;

const NAMESPACE: &str = api::names::MACHINE_API_NAMESPACE;
const OPERATOR: &str = "machine-api-operator";
const CONTROLLERS: &str = "machine-api-controllers";
const IMAGES: &str = "machine-api-operator-images";

pub(crate) struct Stage {
    pub(crate) control_plane: ControlPlane,
    pub(crate) client: Client,
    pub(crate) deployments: Api<Deployment>,
    images: Api<ConfigMap>,
    operators: Api<ClusterOperator>,
}

impl Stage {
    /// A cluster with what `machinist install` prints for the Machine API.
    pub(crate) async fn start(kind: Kind) -> Option<Self> {
        if !needs::kubectl() {
            return None;
        }
        let control_plane = control_plane(kind).await?;
        control_plane.install().await;
        let client = cluster::connect(Some(&control_plane.kubeconfig())).await.unwrap();
        cluster::ensure_namespace(&client, NAMESPACE).await.unwrap();
        let mut installation = Installation::default();
        installation.machine_access = operator::machine_access(&installation, &machines::webhook::with_roles());
        let objects = operate::machine_api::installed(&installation).into_iter().map(|one| one.object);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects.collect::<Vec<_>>()});
        control_plane.apply(&list.to_string());
        Some(Self {
            deployments: Api::namespaced(client.clone(), NAMESPACE),
            images: Api::namespaced(client.clone(), NAMESPACE),
            operators: Api::all(client.clone()),
            client,
            control_plane,
        })
    }

    /// Starts the operator with its own account.
    async fn operate(&self, platform: Option<&str>) -> JoinHandle<()> {
        self.operate_with(Settings { platform: platform.map(str::to_owned), ..Settings::default() }).await
    }

    pub(crate) async fn operate_with(&self, settings: Settings) -> JoinHandle<()> {
        let account = format!("system:serviceaccount:{NAMESPACE}:{OPERATOR}");
        let kubeconfig = self.control_plane.user_kubeconfig(&account, None);
        let client = cluster::connect(Some(&kubeconfig)).await.unwrap();
        let lease = Some(Duration::from_secs(30));
        let settings = Settings { lease, ..settings };
        tokio::spawn(async move {
            operator::machine_api::run(client, settings, std::future::pending()).await.unwrap();
        })
    }

    /// Waits for a condition of the ClusterOperator whose message has these words.
    async fn condition(&self, type_: &str, status: &str, words: &[&str]) -> ClusterOperator {
        let what = format!("condition {type_}={status} with {words:?}");
        let found = wait_for(&self.operators, "machine-api", &what, |object| {
            let conditions = object.and_then(|object| object.status.as_ref()).map(|status| &status.conditions);
            conditions.into_iter().flatten().any(|one| {
                let message = one.message.as_deref().unwrap_or_default();
                one.type_ == type_ && one.status == status && words.iter().all(|word| message.contains(word))
            })
        });
        found.await.unwrap()
    }

    async fn install_config(&self, text: &str) {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), "kube-system");
        let map = json!({"metadata": {"name": "cluster-config-v1"}, "data": {"install-config": text}});
        maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    }

    /// Waits until the controllers are to run with this image.
    async fn controllers(&self, image: &str) -> Deployment {
        let what = format!("the controllers to have the image {image}");
        wait_for(&self.deployments, CONTROLLERS, &what, |one| image_of(one).as_deref() == Some(image)).await.unwrap()
    }

    /// Says that the pods of the controllers run, as the cluster's own controllers would.
    async fn run_controllers(&self) {
        let generation = self.deployments.get(CONTROLLERS).await.unwrap().metadata.generation;
        let status = json!({"status": {"observedGeneration": generation, "replicas": 1, "updatedReplicas": 1,
            "readyReplicas": 1, "availableReplicas": 1}});
        let parameters = PatchParams::default();
        self.deployments.patch_status(CONTROLLERS, &parameters, &Patch::Merge(status)).await.unwrap();
    }

    async fn patch(&self, name: &str, patch: Value) {
        self.deployments.patch(name, &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
    }

    async fn name_images(&self, images: Value) {
        let patch = json!({"data": {"images.json": images.to_string()}});
        self.images.patch(IMAGES, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}

fn image_of(deployment: Option<&Deployment>) -> Option<String> {
    deployment?.spec.as_ref()?.template.spec.as_ref()?.containers.first()?.image.clone()
}

fn arguments_of(deployment: &Deployment) -> Vec<String> {
    let pod = deployment.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
    pod.containers[0].args.clone().unwrap_or_default()
}

#[tokio::test]
async fn an_install_config_of_2019_brings_the_controllers_and_people_bring_their_own_images() {
    for kind in Kind::all() {
        let Some(stage) = Stage::start(kind).await else { continue };
        stage.install_config("platform: {kubemark: {}}").await;
        let _operator = stage.operate(None).await;
        let own = concat!("machinist:", env!("CARGO_PKG_VERSION"));
        let deployed = stage.controllers(own).await;
        assert!(arguments_of(&deployed).contains(&"--provider=kubemark".to_owned()), "{:?}", arguments_of(&deployed));
        the_report_follows_the_controllers(&stage).await;
        a_hand_edit_is_put_back_by_name(&stage).await;
        the_runbook_of_own_images(&stage).await;
        controllers_stay_when_nothing_names_the_platform_any_more(&stage).await;
        let report = stage.operators.get("machine-api").await.unwrap();
        assert!(!serde_json::to_string(&report).unwrap().contains("forbidden"), "{report:?}");
    }
}

async fn controllers_stay_when_nothing_names_the_platform_any_more(stage: &Stage) {
    let before = stage.deployments.get(CONTROLLERS).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(stage.client.clone(), "kube-system");
    maps.delete("cluster-config-v1", &DeleteParams::default()).await.unwrap();
    stage.condition("Degraded", "True", &["nothing says any more which platform", "stays as it is"]).await;
    let after = stage.deployments.get(CONTROLLERS).await.unwrap();
    assert_eq!((after.uid(), after.metadata.deletion_timestamp), (before.uid(), None));
    stage.install_config("platform: {kubemark: {}}").await;
    stage.condition("Degraded", "False", &[]).await;
}

async fn the_report_follows_the_controllers(stage: &Stage) {
    stage.condition("Available", "False", &["Operator is initializing"]).await;
    stage.run_controllers().await;
    stage.condition("Available", "True", &["is available at operator: "]).await;
    let table = stage.control_plane.kubectl(&["get", "co", "machine-api"]);
    let (head, row) = table.trim().split_once('\n').unwrap();
    let columns: Vec<&str> = head.split_whitespace().collect();
    assert_eq!(columns, ["NAME", "VERSION", "AVAILABLE", "PROGRESSING", "DEGRADED", "SINCE", "MESSAGE"]);
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[..5], ["machine-api", env!("CARGO_PKG_VERSION"), "True", "False", "False"], "{table}");
}

async fn a_hand_edit_is_put_back_by_name(stage: &Stage) {
    let own = image_of(Some(&stage.deployments.get(CONTROLLERS).await.unwrap())).unwrap();
    let edit = json!([{"name": "machine-controller", "image": "mine:1"}]);
    stage.patch(CONTROLLERS, json!({"spec": {"replicas": 0, "template": {"spec": {"containers": edit}}}})).await;
    stage.controllers(&own).await;
    let events: Api<Event> = Api::namespaced(stage.client.clone(), NAMESPACE);
    wait_for_all(&events, "an event that names who put it back", |all| {
        let words = ["Deployment openshift-machine-api/machine-api-controllers", "put back by machine-api-operator"];
        all.iter().any(|event| {
            let note = event.note.as_deref().unwrap_or_default();
            event.reason.as_deref() == Some("ObjectRestored") && words.iter().all(|word| note.contains(word))
        })
    })
    .await;
    let replicas = stage.deployments.get(CONTROLLERS).await.unwrap().spec.unwrap().replicas;
    assert_eq!(replicas, Some(1));
}

/// Runbook R27, as people type it.
async fn the_runbook_of_own_images(stage: &Stage) {
    stage.patch(OPERATOR, json!({"spec": {"replicas": 0}})).await;
    let edit = json!([{"name": "machine-controller", "image": "by-hand:1"}]);
    stage.patch(CONTROLLERS, json!({"spec": {"template": {"spec": {"containers": edit}}}})).await;
    stage.name_images(json!({"machineAPIOperator": "mine:2", "clusterAPIControllerKubemark": "mine:2"})).await;
    stands(stage, "by-hand:1").await;
    let edit = json!([{"name": OPERATOR, "image": "mine:2"}]);
    stage.patch(OPERATOR, json!({"spec": {"replicas": 1, "template": {"spec": {"containers": edit}}}})).await;
    stage.controllers("mine:2").await;
    let operator = stage.deployments.get(OPERATOR).await.unwrap();
    assert_eq!(image_of(Some(&operator)).as_deref(), Some("mine:2"), "its own Deployment is the user's");

    let before = stage.deployments.get(CONTROLLERS).await.unwrap().uid();
    stage.deployments.delete(CONTROLLERS, &DeleteParams::default()).await.unwrap();
    wait_for(&stage.deployments, CONTROLLERS, "a new Deployment", |one| one.is_some_and(|one| one.uid() != before))
        .await;
    stage.controllers("mine:2").await;
}

/// Two seconds are several times what healing takes; a write in that time is a failure.
async fn stands(stage: &Stage, image: &str) {
    let mut changes = watcher::watch_object(stage.deployments.clone(), CONTROLLERS).boxed();
    let healed = async {
        while let Some(change) = changes.next().await {
            if change.is_ok_and(|one| image_of(one.as_ref()).as_deref() != Some(image)) {
                return;
            }
        }
    };
    let healed = tokio::time::timeout(Duration::from_secs(2), healed).await;
    assert!(healed.is_err(), "it was put back although the operator is off");
}

fn infrastructures(client: &Client) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("config.openshift.io", "v1", "Infrastructure");
    Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&gvk, "infrastructures"))
}

#[tokio::test]
async fn a_platform_without_machines_runs_nothing_says_so_and_takes_away_what_another_left() {
    for kind in Kind::all() {
        let Some(stage) = Stage::start(kind).await else { continue };
        let infrastructures = infrastructures(&stage.client);
        let object = json!({
            "apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"}, "spec": {},
        });
        infrastructures.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        let of_type = |type_: &str| Patch::Merge(json!({"status": {"platformStatus": {"type": type_}}}));
        infrastructures.patch_status("cluster", &PatchParams::default(), &of_type("AWS")).await.unwrap();
        let operator = stage.operate(None).await;
        let what = "the controllers of AWS";
        let deployed = wait_for(&stage.deployments, CONTROLLERS, what, |one| one.is_some()).await.unwrap();
        assert!(arguments_of(&deployed).contains(&"--provider=aws".to_owned()));
        operator.abort();

        infrastructures.patch_status("cluster", &PatchParams::default(), &of_type("Nutanix")).await.unwrap();
        let _operator = stage.operate(None).await;
        let words = ["Cluster Machine API Operator is in NoOp mode", "platform Nutanix", "no provider"];
        let report = stage.condition("Available", "True", &words).await;
        let message = report.status.unwrap().extension.unwrap()["message"].to_string();
        assert!(message.contains("NoOp"), "the column MESSAGE has it: {message}");
        wait_for(&stage.deployments, CONTROLLERS, "the controllers to go", |one| one.is_none()).await;
    }
}

#[tokio::test]
async fn a_cluster_that_nobody_named_a_platform_for_is_well_and_broken_images_are_named() {
    for kind in Kind::all() {
        let Some(stage) = Stage::start(kind).await else { continue };
        let operator = stage.operate(None).await;
        stage.condition("Available", "True", &["NoOp", "machinist install --platform"]).await;
        operator.abort();

        stage.name_images(json!(["a list"])).await;
        let operator = stage.operate(Some("kubemark")).await;
        let words = ["ConfigMap openshift-machine-api/machine-api-operator-images", "images.json"];
        stage.condition("Degraded", "True", &words).await;
        assert!(stage.deployments.get_opt(CONTROLLERS).await.unwrap().is_none(), "nothing half made");
        stage.name_images(json!({"machineAPIOperator": "mine:3"})).await;
        stage.controllers("mine:3").await;
        stage.condition("Degraded", "False", &[]).await;

        stage.images.delete(IMAGES, &DeleteParams::default()).await.unwrap();
        stage.condition("Degraded", "True", &["has no images.json"]).await;
        stage.controllers("mine:3").await;
        operator.abort();
    }
}

#[tokio::test]
async fn what_was_decided_and_what_the_cluster_says_of_tls_and_gates_reaches_the_controllers() {
    for kind in Kind::all() {
        let Some(stage) = Stage::start(kind).await else { continue };
        let gvk = GroupVersionKind::gvk("config.openshift.io", "v1", "APIServer");
        let resource = ApiResource::from_gvk_with_plural(&gvk, "apiservers");
        let servers: Api<DynamicObject> = Api::all_with(stage.client.clone(), &resource);
        let server = json!({
            "apiVersion": "config.openshift.io/v1", "kind": "APIServer", "metadata": {"name": "cluster"},
            "spec": {"tlsSecurityProfile": {"type": "Modern", "modern": {}}},
        });
        servers.create(&PostParams::default(), &serde_json::from_value(server).unwrap()).await.unwrap();
        let gvk = GroupVersionKind::gvk("config.openshift.io", "v1", "FeatureGate");
        let gates: Api<DynamicObject> =
            Api::all_with(stage.client.clone(), &ApiResource::from_gvk_with_plural(&gvk, "featuregates"));
        let enabled = ["MachineAPIOperatorDisableMachineHealthCheckController"];
        let gate = json!({
            "apiVersion": "config.openshift.io/v1", "kind": "FeatureGate", "metadata": {"name": "cluster"},
            "spec": {"featureSet": "CustomNoUpgrade", "customNoUpgrade": {"enabled": enabled}},
        });
        gates.create(&PostParams::default(), &serde_json::from_value(gate).unwrap()).await.unwrap();
        let choices = operator::machine_api::Choices {
            socket: Some("/run/shed/provider.sock".to_owned()),
            external_etcd: true,
            remove_orphans: Some("c-1".to_owned()),
        };
        // Nothing names a platform, and nothing has to.
        let operator = stage.operate_with(Settings { choices, ..Settings::default() }).await;
        let deployed = wait_for(&stage.deployments, CONTROLLERS, "the controllers", |one| one.is_some()).await.unwrap();
        let arguments = arguments_of(&deployed);
        let wanted = [
            "--provider=unix:/run/shed/provider.sock",
            "--external-etcd",
            "--remove-orphans=c-1",
            "--without-health-checks",
            "--tls-min-version=VersionTLS12",
        ];
        for wanted in wanted {
            assert!(arguments.contains(&wanted.to_owned()), "{wanted} is missing: {arguments:?}");
        }
        operator.abort();
    }
}
