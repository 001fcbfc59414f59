//! Writes that nobody waits for, held back so that those that nodes wait for come first.

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Writes at once. Each rests afterwards for as long as it took, so that a server with other work to do, which answers
/// slowly, is asked little, and an idle one is asked often.
const AT_ONCE: usize = 2;

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
        tokio::time::sleep(start.elapsed().min(LONGEST_REST)).await;
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slow_server_is_left_alone_for_as_long_as_it_took() {
        let (leisure, start) = (Leisure::default(), Instant::now());
        let slow = || leisure.take(async { tokio::time::sleep(Duration::from_millis(50)).await });
        tokio::join!(slow(), slow(), slow(), slow());
        assert_eq!(start.elapsed().as_millis() / 10, 20, "two at a time, each 50 ms and as much rest");
        leisure.take(std::future::ready(())).await;
        assert_eq!(start.elapsed().as_millis() / 10, 20, "what is quick needs no rest");
    }
}
