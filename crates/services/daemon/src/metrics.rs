//! What the daemon counts, under upstream's names, and a page that shows it.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

mod guard;
mod identity;
mod serve;

pub use guard::{Guard, Verdict};
pub use identity::Identity;
pub use serve::{Door, address, serve};

/// Free text in a label would make a new series each time; this much tells one cause from another.
const LABEL_LIMIT: usize = 64;

#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Mutex<Values>>);

#[derive(Debug, Default)]
struct Values {
    os: (String, String),
    state: (String, String, i64),
    update: (String, String, i64),
    pivot_errors: u64,
    reboots_failed: u64,
    kubelet_failures: u64,
    drift_since: i64,
    foreign_packages: (String, usize),
    reverts: u64,
    updates: u64,
    is_well: bool,
    api_is_heard: bool,
}

impl Metrics {
    fn values(&self) -> MutexGuard<'_, Values> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_os(&self, os: &str, version: &str) {
        self.values().os = (os.to_owned(), version.to_owned());
    }

    pub fn set_state(&self, state: &str, reason: &str, now: i64) {
        let mut values = self.values();
        if values.state.0 != state || values.state.1 != reason {
            values.state = (state.to_owned(), reason.to_owned(), now);
        }
    }

    pub fn updated(&self, config: &str, error: &str, now: i64) {
        let mut values = self.values();
        values.updates += u64::from(error.is_empty());
        values.update = (config.to_owned(), error.to_owned(), now);
    }

    pub fn reverted(&self) {
        self.values().reverts += 1;
    }

    pub fn reboot_failed(&self) {
        self.values().reboots_failed += 1;
    }

    /// An update of the OS was carried out, or failed once more.
    pub fn pivoted(&self, is_well: bool) {
        let mut values = self.values();
        values.pivot_errors = if is_well { 0 } else { values.pivot_errors + 1 };
    }

    pub fn set_foreign_packages(&self, node: &str, count: usize) {
        self.values().foreign_packages = (node.to_owned(), count);
    }

    pub fn set_drift(&self, since: i64) {
        self.values().drift_since = since;
    }

    pub fn set_well(&self, is_well: bool, api_is_heard: bool) {
        let mut values = self.values();
        values.is_well = is_well;
        values.api_is_heard = api_is_heard;
    }

    fn note_kubelet(&self, is_well: bool) {
        let mut values = self.values();
        values.kubelet_failures = if is_well { 0 } else { values.kubelet_failures + 1 };
    }

    /// Why the daemon is not healthy, if it is not.
    fn trouble(&self) -> Option<&'static str> {
        let values = self.values();
        match (values.api_is_heard, values.is_well) {
            (false, _) => Some("the API has not been heard yet"),
            (true, false) => Some("the last move failed; the node's reason annotation says why"),
            (true, true) => None,
        }
    }

    /// The page, in Prometheus' text format.
    pub fn page(&self) -> String {
        let values = self.values();
        let mut page = String::with_capacity(2048);
        let mut gauge = |name: &str, help: &str, labels: &[(&str, &str)], value: i64| {
            let kind = if name.ends_with("_total") && name != "mcd_pivot_errors_total" { "counter" } else { "gauge" };
            let labels: Vec<String> =
                labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escape(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{labels} {value}\n");
        };
        let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        gauge(
            "mcd_host_os_and_version",
            "OS and version of this host",
            &[("os", &values.os.0), ("version", &values.os.1)],
            1,
        );
        let (state, reason, since) = &values.state;
        gauge("mcd_state", "state of the daemon, since when", &[("state", state), ("reason", reason)], *since);
        let (config, error, at) = &values.update;
        gauge("mcd_update_state", "last update or its error, and when", &[("config", config), ("err", error)], *at);
        gauge(
            "mcd_pivot_errors_total",
            "errors of the OS update since the last success",
            &[],
            count(values.pivot_errors),
        );
        gauge("mcd_reboots_failed_total", "reboots that could not be asked for", &[], count(values.reboots_failed));
        gauge(
            "mcd_kubelet_state",
            "failed looks at the kubelet's health in a row",
            &[],
            count(values.kubelet_failures),
        );
        gauge(
            "mcd_config_drift",
            "since when the host differs from its config, 0 for not at all",
            &[],
            values.drift_since,
        );
        let (node, foreign) = &values.foreign_packages;
        gauge(
            "mcd_local_unsupported_packages",
            "packages laid over the OS image that no extension brings",
            &[("node", node)],
            i64::try_from(*foreign).unwrap_or(i64::MAX),
        );
        gauge("machinistd_updates_total", "updates that were finished", &[], count(values.updates));
        gauge("machinistd_reverts_total", "updates that were taken back", &[], count(values.reverts));
        page
    }
}

fn escape(value: &str) -> String {
    let short: String = value.chars().take(LABEL_LIMIT).collect();
    short.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_upstreams_names_and_short_labels() {
        let metrics = Metrics::default();
        metrics.set_state("Degraded", &format!("say \"{}\"", "x".repeat(200)), 7);
        let page = metrics.page();
        let line = page.lines().find(|line| line.starts_with("mcd_state")).unwrap_or_default();
        assert!(
            line.starts_with("mcd_state{state=\"Degraded\",reason=\"say \\\"xxx") && line.ends_with("} 7"),
            "{line}"
        );
        assert!(line.len() < 130, "{line}");
        for name in [
            "mcd_host_os_and_version",
            "mcd_update_state",
            "mcd_pivot_errors_total",
            "mcd_config_drift",
            "mcd_local_unsupported_packages",
        ] {
            assert!(page.contains(&format!("\n{name}")), "{name}");
        }
    }

    #[test]
    fn errors_of_the_os_are_counted_until_it_works() {
        let metrics = Metrics::default();
        let errors = || {
            let page = metrics.page();
            page.lines().find_map(|line| line.strip_prefix("mcd_pivot_errors_total ")).map(str::to_owned)
        };
        metrics.pivoted(false);
        metrics.pivoted(false);
        assert_eq!(errors().as_deref(), Some("2"));
        metrics.pivoted(true);
        assert_eq!(errors().as_deref(), Some("0"));
    }

    #[test]
    fn health_tells_what_is_wrong() {
        let metrics = Metrics::default();
        assert_eq!(metrics.trouble(), Some("the API has not been heard yet"));
        metrics.set_well(true, true);
        assert_eq!(metrics.trouble(), None);
        metrics.set_well(false, true);
        assert!(metrics.trouble().is_some());
    }
}
