//! Writes that nobody waits for, held back so that those that nodes wait for come first.

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Writes at once.
const AT_ONCE: usize = 2;

/// A write that took this long is followed by as long a rest, one that took ten times as long by a rest of a hundred times:
/// a busy server is hardly asked, an idle one often.
const QUICK: Duration = Duration::from_millis(1);

/// No rest is longer; a server that is stuck does not answer sooner for it.
const LONGEST_REST: Duration = Duration::from_secs(1);

pub(super) struct Leisure {
    places: Semaphore,
}

impl Default for Leisure {
    fn default() -> Self {
        Self { places: Semaphore::new(AT_ONCE) }
    }
}

impl Leisure {
    /// Makes a request when its time has come.
    pub(super) async fn take<T>(&self, request: impl Future<Output = T>) -> T {
        let _place = self.places.acquire().await;
        let start = Instant::now();
        let answer = request.await;
        tokio::time::sleep(rest(start.elapsed())).await;
        answer
    }
}

/// How long to leave a server alone that took this long.
fn rest(took: Duration) -> Duration {
    took.mul_f64(took.as_secs_f64() / QUICK.as_secs_f64()).min(LONGEST_REST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_busy_server_is_left_alone_and_an_idle_one_is_not() {
        let (leisure, start) = (Leisure::default(), Instant::now());
        let busy = || leisure.take(async { tokio::time::sleep(Duration::from_millis(10)).await });
        tokio::join!(busy(), busy(), busy(), busy());
        assert_eq!(start.elapsed().as_millis() / 10, 22, "two at a time, each 10 ms and ten times as much rest");
        leisure.take(std::future::ready(())).await;
        assert_eq!(start.elapsed().as_millis() / 10, 22, "what is quick needs no rest");
        assert_eq!(rest(Duration::from_secs(15)), LONGEST_REST);
    }
}
