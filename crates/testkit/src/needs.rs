//! Checks the prerequisites of tests on this machine: those of [`referee::needs`], and those of our own clusters.

use std::process::{Command, Stdio};

pub use referee::needs::*;

use crate::real_cluster;

/// Everything that a cluster with real kubelets needs.
#[must_use]
pub fn real_cluster() -> bool {
    root()
        && nspawn()
        && program("ip", "install Debian's iproute2")
        && program("nsenter", "install Debian's util-linux")
        && program("strip", "install Debian's binutils")
        && kubectl()
        && real_control_plane()
        && (referee::cache::node_programs_are_built() || go())
        && real_cluster::obstacle().is_none_or(|obstacle| missing(&obstacle))
}

/// Python with pip, for simulators that are Python packages.
#[must_use]
pub fn python() -> bool {
    let pip = || Command::new("python3").args(["-m", "pip", "--version"]).stderr(Stdio::null()).output();
    program("python3", "install Debian's python3")
        && (pip().is_ok_and(|output| output.status.success())
            || missing("python3 has no pip; install Debian's python3-pip"))
}

/// libvirt's daemon and client, and the tool that creates its disk images.
#[must_use]
pub fn libvirt() -> bool {
    program("virsh", "install Debian's libvirt-clients")
        && program("libvirtd", "install Debian's libvirt-daemon")
        && program("qemu-img", "install Debian's qemu-utils")
}

/// Whether this process is root. Unlike the other checks it does not demand it.
#[must_use]
pub(crate) fn is_root() -> bool {
    Command::new("id").arg("-u").stderr(Stdio::null()).output().is_ok_and(|output| output.stdout == b"0\n")
}
