//! A deterministic simulation of rollouts: the real planners, virtual time, and everything that can go wrong.
//!
//! One seed is one run. Nothing here waits, draws from the system's randomness or looks at a clock, so a seed that fails
//! fails again. It stands outside the layers because it puts two decision crates together, as only controllers do; it
//! is for tests and developer commands and is part of no product binary.

mod checks;
mod controller;
mod daemon;
mod faults;
mod random;
mod world;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rollout::{Plan, Settings, Snapshot};

use controller::Controller;
use random::Random;
use world::World;

/// Who plans. The real one, or one that is broken on purpose to see that the checks notice.
pub trait Planner {
    fn plan(&self, snapshot: &Snapshot) -> Plan;

    /// Whether targets carry the resource version of the node, as they must.
    fn is_fenced(&self) -> bool {
        true
    }
}

/// The planner of the product.
#[derive(Clone, Copy, Debug, Default)]
pub struct Real;

impl Planner for Real {
    fn plan(&self, snapshot: &Snapshot) -> Plan {
        rollout::plan(snapshot)
    }
}

/// How one run went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub seed: u64,
    pub steps: usize,
    pub faults: usize,
    /// What did not hold; the first one is where to look.
    pub violations: Vec<String>,
}

/// How many turns a fleet gets to come to its end once nothing goes wrong any more. Runs need some tens.
const TURNS: usize = 600;

/// Runs one seed.
pub fn run(seed: u64, planner: &dyn Planner) -> Outcome {
    Run::new(seed).play(planner)
}

/// Runs one seed and tells what happened, line by line.
pub fn trace(seed: u64, planner: &dyn Planner) -> (Outcome, Vec<String>) {
    let mut run = Run::new(seed);
    run.world.trace = Some(Vec::new());
    let mut lines = Vec::new();
    let outcome = run.play_telling(planner, &mut lines);
    (outcome, lines)
}

struct Run {
    world: World,
    random: Random,
    controllers: [Controller; 2],
    /// Which replica holds the lease. The other one only finishes what it has begun, unless leases overlap.
    leader: usize,
    overlap: bool,
    /// How far behind watches may fall.
    lag: usize,
    outcome: Outcome,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let pool = if random.once_in(5) { "master" } else { "worker" };
        let mut world = World::new(pool);
        let limit = i32::try_from(1 + random.below(3)).unwrap_or(1);
        world.edit_pool(|pool| {
            pool.max_unavailable = Some(IntOrString::Int(limit));
            faults::set_target(pool, &faults::config(0));
        });
        for number in 0..2 + random.below(6) {
            let ours = !random.once_in(4);
            world.add_node(&format!("n{number}"), Some(&faults::config(0)), ours);
        }
        let settle = SignedDuration::from_secs(if random.once_in(2) { 5 } else { 0 });
        let settings = Settings { settle, leader_node: Some("n0".to_owned()), ..Settings::default() };
        let controllers = ["first", "second"].map(|name| Controller::new(name, settings.clone(), &world));
        let lag = if random.once_in(3) { usize::MAX } else { 1 + random.below(8) };
        let outcome = Outcome { seed, ..Outcome::default() };
        Self { world, random, controllers, leader: 0, overlap: false, lag, outcome }
    }

    fn play(self, planner: &dyn Planner) -> Outcome {
        self.play_telling(planner, &mut Vec::new())
    }

    fn play_telling(mut self, planner: &dyn Planner, trace: &mut Vec<String>) -> Outcome {
        self.trouble(planner);
        if self.world.violations.is_empty() {
            self.converge(planner);
        }
        trace.extend(self.world.trace.into_iter().flatten());
        self.outcome.violations = self.world.violations;
        self.outcome
    }

    /// The part of a run in which things go wrong.
    fn trouble(&mut self, planner: &dyn Planner) {
        let steps = 60 + self.random.below(120);
        let calm = 2 + self.random.below(12);
        for _ in 0..steps {
            self.outcome.steps += 1;
            faults::live(&mut self.world, &mut self.random);
            if self.random.once_in(calm) && faults::strike(&mut self.world, &mut self.random) {
                self.outcome.faults += 1;
            }
            self.disturb_controllers();
            for number in 0..self.controllers.len() {
                self.step_controller(number, planner);
            }
            self.step_daemons();
            checks::always(&mut self.world);
            if !self.world.violations.is_empty() {
                return;
            }
        }
    }

    fn disturb_controllers(&mut self) {
        let fault = match self.random.below(40) {
            0 => {
                let number = self.random.below(2);
                self.controllers[number].restart(&self.world);
                true
            }
            1 => {
                self.leader = 1 - self.leader;
                true
            }
            2 | 3 => {
                self.overlap = !self.overlap;
                true
            }
            4 => {
                self.world.outage = !self.world.outage;
                true
            }
            5 | 6 if self.world.outage => {
                self.world.outage = false;
                false
            }
            _ => false,
        };
        self.outcome.faults += usize::from(fault);
    }

    fn step_controller(&mut self, number: usize, planner: &dyn Planner) {
        let Self { world, random, controllers, .. } = self;
        let controller = &mut controllers[number];
        // What was sent arrives whether or not its sender still runs.
        while random.once_in(2) && controller.has_flights() {
            controller.land(world, random, planner.is_fenced());
        }
        if random.once_in(2) {
            return;
        }
        if controller.has_work() {
            // A replica may be frozen in the middle of its writes and go on much later.
            for _ in 0..=random.below(4) {
                controller.write(world, planner.is_fenced());
            }
        } else if number == self.leader || self.overlap {
            let at_most = if self.lag == usize::MAX { usize::MAX } else { random.below(self.lag + 1) };
            controller.watch(world, at_most);
            controller.plan(world, planner);
        }
    }

    fn step_daemons(&mut self) {
        let names: Vec<_> = self.world.nodes.keys().cloned().collect();
        for name in names {
            if self.random.once_in(2) {
                daemon::step(&mut self.world, &name, &mut self.random);
            }
        }
    }

    /// The part of a run in which nothing goes wrong any more: everything must come to its end.
    fn converge(&mut self, planner: &dyn Planner) {
        self.world.tell(|| "nothing goes wrong any more".to_owned());
        faults::repair(&mut self.world);
        self.overlap = false;
        let deposed = 1 - self.leader;
        let leader = self.leader;
        // What the deposed leader still wants to write arrives first.
        for number in [deposed, leader] {
            self.carry_out(number, planner);
        }
        self.world.strict = true;
        let mut quiet = 0;
        for _ in 0..TURNS {
            self.outcome.steps += 1;
            let version = self.world.version;
            self.world.pass(SignedDuration::from_secs(1));
            for node in self.world.nodes.values_mut() {
                node.pods.retain(|pod| pod.terminating.is_none());
            }
            let controller = &mut self.controllers[leader];
            controller.watch(&self.world, usize::MAX);
            controller.plan(&mut self.world, planner);
            self.carry_out(leader, planner);
            let names: Vec<_> = self.world.nodes.keys().cloned().collect();
            for name in names {
                daemon::step(&mut self.world, &name, &mut self.random);
            }
            checks::always(&mut self.world);
            quiet = if self.world.version == version { quiet + 1 } else { 0 };
            // Longer than the settling of a target, than a retry of an eviction and than any pause of a daemon.
            if quiet > 70 || !self.world.violations.is_empty() {
                break;
            }
        }
        let controller = &mut self.controllers[leader];
        controller.watch(&self.world, usize::MAX);
        if controller.plan(&mut self.world, planner) {
            self.world.violate("a settled fleet is given more to do".to_owned());
        }
        self.check_end();
    }

    /// Lets a replica write everything that it wants to, and all of that arrive.
    fn carry_out(&mut self, number: usize, planner: &dyn Planner) {
        let Self { world, random, controllers, .. } = self;
        let controller = &mut controllers[number];
        while controller.has_work() {
            controller.write(world, planner.is_fenced());
            checks::always(world);
        }
        while controller.has_flights() {
            controller.land(world, random, planner.is_fenced());
            checks::always(world);
        }
    }

    fn check_end(&mut self) {
        let world = &mut self.world;
        let unfinished = world.unfinished();
        if !unfinished.is_empty() {
            let mut problem = format!("the fleet does not come to its end: {unfinished:?} of {}", world.pool.target());
            for name in &unfinished {
                if let Some(node) = world.nodes.get(name) {
                    let facts = &node.facts;
                    problem += &format!(
                        "; {name}: current {:?}, desired {:?}, state {:?}, unready {:?}, drain {:?}/{:?}, journal {:?}",
                        facts.current,
                        facts.desired,
                        world::state_word(&facts.state),
                        facts.unready,
                        facts.desired_drain,
                        facts.last_applied_drain,
                        node.journal,
                    );
                }
            }
            world.violate(problem);
        }
        let spec = &world.ledger.spec;
        if !(spec.claims.is_empty() && spec.next.is_empty()) {
            let problem = format!("claims are left over: {:?}, {:?}", spec.claims, spec.next);
            world.violate(problem);
        }
        if let Some(tainted) = world.nodes.values().find(|node| node.facts.has_update_taint()) {
            let problem = format!("node {} keeps its taint", tainted.facts.name);
            world.violate(problem);
        }
        let status = &world.pool.status;
        let reached = status.configuration.as_ref().and_then(|configuration| configuration.name.as_deref());
        if reached != Some(world.pool.target()) {
            let problem = format!("the pool's status ends at {reached:?} instead of {}", world.pool.target());
            world.violate(problem);
        }
    }
}

/// How many runs went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub runs: usize,
    pub steps: usize,
    pub faults: usize,
    /// The runs in which something did not hold.
    pub failed: Vec<Outcome>,
}

impl Summary {
    /// Runs these seeds one after the other.
    pub fn of(seeds: impl Iterator<Item = u64>, planner: &dyn Planner) -> Self {
        let mut summary = Self::default();
        for seed in seeds {
            summary.count(run(seed, planner));
        }
        summary
    }

    /// Takes in one run.
    pub fn count(&mut self, outcome: Outcome) {
        self.runs += 1;
        self.steps += outcome.steps;
        self.faults += outcome.faults;
        if !outcome.violations.is_empty() {
            self.failed.push(outcome);
        }
    }

    /// Takes in the runs of another summary.
    pub fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.steps += other.steps;
        self.faults += other.faults;
        self.failed.extend(other.failed);
    }
}
