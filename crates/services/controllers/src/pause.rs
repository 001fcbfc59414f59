//! Ends pauses whose time is over, and clears what an ended pause leaves on its pool.
//!
//! When a pause ends is decided in the crate `rollout`, by this process's clock. An end is written only to the version of
//! the pool that was just read, so that a pause which somebody prolongs at the last moment goes on.

use std::sync::Arc;
use std::time::Duration;

use api::annotations::{PAUSE_BY, PAUSE_REASON, PAUSE_UNTIL};
use api::machineconfiguration::MachineConfigPool;
use cluster::events::Severity;
use cluster::{Change, Events, Outcome, Problem, Queue, problem, write};
use jiff::Timestamp;
use kube::api::Api;
use rollout::pause::{Step, plan};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::context::Context;
use crate::rollout::positive;

const MANAGER: &str = "machinist-pause";
const COMPONENT: &str = "machineconfigcontroller-nodecontroller";

/// The longest wait before a pause is looked at again: clocks are set, and a machine that slept has lost its timers.
const LONGEST: Duration = Duration::from_secs(60);

/// Pools are few.
const WORKERS: usize = 1;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Work {
    /// See whether the pool's pause is over.
    Look(String),
    /// Take the notes of a pause that has just ended off the pool, so that they are not taken for the next one's.
    Clear(String),
}

pub(crate) struct Pauses {
    context: Arc<Context>,
    queue: Queue<Work>,
    events: Events,
}

impl Pauses {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        let events = Events::start(context.world.client.clone(), COMPONENT, &context.settings.namespace);
        Self { events, queue: Queue::default(), context }
    }

    /// Turns changes of pools into work.
    pub(crate) async fn follow(self: Arc<Self>, mut changes: UnboundedReceiver<Change<MachineConfigPool>>) {
        while let Some(change) = changes.recv().await {
            let Some(new) = &change.new else { continue };
            let name = change.key.name.clone();
            let was_paused = change.old.as_ref().is_some_and(|old| is_paused(old));
            if was_paused && !is_paused(new) && has_notes(new) {
                self.queue.add(Work::Clear(name));
            } else if is_paused(new) && change.old.as_ref().is_none_or(|old| said(old) != said(new)) {
                self.queue.add(Work::Look(name));
            }
        }
    }

    pub(crate) async fn run(self: Arc<Self>) {
        for pool in self.context.world.pools.all() {
            let name = pool.metadata.name.clone().unwrap_or_default();
            if is_paused(&pool) {
                self.queue.add(Work::Look(name));
            } else if has_notes(&pool) {
                // Its pause ended while nobody looked.
                self.queue.add(Work::Clear(name));
            }
        }
        let handler = self.clone();
        self.queue.run(WORKERS, move |work| handler.clone().handle(work)).await;
    }

    async fn handle(self: Arc<Self>, work: Work) -> Outcome {
        let done = match &work {
            Work::Look(pool) => self.look(pool).await,
            Work::Clear(pool) => self.clear(pool).await,
        };
        done.unwrap_or_else(|error| {
            tracing::warn!(?work, error = &error as &dyn std::error::Error, "cannot end a pause, will try again");
            Outcome::Retry
        })
    }

    async fn look(&self, name: &str) -> Result<Outcome, kube::Error> {
        let Some(pool) = self.context.world.pools.named(name) else { return Ok(Outcome::Done) };
        if let Step::Wait(left) = plan(&pool, Timestamp::now()) {
            return Ok(Outcome::Again(positive(left).min(LONGEST)));
        }
        // The watch keeps no records of who wrote what, and may be late.
        let api: Api<MachineConfigPool> = Api::all(self.context.world.client.clone());
        let Some(pool) = write::in_time(api.get_opt(name)).await? else { return Ok(Outcome::Done) };
        let uid = pool.metadata.uid.as_deref();
        match plan(&pool, Timestamp::now()) {
            Step::Nothing => Ok(Outcome::Done),
            Step::Wait(left) => Ok(Outcome::Again(positive(left).min(LONGEST))),
            Step::Warn(why) => {
                let reason = "PauseDoesNotEnd";
                self.events.publish::<MachineConfigPool>(name, uid, Severity::Warning, reason, &why);
                Ok(Outcome::Done)
            }
            Step::End(why) => {
                if !self.write(&api, &pool, json!({"paused": false})).await? {
                    return Ok(Outcome::Retry);
                }
                tracing::info!(pool = name, "{why}");
                self.events.publish::<MachineConfigPool>(name, uid, Severity::Normal, "PauseEnded", &why);
                Ok(Outcome::Done)
            }
        }
    }

    async fn clear(&self, name: &str) -> Result<Outcome, kube::Error> {
        let Some(pool) = self.context.world.pools.named(name) else { return Ok(Outcome::Done) };
        if !is_paused(&pool) && has_notes(&pool) {
            let api: Api<MachineConfigPool> = Api::all(self.context.world.client.clone());
            // Notes that stay would end the next person's pause, so a pool that changed meanwhile is looked at again.
            if !self.write(&api, &pool, json!({})).await? {
                return Ok(Outcome::Retry);
            }
        }
        Ok(Outcome::Done)
    }

    /// Writes the spec and takes the notes off; false if the pool has changed since it was read.
    async fn write(
        &self,
        api: &Api<MachineConfigPool>,
        pool: &MachineConfigPool,
        spec: Value,
    ) -> Result<bool, kube::Error> {
        let notes: Value =
            NOTES.iter().map(|key| ((*key).to_owned(), Value::Null)).collect::<serde_json::Map<_, _>>().into();
        let metadata = json!({"resourceVersion": pool.metadata.resource_version, "annotations": notes});
        let patch = json!({"metadata": metadata, "spec": spec});
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        match write::merge(api, MANAGER, name, &patch).await {
            Ok(_) => Ok(true),
            Err(error) if problem(&error) == Problem::Conflict => Ok(false),
            Err(error) if problem(&error) == Problem::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }
}

const NOTES: [&str; 3] = [PAUSE_BY, PAUSE_REASON, PAUSE_UNTIL];

fn is_paused(pool: &MachineConfigPool) -> bool {
    pool.spec.paused == Some(true)
}

fn has_notes(pool: &MachineConfigPool) -> bool {
    let notes = pool.metadata.annotations.as_ref();
    notes.is_some_and(|notes| NOTES.iter().any(|key| notes.contains_key(*key)))
}

/// What a pool says about its pause.
fn said(pool: &MachineConfigPool) -> (bool, Option<&String>) {
    (is_paused(pool), pool.metadata.annotations.as_ref().and_then(|notes| notes.get(PAUSE_UNTIL)))
}
