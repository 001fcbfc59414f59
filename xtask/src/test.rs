//! `cargo xtask test`: everything that must hold, in the order in which it is cheapest to fail.
//!
//! `cargo xtask test PART [NAME]` runs one part of the tests, or those of its tests whose names contain NAME. Test programs run side
//! by side, and the time of each part is printed.
//!
//! It installs the packages that the tests of real parts need, says so, and names at the end each test that could not
//! run on this machine. Under `CI=true` such a skip is a failure.

mod build;
mod lanes;
mod part;
mod runbooks;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::ValueEnum;

use crate::{crd_compat, referee, tidy, workspace};
use part::Part;

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
    // A key of a service account, for tests of GCP.
    ("openssl", "openssl"),
    // They read what is generated for container runtimes.
    ("containerd", "containerd"),
    ("skopeo", "skopeo"),
    // A real browser looks at the dashboard.
    ("chromium", "chromium"),
    ("chromedriver", "chromium-driver"),
    // It brings axe-core, which looks whether everybody can use the pages.
    ("npm", "npm"),
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

/// The same for `cargo xtask test openstack`.
const PROGRAMS_OF_OPENSTACK: &[(&str, &str)] = &[
    ("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server"),
    ("/usr/share/python-wheels", "python3-venv"),
    ("gcc", "build-essential"),
    ("curl", "curl"),
];

/// What to run instead of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    /// Format, tidy, and the tests of rules, vocabulary, simulation and developer commands
    Quick,
    /// Tests of adapters, providers, services and the binaries
    Product,
    /// Stories on real API servers, systemd nodes and kubelets
    Real,
    /// Tests of the embedded Kubernetes API, and its comparison with a real one
    Kubernetes,
    /// Too heavy for CI (see `docs/proofs.md`): a MachineSet of two becomes two virtual machines of libvirt that boot for real
    Vm,
    /// Too heavy for CI (see `docs/proofs.md`): the OpenStack provider on the real keystone, nova, neutron, glance and placement
    #[value(name = "openstack")]
    OpenStack,
}

pub(crate) fn run(suite: Option<Suite>, filter: Option<&str>) -> anyhow::Result<()> {
    match suite {
        None => everything(),
        Some(Suite::Quick) => {
            step("format", || workspace::run("cargo", &["fmt", "--all", "--check"]))?;
            step("tidy", tidy::run)?;
            part(Part::Quick, filter)
        }
        Some(Suite::Product) => part(Part::Product, filter),
        Some(Suite::Real) => part(Part::Real, filter),
        Some(Suite::Kubernetes) => part(Part::Kubernetes, filter),
        Some(Suite::OpenStack) => {
            install_programs(PROGRAMS_OF_OPENSTACK)?;
            let script = "crates/providers/openstack/examples/real/run.sh";
            step("openstack", || workspace::run("bash", &[script]))
        }
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
    let mut programs = Vec::new();
    step("build", || {
        programs = build::build(None)?;
        Ok(())
    })?;
    // Long comparisons of an embedded API that has not changed are left out.
    let left_out = referee::left_out()?;
    let mut jobs = lanes::jobs(&programs, None, &left_out);
    jobs.push(lanes::Job::examples());
    step("tests", || judge(jobs).map(drop))
}

/// The tests of one part, those whose names contain `filter`.
fn part(part: Part, filter: Option<&str>) -> anyhow::Result<()> {
    if part != Part::Quick {
        install_programs(PROGRAMS)?;
    }
    let left_out = if part == Part::Kubernetes { referee::left_out()? } else { Vec::new() };
    run_packages(&build::packages(part)?, filter, &left_out).map(drop)
}

/// Builds and runs the tests of some packages; names and returns the ones that could not run here.
pub(crate) fn run_packages(
    packages: &BTreeSet<String>,
    filter: Option<&str>,
    left_out: &[String],
) -> anyhow::Result<Vec<String>> {
    let mut programs = Vec::new();
    step("build", || {
        programs = build::build(Some(packages))?;
        Ok(())
    })?;
    judge(lanes::jobs(&programs, filter, left_out))
}

fn step(name: &str, run: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    println!("== {name}");
    let start = Instant::now();
    run().with_context(|| format!("{name} failed"))?;
    println!("== {name}: done in {:.0?}", start.elapsed());
    Ok(())
}

/// Runs test programs; prints the time of each part and a table of the runbooks that were followed. Names and returns the tests
/// that could not run here.
fn judge(jobs: Vec<lanes::Job>) -> anyhow::Result<Vec<String>> {
    let (notes, followed) = (fresh("skipped-tests.txt")?, fresh("runbooks.txt")?);
    let variables =
        [(SKIPPED, notes.clone()), (runbooks::NOTES, followed.clone()), ("MACHINIST_BUILT", PathBuf::from("1"))];
    let begun = Instant::now();
    let done = lanes::run(jobs, &variables, &workspace::root().join("target/test-logs"))?;
    print!("{}", lanes::table(&done, begun.elapsed()));
    print!("{}", runbooks::table(&std::fs::read_to_string(&followed).unwrap_or_default()));
    let skipped = read_skipped(&notes);
    if !skipped.is_empty() {
        println!("\nNot run on this machine:");
        for line in &skipped {
            println!("  {line}");
        }
    }
    let failed: Vec<&str> = done.iter().filter(|it| !it.is_ok).map(|it| it.name.as_str()).collect();
    if !failed.is_empty() {
        bail!("some tests failed: {}; what they printed is in target/test-logs", failed.join(", "));
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
