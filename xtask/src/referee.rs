//! `cargo xtask referee`: the whole comparison of the embedded Kubernetes API with a real one, and the note that it passed.
//!
//! `cargo xtask test` leaves out the comparisons that `kubernetes/referee/long.txt` names. In CI it runs them too when the
//! files of `kubernetes/` differ from those that the stamp names, so that no change of the embedded API goes unjudged and
//! every other change is quick.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, bail};

use crate::{test, workspace};

/// Names of tests that take long, one a line.
const LONG: &str = "kubernetes/referee/long.txt";

/// The tree that the whole comparison last passed for.
const STAMP: &str = "kubernetes/referee/stamp";

/// What the tree consists of: everything but the stamp itself, and texts that nothing runs.
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

/// The comparisons that `cargo xtask test` leaves out this time.
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

/// Lines of a file that are no comments.
fn read(path: &str) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(workspace::root().join(path)).with_context(|| format!("cannot read {path}"))?;
    Ok(text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect())
}

/// The tree of `kubernetes/` as it lies there, whether committed or not.
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

/// An index of our own, so that the one of the checkout stays as it is.
struct Index(PathBuf);

impl Index {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("referee-index-{}", std::process::id())))
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        // A leftover of a few kilobytes harms nobody.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_tree_is_named_as_git_names_one_and_the_same_each_time() {
        let tree = tree().unwrap();
        assert!(tree.len() >= 40 && tree.bytes().all(|byte| byte.is_ascii_hexdigit()), "{tree}");
        assert_eq!(tree, super::tree().unwrap());
    }
}
