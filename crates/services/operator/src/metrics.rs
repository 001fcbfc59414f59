//! What this process tells Prometheus.

use std::fmt::Write;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Object {
    pub(crate) kind: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Named {
    pub(crate) certificate: String,
}

pub(crate) struct Metrics {
    registry: Registry,
    /// Objects that somebody changed or deleted and that were put back.
    pub(crate) restored: Family<Object, Counter>,
    pub(crate) troubles: Gauge,
    pub(crate) approved: Counter,
    /// When each certificate ends, in seconds since 1970.
    pub(crate) expires: Family<Named, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        let (restored, troubles, approved, expires) =
            (Family::default(), Gauge::default(), Counter::default(), Family::default());
        let mut registry = Registry::default();
        registry.register("machinist_operator_restored", "Objects that were put back, by kind", restored.clone());
        registry.register(
            "machinist_operator_troubles",
            "What keeps the installation from being well",
            troubles.clone(),
        );
        registry.register("machinist_operator_approved_requests", "Certificate requests approved", approved.clone());
        registry.register(
            "machinist_operator_certificate_expiry_seconds",
            "When a certificate of the config server ends",
            expires.clone(),
        );
        Self { registry, restored, troubles, approved, expires }
    }
}

impl Metrics {
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        if let Err(error) = encode(&mut text, &self.registry) {
            text.clear();
            let _ = writeln!(text, "# {error}");
        }
        text
    }
}
