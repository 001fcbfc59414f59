//! Checks that our files contain no unfinished code, ignored tests, paths of one machine or dead links.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::workspace;

/// Folders with pure code, which never awaits.
const PURE: &[&str] = &[
    "crates/decisions",
    "crates/vocabulary",
    "kubernetes/tables",
    "kubernetes/cel",
    "kubernetes/schema",
    "kubernetes/builtin",
];

pub(super) fn problems(files: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for path in files {
        let bytes =
            std::fs::read(workspace::root().join(path)).with_context(|| format!("cannot read {}", path.display()))?;
        // Binary files (vectors, pictures) have no lines to check.
        if let Ok(text) = String::from_utf8(bytes) {
            problems.extend(in_file(path, &text));
        }
    }
    Ok(problems)
}

fn in_file(path: &Path, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if !matches!(extension, "lock" | "sum") {
        problems.extend(lines_with(path, text, &machine_paths(), "names a path of one machine"));
    }
    // This file contains the strings that it searches for.
    if extension == "rs" && !path.ends_with("xtask/src/tidy/sources.rs") {
        problems.extend(lines_with(path, text, &["todo!(", "unimplemented!(", "// TODO", "// FIXME"], "is unfinished"));
        problems.extend(lines_with(path, text, &["#[ignore"], "ignores a test"));
        if !text.starts_with("//!") {
            problems.push(format!("{}: the first line says what the module does (`//! …`)", path.display()));
        }
        if PURE.iter().any(|folder| path.starts_with(folder)) && path.components().any(|part| part.as_os_str() == "src")
        {
            problems.extend(lines_with(path, text, &[".await"], "waits, but decisions are plain functions"));
        }
    }
    if extension == "md" {
        problems.extend(dead_links(path, text));
    }
    problems
}

/// Written in two parts, so that the check does not find this list.
fn machine_paths() -> [String; 3] {
    [["/wo", "rk/"], ["/ro", "ot/.ca"], ["/ho", "me/runner"]].map(|parts| parts.concat())
}

fn lines_with(path: &Path, text: &str, needles: &[impl AsRef<str>], what: &str) -> Vec<String> {
    let has = |line: &str| needles.iter().any(|needle| line.contains(needle.as_ref()));
    let lines = text.lines().enumerate().filter(|(_, line)| has(line));
    lines.map(|(index, line)| format!("{}:{}: {what}: {}", path.display(), index + 1, line.trim())).collect()
}

/// Returns links to files of this repository that do not exist; web addresses are not checked.
fn dead_links(path: &Path, text: &str) -> Vec<String> {
    let folder = workspace::root().join(path.parent().unwrap_or(Path::new("")));
    let mut problems = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = target.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            if !folder.join(target).exists() {
                problems.push(format!("{}:{}: the link to {target} leads nowhere", path.display(), index + 1));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        assert_eq!(in_file(Path::new(path), text), expected);
    }

    #[test]
    fn a_decision_that_awaits_is_found() {
        check(
            "crates/decisions/x/src/lib.rs",
            "//! X.\nf().await;",
            &["crates/decisions/x/src/lib.rs:2: waits, but decisions are plain functions: f().await;"],
        );
    }

    #[test]
    fn a_module_without_a_header_is_found() {
        check("a.rs", "fn main() {}", &["a.rs: the first line says what the module does (`//! …`)"]);
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        let line = format!("see {}x", machine_paths()[0]);
        check("a.md", &line, &[&format!("a.md:1: names a path of one machine: {line}")]);
    }

    #[test]
    fn a_dead_link_is_found_and_web_addresses_are_not_checked() {
        check("a.md", "[a](nowhere.md) [b](https://example.com)", &["a.md:1: the link to nowhere.md leads nowhere"]);
    }
}
