//! The node daemon on a simulated machine.
//!
//! The next move comes from the real daemon's `decide`, and trials are judged by the real `judge`. This module replaces the
//! loop around them, one move per step: read the Node, publish a report, do the drain handshake, journal the update. Like the
//! real daemon, it keeps reporting Degraded while it updates after a failure.
//!
//! A foreign (upstream) daemon reads its target only between updates and has no trials.

use jiff::{SignedDuration, Timestamp};
use node::{Move, Report, Situation, Standing, View, decide};

use crate::faults::any_jump;
use crate::host::{Host, Phase, Power, Work};
use crate::random::Random;
use crate::world::{BadConfig, World};

mod report;
mod trying;
mod work;

pub use trying::TrialClock;

/// The daemon's memory, which is lost when its process ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    /// `None` until the API has answered once.
    view: Option<View>,
    report: Report,
    retry_at: Option<Timestamp>,
    failures: u32,
    /// The config that a foreign daemon is updating to, even if its target has changed since.
    pursues: Option<String>,
}

/// A daemon during one step.
struct Step<'a> {
    world: &'a mut World,
    name: &'a str,
    clock: TrialClock,
}

/// Advances a machine by one step: its daemon makes one move, or its reboot proceeds.
pub(crate) fn step(world: &mut World, name: &str, clock: TrialClock, random: &mut Random) {
    match world.nodes.get(name).map(|node| node.host.power) {
        None | Some(Power::Off) => {}
        Some(Power::Rebooting(until)) => boot(world, name, until, random),
        Some(Power::On) => Step { world, name, clock }.act(random),
    }
}

fn boot(world: &mut World, name: &str, until: Timestamp, random: &mut Random) {
    let now = world.now;
    let Some(node) = world.nodes.get_mut(name) else { return };
    if now < until {
        return;
    }
    let host = &mut node.host;
    let journal = host.disk.journal.as_ref();
    let into = journal.filter(|work| matches!(work.phase, Phase::Rebooting(_))).map(|work| work.to.clone());
    // Some machines boot with a wrong clock, which time synchronization corrects shortly after.
    let clock = if random.once_in(6) { any_jump(random) } else { host.clock };
    *host =
        Host { power: Power::On, boot: host.boot + 1, booted: now, process: Process::default(), clock, ..host.clone() };
    if into.is_some_and(|config| world.config(&config).fault == Some(BadConfig::Kills)) {
        if let Some(node) = world.nodes.get_mut(name) {
            node.host.power = Power::Off;
        }
        world.tell(|| format!("{name} does not come back from its reboot"));
        return;
    }
    world.tell(|| format!("{name} has booted"));
}

impl Step<'_> {
    fn host(&mut self) -> Option<&mut Host> {
        self.world.nodes.get_mut(self.name).map(|node| &mut node.host)
    }

    /// Whether this machine can reach the API.
    fn hears(&mut self) -> bool {
        !self.world.outage && self.host().is_some_and(|host| host.linked)
    }

    fn act(mut self, random: &mut Random) {
        let woken = !random.once_in(4) && self.look_at_node();
        self.answer();
        let now = self.world.now;
        let Some(host) = self.host() else { return };
        if host.process.retry_at.is_some_and(|at| at > now) && !woken {
            return;
        }
        host.process.retry_at = None;
        if random.once_in(4) {
            host.clock = SignedDuration::ZERO;
        }
        if self.carry_on() {
            return;
        }
        let Some(host) = self.host() else { return };
        let (disk, boot) = (host.disk.clone(), host.boot);
        let standing = standing(disk.journal.as_ref(), boot);
        let mut heard = host.process.view.clone();
        if let (Some(view), Some(pursued)) = (&mut heard, &host.process.pursues) {
            view.desired.clone_from(pursued);
        }
        let situation = Situation {
            born: None,
            on_disk: disk.current.as_deref(),
            standing: &standing,
            node: heard.as_ref(),
            forced: false,
            reverted: disk.reverted.as_deref(),
        };
        let view = heard.clone().unwrap_or_default();
        match decide(&situation) {
            Move::Idle => {}
            Move::Adopt { config } => self.adopt(config),
            Move::Update { to, forced: _ } => self.update(&to, &view),
            Move::Act => self.take_effect(random),
            Move::Reboot => self.reboot(random),
            Move::Try => self.try_out(),
            Move::Held { config } => self.hold(&config),
            Move::Release { drain } => self.release(drain),
            Move::Rest => self.rest(),
        }
    }

    /// Reads the Node. Returns whether it has changed since the last time.
    fn look_at_node(&mut self) -> bool {
        if !self.hears() {
            return false;
        }
        let Some(node) = self.world.nodes.get_mut(self.name) else { return false };
        let view = report::view(&node.facts);
        let process = &mut node.host.process;
        if process.view.is_none() {
            process.report = Report::of(&view);
        }
        let is_news = process.view.as_ref() != Some(&view);
        process.view = Some(view);
        is_news
    }

    fn adopt(&mut self, config: String) {
        if self.hears()
            && let Some(host) = self.host()
        {
            host.disk.current = Some(config);
        }
    }
}

/// The standing that the real engine's `recover` would return.
fn standing(journal: Option<&Work>, boot: u64) -> Standing {
    let reason = || "the new config failed its trial".to_owned();
    match journal.map(|work| work.phase) {
        None => Standing::Settled,
        Some(Phase::Applying | Phase::Applied) => Standing::Applied,
        Some(Phase::Rebooting(asked)) if asked == boot => Standing::WaitsForReboot,
        Some(Phase::Rebooting(_) | Phase::Trying(_)) => Standing::Trying,
        Some(Phase::Undoing | Phase::Undone | Phase::RebootingBack(_)) => Standing::MustRebootBack { reason: reason() },
    }
}
