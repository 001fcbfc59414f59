//! Checks of built-in kinds that their schemas do not carry, by subject; `kinds` says which kind is checked by which.

pub(crate) mod access;
pub(crate) mod addresses;
pub(crate) mod autoscaling;
pub(crate) mod certificates;
pub(crate) mod classes;
pub(crate) mod cluster;
pub(crate) mod config;
mod cron;
pub(crate) mod csi;
pub(crate) mod devices;
pub(crate) mod endpoints;
pub(crate) mod flow;
pub(crate) mod jobs;
pub(crate) mod network;
mod place;
pub(crate) mod pods;
mod rules;
pub(crate) mod services;
mod sources;
pub(crate) mod storage;
pub(crate) mod workloads;

use serde_json::Value;

pub(crate) use place::{Findings, Place};

pub(crate) fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
