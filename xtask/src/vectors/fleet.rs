//! Shared by the judges of nodes and pools: parses the vectors' objects, and derives a node's state like upstream.

use jiff::SignedDuration;
use rollout::snapshot::{Objects, SelectorFacts};
use rollout::{NodeFacts, PoolFacts, Report, Settings, Snapshot};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::same;

const PREFIX: &str = "machineconfiguration.openshift.io/";

/// Parses an object whose type, and possibly spec, the vectors omit.
pub(super) fn object<K: DeserializeOwned>(value: &Value, spec: &Value) -> Result<K, String> {
    let mut value = same::without_empty(value);
    let members = value.as_object_mut().ok_or("an object is missing")?;
    members.entry("apiVersion").or_insert_with(|| json!("machineconfiguration.openshift.io/v1"));
    members.entry("kind").or_insert_with(|| json!("Unnamed"));
    members.entry("metadata").or_insert_with(|| json!({}));
    if !spec.is_null() {
        members.entry("spec").or_insert_with(|| spec.clone());
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// Parses a node.
pub(super) fn node(value: &Value) -> Result<k8s_openapi::api::core::v1::Node, String> {
    serde_json::from_value(same::without_empty(value)).map_err(|error| error.to_string())
}

/// Builds the planner's snapshot of one pool and its nodes from a vector.
pub(super) fn snapshot(input: &Value) -> Result<Snapshot, String> {
    let now = "2026-06-01T00:00:00Z".parse().map_err(|error: jiff::Error| error.to_string())?;
    let settings = Settings {
        settle: SignedDuration::ZERO,
        image_mode_status_reporting: input["imageModeStatusReporting"] == json!(true),
        ..Settings::default()
    };
    let pool: api::machineconfiguration::MachineConfigPool = object(&input["pool"], &json!({}))?;
    let controller_config = certificates_only(&input["controllerConfig"])?;
    let os_config = optional(&input["machineOSConfig"])?;
    let build = optional(&input["machineOSBuild"])?;
    let objects = Objects {
        controller_config: controller_config.as_ref(),
        machine_os_config: os_config.as_ref(),
        machine_os_build: build.as_ref(),
        ..Objects::new(&pool, &[], &[])
    };
    let mut snapshot = Snapshot::from_objects(objects, settings, now);
    let layering = snapshot.nodes.goal().layering.clone();
    // The vectors list the pool's nodes directly, without a selector.
    let facts = PoolFacts { selector: SelectorFacts::Fine, ..snapshot.pool.clone() };
    snapshot.observe_pool(facts, layering);
    for node in list(&input["nodes"]) {
        snapshot.observe_node(NodeFacts::from_object(&self::node(node)?));
    }
    let spec = json!({"configVersion": {"desired": ""}, "node": {"name": ""}, "pool": {"name": ""}});
    for value in list(&input["machineConfigNodes"]) {
        let node: api::machineconfiguration::MachineConfigNode = object(value, &spec)?;
        let image = value["status"]["configImage"]["desiredImage"].as_str().filter(|image| !image.is_empty());
        let report = Report { desired_image: image.map(str::to_owned), ..Report::from_object(&node) };
        snapshot.observe_report(name(value), report);
    }
    Ok(snapshot)
}

fn optional<K: DeserializeOwned>(value: &Value) -> Result<Option<K>, String> {
    if value.is_null() {
        return Ok(None);
    }
    let mut value = value.clone();
    // Fields that the schema requires and the vectors omit.
    for (pointer, default) in [
        ("renderedImagePushSpec", json!("")),
        ("renderedImagePushSecret", json!({"name": ""})),
        ("imageBuilder", json!({"imageBuilderType": "Job"})),
    ] {
        if let Some(spec) = value["spec"].as_object_mut() {
            spec.entry(pointer).or_insert(default);
        }
    }
    object(&value, &Value::Null).map(Some)
}

fn certificates_only(value: &Value) -> Result<Option<api::machineconfiguration::ControllerConfig>, String> {
    if value.is_null() {
        return Ok(None);
    }
    let status: api::machineconfiguration::ControllerConfigStatus =
        serde_json::from_value(same::without_empty(&value["status"])).map_err(|error| error.to_string())?;
    let mut config = api::machineconfiguration::ControllerConfig::new("machine-config-controller", Default::default());
    config.status = Some(status);
    Ok(Some(config))
}

pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(super) fn name(value: &Value) -> &str {
    value["metadata"]["name"].as_str().unwrap_or_default()
}

/// Upstream's view of a node. Rules use it instead of the code that they judge.
pub(super) struct Seen<'a>(pub(super) &'a Value);

impl Seen<'_> {
    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.0["metadata"]["annotations"][format!("{PREFIX}{key}")].as_str()
    }

    pub(super) fn says(&self, key: &str) -> &str {
        self.annotation(key).unwrap_or_default()
    }

    pub(super) fn is_ready(&self) -> bool {
        let bad = |condition: &Value| match condition["type"].as_str() {
            Some("Ready") => condition["status"] != json!("True"),
            Some("DiskPressure" | "NetworkUnavailable") => condition["status"] != json!("False"),
            _ => false,
        };
        !list(&self.0["status"]["conditions"]).any(bad) && self.0["spec"]["unschedulable"] != json!(true)
    }

    pub(super) fn is_degraded(&self) -> bool {
        matches!(self.says("state"), "Degraded" | "Unreconcilable")
    }

    pub(super) fn is_failing(&self) -> bool {
        self.says("currentConfig") != self.says("desiredConfig") && self.is_degraded()
    }

    /// Valid for a pool that builds no image.
    pub(super) fn is_candidate(&self, target: &str) -> bool {
        self.says("desiredConfig") != target || self.annotation("desiredImage").is_some()
    }

    /// The order of the vectors' lists: zone, then age.
    pub(super) fn turn(&self) -> (bool, String, String) {
        let zone = self.0["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str();
        let created = self.0["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
        (zone.is_none(), zone.unwrap_or_default().to_owned(), created.to_owned())
    }
}
