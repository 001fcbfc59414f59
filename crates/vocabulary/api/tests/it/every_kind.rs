//! Access to each kind without naming its type: its CRD, and deserializing and serializing an object.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) struct Kind {
    pub(crate) definition: CustomResourceDefinition,
    /// Deserializes an object into the Rust type and serializes it again.
    pub(crate) round_trip: fn(Value) -> Result<Value, String>,
}

impl Kind {
    pub(crate) fn name(&self) -> &str {
        self.definition.metadata.name.as_deref().unwrap()
    }

    pub(crate) fn schema(&self) -> Value {
        let manifest = api::manifest(&self.definition);
        manifest.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap().clone()
    }

    /// Returns an object of this kind with the given `spec` and `status`.
    pub(crate) fn object(&self, body: &Value) -> Value {
        let mut object = body.clone();
        let spec = &self.definition.spec;
        object["apiVersion"] = format!("{}/{}", spec.group, spec.versions[0].name).into();
        object["kind"] = spec.names.kind.clone().into();
        object["metadata"] = serde_json::json!({ "name": "sample" });
        object
    }
}

pub(crate) fn kinds() -> Vec<Kind> {
    macro_rules! kinds {
        ($($kind:ty),* $(,)?) => {
            vec![$(Kind { definition: api::crd::<$kind>(), round_trip: round_trip::<$kind> }),*]
        };
    }
    use api::{cluster, config, healthchecking, machine, machineconfiguration, machinist, operator};
    kinds![
        machineconfiguration::MachineConfig,
        machineconfiguration::MachineConfigPool,
        machineconfiguration::KubeletConfig,
        machineconfiguration::ContainerRuntimeConfig,
        machineconfiguration::ControllerConfig,
        machineconfiguration::MachineConfigNode,
        machineconfiguration::PinnedImageSet,
        machineconfiguration::MachineOSConfig,
        machineconfiguration::MachineOSBuild,
        operator::MachineConfiguration,
        operator::ImageContentSourcePolicy,
        config::ClusterOperator,
        config::Image,
        config::ImageDigestMirrorSet,
        config::ImageTagMirrorSet,
        config::ClusterImagePolicy,
        config::ImagePolicy,
        config::Node,
        config::FeatureGate,
        config::ApiServer,
        config::ClusterInfrastructure,
        config::Proxy,
        config::Scheduler,
        machine::Machine,
        machine::MachineSet,
        machine::MachineHealthCheck,
        machine::MachineDeployment,
        machine::ControlPlaneMachineSet,
        cluster::Machine,
        cluster::MachineSet,
        cluster::MachineDeployment,
        cluster::Cluster,
        healthchecking::MachineHealthCheck,
        machinist::BootstrapToken,
        machinist::ClusterSettings,
        machinist::KeptConfig,
        machinist::NodeSurvey,
        machinist::PoolLedger,
        machinist::PoolPolicy,
        machinist::RenderedProvenance,
    ]
}

fn round_trip<K: Serialize + DeserializeOwned>(object: Value) -> Result<Value, String> {
    let kind: K = serde_json::from_value(object).map_err(|error| error.to_string())?;
    serde_json::to_value(kind).map_err(|error| error.to_string())
}

#[test]
fn every_definition_is_checked() {
    let names: Vec<_> = kinds().into_iter().map(|kind| kind.definition.metadata.name).collect();
    let all: Vec<_> = api::crds().into_iter().map(|definition| definition.metadata.name).collect();
    assert_eq!(names, all);
}
