//! Rests a whole account when the cloud says that it asks too much.
//!
//! Clouds count requests per project. Were each machine to wait by itself, a thousand of them would keep the limit exceeded
//! together; so the first refusal stops them all, and they come back at different moments.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::Fault;

/// The rest after the first refusal; each further one in a row is twice as long.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Throttle(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    strikes: u32,
    until: Option<Instant>,
}

impl Throttle {
    /// An error while the account rests. It says when to come back, to each caller something else.
    pub(super) fn admit(&self) -> Result<(), Fault> {
        let until = self.0.lock().until;
        let left = until.map(|until| until.saturating_duration_since(Instant::now())).unwrap_or_default();
        if left.is_zero() {
            return Ok(());
        }
        let words = "the cloud asked for fewer requests; the account rests".to_owned();
        Err(Fault::Paused { left: left + jittered(left), words })
    }

    /// The cloud refused, and may have said for how long. The answer is how long the account rests.
    pub(super) fn strike(&self, asked: Option<Duration>) -> Duration {
        let mut state = self.0.lock();
        let own = jittered((FIRST * 2_u32.pow(state.strikes.min(10))).min(LONGEST));
        let rest = asked.map_or(own, |asked| asked.min(LONGEST).max(own));
        // Requests that were under way together are refused together; they are one refusal.
        if state.until.is_none_or(|until| until <= Instant::now()) {
            state.strikes += 1;
            state.until = Some(Instant::now() + rest);
        }
        rest
    }

    /// The cloud answered.
    pub(super) fn calm(&self) {
        let mut state = self.0.lock();
        if state.until.is_none_or(|until| until <= Instant::now()) {
            *state = State::default();
        }
    }
}

/// A random time between half of it and all of it.
pub(super) fn jittered(time: Duration) -> Duration {
    time.mul_f64(rand::random_range(0.5..=1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_refusal_rests_everybody_for_as_long_as_the_cloud_asks() {
        let throttle = Throttle::default();
        assert!(throttle.admit().is_ok());
        let rest = throttle.strike(Some(Duration::from_secs(7)));
        assert_eq!(rest, Duration::from_secs(7));
        assert!(matches!(throttle.admit(), Err(Fault::Paused { .. })));
        tokio::time::advance(rest).await;
        assert!(throttle.admit().is_ok());
        throttle.calm();
        assert_eq!(throttle.0.lock().strikes, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn rests_grow_up_to_a_limit_and_refusals_of_one_moment_count_once() {
        let throttle = Throttle::default();
        throttle.strike(None);
        throttle.strike(None);
        assert_eq!(throttle.0.lock().strikes, 1);
        for _ in 0..10 {
            tokio::time::advance(LONGEST).await;
            throttle.strike(None);
        }
        let longest = throttle.strike(Some(Duration::from_secs(3600)));
        assert!(longest >= LONGEST / 2 && longest <= LONGEST, "{longest:?}");
    }
}
