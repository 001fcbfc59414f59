//! What is done about unhealthy machines.

use std::collections::BTreeSet;

use api::machine::{MachineHealthCheckStatus, health_condition as types, severity};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;

use super::{Action, Round, Strategy, Target, Verdict, Waiting, brake, verdict};
use crate::condition;

/// What one unhealthy machine gets.
enum Remedy {
    /// These actions, and a share of the brake.
    Act(Vec<Action>),
    /// It is under remediation already.
    Busy,
    /// Nothing would replace it, or it is not this check's business. Perhaps with a word about it.
    Skip(Option<Action>),
}

impl Round<'_> {
    /// Remediates as many machines as the brake allows, in the order of their names, but none of `held`.
    pub(super) fn remediate(
        &self,
        held: &BTreeSet<String>,
        actions: &mut Vec<Action>,
        status: &mut MachineHealthCheckStatus,
    ) -> Waiting {
        self.clear_requests(actions);
        let sick: Vec<_> = self.judged.iter().filter(|(_, verdict)| verdict.needs_remediation()).collect();
        if let Strategy::Template(template) = &self.check.strategy
            && !self.report_template(template, !sick.is_empty(), status)
        {
            return Waiting::TemplateMissing(missing_template(template, &sick));
        }
        let mut brake = self.brake();
        let (mut waiting, mut kept) = (Vec::new(), Vec::new());
        for (target, _) in sick.iter().filter(|(target, _)| !held.contains(&target.name)) {
            match self.remedy(target) {
                Remedy::Act(_) if brake.keeps(target) => kept.push(target.name.clone()),
                Remedy::Act(remedies) if brake.take(target) => actions.extend(remedies),
                Remedy::Act(_) => waiting.push(target.name.clone()),
                Remedy::Busy => {}
                Remedy::Skip(word) => actions.extend(word),
            }
        }
        match (sick.is_empty(), waiting.is_empty()) {
            (_, false) => {
                let limit = brake.limit.unwrap_or_default();
                Waiting::Brake { busy: brake.busy, limit, waiting }
            }
            (false, true) if !kept.is_empty() => Waiting::Starved { waiting: kept },
            (false, true) => Waiting::Remediation,
            (true, true) if self.judged.iter().all(|(_, verdict)| *verdict == Verdict::Well) => Waiting::Healthy,
            (true, true) => Waiting::Timeouts,
        }
    }

    /// What is under remediation at the beginning of a round.
    fn brake(&self) -> brake::Brake<'_> {
        let places = self.places();
        let busy: Vec<_> = self.judged.iter().filter(|(target, verdict)| self.is_busy(target, verdict)).collect();
        // The leaving machines of a set are among its places.
        let is_counted =
            |target: &Target| target.deleting && target.set.as_deref().is_some_and(|set| places.contains_key(set));
        let others = busy.iter().filter(|(target, _)| !is_counted(target)).count();
        brake::Brake {
            limit: brake::limit(self.check, self.judged.len()),
            leaving: busy.len(),
            busy: others + places.values().map(|places| places.open()).sum::<usize>(),
            empty: places.iter().map(|(set, places)| (*set, places.empty())).collect(),
            stuck: places.iter().filter(|(_, places)| places.is_stuck()).map(|(set, _)| *set).collect(),
        }
    }

    /// Whether a machine is under remediation already, by this check or by anyone. A reboot that was asked for is over when
    /// the node is well, even if nobody took the request off the node.
    fn is_busy(&self, target: &Target, verdict: &Verdict) -> bool {
        target.deleting
            || target.externally_remediated
            || (verdict.needs_remediation() && target.node().is_some_and(|node| node.rebooting))
            || (matches!(self.check.strategy, Strategy::Template(_)) && self.snapshot.requests.contains(&target.name))
    }

    fn remedy(&self, target: &Target) -> Remedy {
        let check = self.check;
        if let Strategy::Template(_) = check.strategy {
            if target.deleting || self.snapshot.requests.contains(&target.name) {
                return Remedy::Busy;
            }
            let (machine, uid) = (target.name.clone(), target.uid.clone());
            return Remedy::Act(vec![Action::CreateRequest { machine, uid }]);
        }
        if check.strategy == Strategy::ExternalBareMetal && !target.failed {
            return self.power_cycle(target);
        }
        if check.strategy == Strategy::Reboot
            && !target.failed
            && let Some(node) = target.node()
        {
            let reboot = Action::RebootNode { node: node.name.clone() };
            return if node.rebooting { Remedy::Busy } else { Remedy::Act(vec![reboot]) };
        }
        if check.workers_only && (target.control_plane || target.node().is_some_and(|node| node.control_plane)) {
            return Remedy::Skip(None);
        }
        if !target.controlled || (check.workers_only && !target.of_machine_set) {
            let message = format!("Machine {} has no controller owner, skipping remediation", self.full_name(target));
            let event = self.is_news(target).then(|| self.event(target, "SkippedNoController", message));
            return Remedy::Skip(event);
        }
        if target.deleting {
            return Remedy::Busy;
        }
        let message =
            format!("Machine {} has been remediated by requesting to delete Machine object", self.full_name(target));
        let Target { name, uid, resource_version, .. } = target.clone();
        let delete = Action::DeleteMachine { name, uid, resource_version };
        Remedy::Act(vec![delete, self.event(target, "MachineDeleted", message)])
    }

    fn power_cycle(&self, target: &Target) -> Remedy {
        if target.deleting || target.externally_remediated {
            return Remedy::Busy;
        }
        let name = self.full_name(target);
        let message = format!("Requesting external remediation of node associated with machine {name}");
        let annotate = Action::AnnotateMachine { name: target.name.clone() };
        Remedy::Act(vec![annotate, self.event(target, "ExternalAnnotationAdded", message)])
    }

    /// Requests of machines that are well again are taken back.
    fn clear_requests(&self, actions: &mut Vec<Action>) {
        if !matches!(self.check.strategy, Strategy::Template(_)) {
            return;
        }
        let well = self.judged.iter().filter(|(target, verdict)| verdict::is_healthy(target, verdict));
        let done = well.filter(|(target, _)| self.snapshot.requests.contains(&target.name));
        actions.extend(done.map(|(target, _)| Action::DeleteRequest { machine: target.name.clone() }));
    }

    /// Says whether the template is there. It matters only when somebody needs it.
    fn report_template(&self, template: &ObjectReference, needed: bool, status: &mut MachineHealthCheckStatus) -> bool {
        let available = types::EXTERNAL_REMEDIATION_TEMPLATE_AVAILABLE;
        if let Some(why) = &self.snapshot.template_unread {
            let message = format!("spec.remediationTemplate: {} cannot be used: {why}", described(template));
            self.set(
                status,
                condition::is_false(available, severity::ERROR, "ExternalRemediationTemplateUnread", message),
            );
            return !needed;
        }
        if self.snapshot.template_exists || !needed {
            condition::clear(&mut status.conditions, available);
            return true;
        }
        let message = format!("spec.remediationTemplate: {} does not exist", described(template));
        let reason = "ExternalRemediationTemplateNotFound";
        self.set(status, condition::is_false(available, severity::ERROR, reason, message));
        false
    }
}

/// Says so if requests for remediation could not be made: each machine with the reason. `tried` says whether every one that is
/// needed was asked for.
pub fn report_requests(
    status: &mut MachineHealthCheckStatus,
    refused: &[(String, String)],
    tried: bool,
    now: Timestamp,
) {
    let available = types::EXTERNAL_REMEDIATION_REQUEST_AVAILABLE;
    let Some((machine, why)) = refused.first() else {
        if tried {
            condition::clear(&mut status.conditions, available);
        }
        return;
    };
    let more = refused.len() - 1;
    let more = if more > 0 { format!(", nor for {more} more") } else { String::new() };
    let message = format!("a remediation request for machine {machine} cannot be made: {why}{more}");
    let reason = "ExternalRemediationRequestCreationFailed";
    condition::set(&mut status.conditions, condition::is_false(available, severity::ERROR, reason, message), now);
}

fn described(template: &ObjectReference) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    let ObjectReference { api_version, kind, name, .. } = template;
    format!("{}, Kind={} {:?}", part(api_version), part(kind), part(name))
}

fn missing_template(template: &ObjectReference, sick: &[&(&Target, Verdict)]) -> String {
    let machines: Vec<_> = sick.iter().map(|(target, _)| format!("{:?}", target.name)).collect();
    format!(
        "error retrieving remediation template {} for machine {}: it was not found",
        described(template),
        machines.join(", ")
    )
}
