//! Writes `ClusterOperator/machine-api`, and tells by `/readyz` and events what is wrong.

use api::config::{ClusterOperator, ClusterOperatorStatus};
use api::names::MACHINE_API_CLUSTER_OPERATOR as NAME;
use cluster::events::Severity;
use cluster::write;
use health::Readiness;
use kube::api::Api;
use operate::machine_api::status::{Snapshot, State, object, plan};
use serde_json::json;

use super::{Context, MANAGER};
use crate::report::is_same;

/// `false` when it should be tried again.
pub(super) async fn report(context: &Context, state: State, troubles: Vec<String>) -> bool {
    context.metrics.troubles.set(i64::try_from(troubles.len()).unwrap_or(i64::MAX));
    let readiness = if troubles.is_empty() { Readiness::Leading } else { Readiness::Hindered(troubles.clone()) };
    context.health.set(readiness);
    match write_status(context, state, troubles).await {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "the ClusterOperator could not be written");
            false
        }
    }
}

async fn write_status(context: &Context, state: State, troubles: Vec<String>) -> Result<(), kube::Error> {
    let api: Api<ClusterOperator> = Api::all(context.client.clone());
    let present = match write::in_time(api.get_opt(NAME)).await? {
        Some(present) => present,
        None => write::apply(&api, MANAGER, NAME, &object()).await?,
    };
    let old = present.status.unwrap_or_default();
    let status = plan(&Snapshot {
        now: (context.settings.now)(),
        namespace: context.settings.namespace.clone(),
        version: context.settings.version.clone(),
        present: old.clone(),
        state,
        troubles,
    });
    tell(context, &old, &status);
    if is_same(&old, &status) {
        return Ok(());
    }
    let mut own = object();
    own["status"] = json!(status);
    write::apply_status(&api, MANAGER, NAME, &own).await.map(drop)
}

/// News under upstream's names: another version is deployed, or something is wrong.
fn tell(context: &Context, old: &ClusterOperatorStatus, new: &ClusterOperatorStatus) {
    let publish = |severity, reason: &str, message: &str| {
        context.events.publish::<ClusterOperator>(NAME, None, severity, reason, message);
    };
    if let Some(version) = new.versions.first().filter(|_| old.versions != new.versions) {
        publish(Severity::Normal, "Status upgrade", &format!("operator: {} is deployed", version.version));
    }
    let degraded = |status: &ClusterOperatorStatus| {
        let found = status.conditions.iter().find(|one| one.type_ == "Degraded" && one.status == "True");
        found.and_then(|one| one.message.clone())
    };
    match degraded(new) {
        Some(message) if degraded(old).as_ref() != Some(&message) => {
            publish(Severity::Warning, "Status degraded", &message);
        }
        Some(_) | None => {}
    }
}
