//! Lookups, gathered: Machines that ask at about the same time share one call to the provider.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use machine::provider::{Error, ErrorKind, Instance, Provider, Request};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::ask::in_time;

/// How long a lookup waits for others. A cloud takes longer to answer than this, and nobody notices it.
const GATHER: Duration = Duration::from_millis(10);

/// The least time between two calls. A set that grows by a thousand costs a few calls a second and not one for each machine.
const PACE: Duration = Duration::from_millis(250);

/// How many Machines one call asks about.
pub(super) const AT_ONCE: usize = 1000;

pub(super) type Sighting = Result<Vec<Instance>, Error>;

pub(super) struct Looks {
    waiting: mpsc::UnboundedSender<Wanted>,
    _asking: JoinSet<()>,
}

/// One lookup that somebody waits for.
struct Wanted {
    place: String,
    request: Request,
    answer: oneshot::Sender<Sighting>,
}

impl Looks {
    pub(super) fn start(provider: Arc<dyn Provider>) -> Self {
        let (waiting, mut requests) = mpsc::unbounded_channel();
        let mut asking = JoinSet::new();
        asking.spawn(async move {
            let mut calls = JoinSet::new();
            let mut batch = Vec::new();
            let mut next = Instant::now();
            while requests.recv_many(&mut batch, AT_ONCE).await > 0 {
                tokio::time::sleep_until(next.max(Instant::now() + GATHER)).await;
                next = Instant::now() + PACE;
                while batch.len() < AT_ONCE
                    && let Ok(more) = requests.try_recv()
                {
                    batch.push(more);
                }
                for batch in by_place(std::mem::take(&mut batch)) {
                    calls.spawn(answer(provider.clone(), batch));
                }
                while calls.try_join_next().is_some() {}
            }
        });
        Self { waiting, _asking: asking }
    }

    /// Asks for the instances of one Machine.
    pub(super) fn look(&self, place: String, request: Request) -> impl Future<Output = Sighting> + use<> {
        let (answer, answered) = oneshot::channel();
        let _ = self.waiting.send(Wanted { place, request, answer });
        async { answered.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Other, "the lookup was given up"))) }
    }
}

/// A place that does not answer must not keep others from being answered.
fn by_place(batch: Vec<Wanted>) -> impl Iterator<Item = Vec<Wanted>> {
    let mut places: HashMap<String, Vec<Wanted>> = HashMap::new();
    for wanted in batch {
        places.entry(wanted.place.clone()).or_default().push(wanted);
    }
    places.into_values()
}

async fn answer(provider: Arc<dyn Provider>, batch: Vec<Wanted>) {
    let (requests, waiting): (Vec<_>, Vec<_>) = batch.into_iter().map(|it| (it.request, it.answer)).unzip();
    let sightings = look_at(&*provider, &requests).await;
    for (waiting, sighting) in waiting.into_iter().zip(sightings) {
        // Whoever asked may have gone meanwhile.
        let _ = waiting.send(sighting);
    }
}

/// Asks about many Machines at once: one answer for each.
pub(super) async fn look_at(provider: &dyn Provider, requests: &[Request]) -> Vec<Sighting> {
    let answers = in_time(async { Ok(provider.instances(requests).await) }).await;
    let missing = || Error::new(ErrorKind::Other, format!("provider {} left out an answer", provider.name()));
    match answers {
        Ok(answers) => {
            let rest = std::iter::repeat_with(|| Err(missing()));
            answers.into_iter().chain(rest).take(requests.len()).collect()
        }
        Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
    }
}
