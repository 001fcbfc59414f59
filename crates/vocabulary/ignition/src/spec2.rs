//! Ignition specs 2.0, 2.1 and 2.2: read, check, and lift to spec 3.
//!
//! 2.0 and 2.1 are read as 2.2, less what they do not know. Lifting drops nothing that a node
//! would act on: what spec 3 cannot say is refused.

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

/// Before 2.2 a mode that was not given meant 0000, not a default, and nothing was appended or kept from being overwritten.
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

/// In 2.0 owners were numbers, and the number that was not given was 0; units knew `enable` only.
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
