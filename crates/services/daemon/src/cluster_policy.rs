//! What the cluster says about how changes are carried out: disruption policies, trial, drift, names of users and services.
//!
//! Each is one object read by name when an update begins. None of them is needed: without an API, or without the right to
//! read one, the defaults hold and the update goes on.

use api::machineconfiguration::MachineConfig;
use api::machinist::{ClusterSettings, DriftPolicy, PoolPolicy, PoolPolicySpec};
use api::operator::NodeDisruptionPolicyConfig;
use api::{labels, names};
use change::policy::{Policies, Settings};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use serde::de::DeserializeOwned;

/// Everything that is set for this node.
#[derive(Clone, Debug, Default)]
pub struct ClusterPolicy {
    pub settings: Settings,
    pub policies: Policies,
    pub pool: PoolPolicySpec,
}

impl ClusterPolicy {
    /// Without a cluster.
    pub fn defaults() -> Self {
        let settings = Settings::default();
        Self { policies: Policies::defaults(&settings), settings, pool: PoolPolicySpec::default() }
    }

    pub async fn read(client: &Client, config: &MachineConfig) -> Self {
        let settings: Option<ClusterSettings> = get(client, names::CLUSTER).await;
        let settings = settings.map(|object| Settings {
            admin_user: object.spec.admin_user().to_owned(),
            runtime_service: object.spec.runtime_service().to_owned(),
        });
        let settings = settings.unwrap_or_default();
        let policies = policies(client, &settings).await;
        let pool_name = config.metadata.labels.as_ref().and_then(|labels| labels.get(labels::RENDERED_FOR));
        let pool: Option<PoolPolicy> = match pool_name {
            Some(name) => get(client, name).await,
            None => None,
        };
        Self { settings, policies, pool: pool.map(|object| object.spec).unwrap_or_default() }
    }

    pub fn repairs_drift(&self) -> bool {
        self.pool.drift == Some(DriftPolicy::Repair)
    }
}

/// The merged policies of the operator's status; where no operator merges, defaults with the user's own laid over them.
async fn policies(client: &Client, settings: &Settings) -> Policies {
    let defaults = Policies::defaults(settings);
    let kind = GroupVersionKind::gvk("operator.openshift.io", "v1", "MachineConfiguration");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let Ok(Some(object)) = api.get_opt(names::CLUSTER).await else { return defaults };
    let status = read_at(&object.data, "/status/nodeDisruptionPolicyStatus/clusterPolicies");
    if let Some(merged) = status {
        return merged;
    }
    match read_at(&object.data, "/spec/nodeDisruptionPolicy") {
        Some(user) => defaults.overlaid(user),
        None => defaults,
    }
}

fn read_at(object: &serde_json::Value, path: &str) -> Option<Policies> {
    let config: NodeDisruptionPolicyConfig = serde_json::from_value(object.pointer(path)?.clone()).ok()?;
    match Policies::try_from(&config) {
        Ok(policies) => Some(policies),
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "a disruption policy cannot be followed; defaults hold"
            );
            None
        }
    }
}

async fn get<K>(client: &Client, name: &str) -> Option<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    match Api::<K>::all(client.clone()).get_opt(name).await {
        Ok(object) => object,
        Err(error) => {
            tracing::debug!(error = &error as &dyn std::error::Error, kind = %K::kind(&()), name, "not readable; defaults hold");
            None
        }
    }
}
