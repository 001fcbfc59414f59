//! Exponential backoff with jitter for watches of an API that does not respond.
//!
//! The watcher's own backoff resets with each attempt, because it takes the attempt itself for an event.

use std::time::Duration;

use kube::runtime::watcher::Event;
use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(800);

#[derive(Debug)]
pub struct Patience {
    longest: Duration,
    failures: u32,
    until: Option<Instant>,
}

impl Patience {
    /// Creates a backoff whose pauses grow up to `longest`, plus up to half of it as jitter.
    #[must_use]
    pub fn up_to(longest: Duration) -> Self {
        Self { longest, failures: 0, until: None }
    }

    /// Awaits `next` after the current pause.
    pub async fn then<T>(&self, next: impl Future<Output = T>) -> T {
        if let Some(until) = self.until {
            tokio::time::sleep_until(until).await;
        }
        next.await
    }

    /// Records a failure and returns the pause that follows.
    pub fn lose(&mut self) -> Duration {
        let pause = pause(self.longest, self.failures, jiff::Timestamp::now().subsec_nanosecond().unsigned_abs());
        self.failures = self.failures.saturating_add(1);
        self.until = Some(Instant::now() + pause);
        pause
    }

    /// Records an event. Every event but `Init` proves that the API responds.
    pub fn hear<K>(&mut self, event: &Event<K>) {
        if !matches!(event, Event::Init) {
            self.reset();
        }
    }

    /// Records that the API responded.
    pub fn reset(&mut self) {
        *self = Self::up_to(self.longest);
    }
}

/// Doubles from `FIRST` to `longest` and adds up to half as jitter; `chance` is any number.
fn pause(longest: Duration, failures: u32, chance: u32) -> Duration {
    let full = FIRST.saturating_mul(1 << failures.min(10)).min(longest);
    full + full / 2 * (chance % 1000) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(30);

    #[test]
    fn pauses_grow_up_to_the_longest_with_jitter() {
        let pauses: Vec<u64> = (0..8).map(|failures| pause(LONGEST, failures, 500).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 37, 37]);
        assert_eq!((pause(LONGEST, 9, 0).as_secs(), pause(LONGEST, 9, 999).as_secs()), (30, 44));
        assert_eq!(pause(LONGEST, u32::MAX, 0), LONGEST);
    }

    #[test]
    fn only_a_response_of_the_api_resets_the_pauses() {
        let mut patience = Patience::up_to(LONGEST);
        patience.lose();
        patience.lose();
        patience.hear(&Event::<()>::Init);
        assert_eq!(patience.failures, 2, "an attempt is not a response");
        patience.hear(&Event::<()>::InitDone);
        assert_eq!((patience.failures, patience.until), (0, None));
    }
}
