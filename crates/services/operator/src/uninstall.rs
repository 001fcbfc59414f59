//! Takes an installation away: everything Machinist made, and nothing that a person made.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use cluster::{Problem, problem, write};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use operate::uninstall::{Removal, Snapshot, app, is_workload, needs_label, plan};
use operate::{Id, Installation};
use serde_json::Value;

use crate::world::{api, resource, value};

/// Processes end in a second or two. The kubelet kills those that do not after half a minute, except a daemon, which may
/// finish the step that it is in.
const PATIENCE: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(250);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot list {kind}")]
    List {
        kind: String,
        #[source]
        source: kube::Error,
    },
    #[error("cannot remove {what}")]
    Remove {
        what: String,
        #[source]
        source: kube::Error,
    },
}

/// What would be done, in order.
pub async fn look(client: &Client, installation: &Installation) -> Result<Vec<Removal>, Error> {
    let mut snapshot = Snapshot::default();
    for definition in api::crds() {
        let Some(version) = definition.spec.versions.first() else { continue };
        let gvk = GroupVersionKind::gvk(&definition.spec.group, &version.name, &definition.spec.names.kind);
        snapshot.objects.extend(list(client, &gvk, &ListParams::default()).await?);
    }
    let nodes: Api<Node> = Api::all(client.clone());
    let all = write::in_time(nodes.list(&ListParams::default())).await;
    let all = all.map_err(|source| Error::List { kind: "Node".to_owned(), source })?;
    snapshot.nodes = all.items.into_iter().filter_map(|node| serde_json::to_value(node).ok()).collect();
    let ours = ListParams::default().labels(&format!("{}={}", api::labels::PART_OF, api::labels::PART_OF_MACHINIST));
    for gvk in labelled_kinds(installation) {
        snapshot.labelled.extend(list(client, &gvk, &ours).await?.iter().map(Id::of));
    }
    let is_elsewhere = |id: &Id| {
        !["", &installation.namespace, &installation.machine_namespace].contains(&id.namespace.as_str())
            || id.kind == "Namespace"
            || id.kind == "CustomResourceDefinition"
    };
    snapshot.labelled.retain(|id| !is_elsewhere(id));
    Ok(plan(installation, &snapshot))
}

/// Kinds of which an operator makes objects that no installation lists: secrets, alert rules, monitors.
fn labelled_kinds(installation: &Installation) -> Vec<GroupVersionKind> {
    let built_in = operate::installed(installation).into_iter().map(|one| crate::world::gvk(&one.id()));
    let more = [
        GroupVersionKind::gvk("", "v1", "Secret"),
        GroupVersionKind::gvk("monitoring.coreos.com", "v1", "PrometheusRule"),
        GroupVersionKind::gvk("monitoring.coreos.com", "v1", "ServiceMonitor"),
    ];
    let mut seen = BTreeSet::new();
    built_in.chain(more).filter(|gvk| seen.insert((gvk.group.clone(), gvk.kind.clone()))).collect()
}

/// An empty list where the kind is not installed.
async fn list(client: &Client, gvk: &GroupVersionKind, parameters: &ListParams) -> Result<Vec<Value>, Error> {
    let resource = resource(gvk);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    match write::in_time(api.list(parameters)).await {
        Ok(list) => Ok(list
            .items
            .into_iter()
            .map(|mut object| {
                object.types = Some(kube::core::TypeMeta { api_version: gvk.api_version(), kind: gvk.kind.clone() });
                value(object)
            })
            .collect()),
        Err(error) if problem(&error) == Problem::NotFound => Ok(Vec::new()),
        Err(source) => Err(Error::List { kind: gvk.kind.clone(), source }),
    }
}

/// Does it, telling each step before it happens.
pub async fn remove(client: &Client, installation: &Installation, mut tell: impl FnMut(&str)) -> Result<(), Error> {
    for removal in look(client, installation).await? {
        if let Removal::Delete(id) = removal
            && is_workload(&id)
            && delete(client, &id, &mut tell).await?
        {
            ended(client, &id, &mut tell).await?;
        }
    }
    // A second look, for what the processes made until their end.
    for removal in look(client, installation).await? {
        match removal {
            Removal::Delete(id) if is_workload(&id) => {}
            Removal::Delete(id) => {
                delete(client, &id, &mut tell).await?;
            }
            Removal::CleanNode { name, patch } => {
                tell(&format!("clean Node {name}"));
                let nodes: Api<Node> = Api::all(client.clone());
                let cleaned = write::in_time(nodes.patch(&name, &PatchParams::default(), &Patch::Merge(patch))).await;
                ignore_missing(cleaned.map(drop), || format!("marks of Node {name}"))?;
            }
            Removal::Keep { id, because } => tell(&format!("keep {id}: {because}")),
        }
    }
    for namespace in [&installation.machine_namespace, &installation.namespace] {
        remove_namespace(client, namespace, &mut tell).await?;
    }
    Ok(())
}

/// Waits for the pods of a workload to end, and says so when they do not: a node that is gone ends nothing.
async fn ended(client: &Client, workload: &Id, tell: &mut impl FnMut(&str)) -> Result<(), Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &workload.namespace);
    let own = ListParams::default().labels(&format!("{}={}", api::labels::K8S_APP, app(workload)));
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = write::in_time(pods.list(&own)).await;
        let left = left.map_err(|source| Error::List { kind: "Pod".to_owned(), source })?.items;
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let names: Vec<String> = left.iter().map(ResourceExt::name_any).collect();
            tell(&format!("{} has not ended and may leave something behind", names.join(", ")));
            return Ok(());
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Deletes an object if it is ours, and says whether it was. An object that has only the name of one of ours stays: on
/// OpenShift the platform's own Machine API has the same names.
async fn delete(client: &Client, id: &Id, tell: &mut impl FnMut(&str)) -> Result<bool, Error> {
    let mut parameters = DeleteParams::default();
    if needs_label(id) {
        let present = write::in_time(api(client, id).get_metadata_opt(&id.name)).await;
        let present = match present {
            Err(error) if problem(&error) == Problem::NotFound => None,
            Err(source) => return Err(Error::Remove { what: id.to_string(), source }),
            Ok(present) => present,
        };
        let Some(present) = present else { return Ok(false) };
        if present.labels().get(api::labels::PART_OF).is_none_or(|of| of != api::labels::PART_OF_MACHINIST) {
            tell(&format!("keep {id}: it has no label {}, so it is not ours", api::labels::PART_OF));
            return Ok(false);
        }
        parameters.preconditions = Some(Preconditions { uid: present.uid(), resource_version: None });
    }
    tell(&format!("delete {id}"));
    let deleted = write::in_time(api(client, id).delete(&id.name, &parameters)).await;
    ignore_missing(deleted.map(drop), || id.to_string())?;
    Ok(true)
}

fn ignore_missing(answer: Result<(), kube::Error>, what: impl FnOnce() -> String) -> Result<(), Error> {
    match answer {
        Err(error) if problem(&error) == Problem::NotFound => Ok(()),
        Err(source) => Err(Error::Remove { what: what(), source }),
        Ok(()) => Ok(()),
    }
}

/// A namespace goes when it was made by an installation and no Secret or ConfigMap of a person is in it.
async fn remove_namespace(client: &Client, name: &str, tell: &mut impl FnMut(&str)) -> Result<(), Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let what = || format!("Namespace {name}");
    let present =
        write::in_time(namespaces.get_opt(name)).await.map_err(|source| Error::Remove { what: what(), source })?;
    let is_ours = present.is_some_and(|one| {
        one.labels().get(api::labels::PART_OF).is_some_and(|of| of == api::labels::PART_OF_MACHINIST)
    });
    if !is_ours {
        return Ok(());
    }
    let theirs = left(client, name).await?;
    if !theirs.is_empty() {
        tell(&format!("keep Namespace {name}: {} made by you: {}", theirs.len(), theirs.join(", ")));
        if theirs.iter().any(|one| one.starts_with("Machine ")) {
            tell(&format!(
                "  Machines keep the finalizer {finalizer} and nobody takes it off any more; to delete them without their \
                 instances: kubectl -n {name} patch machine NAME --type=merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'",
                finalizer = api::names::MACHINE_FINALIZER
            ));
        }
        return Ok(());
    }
    tell(&format!("delete Namespace {name}"));
    ignore_missing(write::in_time(namespaces.delete(name, &DeleteParams::default())).await.map(drop), what)
}

/// What a person has put into the namespace: their secrets, bundles and workloads.
async fn left(client: &Client, namespace: &str) -> Result<Vec<String>, Error> {
    let mut left = Vec::new();
    let kinds = [
        GroupVersionKind::gvk("", "v1", "Secret"),
        GroupVersionKind::gvk("", "v1", "ConfigMap"),
        GroupVersionKind::gvk("", "v1", "PersistentVolumeClaim"),
        GroupVersionKind::gvk("apps", "v1", "Deployment"),
        GroupVersionKind::gvk("apps", "v1", "StatefulSet"),
        GroupVersionKind::gvk("apps", "v1", "DaemonSet"),
        GroupVersionKind::gvk("machine.openshift.io", "v1beta1", "Machine"),
        GroupVersionKind::gvk("machine.openshift.io", "v1beta1", "MachineSet"),
    ];
    for gvk in kinds {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource(&gvk));
        let list = match write::in_time(api.list(&ListParams::default())).await {
            Ok(list) => list.items,
            Err(error) if problem(&error) == Problem::NotFound => continue,
            Err(source) => return Err(Error::List { kind: gvk.kind.clone(), source }),
        };
        let made_by_kubernetes = ["kube-root-ca.crt", "openshift-service-ca.crt"];
        for object in list {
            let is_ours =
                object.labels().get(api::labels::PART_OF).is_some_and(|of| of == api::labels::PART_OF_MACHINIST);
            let is_leaving = object.metadata.deletion_timestamp.is_some();
            if !is_ours && !is_leaving && !made_by_kubernetes.contains(&object.name_any().as_str()) {
                left.push(format!("{} {}", gvk.kind, object.name_any()));
            }
        }
    }
    Ok(left)
}
