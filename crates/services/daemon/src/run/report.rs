//! What the loop tells the cluster: annotations of the Node, conditions, events, metrics.
//!
//! Reports never steer: a write that fails is written again, and the work on the host goes on.

use std::time::Duration;

use ::node::words;
use api::annotations;
use api::names::state;
use cluster::events::Severity;
use k8s_openapi::api::core::v1::Node as NodeObject;
use protocol::DrainRequest;

use super::{Daemon, Next, Problem, REQUEST, now};
use crate::conditions::Identity;
use crate::node::Report;
use crate::store::Store;

/// How soon a report that did not reach the API is sent again.
pub(super) const RETRY: Duration = Duration::from_secs(5);

impl Daemon {
    /// A move failed: it is told and tried again, later and later.
    pub(super) async fn tell(&mut self, problem: Problem) -> Next {
        tracing::error!(reason = problem.reason, "{}", problem.state);
        let name = self.node.name().to_owned();
        self.conditions.tell([words::failed(&name, &problem.reason)]);
        self.options.metrics.updated(&self.report.current, &problem.reason, now());
        if self.report.reason != problem.reason {
            self.event(Severity::Warning, "Degraded", &problem.reason);
        }
        problem.state.clone_into(&mut self.report.state);
        self.report.reason = problem.reason;
        self.publish().await;
        self.failures = (self.failures + 1).min(7);
        Next::After(Duration::from_secs(1 << self.failures.min(6)).min(Duration::from_secs(60)))
    }

    /// The node is where it should be.
    pub(super) async fn rest(&mut self, current: String) -> Result<Next, Problem> {
        self.waiting_since = None;
        if std::mem::take(&mut self.must_verify) {
            let started = self.followed.is_empty();
            self.follow(&current).await;
            let compared = self.compare(&current, started).await;
            // Whatever was not found right is looked at again: when a file changes, and with every retry.
            self.must_verify = !matches!(compared, Ok(None));
            if let Some(problem) = compared? {
                return Err(problem);
            }
        }
        // Another config works here now: what was given back earlier may be asked for again.
        self.blocking(|host| Store::new(host.files()).forget_reverted()).await?;
        let was_done = self.report.state == state::DONE && self.report.current == current;
        let name = self.node.name().to_owned();
        let is_introduced = self.introduce_drain(&current).await;
        self.report = Report {
            current: current.clone(),
            state: state::DONE.into(),
            reason: String::new(),
            desired_drain: self.report.desired_drain.clone(),
            post_action: String::new(),
            reverted: String::new(),
            finalize_failure: self.finalize_failure.clone(),
            answered: self.report.answered.clone(),
            os_updates: self.os_updates.to_owned(),
        };
        if !was_done {
            self.event(Severity::Normal, "NodeDone", &format!("Setting node {name}, currentConfig {current} to Done"));
            self.options.metrics.updated(&current, "", now());
        }
        self.conditions.tell(words::done(&name, &current));
        let next = self.publish_or_retry().await;
        Ok(if is_introduced { next } else { Next::After(RETRY) })
    }

    pub(super) fn event(&self, severity: Severity, reason: &str, message: &str) {
        let uid = self.view.as_ref().map(|view| view.uid.as_str());
        self.events.publish::<NodeObject>(self.node.name(), uid, severity, reason, message);
    }

    /// Repeats what the controller asked, so that it knows that somebody is here. A node that is down gets no target
    /// before that. Says whether the API has the answer.
    pub(super) async fn answer(&mut self) -> bool {
        let Some(view) = &self.view else { return true };
        if view.probe == view.answered {
            return true;
        }
        self.report.answered.clone_from(&view.probe);
        self.publish().await
    }

    /// Why an update must not begin now: the API does not know of it yet, or asks for something else by now. Until the
    /// first write a target can be taken back, and whoever does that has to see who has begun.
    pub(super) async fn cannot_begin(&mut self, to: &str) -> Option<Next> {
        if !self.publish().await {
            return Some(Next::After(RETRY));
        }
        let view = self.view.as_ref()?;
        // A node of which nothing is asked may still be forced to what it runs.
        let wanted = if view.desired.is_empty() { &view.current } else { &view.desired };
        (wanted != to).then_some(Next::Again)
    }

    pub(super) async fn publish_or_retry(&mut self) -> Next {
        if self.publish().await { Next::OnChange } else { Next::After(RETRY) }
    }

    /// Reports, if anything is new. Says whether the API knows it now.
    pub(super) async fn publish(&mut self) -> bool {
        self.options.metrics.set_state(&self.report.state, &self.report.reason, now());
        self.options.metrics.set_well(self.report.state != state::DEGRADED, self.view.is_some());
        let Some(view) = &self.view else { return true };
        if Report::of(view) == self.report && !view.daemon.is_empty() {
            self.publish_conditions().await;
            return true;
        }
        match tokio::time::timeout(REQUEST, self.node.publish(&view.uid, &self.report)).await {
            Ok(Ok((view, version))) => {
                self.see(view, version);
                self.publish_conditions().await;
                true
            }
            Ok(Err(error)) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the Node could not be written");
                false
            }
            Err(_) => false,
        }
    }

    /// Writes what is new of the MachineConfigNode. What does not arrive is written again by the loop, beside its moves.
    pub(super) async fn publish_conditions(&mut self) {
        let Some(view) = &self.view else { return };
        let identity = Identity {
            uid: view.uid.clone(),
            pool: self.pool.clone(),
            current: self.report.current.clone(),
            desired: view.desired.clone(),
        };
        self.conditions.publish(&identity).await;
    }

    /// Both annotations of the drain protocol are there from the start, as people and scripts expect who read them. They
    /// are first written together: a request alone would make the drain controller act. Says whether they are there.
    async fn introduce_drain(&mut self, current: &str) -> bool {
        let Some(view) = &self.view else { return true };
        let known = [&view.desired_drain, &view.last_applied_drain, &self.report.desired_drain];
        if known.iter().any(|drain| !drain.is_empty()) {
            return true;
        }
        let released = DrainRequest::Uncordon(current.into()).to_string();
        let first = [annotations::DESIRED_DRAIN, annotations::LAST_APPLIED_DRAIN].map(|key| (key, released.as_str()));
        match tokio::time::timeout(REQUEST, self.node.introduce(&first.into())).await {
            Ok(Ok(())) => {
                self.report.desired_drain = released;
                true
            }
            Ok(Err(error)) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the drain annotations could not be written");
                false
            }
            Err(_) => false,
        }
    }
}
