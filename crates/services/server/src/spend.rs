//! Counts uses of a token by compare-and-swap, in batches.
//!
//! A MachineSet of thousands shares one token. Requests that arrive during a write are counted together by the next
//! write, so the API sees few writes and never more uses than the token allows, however many servers there are.

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

/// Another server may write in between; after a conflict the token is read again. More conflicts in a row than this
/// mean that the API has a problem.
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

    /// Counts one use of the token and returns once it is written.
    pub(crate) async fn spend(&self, token: &str, from: IpAddr) -> Result<(), Denied> {
        let (answer, written) = oneshot::channel();
        let is_first = {
            let mut waiting = self.waiting.lock();
            let is_first = !waiting.contains_key(token);
            waiting.entry(token.to_owned()).or_default().push(Waiting { from, answer });
            is_first
        };
        if is_first {
            // Runs in its own task, because the client whose request came first may disconnect.
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

    /// Writes as many uses as the token still allows, and returns that number.
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

/// A token that no longer exists was revoked; all other errors are temporary.
fn denied(error: &kube::Error) -> Denied {
    if problem(error) == Problem::NotFound {
        return Refusal::Unknown.into();
    }
    tracing::warn!(error = error as &dyn std::error::Error, "a token's use could not be counted");
    Denied::Unavailable
}
