//! Limits guessing of tokens: after too many failures, an address is refused before any lookup.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A machine with a stale token makes a few attempts; guessing takes thousands.
const FAILURES: u32 = 20;

/// How long failures are remembered.
const WINDOW: Duration = Duration::from_secs(60);

/// Upper bound of remembered addresses, so that a flood of spoofed ones cannot exhaust memory.
const ADDRESSES: usize = 10_000;

#[derive(Default)]
pub(crate) struct Limits {
    failures: Mutex<HashMap<IpAddr, (u32, Instant)>>,
}

impl Limits {
    /// Returns how long an address has to wait, if it has to.
    pub(crate) fn wait(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let failures = self.failures.lock();
        let (count, since) = failures.get(&address)?;
        let left = WINDOW.checked_sub(now.duration_since(*since))?;
        (*count >= FAILURES).then_some(left)
    }

    pub(crate) fn failed(&self, address: IpAddr, now: Instant) {
        let mut failures = self.failures.lock();
        if failures.len() >= ADDRESSES {
            failures.retain(|_, (_, since)| now.duration_since(*since) < WINDOW);
            if failures.len() >= ADDRESSES {
                failures.clear();
            }
        }
        let (count, since) = failures.entry(address).or_insert((0, now));
        if now.duration_since(*since) >= WINDOW {
            (*count, *since) = (0, now);
        }
        *count += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn an_address_that_fails_too_often_waits_for_the_window_to_pass() {
        let (limits, start) = (Limits::default(), Instant::now());
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        for _ in 0..FAILURES {
            assert_eq!(limits.wait(address, start), None);
            limits.failed(address, start);
        }
        assert_eq!(limits.wait(address, start), Some(WINDOW));
        assert_eq!(limits.wait(address, start + WINDOW + Duration::from_millis(1)), None);
    }

    #[test]
    fn a_flood_of_addresses_stays_bounded() {
        let (limits, start) = (Limits::default(), Instant::now());
        for number in 0..(ADDRESSES as u32 * 3) {
            limits.failed(IpAddr::V4(Ipv4Addr::from_bits(number)), start);
        }
        assert!(limits.failures.lock().len() <= ADDRESSES);
    }
}
