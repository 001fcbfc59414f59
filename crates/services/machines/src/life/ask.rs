//! Asks the provider what a plan wants to know or have done.

use std::time::Duration;

use cluster::events::Severity;
use machine::lifecycle::{Answer, Call};
use machine::provider::{Deletion, Error, ErrorKind, Request};

use super::{Machines, Pass};
use crate::metrics::Operation;

/// No call takes longer than this. All of them may be repeated, so giving up early costs a repetition.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

impl Machines {
    /// Makes the call and puts the answer into the pass.
    pub(super) async fn ask(&self, pass: &mut Pass, call: Call) {
        let request = self.request(&pass.machine).await;
        match call {
            Call::Look => {
                pass.seen = None;
                pass.sighting = Some(match request {
                    Ok(request) => self.looks.look(request).await,
                    Err(error) => Err(error),
                });
            }
            Call::Create(intent) => {
                let provider = &self.context.provider;
                let answer = self
                    .call(pass, request, Operation::Create, async |request| provider.create(request, &intent).await);
                let answer = answer.await;
                if answer.is_ok() {
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
                if answer == Ok(Deletion::Gone) {
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

/// Bounds one call to the provider.
pub(super) async fn in_time<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match tokio::time::timeout(PATIENCE, call).await {
        Ok(answer) => answer,
        Err(_) => Err(Error::new(ErrorKind::Unreachable, "the provider did not answer in two minutes")),
    }
}
