//! Asks the provider what a plan wants to know or have done.

use std::sync::Arc;
use std::time::Duration;

use api::machine::Machine;
use cluster::Outcome;
use cluster::events::Severity;
use jiff::Timestamp;
use machine::lifecycle::{Answer, Call, Record};
use machine::provider::{Deletion, Error, ErrorKind, Request};

use super::request::{self, Purpose};
use super::sweep::Asked;
use super::{Machines, Pass, Step};
use crate::metrics::Operation;

/// No call takes longer than this. All of them may be repeated, so giving up early costs a repetition.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// How long after its intent was written a creation may begin. A process that was stopped in between must not create for a
/// Machine that another one has let go meanwhile.
const PROMPT: Duration = Duration::from_secs(30);

/// How long a creation may take, so that none is under way two minutes after its intent: for so long a deletion waits for it.
const CREATION: Duration = Duration::from_secs(90);

impl Machines {
    /// Asks for the Machine's instances and ends the pass: the answer begins another one, and no worker waits for it.
    pub(super) async fn park(self: &Arc<Self>, pass: &mut Pass) -> Step {
        let (key, asked) = (pass.key.clone(), Asked::of(&pass.machine));
        if self.looking.lock().get(&key) == Some(&asked) {
            return Step::End(Outcome::Done);
        }
        let request = match self.request(&pass.machine, Purpose::Other).await {
            Ok(request) => request,
            Err(error) => {
                (pass.sighting, pass.seen) = (Some(Err(error)), None);
                return Step::On;
            }
        };
        self.looking.lock().insert(key.clone(), asked.clone());
        let place = request::place(&pass.machine, self.context.provider.rules());
        let (this, time, sighting) = (self.clone(), Timestamp::now(), self.looks.look(place, request));
        tokio::spawn(async move {
            let sighting = sighting.await;
            this.looking.lock().remove(&key);
            this.sightings.keep(&key, asked, time, sighting);
            this.queue.add(key);
        });
        Step::End(Outcome::Done)
    }

    /// Makes the call and puts the answer into the pass.
    pub(super) async fn ask(&self, pass: &mut Pass, call: Call) {
        let purpose = if matches!(call, Call::Create(_)) { Purpose::Creation } else { Purpose::Other };
        let request = self.request(&pass.machine, purpose).await;
        pass.asked = Some(Timestamp::now());
        match call {
            Call::Look => {
                pass.seen = None;
                pass.sighting = Some(match request {
                    Ok(request) => {
                        let place = request::place(&pass.machine, self.context.provider.rules());
                        self.looks.look(place, request).await
                    }
                    Err(error) => Err(error),
                });
            }
            Call::Create(intent) => {
                let provider = &self.context.provider;
                let is_late = is_late(&pass.machine, Timestamp::now());
                let create = async |request: &Request| {
                    if is_late {
                        return Err(Error::new(ErrorKind::Unreachable, "the creation could not begin in time"));
                    }
                    within(CREATION, provider.create(request, &intent)).await
                };
                tracing::info!(machine = pass.key.name, "creating the instance");
                let answer = self.call(pass, request, Operation::Create, create).await;
                if let Ok(instance) = &answer {
                    tracing::info!(machine = pass.key.name, instance = instance.provider_id, "created the instance");
                    self.done(pass, "Create", "Created");
                }
                pass.answer = Some(Answer::Created(answer));
            }
            Call::Update(instance) => {
                let provider = &self.context.provider;
                let answer = self
                    .call(pass, request, Operation::Update, async |request| provider.update(request, &instance).await);
                pass.answer = Some(Answer::Updated(answer.await));
            }
            Call::Delete => {
                let provider = &self.context.provider;
                let answer =
                    self.call(pass, request, Operation::Delete, async |request| provider.delete(request).await);
                let answer = answer.await;
                if answer == Ok(Deletion::Requested) {
                    tracing::info!(machine = pass.key.name, "deleting the instance");
                }
                if answer == Ok(Deletion::Gone) {
                    tracing::info!(machine = pass.key.name, "the instance is gone");
                    self.done(pass, "Delete", "Deleted");
                }
                // What was seen before the deletion says nothing about afterwards.
                (pass.sighting, pass.seen) = (None, None);
                pass.answer = Some(Answer::Deleted(answer));
            }
        }
    }

    async fn call<T>(
        &self,
        pass: &Pass,
        request: Result<Request, Error>,
        operation: Operation,
        call: impl AsyncFnOnce(&Request) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let answer = match &request {
            Ok(request) => in_time(call(request)).await,
            Err(error) => Err(error.clone()),
        };
        if let Err(error) = &answer {
            tracing::info!(key = ?pass.key, ?operation, %error, request = error.request_id, "the provider refused");
            self.context.metrics.refused(operation, &pass.key, &error.kind.to_string());
            self.context.tell(&pass.machine, Severity::Warning, operation.failed(), &error.message);
        }
        answer
    }

    fn done(&self, pass: &Pass, reason: &str, what: &str) {
        let message = format!("{what} Machine {}", pass.key.name);
        self.context.tell(&pass.machine, Severity::Normal, reason, &message);
    }
}

/// Whether so much time has passed since the intent was written that the Machine may be another process's by now.
fn is_late(machine: &Machine, now: Timestamp) -> bool {
    let written = Record::of(machine).map(|record| now.duration_since(record.last_try));
    written.is_none_or(|age| age.unsigned_abs() > PROMPT)
}

/// Bounds one call to the provider.
pub(crate) async fn in_time<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    within(PATIENCE, call).await
}

async fn within<T>(patience: Duration, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match tokio::time::timeout(patience, call).await {
        Ok(answer) => answer,
        Err(_) => {
            let message = format!("the provider did not answer in {} seconds", patience.as_secs());
            Err(Error::new(ErrorKind::Unreachable, message))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use jiff::SignedDuration;
    use machine::lifecycle::token;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_creation_begins_soon_after_its_intent_or_not_at_all() {
        let written: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
        let intent = json!({"token": token("u", 1), "attempt": 1, "recorded": written, "lastTry": written, "tries": 1});
        let annotations = json!({"machinist.dev/instance-intent": intent.to_string()});
        let machine = json!({"metadata": {"name": "m", "uid": "u", "annotations": annotations}, "spec": {}});
        let machine: Machine = serde_json::from_value(machine).unwrap();
        assert!(!is_late(&machine, written + SignedDuration::from_secs(30)));
        assert!(is_late(&machine, written + SignedDuration::from_secs(31)), "the process was stopped meanwhile");
        assert!(is_late(&machine, written - SignedDuration::from_secs(31)), "the clock was set back");
        assert!(PROMPT + CREATION <= PATIENCE, "a deletion waits for two minutes after the intent");
    }
}
