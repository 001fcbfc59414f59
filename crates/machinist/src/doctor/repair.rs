//! Carries out one repair, exactly as it was described.

use anyhow::Context as _;
use api::machineconfiguration::{ContainerRuntimeConfig, KubeletConfig, MachineConfig, MachineConfigPool};
use api::machinist::RenderedProvenance;
use explain::Repair;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;

use crate::gather::{self, refusal};
use crate::rollback;

const MANAGER: &str = "machinist-doctor";

/// Says what was done.
pub(super) async fn carry_out(client: &Client, repair: &Repair) -> anyhow::Result<String> {
    match repair {
        Repair::RestoreConfig { name } => restore(client, name).await,
        Repair::AnnotateNode { node, key, value } => {
            let patch = json!({"metadata": {"annotations": {*key: value}}});
            merge::<Node>(&Api::all(client.clone()), node, &patch, "nodes").await?;
            Ok(format!("node {node} has {key}={value}"))
        }
        Repair::Unpause { pool } => {
            let patch = json!({"spec": {"paused": false}});
            merge::<MachineConfigPool>(&Api::all(client.clone()), pool, &patch, "machineconfigpools").await?;
            Ok(format!("pool {pool} is no longer paused"))
        }
        Repair::RemoveFinalizers { kind, name, finalizers } => {
            match *kind {
                "kubeletconfig" => remove_finalizers::<KubeletConfig>(client, name, finalizers).await?,
                _ => remove_finalizers::<ContainerRuntimeConfig>(client, name, finalizers).await?,
            }
            Ok(format!("{kind} {name} can go"))
        }
        Repair::Scale { namespace, deployment } => {
            let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
            let patch = Patch::Merge(json!({"spec": {"replicas": 1}}));
            let scaled = api.patch_scale(deployment, &PatchParams::default(), &patch).await;
            scaled.map_err(|error| refusal(error, "patch", "deployments/scale"))?;
            Ok(format!("deployment {deployment} is scaled to 1"))
        }
        Repair::RestartPod { namespace, pod } => {
            let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
            api.delete(pod, &DeleteParams::default()).await.map_err(|error| refusal(error, "delete", "pods"))?;
            Ok(format!("pod {pod} is made anew"))
        }
        Repair::Rollback { pool } => {
            let way = rollback::find(client, pool, None).await?;
            rollback::carry_out(client, &way).await?;
            Ok(format!("pool {pool} goes back to {}", way.config))
        }
    }
}

async fn restore(client: &Client, name: &str) -> anyhow::Result<String> {
    let provenance: RenderedProvenance = gather::get(client, name).await?;
    let archive = provenance.spec.archive.with_context(|| format!("the provenance of {name} has no archive"))?;
    let config = render::restore(&archive, &provenance.spec.pool, name)?;
    let api: Api<MachineConfig> = Api::all(client.clone());
    match api.create(&PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }, &config).await {
        Ok(_) => Ok(format!("{name} is there again")),
        Err(error) if cluster::problem(&error) == cluster::Problem::Conflict => {
            Ok(format!("{name} came back by itself"))
        }
        Err(error) => Err(refusal(error, "create", "machineconfigs")),
    }
}

async fn merge<K>(api: &Api<K>, name: &str, patch: &serde_json::Value, resource: &str) -> anyhow::Result<()>
where
    K: Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let merged = cluster::write::merge(api, MANAGER, name, patch).await;
    merged.map(drop).map_err(|error| refusal(error, "patch", resource))
}

async fn remove_finalizers<K>(client: &Client, name: &str, finalizers: &[String]) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let object: K = gather::get(client, name).await?;
    let left: Vec<_> = object.finalizers().iter().filter(|it| !finalizers.contains(it)).collect();
    let patch = json!({"metadata": {"resourceVersion": object.resource_version(), "finalizers": left}});
    merge::<K>(&Api::all(client.clone()), name, &patch, &K::plural(&())).await
}
