//! Takes away tokens that ended long ago, whoever made them.

use std::time::Duration;

use cluster::{Outcome, Problem, problem, write};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Preconditions};
use operate::tokens::{Plan, plan};
use serde::de::DeserializeOwned;

use api::machinist::BootstrapToken;

use crate::context::{Leading, UNSEEN};

/// Nothing to a token that ended a week ago.
const SKEW: SignedDuration = SignedDuration::from_hours(1);

/// How long a clock that is wrong is given.
const CLOCK: Duration = Duration::from_secs(60);

/// Looks at every token; comes back when the next one is due.
pub(crate) async fn sweep(leading: &Leading) -> Outcome {
    let tokens = match leading.world.tokens.fresh("bootstraptokens") {
        Ok(tokens) => tokens,
        // That they cannot be read is told by whoever watches them.
        Err(_) => return Outcome::Again(UNSEEN),
    };
    let now = leading.now();
    let mut next: Option<Timestamp> = None;
    let mut ended = Vec::new();
    for token in tokens {
        match plan(&token, now) {
            Plan::Keep { next: at } => next = next.into_iter().chain(at).min(),
            Plan::Delete => ended.push(token),
        }
    }
    if !ended.is_empty() && !is_sure_of_time(leading).await {
        return Outcome::Again(CLOCK);
    }
    let api: Api<BootstrapToken> = Api::all(leading.client.clone());
    for token in ended {
        if !delete_exactly(&api, &*token).await {
            return Outcome::Retry;
        }
        tracing::info!(token = token.name_any(), pool = token.spec.pool, "deleted a token that ended long ago");
    }
    let left = |at: Timestamp| Duration::try_from(at.duration_since(now)).unwrap_or_default();
    next.map_or(Outcome::Done, |at| Outcome::Again(left(at).max(Duration::from_secs(60))))
}

/// Whoever does not know what time it is cannot say what is over.
async fn is_sure_of_time(leading: &Leading) -> bool {
    crate::gather::skew(leading).await.is_ok_and(|skew| skew.is_some_and(|skew| skew.abs() < SKEW))
}

/// Deletes exactly the object that was looked at: one that somebody changed meanwhile stays, and is looked at again when its
/// watch tells. Says whether nothing is left to do.
pub(crate) async fn delete_exactly<K>(api: &Api<K>, object: &K) -> bool
where
    K: kube::Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let meta = object.meta();
    let preconditions = Preconditions { uid: meta.uid.clone(), resource_version: meta.resource_version.clone() };
    let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match write::in_time(api.delete(&object.name_any(), &parameters)).await {
        Ok(_) => true,
        Err(error) => matches!(problem(&error), Problem::NotFound | Problem::Conflict),
    }
}
