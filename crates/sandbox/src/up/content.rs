//! What a fresh cluster of `up` holds: our kinds, the two built-in pools, and a small fragment for each.

use anyhow::Context;
use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use api::machinist::PoolPolicy;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

const POOLS: [&str; 2] = ["master", "worker"];

const MANAGER: &str = "machinist-up";

pub(super) async fn install(client: &Client) -> anyhow::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in api::crds() {
        let name = definition.name_any();
        cluster::write::apply(&definitions, MANAGER, &name, &definition)
            .await
            .with_context(|| format!("cannot install CustomResourceDefinition {name}"))?;
    }
    for definition in api::crds() {
        let name = definition.name_any();
        let established = await_condition(definitions.clone(), &name, is_crd_established());
        established.await.with_context(|| format!("cannot watch CustomResourceDefinition {name}"))?;
    }
    cluster::ensure_namespace(client, api::names::NAMESPACE).await?;
    for pool in POOLS {
        create::<MachineConfigPool>(client, pool_of(pool)).await?;
        create::<MachineConfig>(client, fragment_of(pool)).await?;
        create::<PoolPolicy>(client, policy_of(pool)).await?;
    }
    Ok(())
}

/// Creates what is not there; what is there is the user's by now.
async fn create<K>(client: &Client, object: Value) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let object: K = serde_json::from_value(object).context("our own manifest is not valid")?;
    match Api::<K>::all(client.clone()).create(&post(), &object).await {
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

/// A kubelet's unit, so that pools are not empty and there is something to restart.
fn fragment_of(role: &str) -> Value {
    let unit = "[Unit]\nDescription=Kubernetes kubelet\n\n[Service]\nExecStart=/usr/bin/kubelet --config=/etc/kubernetes/kubelet.conf\n\
                Restart=always\n\n[Install]\nWantedBy=multi-user.target\n";
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": format!("00-{role}"), "labels": {"machineconfiguration.openshift.io/role": role}},
        "spec": {"config": {
            "ignition": {"version": "3.5.0"},
            "systemd": {"units": [{"name": "kubelet.service", "enabled": true, "contents": unit}]},
        }},
    })
}

fn post() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}
