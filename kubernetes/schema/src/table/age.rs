//! Ages as people read them.

/// The time from a timestamp to now, both RFC 3339; `None` if one is no timestamp.
#[must_use]
pub fn since(then: &str, now: &str) -> Option<String> {
    between(then, now).map(human)
}

/// Seconds from one timestamp to another.
fn between(then: &str, now: &str) -> Option<i64> {
    let (then, now): (jiff::Timestamp, jiff::Timestamp) = (then.parse().ok()?, now.parse().ok()?);
    Some(now.duration_since(then).as_secs())
}

/// A duration in seconds, as precise as its size needs.
#[must_use]
pub fn human(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |large: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{small_unit}"),
    };
    match seconds {
        i64::MIN..=-2 => "<invalid>".to_string(),
        -1 => "0s".to_string(),
        _ if seconds < 120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => two(days, "d", hours % 24, "h"),
        _ if hours < 24 * 365 * 2 => format!("{days}d"),
        _ if hours < 24 * 365 * 8 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_lose_precision_as_they_grow() {
        let cases = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_000, "3h3m"),
            (86_400, "24h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (86_400 * 9, "9d"),
            (86_400 * 365 * 2, "2y"),
            (86_400 * 365 * 9, "9y"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human(seconds), text);
        }
        assert_eq!(since("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z").as_deref(), Some("60s"));
        assert_eq!(since("x", "2026-01-01T00:01:00Z"), None);
    }
}
