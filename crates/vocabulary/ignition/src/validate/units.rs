//! systemd units and their drop-ins, and files at the same paths.

use std::collections::HashSet;

use super::duplicates;
use crate::path::Path;
use crate::report::{Problem, Report};
use crate::unit_file;
use crate::v3_5::{Config, Systemd};

const UNIT_TYPES: [&str; 12] = [
    "service",
    "socket",
    "device",
    "mount",
    "automount",
    "swap",
    "target",
    "path",
    "timer",
    "snapshot",
    "slice",
    "scope",
];

pub(super) fn check(systemd: &Systemd, report: &mut Report) {
    let at = Path::Root.key("systemd");
    let at = at.key("units");
    let units = || systemd.units.iter().flatten();
    duplicates(units().map(|unit| unit.name.as_str()), &mut HashSet::new(), at, report);
    for (index, unit) in units().enumerate() {
        let at = at.index(index);
        name(&unit.name, &at, report);
        let found = contents(unit.contents.as_deref(), &at, report);
        if unit.enabled == Some(true)
            && unit.contents.as_deref().is_some_and(|contents| !contents.is_empty())
            && found.is_some_and(|found| !found.install)
        {
            let message = format!("unit {:?} is enabled, but has no install section so enable does nothing", unit.name);
            report.warning(Problem::new(at.key("contents").to_string(), message));
        }
        let dropins_at = at.key("dropins");
        let dropins = || unit.dropins.iter().flatten();
        duplicates(dropins().map(|dropin| dropin.name.as_str()), &mut HashSet::new(), dropins_at, report);
        for (index, dropin) in dropins().enumerate() {
            let at = dropins_at.index(index);
            dropin_name(&dropin.name, &at, report);
            contents(dropin.contents.as_deref(), &at, report);
        }
    }
}

pub(crate) fn name(name: &str, at: &Path<'_>, report: &mut Report) {
    if !extension(name).is_some_and(|extension| UNIT_TYPES.contains(&extension)) {
        let message = format!("invalid systemd unit extension: {name:?}");
        report
            .problem(Problem::new(at.key("name").to_string(), message).allowed(format!(".{}", UNIT_TYPES.join(", ."))));
    }
}

pub(crate) fn dropin_name(name: &str, at: &Path<'_>, report: &mut Report) {
    if extension(name) != Some("conf") {
        let message = format!("invalid systemd drop-in extension: {name:?}");
        report.problem(Problem::new(at.key("name").to_string(), message).allowed(".conf"));
    }
}

pub(crate) fn contents(text: Option<&str>, at: &Path<'_>, report: &mut Report) -> Option<unit_file::Found> {
    if report.contents_are_known {
        return None;
    }
    match unit_file::check(text.unwrap_or_default()) {
        Ok(found) => Some(found),
        Err(message) => {
            let message = format!("invalid unit content: {message}");
            report.problem(Problem::new(at.key("contents").to_string(), message));
            None
        }
    }
}

/// Go's `path.Ext`: the part after the last dot of the last element.
fn extension(name: &str) -> Option<&str> {
    let base = name.rsplit('/').next()?;
    base.rsplit_once('.').map(|(_, extension)| extension)
}

/// A file must not be at the path of a unit or drop-in with contents.
pub(super) fn conflicts(config: &Config, report: &mut Report) {
    let (Some(storage), Some(systemd)) = (&config.storage, &config.systemd) else {
        return;
    };
    let filled = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    let mut written: HashSet<String> = HashSet::new();
    for unit in systemd.units.iter().flatten() {
        if filled(&unit.contents) {
            written.insert(unit.name.clone());
        }
        for dropin in unit.dropins.iter().flatten().filter(|dropin| filled(&dropin.contents)) {
            written.insert(format!("{}.d/{}", unit.name, dropin.name));
        }
    }
    let at = Path::Root.key("storage");
    let mut check = |path: &str, list: &'static str, index: usize| {
        if path.strip_prefix("/etc/systemd/system/").is_some_and(|name| written.contains(name)) {
            let list = at.key(list);
            let at = list.index(index);
            let message = format!("path conflicts with systemd unit or dropin: {path:?}");
            report.problem(Problem::new(at.key("path").to_string(), message));
        }
    };
    for (index, file) in storage.files.iter().flatten().enumerate() {
        check(&file.path, "files", index);
    }
    for (index, directory) in storage.directories.iter().flatten().enumerate() {
        check(&directory.path, "directories", index);
    }
    for (index, link) in storage.links.iter().flatten().enumerate() {
        check(&link.path, "links", index);
    }
}
