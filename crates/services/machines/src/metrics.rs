//! What this process tells Prometheus: upstream's names, and a few of our own.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use cluster::watch::Key;

/// Upstream's buckets of the time from a Machine's creation to a phase, in seconds.
const PHASE_BUCKETS: [f64; 13] = [5.0, 10.0, 20.0, 30.0, 60.0, 90.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0, 600.0];

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

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Written {
    kind: String,
}

pub(crate) struct Metrics {
    registry: Registry,
    phases: Family<Phase, Histogram>,
    create_failed: Family<Refusal, Counter>,
    update_failed: Family<Refusal, Counter>,
    delete_failed: Family<Refusal, Counter>,
    writes: Family<Written, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            phases: Family::new_with_constructor(|| Histogram::new(PHASE_BUCKETS)),
            create_failed: Family::default(),
            update_failed: Family::default(),
            delete_failed: Family::default(),
            writes: Family::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "mapi_machine_phase_transition_seconds",
            "Time from the creation of a machine to a phase",
            self.phases.clone(),
        );
        registry.register("mapi_instance_create_failed", "Refused creations", self.create_failed.clone());
        registry.register("mapi_instance_update_failed", "Refused updates", self.update_failed.clone());
        registry.register("mapi_instance_delete_failed", "Refused deletions", self.delete_failed.clone());
        registry.register("machinist_machines_writes", "Writes to the API by kind", self.writes.clone());
    }

    pub(crate) fn phase_reached(&self, phase: &str, seconds: f64) {
        self.phases.get_or_create(&Phase { phase: phase.to_owned() }).observe(seconds);
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
