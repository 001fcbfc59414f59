//! What this process tells Prometheus: upstream's names, and a few of our own.

mod fleet;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::world::World;
use cluster::watch::Key;
use fleet::Fleet;

/// Upstream's buckets of the time from a Machine's creation to a phase, in seconds.
const PHASE_BUCKETS: [f64; 13] = [5.0, 10.0, 20.0, 30.0, 60.0, 90.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0, 600.0];

/// The kinds of a provider's refusals.
const REASONS: [&str; 8] =
    ["NotFound", "InvalidSpec", "NoCapacity", "Quota", "Throttled", "Credentials", "Unreachable", "Other"];

/// What the provider was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    /// Reason of the event about a refusal.
    pub(crate) fn failed(self) -> &'static str {
        match self {
            Self::Create => "FailedCreate",
            Self::Update => "FailedUpdate",
            Self::Delete => "FailedDelete",
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Phase {
    phase: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Refusal {
    name: String,
    namespace: String,
    reason: String,
}

/// An object in its namespace.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Object {
    name: String,
    namespace: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Written {
    kind: String,
}

pub(crate) struct Metrics {
    registry: Registry,
    fleet: Fleet,
    phases: Family<Phase, Histogram>,
    /// Upstream's counters do not end in `_total`, which this library adds to every counter, so they are gauges here.
    create_failed: Family<Refusal, Gauge>,
    update_failed: Family<Refusal, Gauge>,
    delete_failed: Family<Refusal, Gauge>,
    covered: Family<Object, Gauge>,
    remediations: Family<Object, Counter>,
    short_circuit: Family<Object, Gauge>,
    writes: Family<Written, Counter>,
}

impl Object {
    fn of(key: &Key) -> Self {
        Self { name: key.name.clone(), namespace: key.namespace.clone() }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            fleet: Fleet::default(),
            phases: Family::new_with_constructor(|| Histogram::new(PHASE_BUCKETS)),
            create_failed: Family::default(),
            update_failed: Family::default(),
            delete_failed: Family::default(),
            covered: Family::default(),
            remediations: Family::default(),
            short_circuit: Family::default(),
            writes: Family::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register_collector(Box::new(self.fleet.clone()));
        registry.register(
            "mapi_machine_phase_transition_seconds",
            "Time from the creation of a machine to a phase",
            self.phases.clone(),
        );
        registry.register("mapi_instance_create_failed", "Refused creations", self.create_failed.clone());
        registry.register("mapi_instance_update_failed", "Refused updates", self.update_failed.clone());
        registry.register("mapi_instance_delete_failed", "Refused deletions", self.delete_failed.clone());
        registry.register(
            "mapi_machinehealthcheck_nodes_covered",
            "Machines that a health check selects",
            self.covered.clone(),
        );
        registry.register(
            "mapi_machinehealthcheck_remediation_success",
            "Machines that a health check asked to be remediated",
            self.remediations.clone(),
        );
        registry.register(
            "mapi_machinehealthcheck_short_circuit",
            "1 while a health check holds back because too much is wrong",
            self.short_circuit.clone(),
        );
        registry.register("machinist_machines_writes", "Writes to the API by kind", self.writes.clone());
    }

    /// Where the numbers about objects come from when somebody asks.
    pub(crate) fn objects_from(&self, world: &World) {
        self.fleet.observe(world);
    }

    pub(crate) fn phase_reached(&self, phase: &str, seconds: f64) {
        self.phases.get_or_create(&Phase { phase: phase.to_owned() }).observe(seconds);
    }

    /// A Machine is gone, and so are its series.
    pub(crate) fn forget_machine(&self, machine: &Key) {
        for family in [&self.create_failed, &self.update_failed, &self.delete_failed] {
            for reason in REASONS {
                let Key { namespace, name } = machine.clone();
                family.remove(&Refusal { name, namespace, reason: reason.to_owned() });
            }
        }
    }

    pub(crate) fn refused(&self, operation: Operation, machine: &Key, reason: &str) {
        let family = match operation {
            Operation::Create => &self.create_failed,
            Operation::Update => &self.update_failed,
            Operation::Delete => &self.delete_failed,
        };
        let Key { namespace, name } = machine.clone();
        family.get_or_create(&Refusal { name, namespace, reason: reason.to_owned() }).inc();
    }

    /// What a health check found.
    pub(crate) fn checked(&self, check: &Key, machines: usize, is_restricted: bool) {
        let object = Object::of(check);
        self.covered.get_or_create(&object).set(i64::try_from(machines).unwrap_or(i64::MAX));
        self.short_circuit.get_or_create(&object).set(is_restricted.into());
    }

    pub(crate) fn remediated(&self, check: &Key) {
        self.remediations.get_or_create(&Object::of(check)).inc();
    }

    pub(crate) fn forget_check(&self, check: &Key) {
        let object = Object::of(check);
        self.covered.remove(&object);
        self.short_circuit.remove(&object);
        self.remediations.remove(&object);
    }

    pub(crate) fn wrote(&self, kind: &str) {
        self.writes.get_or_create(&Written { kind: kind.to_owned() }).inc();
    }

    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        // Writing to a text cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
