//! What the cluster says about how changes are carried out: disruption policies, trial, drift, names of users and services.
//!
//! Each is one object read by name when an update begins. None of them is needed: where there is none, or no right to read it,
//! the defaults hold. An API that does not answer is something else: a default could reboot where the user said not to, so
//! the update waits.

use api::machineconfiguration::MachineConfig;
use api::machinist::{ClusterSettings, DriftPolicy, PoolPolicy, PoolPolicySpec};
use api::operator::{IrreconcilableValidationOverrides, NodeDisruptionPolicyConfig};
use api::{labels, names};
use change::policy::{Policies, Settings};
use change::reconcilable::Allowances;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use serde::de::DeserializeOwned;

/// Everything that is set for this node.
#[derive(Clone, Debug, Default)]
pub struct ClusterPolicy {
    pub settings: Settings,
    pub policies: Policies,
    /// First-boot sections that may differ from what the node was made with.
    pub allowances: Allowances,
    pub pool: PoolPolicySpec,
}

impl ClusterPolicy {
    /// Without a cluster.
    pub fn defaults() -> Self {
        let settings = Settings::default();
        Self { policies: Policies::defaults(&settings), settings, ..Self::default() }
    }

    /// What the cluster says now.
    ///
    /// # Errors
    /// When the API cannot be asked.
    pub async fn read(client: &Client, config: &MachineConfig) -> Result<Self, kube::Error> {
        let settings: Option<ClusterSettings> = get(client, names::CLUSTER).await?;
        let settings = settings.map(|object| Settings {
            admin_user: object.spec.admin_user().to_owned(),
            runtime_service: object.spec.runtime_service().to_owned(),
        });
        let settings = settings.unwrap_or_default();
        let configuration = configuration(client).await?;
        let policies = policies(configuration.as_ref(), &settings);
        let allowances = configuration.as_ref().map(allowances).unwrap_or_default();
        let pool_name = config.metadata.labels.as_ref().and_then(|labels| labels.get(labels::RENDERED_FOR));
        let pool: Option<PoolPolicy> = match pool_name {
            Some(name) => get(client, name).await?,
            None => None,
        };
        Ok(Self { settings, policies, allowances, pool: pool.map(|object| object.spec).unwrap_or_default() })
    }

    pub fn repairs_drift(&self) -> bool {
        self.pool.drift == Some(DriftPolicy::Repair)
    }
}

async fn configuration(client: &Client) -> Result<Option<DynamicObject>, kube::Error> {
    let kind = GroupVersionKind::gvk("operator.openshift.io", "v1", "MachineConfiguration");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    or_none(api.get_opt(names::CLUSTER).await)
}

/// Overrides that cannot be read allow nothing.
fn allowances(configuration: &DynamicObject) -> Allowances {
    let Some(value) = configuration.data.pointer("/spec/irreconcilableValidationOverrides") else {
        return Allowances::default();
    };
    let overrides = serde_json::from_value::<IrreconcilableValidationOverrides>(value.clone());
    let read = overrides
        .map_err(|error| error.to_string())
        .and_then(|overrides| Allowances::try_from(&overrides).map_err(|error| error.to_string()));
    read.unwrap_or_else(|problem| {
        tracing::warn!(problem, "irreconcilableValidationOverrides cannot be followed; nothing is overridden");
        Allowances::default()
    })
}

/// The merged policies of the operator's status; where no operator merges, defaults with the user's own laid over them.
fn policies(configuration: Option<&DynamicObject>, settings: &Settings) -> Policies {
    let defaults = Policies::defaults(settings);
    let Some(object) = configuration else { return defaults };
    // What was merged before the user's last change, or while the operator is away, no longer holds.
    let observed = object.data.pointer("/status/observedGeneration").and_then(serde_json::Value::as_i64);
    let is_fresh = observed.is_none() || observed == object.metadata.generation;
    let status = read_at(&object.data, "/status/nodeDisruptionPolicyStatus/clusterPolicies");
    if let Some(merged) = status.filter(|_| is_fresh) {
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

async fn get<K>(client: &Client, name: &str) -> Result<Option<K>, kube::Error>
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    or_none(Api::<K>::all(client.clone()).get_opt(name).await)
}

/// An object that cannot be read by us, or in this shape, is none; an API that does not answer is an error.
fn or_none<T>(answer: Result<Option<T>, kube::Error>) -> Result<Option<T>, kube::Error> {
    match answer {
        Err(error @ kube::Error::Api(_)) if matches!(&error, kube::Error::Api(status) if status.code >= 500 || status.code == 429) => {
            Err(error)
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error @ (kube::Error::Api(_) | kube::Error::SerdeError(_))) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "a policy cannot be read; defaults hold");
            Ok(None)
        }
        other => other,
    }
}
