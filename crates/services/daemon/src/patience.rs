//! How long a watch waits before it asks a silent API again: longer and longer, and not all nodes at once.
//!
//! The watcher's own backoff starts anew with each attempt, because it counts the attempt itself as news.

use std::time::Duration;

use kube::runtime::watcher::Event;
use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(800);
/// A fleet of thousands must not keep an API that comes back from coming back.
const LONGEST: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(crate) struct Patience {
    failures: u32,
    until: Option<Instant>,
}

impl Patience {
    /// What `next` gives, not before the pause is over.
    pub(crate) async fn then<T>(&self, next: impl Future<Output = T>) -> T {
        if let Some(until) = self.until {
            tokio::time::sleep_until(until).await;
        }
        next.await
    }

    /// The API was lost, or is still lost. Returns how long it is left alone.
    pub(crate) fn lose(&mut self) -> Duration {
        let pause = pause(self.failures, jiff::Timestamp::now().subsec_nanosecond().unsigned_abs());
        self.failures = self.failures.saturating_add(1);
        self.until = Some(Instant::now() + pause);
        pause
    }

    /// Something that only a living API says.
    pub(crate) fn hear<K>(&mut self, event: &Event<K>) {
        if !matches!(event, Event::Init) {
            *self = Self::default();
        }
    }
}

/// Doubles from the first to the longest, and up to half of it more: `chance` is any number.
fn pause(failures: u32, chance: u32) -> Duration {
    let full = FIRST.saturating_mul(1 << failures.min(10)).min(LONGEST);
    full + full / 2 * (chance % 1000) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_half_a_minute_and_differ() {
        let pauses: Vec<u64> = (0..8).map(|failures| pause(failures, 500).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 37, 37]);
        assert_eq!((pause(9, 0).as_secs(), pause(9, 999).as_secs()), (30, 44));
        assert_eq!(pause(u32::MAX, 0), LONGEST);
    }

    #[test]
    fn only_a_living_api_ends_the_pauses() {
        let mut patience = Patience::default();
        patience.lose();
        patience.lose();
        patience.hear(&Event::<()>::Init);
        assert_eq!(patience.failures, 2, "a new attempt is no news");
        patience.hear(&Event::<()>::InitDone);
        assert_eq!((patience.failures, patience.until), (0, None));
    }
}
