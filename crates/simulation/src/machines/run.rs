//! One run: a phase with faults, then a phase without, in which everything must converge.

use jiff::{SignedDuration, Timestamp};

use super::replica::{Replica, What};
use super::world::World;
use super::{Kind, Outcome, Parties, Scenario, build, ending, faults};
use crate::random::Random;

/// How many moments a world gets to settle. Most need a few hundred.
const TURNS: usize = 6000;

/// Nothing stands still for longer than this unless it has settled: the longest pause is ten minutes.
const QUIET: SignedDuration = SignedDuration::from_mins(25);

/// An orphan in the cloud is removed after more than an hour.
const ORPHANS: SignedDuration = SignedDuration::from_mins(100);

/// A person looks after what only a person can so often.
const HELPS: usize = 8;

pub(crate) struct Run {
    scenario: Scenario,
    pub(crate) world: World,
    replicas: [Replica; 2],
    leader: usize,
    overlap: bool,
    lag: Option<usize>,
    steps: usize,
    calm: usize,
    outcome: Outcome,
}

impl Run {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let random = &mut Random::stream(scenario.seed, "machines", 0);
        let mut world = World::new();
        build::build(&mut world, random);
        world.cloud.mood.whims = random.once_in(2);
        let lag = if random.once_in(3) { None } else { Some(1 + random.below(12)) };
        let (steps, calm) = (60 + random.below(120), 2 + random.below(8));
        let replicas = ["first", "second"].map(|name| Replica::new(name, &world));
        Self {
            scenario: scenario.clone(),
            world,
            replicas,
            leader: 0,
            overlap: false,
            lag: lag.filter(|_| !scenario.fresh),
            steps: scenario.steps.unwrap_or(steps),
            calm,
            // The world has the same nodes whatever a scenario says about their number.
            outcome: Outcome::of(&Scenario { nodes: None, ..scenario.clone() }),
        }
    }

    pub(crate) fn play(mut self, parties: &dyn Parties) -> (Outcome, Vec<String>) {
        self.trouble(parties);
        if self.world.violations.is_empty() {
            self.converge(parties);
        }
        self.outcome.violations = self.world.violations;
        (self.outcome, self.world.trace.unwrap_or_default())
    }

    fn stream(&self, purpose: &str, number: usize) -> Random {
        Random::stream(self.scenario.seed, purpose, number)
    }

    /// Whether the fault of this number is part of the scenario. Records it if so.
    fn happens(&mut self, fault: usize) -> bool {
        let happens = !self.scenario.without.contains(&fault);
        if happens {
            self.outcome.faults.insert(fault);
            self.world.tell(|| format!("fault {fault}"));
        }
        happens
    }

    fn trouble(&mut self, parties: &dyn Parties) {
        for step in 0..self.steps {
            self.outcome.steps += 1;
            let mut random = self.stream("time", step);
            let passed = match random.below(10) {
                0 => random.seconds(400),
                1 | 2 => random.seconds(60),
                _ => random.seconds(5),
            };
            self.world.pass_to(self.world.now() + passed);
            let mut random = self.stream("strike", step);
            if random.once_in(self.calm) && self.happens(2 * step) {
                faults::strike(&mut self.world, step, &mut random);
            }
            let mut random = self.stream("disturb", step);
            if random.once_in(4) && self.happens(2 * step + 1) {
                self.disturb(&mut random);
            }
            for number in 0..2 {
                let mut random = self.stream(["first", "second"][number], step);
                self.work(number, parties, &mut random);
            }
            self.world.pass_to(self.world.now());
            if !self.world.violations.is_empty() {
                return;
            }
        }
    }

    fn disturb(&mut self, random: &mut Random) {
        match random.below(5) {
            0 => self.leader = 1 - self.leader,
            1 => self.overlap = !self.overlap,
            _ => {
                let number = random.below(2);
                let Self { world, replicas, .. } = self;
                let words = faults::disturb(world, &mut replicas[number], random);
                let name = replicas[number].name;
                world.tell(|| format!("{name} {words}"));
            }
        }
    }

    /// One process does a little of what it has to do.
    fn work(&mut self, number: usize, parties: &dyn Parties, random: &mut Random) {
        let leads = number == self.leader || self.overlap;
        let Self { world, replicas, lag, .. } = self;
        let replica = &mut replicas[number];
        if replica.is_frozen(world.now()) {
            return;
        }
        let most = *lag;
        replica.watch(world, || most.map(|most| random.below(most + 1)));
        for _ in 0..random.below(16) {
            if random.once_in(3) && leads {
                replica.begin(world, parties, random);
            }
            replica.go_on(world, parties, random);
            if !world.violations.is_empty() {
                return;
            }
        }
    }

    fn converge(&mut self, parties: &dyn Parties) {
        self.world.tell(|| "nothing goes wrong any more".to_owned());
        let mut random = self.stream("repair", 0);
        // The process that does not lead any more finishes what it is at, if it still can.
        let deposed = 1 - self.leader;
        if random.once_in(2) {
            self.finish(deposed, parties, &mut random);
        }
        faults::repair(&mut self.world);
        let replica = &mut self.replicas[self.leader];
        (replica.clock, replica.frozen) = (SignedDuration::ZERO, None);
        replica.view.mend();
        for _ in 0..HELPS {
            if !self.settle(parties, &mut random) {
                self.world.violate(Kind::Restless, "the world does not come to rest".to_owned());
            }
            if !self.world.violations.is_empty() {
                return;
            }
            ending::explained(&mut self.world);
            if !faults::help(&mut self.world) {
                break;
            }
        }
        if self.world.violations.is_empty() {
            ending::finished(&mut self.world);
        }
        if self.world.violations.is_empty() {
            self.rest(parties, &mut random);
        }
    }

    fn finish(&mut self, number: usize, parties: &dyn Parties, random: &mut Random) {
        let Self { world, replicas, .. } = self;
        for _ in 0..50 {
            if !replicas[number].go_on(world, parties, random) {
                return;
            }
        }
    }

    /// Lets the leader work and time pass until nothing has moved for long. Says whether that happened.
    fn settle(&mut self, parties: &dyn Parties, random: &mut Random) -> bool {
        let mut moved = (self.world.now(), 0, 0);
        for _ in 0..TURNS {
            self.outcome.steps += 1;
            let Self { world, replicas, leader, .. } = self;
            let replica = &mut replicas[*leader];
            replica.watch(world, || None);
            while replica.go_on(world, parties, random) || replica.begin(world, parties, random) {
                if !world.violations.is_empty() {
                    return true;
                }
            }
            let now = world.now();
            if (world.api.version, world.cloud.changes) != (moved.1, moved.2) {
                moved = (now, world.api.version, world.cloud.changes);
                // The watch tells of it a moment later.
                world.pass_to(now + SignedDuration::from_millis(50));
                continue;
            }
            let quiet = if ending::has_orphans(world) { ORPHANS } else { QUIET };
            if now.duration_since(moved.0) > quiet {
                return true;
            }
            let next = next_moment(world, replica);
            world.pass_to(next);
        }
        false
    }

    /// A settled world: everything is looked at once more, and nothing is written.
    fn rest(&mut self, parties: &dyn Parties, random: &mut Random) {
        let Self { world, replicas, leader, .. } = self;
        let replica = &mut replicas[*leader];
        let now = world.now();
        let before = (world.api.version, world.cloud.changes);
        let view = &replica.view;
        let mut keys: Vec<(What, String)> = Vec::new();
        keys.extend(view.machines.objects.keys().map(|name| (What::Machine, name.clone())));
        keys.extend(view.sets.objects.keys().map(|name| (What::Set, name.clone())));
        keys.extend(view.deployments.objects.keys().map(|name| (What::Deployment, name.clone())));
        keys.extend(view.checks.objects.keys().map(|name| (What::Check, name.clone())));
        keys.extend(view.control_planes.objects.keys().map(|name| (What::ControlPlane, name.clone())));
        keys.extend(view.nodes.objects.keys().map(|name| (What::Node, name.clone())));
        keys.into_iter().for_each(|(what, name)| replica.add(what, &name, now));
        for _ in 0..200 {
            while replica.go_on(world, parties, random) || replica.begin(world, parties, random) {}
            let next = next_moment(world, replica).min(world.now() + SignedDuration::from_secs(1));
            world.pass_to(next);
        }
        if (world.api.version, world.cloud.changes) != before {
            world.violate(Kind::Restless, "a settled world is written to".to_owned());
        }
    }
}

/// When something is due next.
fn next_moment(world: &World, replica: &Replica) -> Timestamp {
    let now = world.now();
    let due = replica.due.values().copied().chain(replica.jobs.values().map(|(_, at)| *at));
    let all = due.chain(world.next()).chain([replica.next_sweep()]);
    all.filter(|at| *at > now).min().unwrap_or(now + SignedDuration::from_secs(1))
}
