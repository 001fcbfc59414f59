//! Decides what a pool's container runtime is configured with, from its ContainerRuntimeConfigs.
//!
//! Each one is checked by itself; those of a pool are joined field by field. CRI-O gets a drop-in for each field that is
//! set, so that the others keep the template's values; [`containerd`] gets what it has an equivalent for.

pub mod containerd;
mod crio;
pub mod main_file;
pub mod plan;
mod storage;

use api::machineconfiguration::{AdditionalStore, ContainerRuntimeConfig, ContainerRuntimeConfiguration};

use serde::{Deserialize, Serialize};

pub use crio::{files, path};
pub use storage::STORAGE;

use crate::quantity::Quantity;

/// Fewer processes than this and not even the runtime's own helpers fit in.
const LEAST_PROCESSES: i64 = 20;
/// What the process that copies a container's log reads at a time.
const LEAST_LOG: i64 = 8192;
const UNLIMITED: i64 = -1;
const LOG_LEVELS: [&str; 7] = ["error", "fatal", "panic", "warn", "info", "debug", "trace"];

/// What ContainerRuntimeConfigs ask for. What is not set is left to the template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    pub log_level: Option<String>,
    pub pids_limit: Option<i64>,
    /// In bytes; -1 for no limit.
    pub log_size_max: Option<i64>,
    pub overlay_size: Option<Quantity>,
    pub default_runtime: Option<String>,
    pub layer_stores: Vec<String>,
    pub image_stores: Vec<String>,
    pub artifact_stores: Vec<String>,
}

/// Why a ContainerRuntimeConfig is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "invalid PidsLimit {0} (spec.containerRuntimeConfig.pidsLimit must be -1 or 0 for no limit, or at least 20, for example 4096)"
    )]
    PidsLimit(i64),
    #[error(
        "invalid LogSizeMax {0:?}, cannot be less than 8kB (spec.containerRuntimeConfig.logSizeMax must be -1 for no limit, or at least 8192, for example 50Mi)"
    )]
    LogSizeMax(String),
    #[error(
        "invalid overlaySize {0:?}, cannot be less than 0 (spec.containerRuntimeConfig.overlaySize, for example 10Gi)"
    )]
    OverlaySize(String),
    #[error(
        "invalid overlaySize {0:?}, is less than one byte: m stands for a thousandth, M for a million (spec.containerRuntimeConfig.overlaySize, for example 10Gi)"
    )]
    OverlayUnit(String),
    #[error("invalid {field} {found}, must be a quantity (spec.containerRuntimeConfig.{field}, for example 10Gi)")]
    Quantity { field: &'static str, found: String },
    #[error(
        "invalid LogLevel {0:?}, must be one of error, fatal, panic, warn, info, debug, or trace (spec.containerRuntimeConfig.logLevel)"
    )]
    LogLevel(String),
    #[error("invalid DefaultRuntime {0:?}, must be one of crun, runc (spec.containerRuntimeConfig.defaultRuntime)")]
    DefaultRuntime(String),
    #[error("{}", .0.join("; "))]
    Stores(Vec<String>),
    #[error("could not update container runtime config with new changes: error decoding storage.conf: {0}")]
    Storage(String),
}

impl Settings {
    /// Reads and checks a ContainerRuntimeConfig.
    pub fn parse(config: &ContainerRuntimeConfig) -> Result<Self, Error> {
        let ContainerRuntimeConfiguration {
            additional_artifact_stores,
            additional_image_stores,
            additional_layer_stores,
            default_runtime,
            log_level,
            log_size_max,
            overlay_size,
            pids_limit,
        } = &config.spec.container_runtime_config;
        if let Some(limit) = pids_limit.filter(|limit| !matches!(limit, 0 | &UNLIMITED) && *limit < LEAST_PROCESSES) {
            return Err(Error::PidsLimit(limit));
        }
        let log_size = quantity("logSizeMax", log_size_max.as_ref())?;
        if let Some(size) = &log_size
            && !matches!((size.value(), size.is_whole()), (UNLIMITED, true) | (0 | LEAST_LOG.., _))
        {
            return Err(Error::LogSizeMax(size.as_str().to_owned()));
        }
        let overlay_size = quantity("overlaySize", overlay_size.as_ref())?;
        if let Some(size) = overlay_size.as_ref().filter(|size| size.value() < 0) {
            return Err(Error::OverlaySize(size.as_str().to_owned()));
        }
        if let Some(size) = overlay_size.as_ref().filter(|size| !size.is_zero() && size.is_below_one()) {
            return Err(Error::OverlayUnit(size.as_str().to_owned()));
        }
        let log_level = log_level.clone().filter(|level| !level.is_empty());
        if let Some(level) = log_level.as_ref().filter(|level| !LOG_LEVELS.contains(&level.as_str())) {
            return Err(Error::LogLevel(level.clone()));
        }
        let default_runtime = default_runtime.clone().filter(|runtime| !runtime.is_empty());
        if let Some(runtime) = default_runtime.as_ref().filter(|it| !matches!(it.as_str(), "crun" | "runc")) {
            return Err(Error::DefaultRuntime(runtime.clone()));
        }
        let stores = [
            ("AdditionalLayerStores", additional_layer_stores),
            ("AdditionalImageStores", additional_image_stores),
            ("AdditionalArtifactStores", additional_artifact_stores),
        ];
        let problems = stores.iter().flat_map(|(field, stores)| stores.iter().filter_map(|it| bad_path(field, it)));
        let problems: Vec<_> = problems.collect();
        if !problems.is_empty() {
            return Err(Error::Stores(problems));
        }
        let paths = |stores: &[AdditionalStore]| stores.iter().map(|store| store.path.clone()).collect();
        Ok(Self {
            log_level,
            pids_limit: *pids_limit,
            log_size_max: log_size.map(|size| size.value()).filter(|size| *size != 0),
            overlay_size: overlay_size.filter(|size| !size.is_zero()),
            default_runtime,
            layer_stores: paths(additional_layer_stores),
            image_stores: paths(additional_image_stores),
            artifact_stores: paths(additional_artifact_stores),
        })
    }

    /// Lets the word of `over` stand where it has one.
    #[must_use]
    pub fn under(self, over: &Self) -> Self {
        let list = |mine: Vec<String>, theirs: &Vec<String>| if theirs.is_empty() { mine } else { theirs.clone() };
        let over = over.clone();
        Self {
            log_level: over.log_level.or(self.log_level),
            pids_limit: over.pids_limit.or(self.pids_limit),
            log_size_max: over.log_size_max.or(self.log_size_max),
            overlay_size: over.overlay_size.or(self.overlay_size),
            default_runtime: over.default_runtime.or(self.default_runtime),
            layer_stores: list(self.layer_stores, &over.layer_stores),
            image_stores: list(self.image_stores, &over.image_stores),
            artifact_stores: list(self.artifact_stores, &over.artifact_stores),
        }
    }

    /// The fields that are set, by their names in the API.
    pub fn fields(&self) -> Vec<&'static str> {
        let set = [
            ("logLevel", self.log_level.is_some()),
            ("pidsLimit", self.pids_limit.is_some()),
            ("logSizeMax", self.log_size_max.is_some()),
            ("overlaySize", self.overlay_size.is_some()),
            ("defaultRuntime", self.default_runtime.is_some()),
            ("additionalLayerStores", !self.layer_stores.is_empty()),
            ("additionalImageStores", !self.image_stores.is_empty()),
            ("additionalArtifactStores", !self.artifact_stores.is_empty()),
        ];
        set.into_iter().filter(|(_, is_set)| *is_set).map(|(field, _)| field).collect()
    }
}

fn quantity(field: &'static str, value: Option<&serde_json::Value>) -> Result<Option<Quantity>, Error> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
    match Quantity::read(value) {
        Some(quantity) => Ok(Some(quantity)),
        None => Err(Error::Quantity { field, found: value.to_string() }),
    }
}

fn bad_path(field: &str, store: &AdditionalStore) -> Option<String> {
    let path = &store.path;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    if path.is_empty() {
        Some(format!("invalid {field}: path must not be empty"))
    } else if path.len() < 2 || !path.starts_with('/') || !path.chars().all(plain) {
        Some(format!(
            "invalid {field} path {path:?}: must be an absolute path containing only alphanumeric characters, '/', '.', '_', and '-'"
        ))
    } else if path.contains("//") {
        Some(format!("invalid {field} path {path:?}: must not contain consecutive forward slashes"))
    } else {
        None
    }
}
