//! How long a config has been on trial, in seconds that the machine was running.
//!
//! The wall clock plays no part: time synchronization may set it by hours, in either direction, just after a boot. The
//! journal keeps the seconds of earlier boots and the start in this one, so a daemon that restarts counts on.

use serde::{Deserialize, Serialize};

/// How often the elapsed time is written down, so that a machine which boots again and again still reaches its deadline.
const SAVE: i64 = 10;

/// The trial's time as it is journalled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// The boot that `since` belongs to. Journals of version 1 have none.
    #[serde(default)]
    boot: String,
    /// Second of that boot.
    since: i64,
    /// Seconds of the trial before `since`.
    #[serde(default)]
    spent: i64,
}

impl Clock {
    pub fn start(boot: &str, uptime: i64) -> Self {
        Self { boot: boot.to_owned(), since: uptime, spent: 0 }
    }

    /// The clock as it shall be journalled now. In another boot it goes on from what was written down last; the time in
    /// between, when the machine was off, does not count.
    pub fn carry_on(self, boot: &str, uptime: i64) -> Self {
        let is_same_boot = self.boot == boot && uptime >= self.since;
        match uptime - self.since {
            passed if is_same_boot && passed < SAVE => self,
            passed if is_same_boot => Self { since: uptime, spent: self.spent + passed, ..self },
            _ => Self { spent: self.spent, ..Self::start(boot, uptime) },
        }
    }

    /// Seconds on trial, asked in the boot of this clock.
    pub fn elapsed(&self, uptime: i64) -> i64 {
        self.spent + (uptime - self.since).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_restarts_counts_on() {
        let clock = Clock::start("a", 100).carry_on("a", 103);
        assert_eq!(clock, Clock::start("a", 100), "a few seconds are not worth a write");
        let clock = clock.carry_on("a", 160);
        assert_eq!(clock.elapsed(160), 60);
        assert_eq!(clock.elapsed(165), 65);
    }

    #[test]
    fn another_boot_adds_to_what_was_spent_and_time_off_does_not_count() {
        let clock = Clock::start("a", 1000).carry_on("a", 1100).carry_on("b", 7);
        assert_eq!(clock.elapsed(7), 100);
        assert_eq!(clock.elapsed(27), 120);
        let clock = clock.carry_on("b", 27).carry_on("c", 5000);
        assert_eq!(clock.elapsed(5000), 120, "the second of another boot says nothing");
    }

    #[test]
    fn a_second_before_the_start_belongs_to_another_boot_whatever_its_id_says() {
        assert_eq!(Clock::start("a", 1000).carry_on("a", 1100).carry_on("a", 5).elapsed(5), 100);
    }
}
