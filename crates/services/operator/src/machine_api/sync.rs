//! Brings the cluster to what was decided.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::labels;
use cluster::events::Severity;
use cluster::{Outcome, Problem, problem, write};
use kube::ResourceExt;
use kube::api::{DeleteParams, Preconditions};
use operate::machine_api::status::State;
use operate::machine_api::webhook::Webhook;
use operate::machine_api::{CONTROLLERS, Controllers, kept, kept_ids};
use operate::trouble::{self, Workload};
use operate::{Desired, Id, Step};

use super::certificate;
use super::decide::{Decision, decide};
use super::report::report;
use super::world::World;
use super::{Context, MANAGER};
use crate::context::UNSEEN;
use crate::keep::{about, write_one};
use crate::metrics::Object;
use crate::world::{api, looks};

/// How often the platform and the contact with the API are looked at while nothing changes.
const LOOK: Duration = Duration::from_secs(15);

/// What each object should be and how it looked when it was last written, so that only what differs is written.
pub(super) type Memory = BTreeMap<Id, (Desired, u64)>;

pub(super) async fn sync(context: Arc<Context>, world: Arc<World>) -> Outcome {
    let mut troubles: Vec<String> = world.unread().iter().map(trouble::unread).collect();
    match world.is_switched_off(&context.settings.namespace) {
        Ok(false) => {}
        Ok(true) => {
            // Hand edits stand, and so does the report. Scaling the Deployment up again is a change that is seen.
            tracing::debug!("the operator is scaled to 0, so nothing is done");
            return Outcome::Done;
        }
        // A person may have scaled it to 0 and not be seen to have. Only that is told.
        Err(_) => {
            report(&context, state(&context, &world), troubles).await;
            return Outcome::Again(UNSEEN);
        }
    }
    match decide(&context, &world).await {
        Ok(decision) => *context.decision.lock() = Some(decision),
        Err(error) => troubles.push(cluster::error::chain(&error)),
    }
    let decision = context.decision.lock().clone();
    let mut is_written = match decision {
        Some(Decision::Deploy(controllers)) => deploy(&context, &world, &controllers, &mut troubles).await,
        Some(Decision::NoOp(_)) => clear(&context, &world, &mut troubles).await,
        None => true,
    };
    troubles.extend(world.pods.all().iter().filter_map(|pod| Some((**pod).clone()?.1)));
    is_written &= report(&context, state(&context, &world), troubles).await;
    if is_written { Outcome::Again(LOOK) } else { Outcome::Retry }
}

fn state(context: &Context, world: &World) -> State {
    match &*context.decision.lock() {
        None => State::Unknown,
        Some(Decision::NoOp(why)) => State::NoOp(why.clone()),
        Some(Decision::Deploy(_)) => {
            let key = cluster::watch::Key::in_namespace(&context.settings.namespace, CONTROLLERS);
            let deployment = world.deployments.get(&key);
            State::Deploys(deployment.map(|one| Workload::from_object(Step::MachineApi, &one)))
        }
    }
}

/// Writes what does not look as it was last written; `false` when it should be tried again.
async fn deploy(context: &Context, world: &World, controllers: &Controllers, troubles: &mut Vec<String>) -> bool {
    let mut is_written = true;
    match certificate::bundle(context).await {
        Ok(bundle) => *context.bundle.lock() = Some(bundle),
        Err(error) => {
            troubles.push(cluster::error::chain(&error));
            is_written = false;
        }
    }
    let bundle = context.bundle.lock().clone();
    let webhook = bundle.map(|bundle| Webhook { bundle, url: context.settings.webhook_url.clone() });
    for desired in kept(&context.settings.namespace, controllers, webhook.as_ref()) {
        let id = desired.id();
        let seen = world.seen(&id).map(|object| looks(&object));
        let is_right = |(was, look): &(Desired, u64)| *was == desired && Some(*look) == seen;
        if context.memory.lock().get(&id).is_some_and(is_right) {
            continue;
        }
        // Somebody may have scaled the operator to 0 since this look began, and what differs is their edit.
        if !matches!(world.is_switched_off(&context.settings.namespace), Ok(false)) {
            return true;
        }
        match write_one(&context.client, MANAGER, &desired).await {
            Ok(written) => {
                if let Some(written) = written {
                    remember(context, desired, looks(&written.object), written.changed);
                }
            }
            Err(kube::Error::Api(status)) => {
                troubles.push(trouble::refused(&id, status.code, &status.message));
                is_written = false;
            }
            Err(error) => {
                // The API is away: nothing is wrong with the object, and a report could not be written.
                tracing::warn!(%id, error = &error as &dyn std::error::Error, "an object could not be written");
                is_written = false;
            }
        }
    }
    is_written
}

/// Notes how the object looks now, and tells people when it had been changed.
fn remember(context: &Context, desired: Desired, now: u64, changed: bool) {
    let id = desired.id();
    let before = context.memory.lock().insert(id.clone(), (desired.clone(), now));
    if !changed || before != Some((desired, now)) {
        return;
    }
    context.metrics.restored.get_or_create(&Object { kind: id.kind.clone() }).inc();
    let message = format!(
        "{id} was changed or deleted by somebody and put back by {MANAGER}; scale deployment {MANAGER} to 0 to keep hand edits"
    );
    tracing::info!("{message}");
    let about = about(&id, &context.settings.namespace);
    context.events.publish_about(about, Severity::Normal, "ObjectRestored", &message);
}

/// Takes away what an earlier platform needed, if it was ours.
async fn clear(context: &Context, world: &World, troubles: &mut Vec<String>) -> bool {
    context.memory.lock().clear();
    let mut is_clear = true;
    for id in kept_ids(&context.settings.namespace) {
        if World::watches(&id) && world.seen(&id).is_none() {
            continue;
        }
        if let Err(error) = remove(context, &id).await {
            troubles.push(format!("{id} cannot be deleted: {}", cluster::error::chain(&error)));
            is_clear = false;
        }
    }
    is_clear
}

async fn remove(context: &Context, id: &Id) -> Result<(), kube::Error> {
    let api = api(&context.client, id);
    let Some(present) = write::in_time(api.get_opt(&id.name)).await? else { return Ok(()) };
    if present.labels().get(labels::PART_OF).is_none_or(|of| of != labels::PART_OF_MACHINIST) {
        return Ok(());
    }
    tracing::info!(%id, "this platform does not need it");
    let preconditions = Preconditions { uid: present.uid(), resource_version: None };
    let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match write::in_time(api.delete(&id.name, &parameters)).await {
        Err(error) if problem(&error) == Problem::NotFound => Ok(()),
        answer => answer.map(drop),
    }
}
