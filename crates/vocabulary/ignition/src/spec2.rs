//! Ignition specs 2.0, 2.1 and 2.2: read, check, and lift to spec 3.
//!
//! 2.0 and 2.1 are read as 2.2, which they are subsets of in all that clusters carry. Lifting drops nothing that a node
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
        explicit_modes(&mut config);
    }
    if report.problems.is_empty() {
        check(&config, report);
    }
    report.stop_on_problems()?;
    lift::lift(config, report)
}

/// Before 2.2 a mode that was not given meant 0000, not a default.
fn explicit_modes(config: &mut types::Config) {
    config.storage.files.iter_mut().for_each(|file| file.mode = file.mode.or(Some(0)));
    config.storage.directories.iter_mut().for_each(|directory| directory.mode = directory.mode.or(Some(0)));
}
