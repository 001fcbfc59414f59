//! Decides whether a machine's token opens a pool's config.
//!
//! Every refusal reads the same to the machine, so that nobody learns which tokens exist; the reason is for the log and
//! the event.

use api::machinist::BootstrapToken;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

/// Why a token was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("no token was sent")]
    Missing,
    #[error("the token is not known")]
    Unknown,
    #[error("the token is for another pool")]
    OtherPool,
    #[error("the token has expired")]
    Expired,
    #[error("the token has been used up")]
    UsedUp,
}

/// The token objects that a secret opens, looked up by hash, or why none of them does.
///
/// The secret itself is never compared with anything: two SHA-256 sums are, in constant time.
pub fn check<'a>(
    secret: Option<&str>,
    pool: &str,
    tokens: impl IntoIterator<Item = &'a BootstrapToken>,
    now: Timestamp,
) -> Result<&'a BootstrapToken, Refusal> {
    let secret = secret.filter(|secret| !secret.is_empty()).ok_or(Refusal::Missing)?;
    let sum = hash(secret);
    let mut refusal = Refusal::Unknown;
    for token in tokens.into_iter().filter(|token| is_equal(token.spec.sha256.as_bytes(), sum.as_bytes())) {
        match refused(token, pool, now) {
            None => return Ok(token),
            Some(reason) => refusal = reason,
        }
    }
    Err(refusal)
}

/// What a token object keeps of its secret.
pub fn hash(secret: &str) -> String {
    hex::encode(Sha256::digest(secret.as_bytes()))
}

fn refused(token: &BootstrapToken, pool: &str, now: Timestamp) -> Option<Refusal> {
    let uses = token.status.as_ref().map_or(0, |status| status.uses);
    if token.spec.pool != pool {
        Some(Refusal::OtherPool)
    } else if token.spec.expires.as_ref().is_some_and(|expires| expires.0 <= now) {
        Some(Refusal::Expired)
    } else if token.spec.max_uses.is_some_and(|limit| uses >= limit) {
        Some(Refusal::UsedUp)
    } else {
        None
    }
}

/// Looks at every byte, wherever the first difference is.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |seen, (a, b)| seen | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use api::machinist::{BootstrapTokenSpec, BootstrapTokenStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().expect("a time")
    }

    fn token(change: impl FnOnce(&mut BootstrapTokenSpec), uses: i64) -> BootstrapToken {
        let mut spec = BootstrapTokenSpec { pool: "worker".to_owned(), sha256: hash("secret"), ..Default::default() };
        change(&mut spec);
        let mut token = BootstrapToken::new("one", spec);
        token.status = Some(BootstrapTokenStatus { uses, ..Default::default() });
        token
    }

    #[track_caller]
    fn verdict(secret: Option<&str>, token: &BootstrapToken, expected: Result<(), Refusal>) {
        assert_eq!(check(secret, "worker", [token], now()).map(drop), expected);
    }

    #[test]
    fn the_right_secret_for_the_right_pool_opens() {
        verdict(Some("secret"), &token(|_| {}, 0), Ok(()));
    }

    #[test]
    fn no_secret_and_a_foreign_secret_are_refused() {
        verdict(None, &token(|_| {}, 0), Err(Refusal::Missing));
        verdict(Some(""), &token(|_| {}, 0), Err(Refusal::Missing));
        verdict(Some("guess"), &token(|_| {}, 0), Err(Refusal::Unknown));
    }

    #[test]
    fn the_hash_itself_is_not_a_secret() {
        verdict(Some(&hash("secret")), &token(|_| {}, 0), Err(Refusal::Unknown));
    }

    #[test]
    fn another_pools_token_is_refused() {
        verdict(Some("secret"), &token(|spec| spec.pool = "infra".to_owned(), 0), Err(Refusal::OtherPool));
    }

    #[test]
    fn a_token_ends_at_its_time_and_after_its_uses() {
        verdict(Some("secret"), &token(|spec| spec.expires = Some(Time(now())), 0), Err(Refusal::Expired));
        verdict(Some("secret"), &token(|spec| spec.max_uses = Some(2), 1), Ok(()));
        verdict(Some("secret"), &token(|spec| spec.max_uses = Some(2), 2), Err(Refusal::UsedUp));
    }
}
