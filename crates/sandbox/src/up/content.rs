//! What a fresh cluster of `up` holds: our kinds, the two built-in pools, and what their hosts start from.

use anyhow::Context;
use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use api::machinist::{ClusterSettings, PoolPolicy};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

use super::templates;

const POOLS: [&str; 2] = ["master", "worker"];

pub(super) const MANAGER: &str = "machinist-up";

/// Installs everything but nodes and machines. The groups of 2019 have kinds of the same names as today's, and kubectl would
/// take a bare `machines` for theirs, so they come only when they are asked for.
pub(super) async fn install(client: &Client, with_older_groups: bool) -> anyhow::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let is_older = |group: &str| [api::cluster::GROUP, api::healthchecking::GROUP].contains(&group);
    let wanted = || api::crds().into_iter().filter(|it| with_older_groups || !is_older(&it.spec.group));
    for definition in wanted() {
        let name = definition.name_any();
        cluster::write::apply(&definitions, MANAGER, &name, &definition)
            .await
            .with_context(|| format!("cannot install CustomResourceDefinition {name}"))?;
    }
    for definition in wanted() {
        let name = definition.name_any();
        let established = await_condition(definitions.clone(), &name, is_crd_established());
        established.await.with_context(|| format!("cannot watch CustomResourceDefinition {name}"))?;
    }
    cluster::ensure_namespace(client, api::names::NAMESPACE).await?;
    for fragment in templates::fragments(&controllers::Settings::default().version) {
        create::<MachineConfig>(client, serde_json::to_value(fragment)?).await?;
    }
    for pool in POOLS {
        create::<MachineConfigPool>(client, pool_of(pool)).await?;
        create::<PoolPolicy>(client, policy_of(pool)).await?;
    }
    let settings = json!({
        "apiVersion": "machinist.dev/v1alpha1", "kind": "ClusterSettings", "metadata": {"name": api::names::CLUSTER},
        "spec": {"profile": templates::PROFILE},
    });
    create::<ClusterSettings>(client, settings).await
}

/// Creates what is not there; what is there is the user's by now.
async fn create<K>(client: &Client, object: Value) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let object: K = serde_json::from_value(object).context("our own manifest is not valid")?;
    made(Api::<K>::all(client.clone()).create(&post(), &object).await, &object)
}

fn made<K: Resource<DynamicType = ()>>(answer: Result<K, kube::Error>, object: &K) -> anyhow::Result<()> {
    match answer {
        Ok(_) => Ok(()),
        Err(error) if cluster::problem(&error) == cluster::Problem::Conflict => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot create {} {}", K::kind(&()), object.name_any())),
    }
}

fn pool_of(name: &str) -> Value {
    let operator = if name == "master" { "Exists" } else { "DoesNotExist" };
    let selector = json!({"matchExpressions": [{"key": api::labels::NODE_ROLE_CONTROL_PLANE, "operator": operator}]});
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": {"name": name, "labels": {format!("pools.operator.machineconfiguration.openshift.io/{name}"): ""}},
        "spec": {
            "machineConfigSelector": {"matchLabels": {"machineconfiguration.openshift.io/role": name}},
            "nodeSelector": selector,
        },
    })
}

/// Simulated services fail at once or not at all, so a config need not be watched for long before the next node gets it.
fn policy_of(pool: &str) -> Value {
    json!({
        "apiVersion": "machinist.dev/v1alpha1", "kind": "PoolPolicy", "metadata": {"name": pool},
        "spec": {"trial": {"deadline": "2s"}},
    })
}

fn post() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}
