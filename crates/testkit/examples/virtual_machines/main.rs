//! `cargo xtask test vm`: a MachineSet of two becomes two virtual machines that boot, fetch their config and apply it; a third
//! one gets kernel arguments from `machinistd` through GRUB, and has them taken back.
//!
//! First the conformance suite of the provider port runs on this hypervisor. Everything is real except the nodes:
//! libvirt and qemu (emulated, so that it works without KVM), a kernel and a boot loader, Ignition at the first boot,
//! `machinist server`, `machinist controller` and `machinist machines`. The image has no kubelet, so the machines do
//! not join.

#![allow(clippy::unwrap_used)]

mod arguments;
mod host;
mod image;
mod promises;
mod story;

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Programs that the image and the host need, and the Debian packages that provide them.
const PROGRAMS: [(&str, &str); 9] = [
    ("libvirtd", "libvirt-daemon-system"),
    ("virsh", "libvirt-clients"),
    ("dnsmasq", "dnsmasq-base"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("qemu-img", "qemu-utils"),
    ("grub-mkimage", "grub-common and grub-pc-bin"),
    ("sfdisk", "fdisk"),
    ("debootstrap", "debootstrap"),
    ("go", "golang, for Ignition"),
];

fn main() -> Result<()> {
    match std::env::args().nth(1) {
        None => outside(),
        Some(image) => {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            runtime.block_on(story::tell(&PathBuf::from(image)))
        }
    }
}

/// Does everything that needs this machine's network, then continues in namespaces that end with all their processes.
fn outside() -> Result<()> {
    for (program, package) in PROGRAMS {
        ensure!(testkit::needs::on_path(program).is_some(), "{program} is not on the PATH; install Debian's {package}");
    }
    let program = std::env::current_exe()?;
    // Beside the programs that cargo builds, so that `cargo clean` removes it.
    let folder =
        program.ancestors().nth(3).context("the program is in target/PROFILE/examples")?.join("virtual-machines");
    let image = image::base(&folder)?;
    let programs: &[&str] = if story::is_alone() { &["machinistd"] } else { &["machinist", "machinistd"] };
    for program in programs.iter().copied().map(testkit::binaries::binary) {
        ensure!(program.is_file(), "{} is missing", program.display());
    }
    let mut inside = Command::new("unshare");
    inside.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
    // The first process of the namespace has to reap qemu's processes, which detach from their parents.
    inside.args(["bash", "-c", "\"$@\"; exit $?", "init"]).arg(program).arg(image);
    inside.env("MACHINIST_BUILT", "1");
    Err(inside.exec()).context("cannot start unshare")
}
