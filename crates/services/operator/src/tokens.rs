//! Takes away tokens that ended long ago, whoever made them.

use std::time::Duration;

use cluster::{Outcome, Problem, problem, write};
use jiff::{SignedDuration, Timestamp};
use kube::api::{Api, DeleteParams, Preconditions};
use kube::{Resource as _, ResourceExt as _};
use operate::tokens::{Plan, plan};

use api::machinist::BootstrapToken;

use crate::context::Leading;

/// Nothing to a token that ended a week ago.
const SKEW: SignedDuration = SignedDuration::from_hours(1);

/// How long a clock that is wrong is given.
const CLOCK: Duration = Duration::from_secs(60);

/// Looks at every token; comes back when the next one is due.
pub(crate) async fn sweep(leading: &Leading) -> Outcome {
    let now = leading.now();
    let mut next: Option<Timestamp> = None;
    let mut ended = Vec::new();
    for token in leading.world.tokens.all() {
        match plan(&token, now) {
            Plan::Keep { next: at } => next = next.into_iter().chain(at).min(),
            Plan::Delete => ended.push(token),
        }
    }
    if !ended.is_empty() && !is_sure_of_time(leading).await {
        return Outcome::Again(CLOCK);
    }
    for token in ended {
        if !delete(leading, &token).await {
            return Outcome::Retry;
        }
    }
    let left = |at: Timestamp| Duration::try_from(at.duration_since(now)).unwrap_or_default();
    next.map_or(Outcome::Done, |at| Outcome::Again(left(at).max(Duration::from_secs(60))))
}

/// Whoever does not know what time it is cannot say what is over.
async fn is_sure_of_time(leading: &Leading) -> bool {
    crate::gather::skew(leading).await.is_ok_and(|skew| skew.is_some_and(|skew| skew.abs() < SKEW))
}

/// Exactly the object that was looked at: one that somebody prolonged meanwhile stays.
async fn delete(leading: &Leading, token: &BootstrapToken) -> bool {
    let meta = token.meta();
    let preconditions = Preconditions { uid: meta.uid.clone(), resource_version: meta.resource_version.clone() };
    let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    let api: Api<BootstrapToken> = Api::all(leading.client.clone());
    match write::in_time(api.delete(&token.name_any(), &parameters)).await {
        Ok(_) => {
            tracing::info!(token = token.name_any(), pool = token.spec.pool, "deleted a token that ended long ago");
            true
        }
        // Its change comes by the watch, and is looked at then.
        Err(error) => matches!(problem(&error), Problem::NotFound | Problem::Conflict),
    }
}
