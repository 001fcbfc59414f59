//! What this process tells Prometheus: upstream's names, and a few of our own.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Pool {
    pub pool: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Node {
    pub node: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Work {
    pub subcontroller: String,
    pub state: String,
    pub object: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Written {
    pub kind: String,
}

/// The labels of `mco_state`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabels {
    node: String,
    pool: String,
    state: String,
    reason: String,
}

/// The latest condition of a pool that is true, and the pool's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolState {
    pub pool: String,
    pub state: String,
    pub reason: String,
    /// Unix time of its transition.
    pub since: i64,
    pub nodes: Vec<String>,
}

/// Where the states come from when somebody asks.
type Source = Box<dyn Fn() -> Vec<PoolState> + Send + Sync>;

/// `mco_state`, made when it is asked for: ten thousand nodes cost nothing in between, and no series outlives its pool.
#[derive(Clone, Default)]
struct States(Arc<Mutex<Option<Source>>>);

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("States")
    }
}

impl Collector for States {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let states = self.0.lock().as_ref().map(|source| source()).unwrap_or_default();
        let nothing = ConstGauge::new(0_i64);
        let help = "Time since which the node's pool is in its state";
        let mut family = encoder.encode_descriptor("mco_state", help, None, nothing.metric_type())?;
        for PoolState { pool, state, reason, since, nodes } in states {
            for node in nodes {
                let labels = StateLabels { node, pool: pool.clone(), state: state.clone(), reason: reason.clone() };
                ConstGauge::new(since).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// The label value that upstream's series are created with, so that a query finds them before anything happened.
const INITIALIZE: &str = "initialize";

pub struct Metrics {
    registry: Registry,
    states: States,
    pub machines: Family<Pool, Gauge>,
    pub updated: Family<Pool, Gauge>,
    pub degraded: Family<Pool, Gauge>,
    pub unavailable: Family<Pool, Gauge>,
    pub os_image_overridden: Family<Pool, Gauge>,
    pub work: Family<Work, Gauge>,
    pub drain_failing: Family<Node, Gauge>,
    pub pool_alert: Family<Node, Gauge>,
    pub skew_unenforced: Gauge,
    pub budget: Family<Pool, Gauge>,
    pub budget_used: Family<Pool, Gauge>,
    pub writes: Family<Written, Counter>,
    pub conflicts: Family<Written, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            states: States::default(),
            machines: Family::default(),
            updated: Family::default(),
            degraded: Family::default(),
            unavailable: Family::default(),
            os_image_overridden: Family::default(),
            work: Family::default(),
            drain_failing: Family::default(),
            pool_alert: Family::default(),
            skew_unenforced: Gauge::default(),
            budget: Family::default(),
            budget_used: Family::default(),
            writes: Family::default(),
            conflicts: Family::default(),
        };
        metrics.register();
        metrics.initialize();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register_collector(Box::new(self.states.clone()));
        registry.register(
            "mcc_boot_image_skew_enforcement_none",
            "Enforcement of the age of boot images is off",
            self.skew_unenforced.clone(),
        );
        registry.register("mco_machine_count", "Machines in the pool", self.machines.clone());
        registry.register("mco_updated_machine_count", "Updated machines in the pool", self.updated.clone());
        registry.register("mco_degraded_machine_count", "Degraded machines in the pool", self.degraded.clone());
        registry.register(
            "mco_unavailable_machine_count",
            "Unavailable machines in the pool",
            self.unavailable.clone(),
        );
        registry.register("os_image_url_override", "A fragment sets the OS image", self.os_image_overridden.clone());
        registry.register("mcc_sub_controller_state", "Time of the last action of a controller", self.work.clone());
        registry.register("mcc_drain_err", "Draining has failed for an hour", self.drain_failing.clone());
        registry.register(
            "mcc_pool_alert",
            "A control-plane node is claimed by a custom pool",
            self.pool_alert.clone(),
        );
        registry.register("machinist_pool_budget", "How many nodes may be unavailable", self.budget.clone());
        registry.register("machinist_pool_budget_used", "How many shares of it are taken", self.budget_used.clone());
        registry.register("machinist_writes", "Writes to the API by kind", self.writes.clone());
        registry.register("machinist_conflicts", "Writes that met a newer object", self.conflicts.clone());
    }

    fn initialize(&self) {
        for family in [&self.machines, &self.updated, &self.degraded, &self.unavailable, &self.os_image_overridden] {
            family.get_or_create(&pool(INITIALIZE)).set(0);
        }
        for family in [&self.drain_failing, &self.pool_alert] {
            family.get_or_create(&Node { node: INITIALIZE.to_owned() }).set(0);
        }
    }

    /// Takes the states of pools from here whenever somebody asks for them.
    pub fn states_from(&self, source: impl Fn() -> Vec<PoolState> + Send + Sync + 'static) {
        *self.states.0.lock() = Some(Box::new(source));
    }

    /// Notes that a controller did something about an object just now.
    pub fn worked(&self, subcontroller: &str, state: &str, object: &str) {
        let labels =
            Work { subcontroller: subcontroller.to_owned(), state: state.to_owned(), object: object.to_owned() };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        self.work.get_or_create(&labels).set(i64::try_from(now).unwrap_or(i64::MAX));
    }

    pub fn wrote(&self, kind: &str) {
        self.writes.get_or_create(&Written { kind: kind.to_owned() }).inc();
    }

    pub fn conflicted(&self, kind: &str) {
        self.conflicts.get_or_create(&Written { kind: kind.to_owned() }).inc();
    }

    /// Removes the series of a pool that no longer exists.
    pub fn forget_pool(&self, name: &str) {
        let pool = pool(name);
        for family in [&self.machines, &self.updated, &self.degraded, &self.unavailable] {
            family.remove(&pool);
        }
        for family in [&self.os_image_overridden, &self.budget, &self.budget_used] {
            family.remove(&pool);
        }
    }

    /// Everything, as text.
    pub fn render(&self) -> String {
        let mut text = String::new();
        if let Err(error) = encode(&mut text, &self.registry) {
            text.clear();
            let _ = writeln!(text, "# {error}");
        }
        text
    }
}

/// The labels of a pool's series.
pub fn pool(name: &str) -> Pool {
    Pool { pool: name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstreams_names_are_there_before_anything_happened() {
        let text = Metrics::default().render();
        for name in ["mco_machine_count", "mco_updated_machine_count", "mco_degraded_machine_count"] {
            assert!(text.contains(&format!("{name}{{pool=\"initialize\"}} 0")), "{text}");
        }
        assert!(text.contains("mcc_drain_err{node=\"initialize\"} 0"), "{text}");
    }

    #[test]
    fn the_state_of_a_pool_is_told_for_each_of_its_nodes_and_ends_with_it() {
        let metrics = Metrics::default();
        let pools = Arc::new(Mutex::new(vec![PoolState {
            pool: "infra".into(),
            state: "Updating".into(),
            reason: String::new(),
            since: 1_800_000_000,
            nodes: vec!["a".into(), "b".into()],
        }]));
        let source = pools.clone();
        metrics.states_from(move || source.lock().clone());
        let line = r#"mco_state{node="b",pool="infra",state="Updating",reason=""} 1800000000"#;
        assert!(metrics.render().contains(line), "{}", metrics.render());
        pools.lock().clear();
        assert!(!metrics.render().contains("infra"));
    }

    #[test]
    fn a_deleted_pool_leaves_no_series() {
        let metrics = Metrics::default();
        metrics.machines.get_or_create(&pool("infra")).set(3);
        metrics.forget_pool("infra");
        assert!(!metrics.render().contains("infra"));
    }
}
