//! Trials of new configs, judged by the real daemon's `judge`.

use jiff::Timestamp;
use node::trial::{Seen, Trial, Verdict, Witness, judge};

use super::Step;
use crate::host::{Host, Phase, Work};
use crate::violation::Kind;
use crate::world::BadConfig;

/// The clock that measures trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialClock {
    /// Seconds since boot. Nobody can set this clock.
    Boot,
    /// The wall clock, which can jump.
    Wall,
}

/// Seconds until a trial with problems fails.
const DEADLINE: u32 = 600;

/// Seconds that the kubelet needs to start after a boot.
const STARTS: i64 = 4;

/// A unit that every config contains.
const UNIT: &str = "app.service";

impl Step<'_> {
    pub(super) fn try_out(&mut self) {
        let (now, clock) = (self.world.now, self.clock);
        let hears = self.hears();
        let Some(node) = self.world.nodes.get_mut(self.name) else { return };
        let (foreign, host) = (!node.facts.ours, &mut node.host);
        let (uptime, linked) = (host.uptime(now), host.linked);
        let heard = hears && host.process.view.is_some();
        let Some((work, elapsed)) = look_at(host, clock, now) else { return };
        if foreign || work.from.is_none() {
            host.disk.journal = None;
            return;
        }
        let fails = matches!(self.world.config(&work.to).fault, Some(BadConfig::FailsTrial | BadConfig::Kills));
        let seen = Seen {
            failed_units: if fails { vec![UNIT.to_owned()] } else { Vec::new() },
            failed_checks: Vec::new(),
            kubelet_is_well: uptime >= STARTS,
            api_is_heard: heard,
            witness_answers: linked,
            ..Seen::default()
        };
        let witnesses = vec![Witness { address: "gateway:53".to_owned(), accepts: true, beside_api: false }];
        let trial = Trial { deadline_seconds: DEADLINE, units: vec![UNIT.to_owned()], witnesses, ..Trial::default() };
        match judge(&trial, &seen, elapsed) {
            Verdict::Waiting if fails => {}
            Verdict::Waiting => self.wait(&work, &seen, uptime),
            Verdict::Passed => {
                if let Some(host) = self.host() {
                    host.disk.journal = None;
                }
            }
            Verdict::Failed(reason) => self.give_back(&work, &reason, linked && !fails),
        }
    }

    fn wait(&mut self, work: &Work, seen: &Seen, uptime: i64) {
        let name = self.name;
        let lasted = work.looked_at.map_or(0, |(_, since)| uptime - since);
        if seen.kubelet_is_well && seen.api_is_heard && lasted > i64::from(2 * DEADLINE) {
            let sentence = format!("the trial on node {name} goes on after {lasted} seconds, and all is well");
            self.world.violate(Kind::EndlessTrial, sentence);
        }
    }

    fn give_back(&mut self, work: &Work, reason: &str, is_good: bool) {
        let name = self.name;
        self.world.tell(|| format!("{name}: {reason}"));
        if is_good {
            let sentence = format!("node {name} gives config {} back, which works: {reason}", work.to);
            self.world.violate(Kind::GoodReverted, sentence);
        }
        if let Some(work) = self.host().and_then(|host| host.disk.journal.as_mut()) {
            work.phase = Phase::Undoing;
        }
    }
}

/// The update on trial and the seconds since the trial started, which is the first time it is looked at.
fn look_at(host: &mut Host, clock: TrialClock, now: Timestamp) -> Option<(Work, i64)> {
    let (second, uptime, boot) = (second(host, clock, now), host.uptime(now), host.boot);
    let work = host.disk.journal.as_mut()?;
    let since = match work.phase {
        // With the wall clock, the recorded start is never adjusted.
        Phase::Trying(since) if clock == TrialClock::Wall => since,
        // After a reboot the clock starts at zero again.
        Phase::Trying(since) => since.min(second),
        _ => second,
    };
    work.phase = Phase::Trying(since);
    if work.looked_at.is_none_or(|(at, _)| at != boot) {
        work.looked_at = Some((boot, uptime));
    }
    Some((work.clone(), (second - since).max(0)))
}

pub(super) fn second(host: &Host, clock: TrialClock, now: Timestamp) -> i64 {
    match clock {
        TrialClock::Boot => host.uptime(now),
        TrialClock::Wall => host.wall_clock(now),
    }
}
