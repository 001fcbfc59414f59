//! The work queue of a controller: each key is queued at most once and handled by one worker at a time.
//!
//! A key waits until it is due. Adding it again keeps the earlier time, except with [`Queue::add_quiet`], which
//! debounces. A key that failed returns after a growing pause; a success resets the pause.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::{self, JoinSet};
use tokio::time::Instant;

/// The pause after the first failure; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// Long enough to spare a broken server, short enough that recovery is not delayed noticeably.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The result of handling a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to do until something changes.
    Done,
    /// Handle the key again after this time, even if nothing changes.
    Again(Duration),
    /// It failed and may succeed later.
    Retry,
}

pub struct Queue<K> {
    inner: Arc<Inner<K>>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

struct Inner<K> {
    state: Mutex<State<K>>,
    changed: Notify,
}

struct State<K> {
    due: BTreeMap<(Instant, u64), K>,
    waiting: HashMap<K, Waiting>,
    running: BTreeSet<K>,
    failures: HashMap<K, u32>,
    sequence: u64,
}

/// A key's position in `due`, and since when it has been waiting.
struct Waiting {
    at: (Instant, u64),
    since: Instant,
}

impl<K: Clone + Debug + Ord + Hash + Send + 'static> Default for Queue<K> {
    fn default() -> Self {
        let state = State {
            due: BTreeMap::new(),
            waiting: HashMap::new(),
            running: BTreeSet::new(),
            failures: HashMap::new(),
            sequence: 0,
        };
        Self { inner: Arc::new(Inner { state: Mutex::new(state), changed: Notify::new() }) }
    }
}

impl<K: Clone + Debug + Ord + Hash + Send + 'static> Queue<K> {
    /// Queues `key` for the next free worker.
    pub fn add(&self, key: K) {
        self.add_after(key, Duration::ZERO);
    }

    /// Queues `key` for `delay` from now, or earlier if it is already queued.
    pub fn add_after(&self, key: K, delay: Duration) {
        let at = Instant::now() + delay;
        self.schedule(key, |waiting| waiting.map_or(at, |waiting| waiting.at.0.min(at)));
    }

    /// Queues `key` until it was not added again for `quiet`, but at most for `longest` after the first call.
    pub fn add_quiet(&self, key: K, quiet: Duration, longest: Duration) {
        let now = Instant::now();
        self.schedule(key, |waiting| waiting.map_or(now + quiet, |waiting| (now + quiet).min(waiting.since + longest)));
    }

    fn schedule(&self, key: K, choose: impl FnOnce(Option<&Waiting>) -> Instant) {
        let mut state = self.inner.state.lock();
        let old = state.waiting.remove(&key);
        let at = choose(old.as_ref());
        if let Some(old) = &old {
            state.due.remove(&old.at);
        }
        state.sequence += 1;
        let place = (at, state.sequence);
        let since = old.map_or_else(Instant::now, |old| old.since);
        state.due.insert(place, key.clone());
        state.waiting.insert(key, Waiting { at: place, since });
        drop(state);
        self.inner.changed.notify_one();
    }

    /// Number of keys that are queued or running, for tests and metrics.
    pub fn len(&self) -> usize {
        let state = self.inner.state.lock();
        state.waiting.len() + state.running.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Handles keys forever, up to `workers` at once and never the same key concurrently.
    pub async fn run<F>(&self, workers: usize, handle: impl Fn(K) -> F)
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let mut tasks: JoinSet<Outcome> = JoinSet::new();
        let mut keys: HashMap<task::Id, K> = HashMap::new();
        loop {
            if tasks.len() < workers
                && let Some(key) = self.take()
            {
                let run = tasks.spawn(handle(key.clone()));
                keys.insert(run.id(), key);
                continue;
            }
            let wake = self.wake_at();
            tokio::select! {
                Some(finished) = tasks.join_next_with_id(), if !tasks.is_empty() => {
                    let (id, outcome) = match finished {
                        Ok(finished) => finished,
                        // A panic is a bug, but one bad object must not stop the others.
                        Err(error) => {
                            tracing::error!(%error, "a reconcile panicked");
                            (error.id(), Outcome::Retry)
                        }
                    };
                    if let Some(key) = keys.remove(&id) {
                        self.finish(key, outcome);
                    }
                }
                () = self.inner.changed.notified() => {}
                () = sleep_until(wake), if tasks.len() < workers => {}
            }
        }
    }

    fn take(&self) -> Option<K> {
        let mut state = self.inner.state.lock();
        let now = Instant::now();
        let place = state.due.iter().take_while(|(place, _)| place.0 <= now);
        let place = place.filter(|(_, key)| !state.running.contains(*key)).map(|(place, _)| *place).next()?;
        let key = state.due.remove(&place)?;
        state.waiting.remove(&key);
        state.running.insert(key.clone());
        Some(key)
    }

    fn wake_at(&self) -> Option<Instant> {
        let state = self.inner.state.lock();
        state.due.iter().find(|(_, key)| !state.running.contains(*key)).map(|(place, _)| place.0)
    }

    fn finish(&self, key: K, outcome: Outcome) {
        let mut state = self.inner.state.lock();
        state.running.remove(&key);
        let failures = match outcome {
            Outcome::Retry => state.failures.get(&key).copied().unwrap_or(0) + 1,
            Outcome::Done | Outcome::Again(_) => 0,
        };
        match failures {
            0 => state.failures.remove(&key),
            failures => state.failures.insert(key.clone(), failures),
        };
        drop(state);
        match outcome {
            Outcome::Done => self.inner.changed.notify_one(),
            Outcome::Again(delay) => self.add_after(key, delay),
            Outcome::Retry => self.add_after(key, pause(failures)),
        }
    }
}

/// Returns the pause after the n-th failure in a row.
fn pause(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    (FIRST_PAUSE * 2_u32.pow(doublings)).min(LONGEST_PAUSE)
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Duration = Duration::from_millis(200);
    const LONGEST: Duration = Duration::from_secs(2);

    /// Runs the queue for `time` and records each handled key with the time in milliseconds since the start.
    async fn handled(queue: &Queue<&'static str>, time: Duration, outcome: Outcome) -> Vec<(u128, &'static str)> {
        let start = Instant::now();
        let log = Arc::new(Mutex::new(Vec::new()));
        let work = queue.run(1, |key| {
            let log = log.clone();
            async move {
                log.lock().push((start.elapsed().as_millis(), key));
                outcome
            }
        });
        let _ = tokio::time::timeout(time, work).await;
        log.lock().clone()
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_asked_for_twice_is_handled_once() {
        let queue = Queue::default();
        queue.add("a");
        queue.add("a");
        assert_eq!(handled(&queue, LONGEST, Outcome::Done).await, [(0, "a")]);
        assert!(queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_debounced_key_is_handled_after_the_longest_wait() {
        let queue = Queue::default();
        let noise = async {
            for _ in 0..30 {
                queue.add_quiet("a", QUIET, LONGEST);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let (log, ()) = tokio::join!(handled(&queue, Duration::from_secs(5), Outcome::Done), noise);
        // The last call is at 2.9 s: the first run is forced after 2 s, the second comes 200 ms after the last call.
        assert_eq!(log, [(2000, "a"), (3100, "a")]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_key_is_retried_after_growing_pauses() {
        let queue = Queue::default();
        queue.add("a");
        let log = handled(&queue, Duration::from_millis(350), Outcome::Retry).await;
        let times: Vec<u128> = log.into_iter().map(|(at, _)| at).collect();
        assert_eq!(times.len(), 5, "{times:?}");
        assert!(times.windows(3).all(|w| w[2] - w[1] >= 2 * (w[1] - w[0]) - 2), "{times:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_a_failure_of_its_key_only() {
        let queue = Queue::default();
        queue.add("bad");
        queue.add("good");
        let log = Arc::new(Mutex::new(Vec::new()));
        let work = queue.run(1, |key| {
            let log = log.clone();
            async move {
                log.lock().push(key);
                assert!(key != "bad" || log.lock().len() > 2, "a bug");
                Outcome::Done
            }
        });
        let _ = tokio::time::timeout(LONGEST, work).await;
        assert_eq!(*log.lock(), ["bad", "good", "bad"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_time_wins_over_a_later_one() {
        let queue = Queue::default();
        queue.add_after("a", Duration::from_secs(4));
        queue.add_after("a", Duration::from_secs(1));
        queue.add_after("a", Duration::from_secs(3));
        assert_eq!(handled(&queue, Duration::from_secs(5), Outcome::Done).await.len(), 1);
        assert_eq!(pause(1), FIRST_PAUSE);
        assert_eq!(pause(99), LONGEST_PAUSE);
    }
}
