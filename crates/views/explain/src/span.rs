//! Times as people say them.

use jiff::{SignedDuration, Timestamp};

/// A duration in its two largest units: `3m12s`, `2h5m`, `4d1h`.
pub fn span(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    let two = |large: i64, unit: &str, small: i64, other: &str| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{other}") }
    };
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => two(minutes, "m", seconds % 60, "s"),
        (0, hours, minutes) => two(hours, "h", minutes, "m"),
        (days, hours, _) => two(days, "d", hours, "h"),
    }
}

/// How long ago something was. A time in the future is now: clocks differ.
pub fn ago(then: Timestamp, now: Timestamp) -> String {
    span(now.duration_since(then))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units_at_most() {
        let said = |seconds| span(SignedDuration::from_secs(seconds));
        assert_eq!([said(-5), said(0), said(59), said(60), said(192)], ["0s", "0s", "59s", "1m", "3m12s"]);
        assert_eq!([said(3_600), said(7_500), said(90_000)], ["1h", "2h5m", "1d1h"]);
    }
}
