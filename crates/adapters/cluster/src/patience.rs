//! How long a watch waits before it asks a silent API again: longer and longer, and not all processes at once.
//!
//! The watcher's own backoff starts anew with each attempt, because it counts the attempt itself as news.

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
    /// Pauses that do not grow beyond this, and half of it.
    #[must_use]
    pub fn up_to(longest: Duration) -> Self {
        Self { longest, failures: 0, until: None }
    }

    /// What `next` gives, not before the pause is over.
    pub async fn then<T>(&self, next: impl Future<Output = T>) -> T {
        if let Some(until) = self.until {
            tokio::time::sleep_until(until).await;
        }
        next.await
    }

    /// The API was lost, or is still lost. Returns how long it is left alone.
    pub fn lose(&mut self) -> Duration {
        let pause = pause(self.longest, self.failures, jiff::Timestamp::now().subsec_nanosecond().unsigned_abs());
        self.failures = self.failures.saturating_add(1);
        self.until = Some(Instant::now() + pause);
        pause
    }

    /// Something that only a living API says.
    pub fn hear<K>(&mut self, event: &Event<K>) {
        if !matches!(event, Event::Init) {
            self.reset();
        }
    }

    /// The API has answered.
    pub fn reset(&mut self) {
        *self = Self::up_to(self.longest);
    }
}

/// Doubles from the first to the longest, and up to half of it more: `chance` is any number.
fn pause(longest: Duration, failures: u32, chance: u32) -> Duration {
    let full = FIRST.saturating_mul(1 << failures.min(10)).min(longest);
    full + full / 2 * (chance % 1000) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(30);

    #[test]
    fn pauses_grow_to_the_longest_and_differ() {
        let pauses: Vec<u64> = (0..8).map(|failures| pause(LONGEST, failures, 500).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 37, 37]);
        assert_eq!((pause(LONGEST, 9, 0).as_secs(), pause(LONGEST, 9, 999).as_secs()), (30, 44));
        assert_eq!(pause(LONGEST, u32::MAX, 0), LONGEST);
    }

    #[test]
    fn only_a_living_api_ends_the_pauses() {
        let mut patience = Patience::up_to(LONGEST);
        patience.lose();
        patience.lose();
        patience.hear(&Event::<()>::Init);
        assert_eq!(patience.failures, 2, "a new attempt is no news");
        patience.hear(&Event::<()>::InitDone);
        assert_eq!((patience.failures, patience.until), (0, None));
    }
}
