//! Admission of Machines on the embedded API and on a real kube-apiserver, with the certificate that the operator makes and
//! the rights that an installation gives.

use std::path::Path;
use std::sync::Arc;

use api::machine::{Machine, MachineSet};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use memory::{Cloud, Memory, Nothing};
use operator::machine_api::Settings;
use serde_json::{Value, json};
use testkit::{Kind, wait_for, wait_until};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::machine_api::Stage;

const NAMESPACE: &str = api::names::MACHINE_API_NAMESPACE;
const SECRET: &str = "machine-api-operator-webhook-cert";

/// A cluster whose Machines are admitted.
struct Scene {
    stage: Stage,
    machines: Api<Machine>,
    _folder: tempfile::TempDir,
    admission: JoinHandle<()>,
    _operator: JoinHandle<()>,
}

impl Scene {
    async fn start(kind: Kind) -> Option<Self> {
        let stage = Stage::start(kind).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let platform = Some(operator::machine_api::SIMULATED.to_owned());
        let operator = stage.operate_with(Settings { platform, webhook_url: Some(url), ..Settings::default() }).await;
        let folder = tempfile::tempdir().unwrap();
        write_certificate(&stage.client, folder.path()).await;
        let account = format!("system:serviceaccount:{NAMESPACE}:machine-api-controllers");
        let kubeconfig = stage.control_plane.user_kubeconfig(&account, None);
        let client = cluster::connect(Some(&kubeconfig)).await.unwrap();
        let path = folder.path().to_owned();
        let tls = machines::webhook::Tls { certificates: path, ..machines::webhook::Tls::default() };
        let provider = Arc::new(Memory::new(Cloud::new(Arc::new(Nothing))));
        let admission = tokio::spawn(async move { machines::webhook::serve(listener, &tls, client, provider).await });
        let machines = Api::namespaced(stage.client.clone(), NAMESPACE);
        let scene = Self { machines, stage, _folder: folder, admission, _operator: operator };
        scene.is_asked().await;
        Some(scene)
    }

    /// The API server learns of configurations a little after they are written.
    async fn is_asked(&self) {
        wait_until("defaults to be filled in", || async {
            let dry = PostParams { dry_run: true, ..PostParams::default() };
            let made = self.machines.create(&dry, &machine("probe", None)).await.unwrap();
            spec_of(&made).get("instanceType").map(drop)
        })
        .await;
    }

    /// What kubectl prints when it creates an object: warnings and refusals, and the object's name.
    fn create(&self, object: &Value) -> String {
        let output = self.stage.control_plane.try_kubectl(&["create", "-f", "-"], Some(&object.to_string()));
        [output.stderr, output.stdout].map(|bytes| String::from_utf8(bytes).unwrap()).concat()
    }
}

/// What the kubelet would do for the pod.
async fn write_certificate(client: &Client, folder: &Path) {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let secret = wait_for(&secrets, SECRET, "the certificate", |secret| secret.is_some()).await.unwrap();
    let data = secret.data.unwrap();
    for name in ["tls.key", "tls.crt"] {
        std::fs::write(folder.join(name), &data[name].0).unwrap();
    }
}

fn machine(name: &str, provider_id: Option<&str>) -> Machine {
    serde_json::from_value(machine_value(name, provider_id)).unwrap()
}

fn machine_value(name: &str, provider_id: Option<&str>) -> Value {
    let spec = json!({"apiVersion": "machinist.dev/v1alpha1", "kind": "MemoryMachineProviderSpec"});
    let mut object = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"machine.openshift.io/cluster-api-cluster": "c"}},
        "spec": {"providerSpec": {"value": spec}},
    });
    if let Some(id) = provider_id {
        object["spec"]["providerID"] = json!(id);
    }
    object
}

fn spec_of(machine: &Machine) -> Value {
    machine.spec.provider_spec.clone().and_then(|spec| spec.value).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_are_filled_in_refused_and_warned_of_and_a_copy_loses_the_instance_of_its_original() {
    for kind in Kind::all() {
        let Some(scene) = Scene::start(kind).await else { continue };
        a_copy_gets_an_instance_of_its_own(&scene).await;
        what_cannot_work_is_refused(&scene).await;
        an_outage_stops_nobody(scene).await;
    }
}

/// Runbook R24.
async fn a_copy_gets_an_instance_of_its_own(scene: &Scene) {
    let id = "memory:///zone-a/master-0";
    let said = scene.create(&machine_value("master-0", Some(id)));
    assert!(said.contains("created") && !said.contains("Warning"), "nobody else holds it: {said}");
    wait_until("admission to know the original", || async {
        let mut copy = machine_value("master-3", Some(id));
        copy["metadata"]["annotations"] =
            json!({"machine.openshift.io/instance-state": "running", "mine": "stays"});
        let said = scene.create(&copy);
        let told = "spec.providerID memory:///zone-a/master-0 was removed, because machine openshift-machine-api/master-0 \
                    holds that instance";
        if said.contains(told) {
            return Some(());
        }
        scene.machines.delete("master-3", &DeleteParams::default()).await.unwrap();
        None
    })
    .await;
    let copy = scene.machines.get("master-3").await.unwrap();
    assert_eq!(copy.spec.provider_id, None);
    assert_eq!(copy.annotations().keys().collect::<Vec<_>>(), ["mine"]);
    assert_eq!(spec_of(&copy)["instanceType"], "medium", "defaults are filled in");
    let original = scene.machines.get("master-0").await.unwrap();
    assert_eq!(original.spec.provider_id.as_deref(), Some(id));

    let steal = Patch::Merge(json!({"spec": {"providerID": id}}));
    let refusal = scene.machines.patch("master-3", &PatchParams::default(), &steal).await.unwrap_err().to_string();
    assert!(refusal.contains("machine openshift-machine-api/master-0 holds this instance"), "{refusal}");
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    scene.machines.patch("master-3", &PatchParams::default(), &label).await.unwrap();
}

async fn what_cannot_work_is_refused(scene: &Scene) {
    let mut odd = machine_value("odd", None);
    odd["spec"]["providerSpec"]["value"]["instanceTyp"] = json!("large");
    let said = scene.create(&odd);
    assert!(said.contains("Warning") && said.contains("instanceTyp"), "an unknown field is named: {said}");
    let mut wrong = machine_value("wrong", None);
    wrong["spec"]["providerSpec"]["value"]["instanceType"] = json!("gigantic");
    let said = scene.create(&wrong);
    assert!(said.contains("validation.machine.machine.openshift.io") && said.contains("gigantic"), "{said}");

    manifests_of_2019_are_admitted(scene);

    let template = machine_value("", None)["spec"].clone();
    let mut set = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
        "metadata": {"name": "a", "namespace": NAMESPACE},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"set": "a"}},
            "template": {"metadata": {"labels": {"set": "b"}}, "spec": template}},
    });
    let said = scene.create(&set);
    assert!(said.contains("validation.machineset.machine.openshift.io") && said.contains("selector"), "{said}");
    set["spec"]["template"]["metadata"]["labels"]["set"] = json!("a");
    assert!(scene.create(&set).contains("created"));
    let sets: Api<MachineSet> = Api::namespaced(scene.stage.client.clone(), NAMESPACE);
    let other = Patch::Merge(json!({"spec": {"selector": {"matchLabels": {"set": "a", "more": "b"}}}}));
    let refusal = sets.patch("a", &PatchParams::default(), &other).await.unwrap_err().to_string();
    assert!(refusal.contains("selector is immutable"), "{refusal}");

    let check = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
        "metadata": {"name": "check", "namespace": NAMESPACE}, "spec": {"selector": {}, "nodeStartupTimeout": "0nonsense"},
    });
    let said = scene.create(&check);
    assert!(
        said.contains("validation.machinehealthcheck.machine.openshift.io") && said.contains("0nonsense"),
        "{said}"
    );
}

/// Runbook R23.
fn manifests_of_2019_are_admitted(scene: &Scene) {
    let older = |mut spec: Value| {
        let value = spec["providerSpec"].take();
        spec.as_object_mut().unwrap().remove("providerSpec");
        spec["providerConfig"] = value;
        spec["providerConfig"]["value"]["zone"] = Value::Null;
        spec
    };
    let mut seed = machine_value("seed", None);
    seed["spec"] = older(seed["spec"].take());
    let said = scene.create(&seed);
    let warning = "spec.providerConfig.value is an older spelling; use spec.providerSpec.value";
    assert!(said.contains("created") && said.contains(warning), "{said}");
    let mut wrong = seed.clone();
    wrong["metadata"]["name"] = json!("seed-wrong");
    wrong["spec"]["providerConfig"]["value"]["instanceType"] = json!("gigantic");
    assert!(scene.create(&wrong).contains("gigantic"), "the older spelling is judged as well");
    let labels = json!({"set": "seed"});
    let set = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
        "metadata": {"name": "seed", "namespace": NAMESPACE},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": seed["spec"]}},
    });
    let said = scene.create(&set);
    let warning = "spec.template.spec.providerConfig.value is an older spelling";
    assert!(said.contains("created") && said.contains(warning), "{said}");
}

async fn an_outage_stops_nobody(scene: Scene) {
    let client = &scene.stage.client;
    scene.admission.abort();
    let _ = scene.admission.await;
    let mut wrong = machine_value("during-the-outage", None);
    wrong["spec"]["providerSpec"]["value"]["instanceType"] = json!("gigantic");
    let made: Machine = serde_json::from_value(wrong).unwrap();
    let made = scene.machines.create(&PostParams::default(), &made).await.unwrap();
    assert_eq!(made.name_any(), "during-the-outage", "the controllers check again what gets in unseen");
    // Configurations that somebody deletes come back.
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    mutating.delete("machine-api", &DeleteParams::default()).await.unwrap();
    wait_for(&mutating, "machine-api", "the configuration to come back", |one| one.is_some()).await;
    let bundles = validating.get("machine-api").await.unwrap().webhooks.unwrap();
    assert!(bundles.iter().all(|hook| hook.client_config.ca_bundle.is_some()));
}
