//! Updates on a simulated machine, from the drain request to the reboot. The journal records each phase before it begins.

use api::names::state;
use jiff::SignedDuration;
use node::View;
use protocol::DrainRequest;

use super::Step;
use super::trying::second;
use crate::host::{Phase, Power, Work};
use crate::random::Random;
use crate::violation::Kind;
use crate::world::BadConfig;

impl Step<'_> {
    /// Continues the update recorded in the journal. Returns whether that took this step.
    pub(super) fn carry_on(&mut self) -> bool {
        let Some(host) = self.host() else { return true };
        let boot = host.boot;
        let Some(work) = host.disk.journal.clone() else { return false };
        let fault = self.world.config(&work.to).fault;
        let Some(host) = self.host() else { return true };
        let disk = &mut host.disk;
        let next = match work.phase {
            Phase::Applying if fault == Some(BadConfig::Unwritable) => Work { phase: Phase::Undoing, ..work },
            Phase::Applying => {
                disk.current = Some(work.to.clone());
                Work { phase: Phase::Applied, tried: true, ..work }
            }
            Phase::Undoing => {
                disk.current.clone_from(&work.from);
                Work { phase: Phase::Undone, ..work }
            }
            Phase::Undone if work.tried && work.reboots && work.boot != boot => return false,
            Phase::RebootingBack(asked) if asked == boot => return false,
            Phase::Undone | Phase::RebootingBack(_) => {
                self.went_back(&work);
                return true;
            }
            Phase::Applied | Phase::Rebooting(_) | Phase::Trying(_) => return false,
        };
        disk.journal = Some(next);
        true
    }

    /// The update was undone. A config that failed its trial is not tried again until the target changes.
    fn went_back(&mut self, work: &Work) {
        let Some(host) = self.host() else { return };
        host.disk.journal = None;
        host.process.pursues = None;
        if work.tried {
            host.disk.reverted = Some(work.to.clone());
            self.hold(&work.to);
        } else {
            self.fail(state::DEGRADED, "the config cannot be written");
        }
    }

    pub(super) fn update(&mut self, to: &str, view: &View) {
        if !self.hears() {
            return self.retry(state::DEGRADED, "the API did not answer");
        }
        let config = self.world.config(to);
        if config.fault == Some(BadConfig::Refused) {
            if let Some(host) = self.host() {
                host.refused = Some(to.to_owned());
            }
            return self.fail(state::UNRECONCILABLE, "this host cannot take the config");
        }
        let Some(node) = self.world.nodes.get_mut(self.name) else { return };
        let (host, foreign) = (&mut node.host, !node.facts.ours);
        if foreign {
            host.process.pursues = Some(to.to_owned());
        }
        if !view.is_failing() {
            state::WORKING.clone_into(&mut host.process.report.state);
        }
        let first = host.disk.current.is_none();
        let idle = first && host.adopts;
        let wanted = DrainRequest::Drain(to.into()).to_string();
        if !(idle || config.live) && view.last_applied_drain != wanted {
            host.process.report.desired_drain = wanted;
            self.publish();
            return;
        }
        if !foreign && !self.may_begin(to) {
            return;
        }
        let Some(host) = self.host() else { return };
        host.disk.journal = Some(Work {
            from: host.disk.current.clone(),
            to: to.to_owned(),
            phase: Phase::Applying,
            reboots: !(idle || config.live),
            idle,
            boot: host.boot,
            tried: false,
            looked_at: None,
        });
        self.publish();
    }

    pub(super) fn take_effect(&mut self, random: &mut Random) {
        let (now, clock) = (self.world.now, self.clock);
        let Some(host) = self.host() else { return };
        match &mut host.disk.journal {
            Some(work) if work.reboots => self.reboot(random),
            Some(work) if work.from.is_none() => host.disk.journal = None,
            Some(_) => {
                let second = second(host, clock, now);
                if let Some(work) = &mut host.disk.journal {
                    work.phase = Phase::Trying(second);
                }
            }
            None => {}
        }
    }

    pub(super) fn reboot(&mut self, random: &mut Random) {
        let until = self.world.now + SignedDuration::from_secs(1) + random.seconds(20);
        let Some(host) = self.host() else { return };
        let boot = host.boot;
        if let Some(work) = &mut host.disk.journal {
            let goes_back = matches!(work.phase, Phase::Undone | Phase::RebootingBack(_));
            work.phase = if goes_back { Phase::RebootingBack(boot) } else { Phase::Rebooting(boot) };
        }
        self.publish();
        if let Some(host) = self.host() {
            host.power = Power::Rebooting(until);
        }
        let name = self.name;
        self.world.tell(|| format!("{name} reboots"));
        self.lose_pods();
    }

    /// Checks that no serving pod is still running when the machine reboots.
    fn lose_pods(&mut self) {
        let (world, name) = (&mut *self.world, self.name);
        let Some(node) = world.nodes.get(name) else { return };
        let running: Vec<String> =
            node.serving_pods(&world.workloads).map(|pod| world.workloads[pod.workload].name.clone()).collect();
        if !running.is_empty() && !node.host.opened {
            world.violate(
                Kind::RunningPods,
                format!("node {name} was rebooted while pods of {running:?} ran there that nobody had evicted"),
            );
        }
    }
}
