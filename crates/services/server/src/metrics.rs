//! Metrics of the config server.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Answered {
    pub(crate) code: u16,
}

pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) answers: Family<Answered, Counter>,
    pub(crate) connections: Gauge,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let answers = Family::default();
        let connections = Gauge::default();
        registry.register("mcs_requests", "Answers of the config server by status code", answers.clone());
        registry.register("mcs_connections", "Connections that are open now", connections.clone());
        Self { registry, answers, connections }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
