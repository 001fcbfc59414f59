//! The repository's root and files, and how to run a program in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// The folder that holds the workspace's `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_path_buf()
}

/// Files that git tracks or would track, relative to the root. Build output is never included.
pub(crate) fn files() -> anyhow::Result<Vec<PathBuf>> {
    let listing = capture("git", &["ls-files", "--cached", "--others", "--exclude-standard"])?;
    Ok(listing.lines().map(PathBuf::from).filter(|path| root().join(path).is_file()).collect())
}

/// Runs a program in the root with its output shown; an exit code other than 0 is an error.
pub(crate) fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let status = command(program, arguments).status().with_context(|| format!("cannot start {program}"))?;
    if !status.success() {
        bail!("`{program} {}` failed ({status})", arguments.join(" "));
    }
    Ok(())
}

/// Runs a program in the root and returns its output.
pub(crate) fn capture(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = command(program, arguments).output().with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        bail!("`{program} {}` failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).with_context(|| format!("{program} printed something that is not UTF-8"))
}

pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    // What `cargo run` told this process about itself. Build scripts look at some of it, and with other values than in a cargo
    // that somebody starts by hand they would run again, and most of the workspace with them.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_about_us) {
            command.env_remove(&name);
        }
    }
    command
}

/// Variables that `cargo run` sets for the program it runs.
fn is_about_us(name: &str) -> bool {
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}
