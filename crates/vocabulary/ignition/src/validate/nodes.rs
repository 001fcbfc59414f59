//! Files, directories and links: paths, modes, owners, contents, and conflicts between them.

use std::collections::HashSet;

use super::{duplicate, resource, shorten};
use crate::path::{Path, clean, is_clean_absolute};
use crate::report::{Problem, Report};
use crate::v3_5::{File, Link, NodeGroup, NodeUser, Storage};
use crate::version::Version;

pub(super) fn check(storage: &Storage, version: Version, report: &mut Report) {
    let at = Path::Root.key("storage");
    let links: HashSet<&str> = storage.links.iter().flatten().map(|link| link.path.as_str()).collect();
    let mut seen: HashSet<&str> = HashSet::new();
    let mut node = |path, user, group, below: &str, at: &Path<'_>, report: &mut Report| {
        check_path(path, at.key("path"), report);
        owner(user, group, at, report);
        if !seen.insert(path) {
            report.problem(duplicate(at, path));
        }
        if !links.is_empty() && ancestors(path).any(|ancestor| links.contains(ancestor)) {
            report.problem(Problem::new(at.to_string(), format!("{below} path includes link in config: {path:?}")));
        }
    };
    let directories_at = at.key("directories");
    for (index, directory) in storage.directories.iter().flatten().enumerate() {
        let at = directories_at.index(index);
        node(&directory.path, &directory.user, &directory.group, "directory", &at, report);
        mode(directory.mode, &at, report);
    }
    let files_at = at.key("files");
    for (index, file) in storage.files.iter().flatten().enumerate() {
        let at = files_at.index(index);
        node(&file.path, &file.user, &file.group, "file", &at, report);
        mode(file.mode, &at, report);
        contents(file, &at, version, report);
    }
    let links_at = at.key("links");
    for (index, link) in storage.links.iter().flatten().enumerate() {
        let at = links_at.index(index);
        node(&link.path, &link.user, &link.group, "link", &at, report);
        target(link, storage, &at, report);
    }
}

fn contents(file: &File, at: &Path<'_>, version: Version, report: &mut Report) {
    if let Some(contents) = &file.contents {
        resource(contents, at.key("contents"), version, report);
    }
    let append = at.key("append");
    for (index, each) in file.append.iter().flatten().enumerate() {
        resource(each, append.index(index), version, report);
    }
    let has_source = file.contents.as_ref().is_some_and(|contents| contents.source.is_some());
    if file.overwrite == Some(true) && !has_source {
        let message = "overwrite must be false if source is unspecified";
        report
            .problem(Problem::new(at.key("overwrite").to_string(), message).allowed("false, or give contents.source"));
    }
}

fn target(link: &Link, storage: &Storage, at: &Path<'_>, report: &mut Report) {
    let Some(target) = link.target.as_deref().filter(|target| !target.is_empty()) else {
        // Specs before 3.3 did not require a target, but no newer one can express a link without it.
        return report.problem(Problem::new(at.key("target").to_string(), "link target is required"));
    };
    if link.hard != Some(true) {
        return;
    }
    let target = if target.starts_with('/') { clean(target) } else { clean(&format!("{}/{target}", link.path)) };
    if storage.directories.iter().flatten().any(|directory| directory.path == target) {
        report.problem(Problem::new(at.to_string(), format!("hard link target is a directory: {target:?}")));
    }
}

pub(super) fn check_path(path: &str, at: Path<'_>, report: &mut Report) {
    let message = if path.is_empty() {
        "path not specified"
    } else if !path.starts_with('/') {
        "path not absolute"
    } else if !is_clean_absolute(path) {
        "path is not fully simplified"
    } else {
        return;
    };
    let message = if path.is_empty() { message.to_owned() } else { format!("{message}: {}", shorten(path)) };
    report.problem(Problem::new(at.to_string(), message).allowed("an absolute path without //, . or .."));
}

fn mode(mode: Option<i64>, at: &Path<'_>, report: &mut Report) {
    if let Some(mode) = mode.filter(|mode| !(0..=0o7777).contains(mode)) {
        let message = format!("illegal file mode {mode} (octal {mode:o})");
        report.problem(Problem::new(at.key("mode").to_string(), message).allowed("0 to 4095, octal 0 to 7777"));
    }
}

fn owner(user: &Option<NodeUser>, group: &Option<NodeGroup>, at: &Path<'_>, report: &mut Report) {
    let mut both = |id: Option<i64>, name: Option<&str>, field| {
        if id.is_some() && name.is_some_and(|name| !name.is_empty()) {
            report.problem(Problem::new(at.key(field).to_string(), "cannot set both id and name"));
        }
    };
    if let Some(user) = user {
        both(user.id, user.name.as_deref(), "user");
    }
    if let Some(group) = group {
        both(group.id, group.name.as_deref(), "group");
    }
}

/// Returns every proper parent of the path except `/`.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(end, _)| &path[..end]).filter(|ancestor| !ancestor.is_empty())
}
