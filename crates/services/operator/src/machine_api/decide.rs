//! Finds out which platform the cluster is on, and asks what runs there.

use api::known::Unread;
use cluster::read;
use cluster::watch::Key;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DynamicObject};
use kube::core::GroupVersionKind;
use machine::operator_config::{
    self, Deployment, Env, NoOp, Platform, PlatformError, Proxy, Snapshot, TlsSettings, enabled_features, platform_of,
    platform_of_install_config,
};
use operate::machine_api::{CONTROLLERS, Controllers, SIMULATED, images, provider};
use serde_json::Value;

use super::Context;
use super::world::World;

/// What the operator is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Deploy(Controllers),
    NoOp(String),
}

/// Why nothing can be decided; what was decided before stands.
#[derive(Debug, thiserror::Error)]
pub(super) enum Undecided {
    #[error("{0}; what was deployed stays as it is until it can be read")]
    Unread(#[from] Unread),
    #[error(
        "{0}: set status.platformStatus.type of Infrastructure cluster, or one platform in install-config of ConfigMap kube-system/cluster-config-v1"
    )]
    Platform(#[from] PlatformError),
    #[error(
        "nothing says any more which platform this cluster is on; what was deployed stays as it is; name the platform with \
         `machinist install --platform` or in the Infrastructure object, or delete Deployment {CONTROLLERS}"
    )]
    Unnamed,
    #[error(transparent)]
    Images(#[from] images::Error),
    #[error("{0}")]
    Config(#[from] operator_config::Error),
    #[error("cannot read the images in {path}")]
    File {
        path: String,
        #[source]
        source: std::io::Error,
    },
}

pub(super) async fn decide(context: &Context, world: &World) -> Result<Decision, Undecided> {
    let choices = &context.settings.choices;
    if let Some(provider) = choices.provider() {
        // Whatever the platform is: its images are not asked for either.
        return deployed(context, world, SIMULATED, provider).await;
    }
    let Some(name) = platform(context).await? else {
        // A fact that is missing, perhaps for a moment, is no reason to take the controllers away from their machines.
        if is_deployed(context, world)? {
            return Err(Undecided::Unnamed);
        }
        return Ok(Decision::NoOp(
            "nothing says which platform this cluster is on; name it with `machinist install --platform`, or in the \
             Infrastructure object"
                .to_owned(),
        ));
    };
    let Some(provider) = provider(&name) else {
        return Ok(Decision::NoOp(format!("platform {name}: {}", without_provider(&name))));
    };
    deployed(context, world, &name, provider.to_owned()).await
}

/// The controllers with a provider, as a platform and the cluster's configuration have them.
async fn deployed(context: &Context, world: &World, name: &str, provider: String) -> Result<Decision, Undecided> {
    let proxy = openshift(context, "Proxy", "proxies").await?.map(|proxy| Proxy::from_object(&proxy));
    let gates = openshift(context, "FeatureGate", "featuregates").await?;
    let tls = openshift(context, "APIServer", "apiservers").await?.map(|server| TlsSettings::from_object(&server));
    let snapshot = Snapshot {
        // The simulated cloud is what upstream's rules know as kubemark.
        platform: Ok(if name == SIMULATED { "kubemark".to_owned() } else { name.to_owned() }),
        images: images_of(context, world)?,
        enabled_features: gates.as_ref().map(enabled_features).unwrap_or_default(),
        proxy: proxy.unwrap_or_default(),
        tls: tls.clone().unwrap_or_default(),
        namespace: context.settings.namespace.clone(),
        release_version: context.settings.version.clone(),
    };
    let plan = operator_config::plan(&snapshot)?;
    match plan.deployment {
        Deployment::NoOp(why) => Ok(Decision::NoOp(format!("platform {name}: {why}"))),
        Deployment::Run { containers, termination: _ } => {
            let of_machines = containers.into_iter().find(|one| one.name == operate::machine_api::CONTAINER);
            let environment = of_machines.into_iter().flat_map(|one| one.env).filter_map(value).collect();
            let mut arguments = context.settings.choices.of_controllers();
            if plan.controllers.machine_health_check.is_empty() {
                arguments.push("--without-health-checks".to_owned());
            }
            // Where nothing is said of TLS, what our servers do by themselves is as good.
            if let Some(tls) = tls {
                arguments.extend(tls.arguments().map_err(operator_config::Error::from)?);
            }
            Ok(Decision::Deploy(Controllers { image: plan.controllers.provider, provider, environment, arguments }))
        }
    }
}

/// Whether controllers of ours are there, from whichever platform was known before.
fn is_deployed(context: &Context, world: &World) -> Result<bool, Unread> {
    let key = Key::in_namespace(&context.settings.namespace, CONTROLLERS);
    let deployment = world.deployments.fresh_one("deployments", &key)?;
    let label = |object: &Value| object["metadata"]["labels"][api::labels::PART_OF] == api::labels::PART_OF_MACHINIST;
    Ok(deployment.is_some_and(|deployment| label(&deployment)))
}

fn without_provider(name: &str) -> NoOp {
    match Platform::of(name) {
        Platform::WithoutMachines => NoOp::NoMachines,
        Platform::Unknown => NoOp::Unknown,
        _ => NoOp::NoProvider,
    }
}

/// What a variable is set to; those that are filled in from the pod every container of ours has.
fn value(env: Env) -> Option<(String, String)> {
    match env {
        Env::Value { name, value } => Some((name.to_owned(), value)),
        Env::Field { .. } => None,
    }
}

/// The platform as given, or as the cluster's objects of either era say; `None` where nothing says it.
async fn platform(context: &Context) -> Result<Option<String>, Undecided> {
    if let Some(given) = &context.settings.platform {
        return Ok(Some(given.clone()));
    }
    if let Some(infrastructure) = openshift(context, "Infrastructure", "infrastructures").await? {
        return Ok(Some(platform_of(&infrastructure)?));
    }
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), "kube-system");
    let map = read::get(&maps, "cluster-config-v1").await;
    let Some(map) = map.fresh("configmaps", Timestamp::now())?.into_inner().clone() else { return Ok(None) };
    let text = map.data.unwrap_or_default().remove("install-config");
    Ok(Some(platform_of_install_config(text.as_deref())?))
}

/// One object of OpenShift's configuration; `None` where there is none.
async fn openshift(context: &Context, kind: &str, plural: &str) -> Result<Option<Value>, Unread> {
    let gvk = GroupVersionKind::gvk("config.openshift.io", "v1", kind);
    let resource = kube::api::ApiResource::from_gvk_with_plural(&gvk, plural);
    let api: Api<DynamicObject> = Api::all_with(context.client.clone(), &resource);
    let object = read::get(&api, api::names::CLUSTER).await.fresh(plural, Timestamp::now())?.into_inner().clone();
    Ok(object.map(crate::world::value))
}

/// The images of the file, if one was given, or of the ConfigMap.
fn images_of(context: &Context, world: &World) -> Result<Value, Undecided> {
    let namespace = &context.settings.namespace;
    if let Some(path) = &context.settings.images {
        let origin = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| Undecided::File { path: origin.clone(), source })?;
        return Ok(images::parse(&text, &origin)?);
    }
    let map = world.config_maps.fresh_one("configmaps", &Key::in_namespace(namespace, images::CONFIG_MAP))?;
    let missing = || images::Error::Missing { namespace: namespace.clone() };
    let text = map.and_then(|map| (*map).clone()).ok_or_else(missing)?;
    Ok(images::parse(&text, &images::origin(namespace))?)
}
