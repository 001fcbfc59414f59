//! Reports of a simulated daemon, in the real daemon's types.

use api::names::state;
use jiff::SignedDuration;
use node::{Report, View};
use protocol::DrainRequest;
use rollout::NodeFacts;

use super::Step;
use crate::world::{state_of, state_word};

impl Step<'_> {
    /// Reports that the target failed its trial and the node stays on its previous config.
    pub(super) fn hold(&mut self, config: &str) {
        let Some(host) = self.host() else { return };
        host.failed = true;
        let current = host.disk.current.clone().unwrap_or_default();
        let is_drained = host.process.view.as_ref().is_some_and(View::is_drained_by_us);
        let report = &mut host.process.report;
        config.clone_into(&mut report.reverted);
        state::DEGRADED.clone_into(&mut report.state);
        "the new config failed its trial".clone_into(&mut report.reason);
        if is_drained {
            report.desired_drain = DrainRequest::Uncordon(current.as_str().into()).to_string();
        }
        report.current = current;
        self.publish();
    }

    pub(super) fn release(&mut self, drain: String) {
        if let Some(host) = self.host() {
            host.process.report.desired_drain = drain;
        }
        self.publish();
    }

    pub(super) fn rest(&mut self) {
        let Some(host) = self.host() else { return };
        host.disk.reverted = None;
        host.failed = false;
        host.refused = None;
        let process = &mut host.process;
        process.failures = 0;
        process.pursues = None;
        process.report = Report {
            current: host.disk.current.clone().unwrap_or_default(),
            state: state::DONE.to_owned(),
            desired_drain: process.report.desired_drain.clone(),
            answered: process.report.answered.clone(),
            os_updates: process.report.os_updates.clone(),
            ..Report::default()
        };
        self.publish();
    }

    /// Repeats what the controller asked, if the daemon is ours and knows of probes.
    pub(super) fn answer(&mut self) {
        let Some(node) = self.world.nodes.get_mut(self.name).filter(|node| node.facts.ours) else { return };
        let process = &mut node.host.process;
        let Some(view) = process.view.as_ref().filter(|view| view.probe != view.answered) else { return };
        process.report.answered.clone_from(&view.probe);
        self.publish();
    }

    /// Whether an update may begin: the API knows of it and, after that report, still asks for it. Until then the target
    /// can be taken back.
    pub(super) fn may_begin(&mut self, to: &str) -> bool {
        self.publish();
        let Some(view) = self.host().and_then(|host| host.process.view.as_ref()) else { return false };
        let wanted = if view.desired.is_empty() { &view.current } else { &view.desired };
        wanted == to
    }

    /// The update failed on this machine.
    pub(super) fn fail(&mut self, state: &str, reason: &str) {
        if let Some(host) = self.host() {
            host.failed = true;
        }
        self.retry(state, reason);
    }

    /// Reports a failed move and schedules a retry with exponential backoff.
    pub(super) fn retry(&mut self, state: &str, reason: &str) {
        let now = self.world.now;
        let Some(host) = self.host() else { return };
        let process = &mut host.process;
        state.clone_into(&mut process.report.state);
        reason.clone_into(&mut process.report.reason);
        // After a failure a foreign daemon reads its target again.
        process.pursues = None;
        process.failures = (process.failures + 1).min(6);
        process.retry_at = Some(now + SignedDuration::from_secs((1 << process.failures).min(60)));
        self.publish();
    }

    /// Publishes the report if it has changed. If the API cannot be reached, the next move tries again.
    pub(super) fn publish(&mut self) {
        if !self.hears() {
            return;
        }
        let Some(node) = self.world.nodes.get(self.name) else { return };
        let process = &node.host.process;
        let (report, known) = (process.report.clone(), process.view.as_ref().map(Report::of));
        if known.is_none() || known.as_ref() == Some(&report) {
            return;
        }
        let optional = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let _gone = self.world.write_node(self.name, None, |facts| {
            facts.current = optional(&report.current);
            facts.state = state_of(&report.state);
            facts.reason = optional(&report.reason);
            facts.desired_drain = optional(&report.desired_drain);
            facts.reverted = optional(&report.reverted);
            facts.answered = facts.ours.then(|| report.answered.clone());
        });
        self.look_at_node();
    }
}

pub(super) fn view(facts: &NodeFacts) -> View {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    View {
        uid: text(&facts.uid),
        current: text(&facts.current),
        desired: text(&facts.desired),
        state: state_word(&facts.state).to_owned(),
        reason: text(&facts.reason),
        desired_drain: text(&facts.desired_drain),
        last_applied_drain: text(&facts.last_applied_drain),
        reverted: text(&facts.reverted),
        probe: text(&facts.probe),
        answered: text(&facts.answered),
        daemon: "simulation".to_owned(),
        ..View::default()
    }
}
