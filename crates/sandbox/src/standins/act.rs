//! Carries out what was planned. A write that fails is left to the next look.

use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, Error};
use serde_json::{Value, json};

use crate::standins::MANAGER;
use crate::standins::plan::Action;

const AT_ONCE: usize = 16;

pub(crate) async fn carry_out(client: &Client, actions: Vec<Action>) {
    let work = stream::iter(actions).map(|action| async move {
        let label = format!("{action:?}");
        if let Err(error) = one(client, action).await
            && !matches!(cluster::problem(&error), cluster::Problem::Conflict | cluster::Problem::NotFound)
        {
            tracing::debug!(error = &error as &dyn std::error::Error, label, "will try again");
        }
    });
    work.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

async fn one(client: &Client, action: Action) -> Result<(), Error> {
    let pods = |namespace: &str| Api::<Pod>::namespaced(client.clone(), namespace);
    let post = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    match action {
        Action::CreateReplicaSet { namespace, object } => {
            let api: Api<ReplicaSet> = Api::namespaced(client.clone(), &namespace);
            api.create(&post, &read(object)?).await.map(drop)
        }
        Action::ScaleReplicaSet { namespace, name, replicas } => {
            let api: Api<ReplicaSet> = Api::namespaced(client.clone(), &namespace);
            cluster::write::merge(&api, MANAGER, &name, &json!({"spec": {"replicas": replicas}})).await.map(drop)
        }
        Action::CreatePod { namespace, object } => pods(&namespace).create(&post, &read(object)?).await.map(drop),
        Action::StopPod { namespace, name, uid } => pods(&namespace).delete(&name, &only(uid, None)).await.map(drop),
        Action::RemovePod { namespace, name, uid } => {
            pods(&namespace).delete(&name, &only(uid, Some(0))).await.map(drop)
        }
        Action::Bind { namespace, name, node } => {
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": namespace},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            });
            pods(&namespace)
                .create_subresource::<Value, Value>("binding", &name, &PostParams::default(), &binding)
                .await
                .map(drop)
        }
        Action::SetTaints { node, resource_version, taints } => {
            let patch = json!({"metadata": {"resourceVersion": resource_version}, "spec": {"taints": taints}});
            cluster::write::merge(&Api::<Node>::all(client.clone()), MANAGER, &node, &patch).await.map(drop)
        }
        Action::RunPod { namespace, name, pod } => {
            let status = json!({"status": running(&pod)});
            let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
            pods(&namespace).patch_status(&name, &parameters, &Patch::Strategic(status)).await.map(drop)
        }
        Action::Status { kind, namespace, name, status } => {
            let patch = json!({"status": status});
            match kind {
                "deployments" => merge_status::<Deployment>(client, &namespace, &name, &patch).await,
                "replicasets" => merge_status::<ReplicaSet>(client, &namespace, &name, &patch).await,
                _ => merge_status::<DaemonSet>(client, &namespace, &name, &patch).await,
            }
        }
    }
}

async fn merge_status<K>(client: &Client, namespace: &str, name: &str, patch: &Value) -> Result<(), Error>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    cluster::write::merge_status(&api, MANAGER, name, patch).await.map(drop)
}

fn read<K: serde::de::DeserializeOwned>(object: Value) -> Result<K, Error> {
    serde_json::from_value(object).map_err(Error::SerdeError)
}

/// Only this very pod: another of the same name is somebody else's.
fn only(uid: String, grace: Option<u32>) -> DeleteParams {
    DeleteParams {
        grace_period_seconds: grace,
        preconditions: Some(Preconditions { uid: Some(uid), resource_version: None }),
        ..DeleteParams::default()
    }
}

fn running(pod: &Pod) -> Value {
    let now = Timestamp::now().to_string();
    let now = format!("{}Z", now.get(..19).unwrap_or_default());
    let condition = |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": now});
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| {
        json!({
            "name": container.name, "image": container.image.clone().unwrap_or_default(), "imageID": "",
            "ready": true, "started": true, "restartCount": 0, "state": {"running": {"startedAt": now}},
        })
    });
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition);
    json!({
        "phase": "Running", "startTime": now, "containerStatuses": containers.collect::<Vec<_>>(),
        "conditions": conditions,
    })
}
