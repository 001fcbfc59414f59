//! Writes the ClusterOperator, and tells by `/readyz` and events what is wrong.

use std::time::Duration;

use api::config::{ClusterOperator, ClusterOperatorStatus};
use api::names;
use cluster::events::Severity;
use cluster::{Outcome, write};
use health::Readiness;
use kube::api::Api;
use operate::status::{Snapshot, plan};
use operate::trouble::Workload;
use serde_json::{Value, json};

use crate::context::{Context, Leading, MANAGER, Source, UNSEEN};
use crate::gather::step_of;
use crate::prepare::OPERATOR_NAMESPACE;
use crate::world::World;

/// How often the contact with the API is looked at while nothing changes.
const LOOK: Duration = Duration::from_secs(15);

pub(crate) async fn report(leading: &Leading) -> Outcome {
    let contacts = leading.world.contacts();
    let is_blind = contacts.iter().any(|(_, unread)| unread.is_some());
    for (kind, unread) in contacts {
        leading.unread(Source::Watch(kind.to_owned()), unread);
    }
    match write_status(leading, Some(&leading.world)).await {
        // Nothing tells when a kind can be read again that has no objects, nor when a watch falls silent.
        true if is_blind => Outcome::Again(UNSEEN),
        true => Outcome::Again(LOOK),
        false => Outcome::Retry,
    }
}

/// Before the cluster can be watched, what is wrong is all there is to say.
pub(crate) async fn report_early(context: &Context) {
    if !context.troubles().is_empty() && !context.stands_aside() && !context.is_unsure() {
        write_status(context, None).await;
    }
}

async fn write_status(context: &Context, world: Option<&World>) -> bool {
    let troubles = context.troubles();
    let messages: Vec<String> = troubles.iter().map(|trouble| trouble.message.clone()).collect();
    context.health.set(if messages.is_empty() { Readiness::Leading } else { Readiness::Hindered(messages) });
    let api: Api<ClusterOperator> = Api::all(context.client.clone());
    let present = match write::in_time(api.get_opt(names::CLUSTER_OPERATOR)).await {
        Ok(present) => present,
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "the ClusterOperator could not be read");
            return false;
        }
    };
    let installation = context.installation();
    let old = present.as_ref().and_then(|object| object.status.clone()).unwrap_or_default();
    let snapshot = Snapshot {
        now: context.now(),
        namespace: installation.namespace.clone(),
        version: installation.images.release_version.clone(),
        image: installation.images.machine_config_operator.clone(),
        present: old.clone(),
        synced: is_synced(context),
        troubles,
        workloads: world.map(workloads).unwrap_or_default(),
        pools: world.map(|world| world.pools.all().iter().map(|pool| (**pool).clone()).collect()).unwrap_or_default(),
    };
    let status = plan(&snapshot);
    tell(context, &old, &status);
    let noted = present.as_ref().and_then(|object| object.metadata.annotations.as_ref()?.get(OPERATOR_NAMESPACE));
    if (present.is_none() || noted != Some(&installation.namespace)) && !write_object(context, &api).await {
        return false;
    }
    is_same(&old, &status) || write_conditions(&api, &status).await
}

/// Everything that should be there was written at least once.
fn is_synced(context: &Context) -> bool {
    let desired = context.desired.lock();
    let kept = context.kept.lock();
    // Nodes wait for the ControllerConfig, which is decided last.
    desired.keys().any(|id| id.kind == "ControllerConfig") && desired.keys().all(|id| kept.contains(id))
}

/// Another manager's conditions beside ours are no difference.
pub(crate) fn is_same(old: &ClusterOperatorStatus, new: &ClusterOperatorStatus) -> bool {
    let has = |condition| old.conditions.contains(condition);
    new.conditions.iter().all(has)
        && old.extension == new.extension
        && old.versions == new.versions
        && old.related_objects == new.related_objects
}

async fn write_object(context: &Context, api: &Api<ClusterOperator>) -> bool {
    let mut object = operate::status::object();
    object["metadata"]["annotations"] = json!({OPERATOR_NAMESPACE: context.namespace()});
    write::apply(api, MANAGER, names::CLUSTER_OPERATOR, &object).await.inspect_err(log).is_ok()
}

async fn write_conditions(api: &Api<ClusterOperator>, status: &ClusterOperatorStatus) -> bool {
    let object: Value = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
        "metadata": {"name": names::CLUSTER_OPERATOR}, "status": status,
    });
    write::apply_status(api, MANAGER, names::CLUSTER_OPERATOR, &object).await.inspect_err(log).is_ok()
}

fn log(error: &kube::Error) {
    tracing::warn!(error = error as &dyn std::error::Error, "the ClusterOperator could not be written");
}

fn workloads(world: &World) -> Vec<Workload> {
    let ours = |object: &Value| {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let ours = [operate::workloads::CONTROLLER, operate::workloads::SERVER, operate::workloads::DAEMON];
        ours.contains(&name.as_str()).then(|| Workload::from_object(step_of(&name), object))
    };
    world.deployments.all().iter().chain(&world.daemon_sets.all()).filter_map(|object| ours(object)).collect()
}

/// A change of Degraded is news.
fn tell(context: &Context, old: &ClusterOperatorStatus, new: &ClusterOperatorStatus) {
    let degraded = |status: &ClusterOperatorStatus| {
        status
            .conditions
            .iter()
            .find(|one| one.type_ == "Degraded" && one.status == "True")
            .map(|one| (one.reason.clone().unwrap_or_default(), one.message.clone().unwrap_or_default()))
    };
    let (before, now) = (degraded(old), degraded(new));
    match &now {
        Some((reason, message)) if before != now => {
            let reason = format!("OperatorDegraded: {reason}");
            context.events.publish::<ClusterOperator>(
                names::CLUSTER_OPERATOR,
                None,
                Severity::Warning,
                &reason,
                message,
            );
        }
        None if before.is_some() => {
            let message = "nothing is wrong any more";
            context.events.publish::<ClusterOperator>(
                names::CLUSTER_OPERATOR,
                None,
                Severity::Normal,
                "OperatorRecovered",
                message,
            );
        }
        Some(_) | None => {}
    }
}
