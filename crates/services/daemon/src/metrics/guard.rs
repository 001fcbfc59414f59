//! Decides who may read the metrics: whoever the API knows by a bearer token and lets `get` the path that is asked for.
//!
//! The daemon asks with its own credential, which every kubelet may do for its own pages too. Answers are kept for a while, so
//! that a scrape costs the API nothing as a rule.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Client;
use kube::api::{Api, PostParams};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout};

/// As long as a kubelet believes a token.
const BELIEVE: Duration = Duration::from_secs(120);
/// Rights that were just given should work soon.
const DOUBT: Duration = Duration::from_secs(10);
/// How many tokens are remembered. A cluster has a few scrapers; whoever sends others must not fill the memory.
const REMEMBERED: usize = 64;
/// A scrape ends before its own time limit.
const REVIEW: Duration = Duration::from_secs(4);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    /// The API does not know the token.
    Unknown,
    Forbidden,
    /// The API could not be asked.
    CannotTell,
}

type Key = [u8; 32];

#[derive(Default)]
pub struct Guard {
    client: Mutex<Option<Client>>,
    known: Mutex<HashMap<Key, (Verdict, Instant)>>,
}

impl Guard {
    /// Asks with this client from now on.
    pub fn ask_with(&self, client: Client) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client);
    }

    pub async fn judge(&self, token: &str, path: &str) -> Verdict {
        let key: Key = Sha256::new_with_prefix(token).chain_update([0]).chain_update(path).finalize().into();
        let now = Instant::now();
        if let Some((verdict, until)) = self.known().get(&key)
            && *until > now
        {
            return *verdict;
        }
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(client) = client else { return Verdict::CannotTell };
        let verdict = match timeout(REVIEW, ask(client, token, path)).await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(error)) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "who asks for metrics cannot be checked");
                return Verdict::CannotTell;
            }
            Err(_) => return Verdict::CannotTell,
        };
        let mut known = self.known();
        known.retain(|_, (_, until)| *until > now);
        if known.len() < REMEMBERED {
            known.insert(key, (verdict, now + if verdict == Verdict::Allowed { BELIEVE } else { DOUBT }));
        }
        verdict
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Key, (Verdict, Instant)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn ask(client: Client, token: &str, path: &str) -> Result<Verdict, kube::Error> {
    let spec = TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() };
    let review = TokenReview { spec, ..TokenReview::default() };
    let review = Api::all(client.clone()).create(&PostParams::default(), &review).await?;
    let status = review.status.unwrap_or_default();
    let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else { return Ok(Verdict::Unknown) };
    let review = SubjectAccessReview { spec: question(user, path), ..SubjectAccessReview::default() };
    let review = Api::all(client).create(&PostParams::default(), &review).await?;
    Ok(if review.status.is_some_and(|status| status.allowed) { Verdict::Allowed } else { Verdict::Forbidden })
}

fn question(user: UserInfo, path: &str) -> SubjectAccessReviewSpec {
    SubjectAccessReviewSpec {
        user: user.username,
        groups: user.groups,
        uid: user.uid,
        extra: user.extra,
        non_resource_attributes: Some(NonResourceAttributes {
            path: Some(path.to_owned()),
            verb: Some("get".to_owned()),
        }),
        resource_attributes: None,
    }
}
