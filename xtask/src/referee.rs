//! `cargo xtask referee`: the full comparison of the embedded Kubernetes API with a real one, and the stamp that it
//! passed.
//!
//! `cargo xtask test` skips the comparisons listed in `kubernetes/referee/long.txt`. In CI it runs them too if the
//! files of `kubernetes/` differ from the stamp. So every change of the embedded API is compared in full, and all other
//! changes are quick.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, bail};

use crate::{test, workspace};

/// Names of slow tests, one per line.
const LONG: &str = "kubernetes/referee/long.txt";

/// The tree for which the full comparison last passed.
const STAMP: &str = "kubernetes/referee/stamp";

/// The files of that tree: everything except the stamp itself and text files that no code reads.
const FILES: [&str; 3] = ["kubernetes", ":(exclude)kubernetes/referee/stamp", ":(exclude,glob)kubernetes/**/*.md"];

pub(crate) fn run() -> anyhow::Result<()> {
    let tree = tree()?;
    let skipped = test::run_packages(&BTreeSet::from(["referee".to_owned()]), None, &[])?;
    if !skipped.is_empty() {
        bail!("{} comparisons could not run on this machine, so {STAMP} stays as it is", skipped.len());
    }
    let text = format!(
        "# Written by `cargo xtask referee` when the whole comparison passes: the tree of kubernetes/, without this file and \
         Markdown.\n{tree}\n"
    );
    std::fs::write(workspace::root().join(STAMP), text).with_context(|| format!("cannot write {STAMP}"))?;
    println!("wrote {STAMP}; commit it with your change");
    Ok(())
}

/// Returns the comparisons that `cargo xtask test` skips this time.
pub(crate) fn left_out() -> anyhow::Result<Vec<String>> {
    let long = read(LONG)?;
    let stamped = read(STAMP).unwrap_or_default();
    if stamped.contains(&tree()?) {
        return Ok(long);
    }
    if test::is_ci() {
        println!("== kubernetes/ has changed since its last whole comparison, so all of it runs");
        return Ok(Vec::new());
    }
    println!("== kubernetes/ has changed since its last whole comparison: run `cargo xtask referee` before you commit");
    Ok(long)
}

/// Returns the lines of a file that are not comments.
fn read(path: &str) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(workspace::root().join(path)).with_context(|| format!("cannot read {path}"))?;
    Ok(text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect())
}

/// Returns the hash of the working tree of `kubernetes/`, committed or not.
fn tree() -> anyhow::Result<String> {
    let index = Index::new();
    let git = |arguments: &[&str]| -> anyhow::Result<String> {
        let output = workspace::command("git", arguments)
            .env("GIT_INDEX_FILE", &index.0)
            .output()
            .context("cannot start git")?;
        if !output.status.success() {
            bail!("`git {}` failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    git(&["read-tree", "--empty"])?;
    let mut add = vec!["add", "--"];
    add.extend(FILES);
    git(&add)?;
    git(&["write-tree", "--prefix=kubernetes/"])
}

/// A separate git index, so that the one of the checkout does not change.
struct Index(PathBuf);

impl Index {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("referee-index-{}", std::process::id())))
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        // A leftover of a few kilobytes does no harm.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_tree_hash_is_gits_and_does_not_change() {
        let tree = tree().unwrap();
        assert!(tree.len() >= 40 && tree.bytes().all(|byte| byte.is_ascii_hexdigit()), "{tree}");
        assert_eq!(tree, super::tree().unwrap());
    }
}
