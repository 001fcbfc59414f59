//! An upgrade takes nothing from daemons that still run as the version before.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::rbac::v1::{ClusterRole, RoleBinding};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use operate::Installation;
use serde_json::{Value, json};
use testkit::wait_for;

use crate::stage::{NAMESPACE, Stage, settings};

const DAEMON: &str = "machine-config-daemon";

/// An installation whose daemons use their account, as every one did before.
fn before() -> Installation {
    let mut installation = Installation { daemon_account: true, ..settings().installation };
    installation.access = operator::access(&installation, &[], &[]);
    installation
}

impl Stage {
    /// What `kubectl apply` of an installation's access.yaml and workloads does.
    async fn apply(&self, installation: &Installation) {
        for object in operate::installed(installation).into_iter().map(|desired| desired.object) {
            let kind = object["kind"].as_str().unwrap();
            if !["Namespace", "ServiceAccount", "DaemonSet"].contains(&kind) && !kind.contains("Role") {
                continue;
            }
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            let types = object.types.clone().unwrap();
            let (group, version) = types.api_version.split_once('/').unwrap_or(("", types.api_version.as_str()));
            let resource =
                kube::api::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, &types.kind));
            let api: Api<DynamicObject> = match &object.metadata.namespace {
                Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
                None => Api::all_with(self.client.clone(), &resource),
            };
            let name = object.metadata.name.clone().unwrap();
            api.patch(&name, &PatchParams::apply("kubectl").force(), &Patch::Apply(&object)).await.unwrap();
        }
    }

    /// What the DaemonSet controller says, of ten nodes, about the template as it is now.
    async fn updated(&self, pods: i64) {
        let sets: Api<DaemonSet> = Api::namespaced(self.client.clone(), NAMESPACE);
        let generation = sets.get(DAEMON).await.unwrap().metadata.generation;
        let status = json!({"status": {
            "observedGeneration": generation, "desiredNumberScheduled": 10, "updatedNumberScheduled": pods,
            "currentNumberScheduled": 10, "numberMisscheduled": 0, "numberReady": 10, "numberAvailable": 10,
        }});
        sets.patch_status(DAEMON, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    async fn daemons_resources(&self) -> Vec<String> {
        let roles: Api<ClusterRole> = Api::all(self.client.clone());
        let rules = roles.get(DAEMON).await.unwrap().rules.unwrap_or_default();
        rules.into_iter().flat_map(|rule| rule.resources.unwrap_or_default()).collect()
    }

    async fn reads_certificates(&self) -> bool {
        let bindings: Api<RoleBinding> = Api::namespaced(self.client.clone(), NAMESPACE);
        let binding = bindings.get(api::names::NODE_CREDENTIALS).await.unwrap();
        binding.subjects.unwrap_or_default().iter().any(|subject| subject.name == DAEMON)
    }
}

#[tokio::test]
async fn the_daemons_account_keeps_its_rights_until_the_last_old_daemon_is_replaced() {
    let stage = Stage::start().await;
    stage.apply(&before()).await;
    stage.updated(10).await;
    let wide = stage.daemons_resources().await;
    assert!(wide.contains(&"nodes".to_owned()), "{wide:?}");

    // A person applies the new version, then its operator starts and replaces daemons ten percent at a time.
    let new = settings().installation;
    let manifests = operate::installed(&new);
    let is_daemons = |object: &Value| object["kind"] == "ClusterRole" && object["metadata"]["name"] == DAEMON;
    assert!(!manifests.iter().any(|one| is_daemons(&one.object)), "what is applied by hand takes nothing away");
    stage.apply(&new).await;
    assert_eq!(stage.daemons_resources().await, wide);
    assert!(stage.reads_certificates().await);
    let operator = stage.operate(settings());
    stage.well().await;
    stage.updated(9).await;
    stage.make_it_look("one").await;
    let configs: Api<api::machineconfiguration::ControllerConfig> = Api::all(stage.client.clone());
    wait_for(&configs, api::names::CONTROLLER_CONFIG, "the operator to have looked", |config| {
        config.is_some_and(|config| !config.spec.image_registry_bundle_user_data.is_empty())
    })
    .await;
    assert_eq!(stage.daemons_resources().await, wide, "one daemon still uses them");
    assert!(stage.reads_certificates().await);

    stage.updated(10).await;
    let roles: Api<ClusterRole> = Api::all(stage.client.clone());
    wait_for(&roles, DAEMON, "the rights to be taken", |role| {
        let rules = role.and_then(|role| role.rules.as_deref()).unwrap_or_default();
        let resources: Vec<_> = rules.iter().flat_map(|rule| rule.resources.as_deref().unwrap_or_default()).collect();
        resources == ["clustersettings"]
    })
    .await;
    let bindings: Api<RoleBinding> = Api::namespaced(stage.client.clone(), NAMESPACE);
    wait_for(&bindings, api::names::NODE_CREDENTIALS, "certificates to be for nodes alone", |binding| {
        let subjects = binding.and_then(|binding| binding.subjects.as_deref()).unwrap_or_default();
        subjects.iter().all(|subject| subject.name == "system:nodes")
    })
    .await;
    operator.abort();
}
