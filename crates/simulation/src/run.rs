//! One run: a phase with faults, then a phase without faults in which the fleet must converge.

use jiff::SignedDuration;
use rollout::Settings;

use crate::controller::Controller;
use crate::pods::{Workload, WorkloadKind};
use crate::random::Random;
use crate::world::World;
use crate::{Outcome, Parties, Scenario, daemon, ending, faults, pods, protocol};

/// How many turns a fleet gets to converge. Most need less than a hundred.
const TURNS: usize = 1500;

/// The fleet has settled when nothing changed for this long. Longer than any clock jump, so that whatever waits for a wrong
/// time still shows.
const QUIET: SignedDuration = SignedDuration::from_hours(100);

/// Longer than any intended pause: retries are at most a minute apart, and a trial ends after ten.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_mins(90);

pub(crate) struct Run {
    scenario: Scenario,
    pub(crate) world: World,
    controllers: [Controller; 2],
    /// The replica that holds the lease. The other one only finishes its writes, unless leases overlap.
    leader: usize,
    overlap: bool,
    /// The most events that a watch receives at once; without a value, all of them.
    lag: Option<usize>,
    /// Some nodes stay dead or cordoned for ever.
    grim: bool,
    steps: usize,
    calm: usize,
    outcome: Outcome,
}

impl Run {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let random = &mut Random::stream(scenario.seed, "fleet", 0);
        let is_control_plane = random.once_in(4);
        let mut world = World::new(if is_control_plane { "master" } else { "worker" });
        world.patience = random.seconds(15);
        let limit = faults::any_limit(random);
        world.edit_pool(|pool| {
            pool.max_unavailable = limit;
            faults::set_target(pool, &faults::config(0));
        });
        let count = if is_control_plane { [3, 5][random.below(2)] } else { 2 + random.below(6) };
        let fresh = random.once_in(4);
        let lag = if random.once_in(3) { None } else { Some(1 + random.below(8)) };
        let settle = SignedDuration::from_secs(if random.once_in(2) { 5 } else { 0 });
        let (steps, calm) = (60 + random.below(120), 2 + random.below(12));
        let grim = random.once_in(3);
        let count = scenario.nodes.unwrap_or(count).min(count);
        for number in 0..count {
            populate(&mut world, number, fresh, scenario.seed);
        }
        let replicas = world.nodes.len();
        let deployment = |name: &str, guarded| Workload {
            name: name.to_owned(),
            kind: WorkloadKind::Deployment { replicas, guarded },
        };
        let daemon_set = Workload { name: "network".to_owned(), kind: WorkloadKind::DaemonSet };
        world.workloads = vec![daemon_set, deployment("web", false), deployment("database", true)];
        // Nodes that are cordoned from the start have pods from before.
        for _ in 0..replicas {
            pods::live(&mut world, random);
        }
        for number in 0..count {
            if Random::stream(scenario.seed, "cordon", number).once_in(6) {
                faults::cordon(&mut world, &format!("n{number}"));
            }
        }
        let settings = Settings { settle, leader_node: Some("n0".to_owned()), ..Settings::default() };
        let controllers = ["first", "second"].map(|name| Controller::new(name, settings.clone(), &world));
        Self {
            scenario: scenario.clone(),
            world,
            controllers,
            leader: 0,
            overlap: false,
            lag: lag.filter(|_| !scenario.fresh),
            grim,
            steps: scenario.steps.unwrap_or(steps),
            calm,
            outcome: Outcome::of(scenario),
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

    /// The phase with faults.
    fn trouble(&mut self, parties: &dyn Parties) {
        for step in 0..self.steps {
            self.outcome.steps += 1;
            let random = &mut self.stream("life", step);
            let passed = random.seconds(2);
            self.world.pass(passed);
            pods::live(&mut self.world, random);
            self.strike(step);
            self.disturb(step);
            for number in 0..self.controllers.len() {
                self.step_controller(number, step, parties);
            }
            self.step_daemons(step, parties);
            protocol::always(&mut self.world);
            if !self.world.violations.is_empty() {
                return;
            }
        }
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

    fn strike(&mut self, step: usize) {
        let mut random = self.stream("strike", step);
        if random.once_in(self.calm) && self.happens(2 * step) {
            faults::strike(&mut self.world, step, &mut random);
            self.world.look(None);
        }
    }

    /// Injects a fault of the controllers or the API.
    fn disturb(&mut self, step: usize) {
        let mut random = self.stream("disturb", step);
        let fault = random.below(44);
        if fault < 14 && self.happens(2 * step + 1) {
            let number = random.below(2);
            let Self { world, controllers, .. } = self;
            let controller = &mut controllers[number];
            match fault {
                0 | 1 => controller.restart(world, &mut random),
                2 => self.leader = 1 - self.leader,
                3 | 4 => self.overlap = !self.overlap,
                5 => world.outage = !world.outage,
                6 | 7 => world.outage = false,
                8 => controller.clock += faults::any_jump(&mut random),
                9 => controller.watching.lose(&mut random, world.now),
                10 => controller.etcd.lose(),
                11 => controller.drainer.lose(&mut random),
                _ => controller.mend(world, random.once_in(2)),
            }
            let names =
                ["restart", "restart", "leader", "overlap", "overlap", "outage", "no outage", "no outage", "clock"];
            let name = names.get(fault).copied().unwrap_or("watches");
            self.world.tell(|| format!("controller {number}: {name}"));
        }
    }

    fn step_controller(&mut self, number: usize, step: usize, parties: &dyn Parties) {
        let mut random = self.stream(["first", "second"][number], step);
        let Self { world, controllers, .. } = self;
        let controller = &mut controllers[number];
        // Sent writes land whether or not the sender is still running.
        while random.once_in(2) && controller.has_flights() {
            controller.land(world, parties, &mut random);
        }
        if random.once_in(2) {
            return;
        }
        if controller.has_work() {
            // A replica may freeze between two writes and continue much later.
            for _ in 0..=random.below(4) {
                controller.write(world, parties, &mut random);
            }
        } else if number == self.leader || self.overlap {
            let lag = self.lag.map(|lag| (&mut random, lag));
            controller.watch(world, lag);
            controller.plan(world, parties);
        }
    }

    fn step_daemons(&mut self, step: usize, parties: &dyn Parties) {
        let names: Vec<_> = self.world.nodes.keys().cloned().collect();
        for name in names {
            let mut random = self.stream(&name, step);
            if random.once_in(2) {
                daemon::step(&mut self.world, &name, parties.trial_clock(), &mut random);
                self.world.look(None);
            }
        }
    }

    /// The phase without faults, in which the fleet must converge.
    fn converge(&mut self, parties: &dyn Parties) {
        self.world.tell(|| "nothing goes wrong any more".to_owned());
        let mut random = self.stream("repair", 0);
        faults::repair(&mut self.world, self.grim, &mut random);
        self.overlap = false;
        for controller in &mut self.controllers {
            controller.mend(&self.world, false);
            controller.clock = SignedDuration::ZERO;
        }
        // Pending writes of the deposed leader land first.
        for number in [1 - self.leader, self.leader] {
            self.carry_out(number, parties, &mut random);
        }
        self.world.strict = true;
        let settled = self.settle(parties, &mut random);
        if !self.world.violations.is_empty() {
            return;
        }
        let controller = &mut self.controllers[self.leader];
        controller.watch(&self.world, None);
        let is_restless = controller.plan(&mut self.world, parties) || !settled;
        let next = controller.next.clone();
        ending::check(&mut self.world, next.as_ref());
        if is_restless {
            self.world.violate(crate::Kind::Restless, "a settled fleet is given more to do".to_owned());
        }
    }

    /// Lets time pass, in growing steps while nothing changes, until the fleet has settled. Returns whether it has.
    fn settle(&mut self, parties: &dyn Parties, random: &mut Random) -> bool {
        let mut quiet = SignedDuration::ZERO;
        for _ in 0..TURNS {
            self.outcome.steps += 1;
            let before = self.world.version;
            let passed = (quiet / 2).max(SignedDuration::from_secs(1));
            self.world.pass(passed);
            pods::live(&mut self.world, random);
            let Self { world, controllers, leader, .. } = self;
            controllers[*leader].watch(world, None);
            let mut moved = controllers[*leader].plan(world, parties);
            self.carry_out(self.leader, parties, random);
            let names: Vec<_> = self.world.nodes.keys().cloned().collect();
            for name in names {
                // A daemon that retries in vain changes nothing in the API and does not keep the fleet from settling.
                daemon::step(&mut self.world, &name, parties.trial_clock(), random);
                self.world.look(None);
            }
            protocol::always(&mut self.world);
            if !self.world.violations.is_empty() {
                return true;
            }
            moved |= self.world.version != before;
            if moved && quiet > LONGEST_PAUSE {
                let sentence = format!("the fleet stood still for {} minutes, and then went on", quiet.as_mins());
                self.world.violate(crate::Kind::Stalled, sentence);
            }
            quiet = if moved { SignedDuration::ZERO } else { quiet + passed };
            if quiet > QUIET {
                return true;
            }
        }
        false
    }

    /// Performs all queued writes of a replica and lets them land.
    fn carry_out(&mut self, number: usize, parties: &dyn Parties, random: &mut Random) {
        let Self { world, controllers, .. } = self;
        let controller = &mut controllers[number];
        while controller.has_work() {
            controller.write(world, parties, random);
        }
        while controller.has_flights() {
            controller.land(world, parties, random);
        }
    }
}

/// Adds one node of the initial fleet. Its properties depend only on seed and number.
fn populate(world: &mut World, number: usize, fresh: bool, seed: u64) {
    let random = &mut Random::stream(seed, "node", number);
    let name = format!("n{number}");
    let is_unconfigured = fresh || random.once_in(8);
    let ours = !random.once_in(4) || is_unconfigured;
    let config = faults::config(0);
    world.add_node(&name, Some(config.as_str()).filter(|_| !is_unconfigured), ours);
    if let Some(node) = world.nodes.get_mut(&name) {
        node.host.adopts = random.once_in(3);
    }
}
