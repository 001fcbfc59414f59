//! Health checks of `healthchecking.openshift.io/v1alpha1`.
//!
//! Such a check has a selector and nothing else. What makes a node unhealthy stands in the ConfigMap
//! `node-unhealthy-conditions`, one for all checks. A check chooses no machine with an empty selector, leaves the control
//! plane alone, and replaces only machines of MachineSets.

use api::healthchecking::MachineHealthCheck;
use api::machine::{Machine, annotation};
use api::selector::Selector;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use serde::Deserialize;

use super::check::at_once;
use super::target::compared;
use super::{Check, Invalid, Limit, Snapshot, Strategy, Symptom, Target, TargetNode};
use crate::duration;

/// Name of the ConfigMap.
pub const CONFIG_MAP: &str = "node-unhealthy-conditions";
const KEY: &str = "conditions";

/// Why the ConfigMap cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigMapError {
    #[error("can not find {KEY:?} under the configmap")]
    NoKey,
    #[error("ConfigMap {CONFIG_MAP}, key {KEY}: {0}")]
    Unreadable(String),
    #[error("ConfigMap {CONFIG_MAP}, key {KEY}, items[{index}].timeout: {problem}")]
    Timeout { index: usize, problem: String },
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    name: String,
    status: Status,
    timeout: String,
}

/// `status: True` without quotes is a boolean in YAML, and means the same.
#[derive(Deserialize)]
#[serde(untagged)]
enum Status {
    Boolean(bool),
    Text(String),
}

/// What makes a node unhealthy. Without a ConfigMap: not ready, or not heard of, for five minutes.
pub fn symptoms_from_config_map(config_map: Option<&ConfigMap>) -> Result<Vec<Symptom>, ConfigMapError> {
    let Some(config_map) = config_map else {
        let timeout = SignedDuration::from_secs(300);
        let symptom = |status: &str| Symptom { type_: "Ready".to_owned(), status: status.to_owned(), timeout };
        return Ok(vec![symptom(api::names::status::UNKNOWN), symptom(api::names::status::FALSE)]);
    };
    let text = config_map.data.as_ref().and_then(|data| data.get(KEY)).ok_or(ConfigMapError::NoKey)?;
    let document: Document =
        serde_saphyr::from_str(text).map_err(|error| ConfigMapError::Unreadable(error.to_string()))?;
    let read = |(index, item): (usize, Item)| {
        let timeout = duration::parse_positive(&item.timeout)
            .map_err(|problem| ConfigMapError::Timeout { index, problem: problem.to_string() })?;
        Ok(Symptom { type_: item.name, status: item.status.text(), timeout })
    };
    document.items.into_iter().enumerate().map(read).collect()
}

impl Status {
    /// The word as node conditions have it.
    fn text(self) -> String {
        let text = match self {
            Self::Boolean(value) => value.to_string(),
            Self::Text(text) => text,
        };
        let known = [api::names::status::TRUE, api::names::status::FALSE, api::names::status::UNKNOWN];
        known.into_iter().find(|word| word.eq_ignore_ascii_case(&text)).map_or(text.clone(), str::to_owned)
    }
}

impl Check {
    /// Reads a check of 2019. `None` for one that chooses nothing.
    pub fn from_legacy_object(
        check: &MachineHealthCheck,
        config_map: Option<&ConfigMap>,
    ) -> Result<Option<Self>, Invalid> {
        let metadata = &check.metadata;
        let selector = Selector::parse(&check.spec.selector.clone().unwrap_or_default())
            .map_err(|problem| Invalid::Selector(problem.to_string()))?;
        if selector.is_empty() {
            return Ok(None);
        }
        let annotation = metadata.annotations.as_ref().and_then(|all| all.get(annotation::MAX_REMEDIATIONS));
        let name = metadata.name.clone().unwrap_or_default();
        Ok(Some(Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            selector,
            symptoms: symptoms_from_config_map(config_map).map_err(|error| Invalid::ConfigMap(error.to_string()))?,
            max_unhealthy: Limit::All,
            startup: None,
            strategy: match check.spec.remediation_strategy.as_deref() {
                Some("reboot") => Strategy::Reboot,
                Some(_) | None => Strategy::Delete,
            },
            paused: false,
            at_once: at_once(&name, annotation)?,
            workers_only: true,
            name,
        }))
    }
}

impl Snapshot {
    /// Reads a check of 2019 with the machines it chooses. Machines without a node, or whose node is gone or failed before
    /// it had one, were never touched by such checks and are left out.
    pub fn from_legacy_objects<'a>(
        check: Result<Check, Invalid>,
        machines: impl IntoIterator<Item = &'a Machine>,
        node: impl Fn(&str) -> Result<Option<&'a Node>, ()>,
        now: Timestamp,
    ) -> Self {
        let selects = |machine: &&Machine| {
            let labels = machine.metadata.labels.clone().unwrap_or_default();
            check.as_ref().is_ok_and(|check| check.selector.matches(&labels))
        };
        let counts = |target: &Target| matches!(target.node, TargetNode::Present(_) | TargetNode::Unknown(_));
        let targets = machines.into_iter().filter(selects).filter_map(|machine| {
            let target = Some(Target::from_object(machine, &node)).filter(counts)?;
            Some((machine, Target { failed: false, ..target }))
        });
        let targets = compared(check.as_ref().ok(), targets.collect(), now);
        let status = Default::default();
        Self {
            check,
            status,
            targets,
            template_exists: true,
            template_unread: None,
            requests: Default::default(),
            suspected: None,
            sets: Default::default(),
            strength: None,
            now,
        }
    }
}
