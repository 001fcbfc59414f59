//! What the cluster says about how changes are carried out: disruption policies, trial, drift, names of users and services.
//!
//! Each is one object read by name when an update begins. Where there is none, or the API does not have its kind, the defaults
//! hold. One that this node may not read, or that cannot be understood, is something else: a default could reboot where the
//! user said not to, so the update waits and says which right or field is in the way.

use api::machineconfiguration::MachineConfig;
use api::machinist::{ClusterSettings, ClusterSettingsSpec, DriftPolicy, PoolPolicy, PoolPolicySpec};
use api::operator::{IrreconcilableValidationOverrides, NodeDisruptionPolicyConfig};
use api::{labels, names};
use change::policy::{Policies, Settings};
use change::reconcilable::Allowances;
use cluster::error::if_found;
use cluster::{Problem, problem};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Why it is not known what the cluster says.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {plural} {name}")]
    Read {
        plural: String,
        name: String,
        #[source]
        source: kube::Error,
    },
    #[error("this node lacks the right to get {plural}.{group}: the ClusterRole machinistd of access.yaml grants it")]
    Forbidden { plural: String, group: String },
    #[error("{field} of {kind} {name} cannot be followed: {problem}")]
    Field { kind: String, name: String, field: String, problem: String },
}

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
    /// If an object cannot be read or followed.
    pub async fn read(client: &Client, config: &MachineConfig) -> Result<Self, Error> {
        let settings = Object::get(client, &resource::<ClusterSettings>(), names::CLUSTER).await?;
        let settings: Option<ClusterSettingsSpec> = settings.map(|object| object.at("/spec")).transpose()?.flatten();
        let settings = settings.map(|spec| Settings {
            admin_user: spec.admin_user().to_owned(),
            runtime_service: spec.runtime_service().to_owned(),
        });
        let settings = settings.unwrap_or_default();
        let kind = GroupVersionKind::gvk("operator.openshift.io", "v1", "MachineConfiguration");
        let configuration = Object::get(client, &ApiResource::from_gvk(&kind), names::CLUSTER).await?;
        let (policies, allowances) = match &configuration {
            Some(object) => (policies(object, &settings)?, allowances(object)?),
            None => (Policies::defaults(&settings), Allowances::default()),
        };
        let pool_name = config.metadata.labels.as_ref().and_then(|labels| labels.get(labels::RENDERED_FOR));
        let pool = match pool_name {
            Some(name) => Object::get(client, &resource::<PoolPolicy>(), name).await?,
            None => None,
        };
        let pool = pool.map(|object| object.at("/spec")).transpose()?.flatten();
        Ok(Self { settings, policies, allowances, pool: pool.unwrap_or_default() })
    }

    pub fn repairs_drift(&self) -> bool {
        self.pool.drift == Some(DriftPolicy::Repair)
    }
}

fn allowances(configuration: &Object) -> Result<Allowances, Error> {
    const FIELD: &str = "/spec/irreconcilableValidationOverrides";
    let Some(overrides) = configuration.at::<IrreconcilableValidationOverrides>(FIELD)? else {
        return Ok(Allowances::default());
    };
    Allowances::try_from(&overrides).map_err(|error| configuration.refuse(FIELD, &error))
}

/// The merged policies of the operator's status; where no operator merges, defaults with the user's own laid over them.
fn policies(configuration: &Object, settings: &Settings) -> Result<Policies, Error> {
    // What was merged before the user's last change, or while the operator is away, no longer holds.
    let observed = configuration.body.data.pointer("/status/observedGeneration").and_then(Value::as_i64);
    let is_fresh = observed.is_none() || observed == configuration.body.metadata.generation;
    let merged = "/status/nodeDisruptionPolicyStatus/clusterPolicies";
    if let Some(merged) = is_fresh.then(|| configuration.policies_at(merged)).transpose()?.flatten() {
        return Ok(merged);
    }
    let defaults = Policies::defaults(settings);
    Ok(match configuration.policies_at("/spec/nodeDisruptionPolicy")? {
        Some(user) => defaults.overlaid(user),
        None => defaults,
    })
}

/// An object as the API gave it. Its fields are read one by one, so that a wrong one is named.
struct Object {
    kind: String,
    name: String,
    body: DynamicObject,
}

impl Object {
    /// `None` where there is none, or none can be.
    async fn get(client: &Client, resource: &ApiResource, name: &str) -> Result<Option<Self>, Error> {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
        let unread = |source| Error::Read { plural: resource.plural.clone(), name: name.to_owned(), source };
        let (plural, group) = (resource.plural.clone(), resource.group.clone());
        // A server says in words of its own that it does not have a kind, so only the code counts.
        let body = match if_found(api.get(name).await) {
            // A server that does not have the kind refuses those who have no right to it, before it says so.
            Err(error) if problem(&error) == Problem::Forbidden => {
                let is_served = is_served(client, resource).await.map_err(unread)?;
                return if is_served { Err(Error::Forbidden { plural, group }) } else { Ok(None) };
            }
            answer => answer.map_err(unread)?,
        };
        Ok(body.map(|body| Self { kind: resource.kind.clone(), name: name.to_owned(), body }))
    }

    /// Reads what stands at a JSON pointer.
    fn at<T: DeserializeOwned>(&self, pointer: &str) -> Result<Option<T>, Error> {
        let Some(value) = self.body.data.pointer(pointer).filter(|value| !value.is_null()) else { return Ok(None) };
        let read = serde_path_to_error::deserialize(value);
        read.map(Some).map_err(|error| {
            let inner = match error.path().to_string() {
                path if path == "." => String::new(),
                path => format!("/{path}"),
            };
            self.refuse(&format!("{pointer}{inner}"), error.inner())
        })
    }

    fn policies_at(&self, pointer: &str) -> Result<Option<Policies>, Error> {
        let config: Option<NodeDisruptionPolicyConfig> = self.at(pointer)?;
        let read = config.map(|config| Policies::try_from(&config));
        read.transpose().map_err(|error| self.refuse(pointer, &error))
    }

    fn refuse(&self, pointer: &str, problem: &dyn std::error::Error) -> Error {
        let field = pointer.trim_start_matches('/').replace('/', ".");
        Error::Field { kind: self.kind.clone(), name: self.name.clone(), field, problem: problem.to_string() }
    }
}

fn resource<K: kube::Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

/// Whether the API has this kind. Everybody who is known to it may ask that.
async fn is_served(client: &Client, resource: &ApiResource) -> Result<bool, kube::Error> {
    match client.list_api_group_resources(&resource.api_version).await {
        Ok(list) => Ok(list.resources.iter().any(|known| known.name == resource.plural)),
        Err(error) if problem(&error) == Problem::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
