//! Looks at the instances of all Machines at rest from time to time, many at a time.
//!
//! Most changes arrive as events; that an instance was removed or stopped behind our back does not.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::machine::{Machine, phase};
use cluster::watch::Key;
use jiff::Timestamp;
use machine::lifecycle::Record;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Machines;
use super::look::{AT_ONCE, Sighting, look_at};
use super::request::{self, Purpose};

/// A sighting is used by the pass that follows at once, or not at all.
const SHORTLY: Duration = Duration::from_secs(30);

/// What the last sweep saw, until the Machine's worker takes it.
#[derive(Default)]
pub(super) struct Sightings(Mutex<HashMap<Key, Seen>>);

struct Seen {
    at: Instant,
    /// When the provider was asked.
    time: Timestamp,
    /// Whether a sweep asked, and not the Machine's own pass.
    swept: bool,
    asked: Asked,
    sighting: Sighting,
}

/// What was seen of a Machine, when, and whether a sweep saw it.
pub(super) struct Taken {
    pub(super) sighting: Sighting,
    pub(super) time: Timestamp,
    pub(super) swept: bool,
}

/// What a Machine was looked for by. A sighting does not speak about a Machine that has got an instance since.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Asked {
    uid: Option<String>,
    provider_id: Option<String>,
    /// The token of the intent, and when the provider was last asked for an instance.
    intent: Option<(String, Timestamp)>,
}

impl Machines {
    /// Sweeps and looks for orphans for ever, neither waiting for the other.
    pub(super) async fn sweep(self: Arc<Self>) {
        tokio::join!(self.clone().repeat(Self::sweep_all), self.clone().repeat(Self::look_for_orphans),);
    }

    async fn repeat<F>(self: Arc<Self>, look: impl Fn(Arc<Self>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // The first pass over every Machine looks at its instance anyway.
        loop {
            tokio::time::sleep(self.context.settings.resync).await;
            // A task of its own, so that a provider that panics about one odd spec stops neither the queue nor the next
            // look; in a set, so that it ends with the controllers.
            let mut task = JoinSet::new();
            task.spawn(look(self.clone()));
            if let Some(Err(error)) = task.join_next().await {
                tracing::error!(%error, "a look at the cloud panicked");
            }
        }
    }

    async fn sweep_all(self: Arc<Self>) {
        if let Err(unread) = self.context.world.machines_known() {
            tracing::debug!(%unread, "instances are not looked at");
            return;
        }
        let resting: Vec<_> = self.context.world.machines.all().into_iter().filter(|it| rests(it)).collect();
        // A place that does not answer must not keep the others from being looked at.
        let mut places: HashMap<String, Vec<Arc<Machine>>> = HashMap::new();
        for machine in resting {
            let place = request::place(&machine, self.context.provider.rules());
            places.entry(place).or_default().push(machine);
        }
        let sweeps = places.values().map(async |machines| {
            for some in machines.chunks(AT_ONCE) {
                self.sweep_some(some).await;
            }
        });
        futures::future::join_all(sweeps).await;
    }

    async fn sweep_some(&self, machines: &[Arc<Machine>]) {
        let (mut keys, mut requests) = (Vec::new(), Vec::new());
        for machine in machines {
            match self.request(machine, Purpose::Other).await {
                Ok(request) => {
                    keys.push((Key::of(&**machine), Asked::of(machine)));
                    requests.push(request);
                }
                // One whose Secrets cannot be read says so in a pass of its own.
                Err(_) => self.queue.add(Key::of(&**machine)),
            }
        }
        let time = Timestamp::now();
        let sightings = look_at(&*self.context.provider, &requests).await;
        let mut seen = self.sightings.0.lock();
        for ((key, asked), sighting) in keys.into_iter().zip(sightings) {
            seen.insert(key.clone(), Seen { at: Instant::now(), time, swept: true, asked, sighting });
            self.queue.add(key);
        }
    }
}

/// Whether nothing else would bring the Machine back.
fn rests(machine: &Machine) -> bool {
    let phase = machine.status.as_ref().and_then(|status| status.phase.as_deref());
    machine.metadata.deletion_timestamp.is_none() && phase == Some(phase::RUNNING)
}

impl Sightings {
    /// Keeps what a Machine's own pass asked for, until its next pass.
    pub(super) fn keep(&self, key: &Key, asked: Asked, time: Timestamp, sighting: Sighting) {
        self.0.lock().insert(key.clone(), Seen { at: Instant::now(), time, swept: false, asked, sighting });
    }

    /// What was seen of a Machine a moment ago.
    pub(super) fn take(&self, key: &Key, machine: &Machine) -> Option<Taken> {
        let Seen { at, time, swept, asked, sighting } = self.0.lock().remove(key)?;
        let is_leaving = machine.metadata.deletion_timestamp.is_some();
        (!is_leaving && at.elapsed() < SHORTLY && asked == Asked::of(machine)).then_some(Taken {
            sighting,
            time,
            swept,
        })
    }

    pub(super) fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

impl Asked {
    pub(super) fn of(machine: &Machine) -> Self {
        Self {
            uid: machine.metadata.uid.clone(),
            provider_id: machine.spec.provider_id.clone(),
            intent: Record::of(machine).map(|record| (record.intent.token, record.last_try)),
        }
    }
}
