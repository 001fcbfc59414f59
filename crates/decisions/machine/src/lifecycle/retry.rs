//! How long to wait after a provider's refusal.

use jiff::SignedDuration;

use crate::provider::{Error, ErrorKind};

/// The pause after so many tries in a row, by the kind of the last refusal.
///
/// Capacity and quota return in minutes at best, so these pauses start longer. All of them double up to a limit.
pub fn pause(kind: &str, tries: u32) -> SignedDuration {
    let (first, longest) = match kind {
        "NoCapacity" | "Quota" => (30, 600),
        "NotFound" | "Credentials" => (20, 300),
        "Throttled" => (5, 120),
        _ => (5, 300),
    };
    let doubled = i64::from(first) << tries.saturating_sub(1).min(16);
    SignedDuration::from_secs(doubled.min(longest))
}

/// The pause after a refusal that nobody counts: as long as the trouble has lasted already, within bounds. It doubles by
/// itself.
pub(super) fn after(error: &Error, lasting: SignedDuration) -> SignedDuration {
    let longest = match error.kind {
        ErrorKind::NoCapacity | ErrorKind::Quota => SignedDuration::from_mins(10),
        ErrorKind::NotFound
        | ErrorKind::InvalidSpec
        | ErrorKind::Throttled { .. }
        | ErrorKind::Credentials
        | ErrorKind::Unreachable
        | ErrorKind::Other => SignedDuration::from_mins(5),
    };
    error.retry_after().unwrap_or_else(|| lasting.clamp(SignedDuration::from_secs(5), longest))
}
