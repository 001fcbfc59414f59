//! Counts uses of a token by compare-and-swap, many at a time.
//!
//! A MachineSet of thousands shares one token. Those who wait while one write is under way are counted together by the
//! next, so the API sees a few writes and never more uses than the token allows, from any number of servers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use api::machinist::BootstrapToken;
use cluster::write::in_time;
use cluster::{Problem, problem};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::PostParams;
use parking_lot::Mutex;
use serving::token::Refusal;
use tokio::sync::oneshot;

use crate::source::Denied;

/// Another server may write in between; each conflict is read again. More in a row than this is an API in trouble.
const TRIES: usize = 20;

#[derive(Clone)]
pub(crate) struct Spender {
    api: Api<BootstrapToken>,
    waiting: Arc<Mutex<HashMap<String, Vec<Waiting>>>>,
}

struct Waiting {
    from: IpAddr,
    answer: oneshot::Sender<Result<(), Denied>>,
}

impl Spender {
    pub(crate) fn new(api: Api<BootstrapToken>) -> Self {
        Self { api, waiting: Arc::default() }
    }

    /// One use of the token, once it is written down.
    pub(crate) async fn spend(&self, token: &str, from: IpAddr) -> Result<(), Denied> {
        let (answer, written) = oneshot::channel();
        let is_first = {
            let mut waiting = self.waiting.lock();
            let is_first = !waiting.contains_key(token);
            waiting.entry(token.to_owned()).or_default().push(Waiting { from, answer });
            is_first
        };
        if is_first {
            // A task of its own: the machine that happened to come first may hang up.
            let (spender, token) = (self.clone(), token.to_owned());
            tokio::spawn(async move { spender.write_all(&token).await });
        }
        written.await.unwrap_or(Err(Denied::Unavailable))
    }

    async fn write_all(&self, token: &str) {
        loop {
            let batch = {
                let mut waiting = self.waiting.lock();
                match waiting.get_mut(token) {
                    Some(batch) if !batch.is_empty() => std::mem::take(batch),
                    _ => {
                        waiting.remove(token);
                        return;
                    }
                }
            };
            let granted = self.write(token, &batch).await;
            for (index, waiting) in batch.into_iter().enumerate() {
                let answer = match &granted {
                    Ok(granted) if index < *granted => Ok(()),
                    Ok(_) => Err(Refusal::UsedUp.into()),
                    Err(Denied::Refused(refusal)) => Err((*refusal).into()),
                    Err(Denied::Unavailable) => Err(Denied::Unavailable),
                };
                let _ = waiting.answer.send(answer);
            }
        }
    }

    /// Writes as many uses as the token still allows and says how many those were.
    async fn write(&self, name: &str, batch: &[Waiting]) -> Result<usize, Denied> {
        for _ in 0..TRIES {
            let mut token = in_time(self.api.get(name)).await.map_err(|error| denied(&error))?;
            if token.spec.expires.as_ref().is_some_and(|expires| expires.0 <= Timestamp::now()) {
                return Err(Refusal::Expired.into());
            }
            let mut status = token.status.take().unwrap_or_default();
            let left = token.spec.max_uses.map_or(i64::MAX, |limit| (limit - status.uses).max(0));
            let granted = batch.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if granted == 0 {
                return Ok(0);
            }
            status.uses += i64::try_from(granted).unwrap_or(i64::MAX);
            status.last_used = Some(Time(Timestamp::now()));
            status.last_address = batch.get(granted - 1).map(|waiting| waiting.from.to_string());
            token.status = Some(status);
            match in_time(self.api.replace_status(name, &PostParams::default(), &token)).await {
                Ok(_) => return Ok(granted),
                Err(error) if problem(&error) == Problem::Conflict => {}
                Err(error) => return Err(denied(&error)),
            }
        }
        Err(Denied::Unavailable)
    }
}

/// A token that was deleted a moment ago is revoked; anything else is trouble that passes.
fn denied(error: &kube::Error) -> Denied {
    if problem(error) == Problem::NotFound {
        return Refusal::Unknown.into();
    }
    tracing::warn!(error = error as &dyn std::error::Error, "a token's use could not be counted");
    Denied::Unavailable
}
