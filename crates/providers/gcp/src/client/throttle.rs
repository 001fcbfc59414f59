//! Rests a whole account when Google says that it asks too much.
//!
//! Google counts requests per project and minute. Were each machine to wait by itself, a thousand of them would keep the limit
//! exceeded together; so the first refusal stops them all, and they come back at different moments.

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
        let words = "Google asked for fewer requests; the account rests".to_owned();
        Err(Fault::Paused { left: left + jittered(left), words })
    }

    /// Google refused. The answer is how long the account rests.
    pub(super) fn strike(&self) -> Duration {
        let mut state = self.0.lock();
        let rest = jittered((FIRST * 2_u32.pow(state.strikes.min(10))).min(LONGEST));
        let until = Instant::now() + rest;
        // Requests that were under way together are refused together; they are one refusal.
        if state.until.is_none_or(|until| until <= Instant::now()) {
            state.strikes += 1;
            state.until = Some(until);
        }
        rest
    }

    /// Google answered.
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
    async fn one_refusal_rests_everybody_and_an_answer_ends_it() {
        let throttle = Throttle::default();
        assert!(throttle.admit().is_ok());
        let rest = throttle.strike();
        assert!(rest >= FIRST / 2 && rest <= FIRST);
        assert!(matches!(throttle.admit(), Err(Fault::Paused { .. })));
        tokio::time::advance(FIRST).await;
        assert!(throttle.admit().is_ok());
        throttle.calm();
        assert_eq!(throttle.0.lock().strikes, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn rests_grow_up_to_a_limit() {
        let throttle = Throttle::default();
        let mut rests = Vec::new();
        for _ in 0..10 {
            rests.push(throttle.strike());
            tokio::time::advance(LONGEST).await;
        }
        assert!(rests[3] >= FIRST * 4, "{rests:?}");
        assert!(rests[9] >= LONGEST / 2 && rests[9] <= LONGEST, "{rests:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_of_requests_that_were_under_way_together_count_once() {
        let throttle = Throttle::default();
        for _ in 0..5 {
            throttle.strike();
        }
        assert_eq!(throttle.0.lock().strikes, 1);
    }
}
