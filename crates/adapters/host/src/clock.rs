//! The kernel's monotonic clock. It never says what time of day it is.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Running time since the kernel booted, without the time that the machine slept.
pub(crate) fn uptime() -> Duration {
    // The kernel never hands out a negative monotonic time.
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default()
}
