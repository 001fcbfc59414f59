//! A cluster with BareMetalHosts, and somebody who does to them what Metal3's operator does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use machine::provider::{
    Deletion, Error, Instance, Intent, Mark, Provider, Request, Search, Secrets, SpecRules, State,
};
use metal::Metal;
use metal::spec::Rules;
use serde_json::{Value, json};
use testkit::{ControlPlane, Kind, control_plane};

pub(crate) const CLUSTER: &str = "c1";
const NAMESPACE: &str = "openshift-machine-api";

pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) provider: Metal,
    /// While it is false, the operator rests.
    pub(crate) works: Arc<AtomicBool>,
    _control_plane: ControlPlane,
}

impl World {
    /// With so many free hosts: `host-0`, `host-1` and so on, each with its number as label `number`.
    pub(crate) async fn start(hosts: usize) -> Self {
        let control_plane = control_plane(Kind::Embedded).await.expect("the embedded API needs nothing");
        let client = control_plane.client().await;
        define(&client).await;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        let works = Arc::new(AtomicBool::new(true));
        let world = Self { provider: Metal::new(client.clone()), client, works, _control_plane: control_plane };
        for number in 0..hosts {
            world.add(number).await;
        }
        tokio::spawn(operate(world.hosts(), world.works.clone()));
        world
    }

    pub(crate) fn hosts(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource())
    }

    async fn add(&self, number: usize) {
        let name = format!("host-{number}");
        let host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": name, "labels": {"number": number.to_string()}},
            "spec": {"online": false, "bmc": {"address": "redfish://bmc", "credentialsName": "bmc"}}});
        let host: DynamicObject = serde_json::from_value(host).unwrap();
        self.hosts().create(&PostParams::default(), &host).await.unwrap();
        self.set_status(
            &name,
            json!({"operationalStatus": "OK", "errorMessage": "", "errorCount": 0, "poweredOn": false,
            "provisioning": {"state": "available", "ID": name},
            "hardware": {"hostname": name, "cpu": {"count": 8 + number}, "ramMebibytes": 16384,
                "nics": [{"name": "eth0", "ip": format!("192.0.2.{}", number + 1)}, {"name": "eth1"}]}}),
        )
        .await;
    }

    pub(crate) async fn set_status(&self, name: &str, status: Value) {
        set_status(&self.hosts(), name, status).await;
    }

    pub(crate) async fn patch(&self, name: &str, patch: Value) {
        self.hosts().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn host(&self, name: &str) -> Value {
        serde_json::to_value(self.hosts().get(name).await.unwrap()).unwrap()
    }

    /// Names of hosts that somebody has.
    pub(crate) async fn taken(&self) -> Vec<String> {
        let hosts = self.hosts().list(&ListParams::default()).await.unwrap();
        let taken = hosts.into_iter().filter(|host| host.data["spec"]["consumerRef"].is_object());
        taken.map(|host| host.metadata.name.unwrap()).collect()
    }

    pub(crate) fn machine(&self, name: &str, spec: &Value) -> Request {
        let [cluster, namespace, machine] = [CLUSTER, NAMESPACE, name].map(str::to_owned);
        Request {
            mark: Mark { cluster, namespace, machine, uid: format!("uid-{name}") },
            labels: BTreeMap::new(),
            control_plane: false,
            spec: Arc::new(spec.clone()),
            provider_id: None,
            provider_status: None,
            intent: Some(Intent {
                token: format!("token-{name}-1"),
                attempt: 1,
                children: BTreeMap::new(),
                place: Rules.place(spec),
                recorded: Timestamp::now(),
            }),
            secrets: Arc::new(Secrets::default()),
        }
    }

    pub(crate) async fn create(&self, request: &Request) -> Result<Instance, Error> {
        self.provider.create(request, request.intent.as_ref().unwrap()).await
    }

    pub(crate) async fn look(&self, request: &Request) -> Vec<Instance> {
        self.provider.instances(std::slice::from_ref(request)).await.pop().unwrap().unwrap()
    }

    pub(crate) async fn run(&self, request: &Request) -> Instance {
        self.create(request).await.unwrap();
        self.until(request, |instance| instance.state == State::Running).await
    }

    pub(crate) async fn until(&self, request: &Request, is: impl Fn(&Instance) -> bool) -> Instance {
        let found = async {
            loop {
                if let Some(instance) = self.look(request).await.into_iter().find(&is) {
                    return instance;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), found).await.expect("it comes so far")
    }

    pub(crate) async fn delete(&self, request: &Request) {
        let gone = async {
            while self.provider.delete(request).await.unwrap() != Deletion::Gone {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), gone).await.expect("it goes");
    }

    pub(crate) fn search(&self) -> Search {
        Search { cluster: CLUSTER.to_owned(), place: Arc::new(json!({})), secrets: Arc::default() }
    }
}

pub(crate) fn spec(more: Value) -> Value {
    let mut spec = json!({
        "apiVersion": "baremetal.cluster.k8s.io/v1alpha1", "kind": "BareMetalMachineProviderSpec",
        "image": {"url": "http://images/base.qcow2", "checksum": "http://images/base.qcow2.sha256"},
        "userData": {"name": "worker-user-data"},
    });
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
        spec.extend(more);
    }
    spec
}

fn resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("metal3.io", "v1alpha1", "BareMetalHost"))
}

async fn set_status(hosts: &Api<DynamicObject>, name: &str, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    hosts.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

/// The fields of a BareMetalHost that are used here; others are refused, because the schema knows no others.
async fn define(client: &Client) {
    let text = || json!({"type": "string"});
    let flag = || json!({"type": "boolean"});
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let reference = || object(json!({"name": text(), "namespace": text()}));
    let consumer =
        object(json!({"apiVersion": text(), "kind": text(), "name": text(), "namespace": text(), "uid": text()}));
    let image = json!({"type": "object", "required": ["url"], "properties": {"url": text(), "checksum": text()}});
    let spec =
        object(json!({"online": flag(), "externallyProvisioned": flag(), "consumerRef": consumer, "image": image,
        "userData": reference(), "customDeploy": object(json!({"method": text()})),
        "bmc": object(json!({"address": text(), "credentialsName": text()}))}));
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = object(json!({"spec": spec, "status": status}));
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "baremetalhosts.metal3.io"},
        "spec": {
            "group": "metal3.io", "scope": "Namespaced",
            "names": {"kind": "BareMetalHost", "listKind": "BareMetalHostList", "plural": "baremetalhosts", "singular": "baremetalhost"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    crds.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();
    await_condition(crds, "baremetalhosts.metal3.io", is_crd_established()).await.unwrap();
}

/// One step at a time for each host: to what its spec says, as Metal3's operator does.
async fn operate(hosts: Api<DynamicObject>, works: Arc<AtomicBool>) {
    loop {
        tokio::time::sleep(Duration::from_millis(2)).await;
        if !works.load(Ordering::SeqCst) {
            continue;
        }
        let Ok(list) = hosts.list(&ListParams::default()).await else { continue };
        for host in list {
            let (spec, status) = (&host.data["spec"], &host.data["status"]);
            let state = status["provisioning"]["state"].as_str().unwrap_or_default();
            let is_wanted = spec["image"].is_object() || spec["customDeploy"].is_object();
            let next = match (state, is_wanted) {
                ("available" | "ready", true) => "provisioning",
                ("provisioning", true) => "provisioned",
                ("provisioning" | "provisioned", false) => "deprovisioning",
                ("deprovisioning", _) => "available",
                (state, _) => state,
            };
            let is_on = spec["online"] == true && matches!(next, "provisioned" | "externally provisioned");
            if next != state || status["poweredOn"] != is_on {
                let name = host.metadata.name.as_deref().unwrap_or_default();
                set_status(&hosts, name, json!({"poweredOn": is_on, "provisioning": {"state": next}})).await;
            }
        }
    }
}
