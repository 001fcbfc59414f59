//! Ignition specs 2.0, 2.1 and 2.2: parses, validates and lifts them to spec 3.
//!
//! 2.0 and 2.1 are read as 2.2 without the fields they lack. Lifting never drops anything that a node would act on:
//! whatever spec 3 cannot express is refused.

mod check;
mod lift;
pub(crate) mod types;

use serde_json::Value;

use crate::node::Node as _;
use crate::path::Path;
use crate::report::{Error, Report};
use crate::v3_5::Config;
use crate::version::Version;

pub(crate) use check::check;

pub(crate) fn read(raw: &Value, version: Version, report: &mut Report) -> Result<Config, Error> {
    let mut config = types::Config::read(raw, Path::Root, report);
    if version < Version::V2_2 {
        as_before_2_2(&mut config);
    }
    if version < Version::V2_1 {
        as_before_2_1(&mut config);
    }
    if report.problems.is_empty() {
        check(&config, report);
    }
    report.stop_on_problems()?;
    lift::lift(config, report)
}

/// Before 2.2, a missing mode meant 0000 and not a default, and there was neither `append` nor `overwrite`.
fn as_before_2_2(config: &mut types::Config) {
    for file in &mut config.storage.files {
        file.mode = file.mode.or(Some(0));
        (file.append, file.overwrite) = (false, None);
    }
    for directory in &mut config.storage.directories {
        directory.mode = directory.mode.or(Some(0));
        directory.overwrite = None;
    }
}

/// In 2.0, owners were numbers with 0 as default, and units had only `enable`.
fn as_before_2_1(config: &mut types::Config) {
    let owner = |owner: &Option<types::Owner>| {
        let id = owner.as_ref().and_then(|owner| owner.id).unwrap_or_default();
        Some(types::Owner { id: Some(id), name: String::new() })
    };
    for file in &mut config.storage.files {
        (file.user, file.group) = (owner(&file.user), owner(&file.group));
    }
    for unit in &mut config.systemd.units {
        unit.enabled = None;
    }
}
