//! `cargo xtask test`: everything that must hold, in the order in which it is cheapest to fail.
//!
//! It installs the packages that the tests of real parts need, says so, and names at the end each test that could not
//! run on this machine. Under `CI=true` such a skip is a failure.

mod runbooks;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::ValueEnum;

use crate::{crd_compat, referee, tidy, workspace};

/// Where tests note that they could not run; `testkit::needs` appends to it.
const SKIPPED: &str = "MACHINIST_SKIPPED";

/// A program the tests of real parts start, or a file they build with, and the Debian package that brings it.
const PROGRAMS: &[(&str, &str)] = &[
    ("etcd", "etcd-server"),
    ("debootstrap", "debootstrap"),
    ("systemd-nspawn", "systemd-container"),
    ("ssh", "openssh-client"),
    ("nsenter", "util-linux"),
    ("setpriv", "util-linux"),
    ("ip", "iproute2"),
    ("strip", "binutils"),
    ("virsh", "libvirt-clients"),
    ("libvirtd", "libvirt-daemon"),
    ("qemu-img", "qemu-utils"),
    ("promtool", "prometheus"),
    // The real Ignition is built against it.
    ("/usr/include/blkid/blkid.h", "libblkid-dev"),
];

/// The same for `cargo xtask test vm`.
const PROGRAMS_OF_VM: &[(&str, &str)] = &[
    ("debootstrap", "debootstrap"),
    ("virsh", "libvirt-clients"),
    // With the users and folders that a daemon of the whole machine wants.
    ("/etc/libvirt/qemu.conf", "libvirt-daemon-system"),
    ("dnsmasq", "dnsmasq-base"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("qemu-img", "qemu-utils"),
    ("grub-mkimage", "grub-common"),
    ("/usr/lib/grub/i386-pc/boot.img", "grub-pc-bin"),
    ("sfdisk", "fdisk"),
];

/// Suites that are too heavy for CI. What they last showed is in `docs/proofs.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    /// A MachineSet of two becomes two virtual machines of libvirt that boot for real
    Vm,
}

pub(crate) fn run(suite: Option<Suite>) -> anyhow::Result<()> {
    match suite {
        None => everything(),
        Some(Suite::Vm) => {
            install_programs(PROGRAMS_OF_VM)?;
            step("vm", || {
                workspace::run("cargo", &["run", "--locked", "--package", "testkit", "--example", "virtual_machines"])
            })
        }
    }
}

fn everything() -> anyhow::Result<()> {
    install_programs(PROGRAMS)?;
    step("format", || workspace::run("cargo", &["fmt", "--all", "--check"]))?;
    step("clippy", || {
        let arguments = ["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"];
        workspace::run("cargo", &arguments)
    })?;
    step("tidy", tidy::run)?;
    let upstream = workspace::root().join("../shared/upstream-crds");
    if upstream.is_dir() {
        step("crd-compat", || crd_compat::run(&upstream))?;
    }
    step("tests", tests)
}

fn step(name: &str, run: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    println!("== {name}");
    let start = Instant::now();
    run().with_context(|| format!("{name} failed"))?;
    println!("== {name}: done in {:.0?}", start.elapsed());
    Ok(())
}

/// Runs every test of the workspace, but for long comparisons of an embedded API that has not changed.
fn tests() -> anyhow::Result<()> {
    let left_out = referee::left_out()?;
    let mut arguments = vec!["test", "--workspace", "--locked", "--no-fail-fast"];
    if !left_out.is_empty() {
        arguments.extend(["--", "--exact"]);
        arguments.extend(left_out.iter().flat_map(|name| ["--skip", name.as_str()]));
    }
    judge(&arguments).map(drop)
}

/// Runs tests with cargo; names and returns the ones that could not run here. Runbooks that were followed are printed as a table.
pub(crate) fn judge(arguments: &[&str]) -> anyhow::Result<Vec<String>> {
    let (notes, followed) = (fresh("skipped-tests.txt")?, fresh("runbooks.txt")?);
    let status = workspace::command("cargo", arguments)
        .env(SKIPPED, &notes)
        .env(runbooks::NOTES, &followed)
        .env("MACHINIST_BUILT", "1")
        .status()
        .context("cannot start cargo")?;
    print!("{}", runbooks::table(&std::fs::read_to_string(&followed).unwrap_or_default()));
    let skipped = read_skipped(&notes);
    if !skipped.is_empty() {
        println!("\nNot run on this machine:");
        for line in &skipped {
            println!("  {line}");
        }
    }
    if !status.success() {
        bail!("some tests failed");
    }
    if !skipped.is_empty() && is_ci() {
        bail!("{} tests could not run, and CI must run all of them", skipped.len());
    }
    Ok(skipped)
}

/// A file in the target folder that tests write notes to, without those of an earlier run.
fn fresh(name: &str) -> anyhow::Result<PathBuf> {
    let path = workspace::root().join("target").join(name);
    if path.exists() {
        std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(path)
}

pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

fn read_skipped(notes: &Path) -> Vec<String> {
    let mut lines: Vec<String> =
        std::fs::read_to_string(notes).unwrap_or_default().lines().map(str::to_owned).collect();
    lines.sort();
    lines.dedup();
    lines
}

/// Installs what is missing where that is possible (root and apt); elsewhere the tests that need it are named at the end.
fn install_programs(programs: &[(&str, &'static str)]) -> anyhow::Result<()> {
    let mut missing: Vec<&str> =
        programs.iter().filter(|(program, _)| !is_on_path(program)).map(|(_, package)| *package).collect();
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    if !is_on_path("apt-get") || workspace::capture("id", &["-u"])?.trim() != "0" {
        println!("== missing packages: {} (not installed: this needs root and apt-get)", missing.join(" "));
        return Ok(());
    }
    println!("== installing packages: {}", missing.join(" "));
    quietly(&["update"])?;
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(missing);
    quietly(&arguments)
}

fn quietly(arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .context("cannot start apt-get")?;
    if !output.status.success() {
        bail!("`apt-get {}` failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Whether a program is there; an absolute path names the file itself.
fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).any(|folder| folder.join(program).is_file())
}
