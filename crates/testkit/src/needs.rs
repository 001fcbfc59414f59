//! Says whether the machine has what a test needs: the parts that [`referee::needs`] knows, and those of clusters of ours.

use std::process::{Command, Stdio};

pub use referee::needs::*;

use crate::real_cluster;

/// Everything a cluster with real kubelets is made of.
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

/// Python with pip, which installs the simulators that come as Python packages.
#[must_use]
pub fn python() -> bool {
    let pip = || Command::new("python3").args(["-m", "pip", "--version"]).stderr(Stdio::null()).output();
    program("python3", "install Debian's python3")
        && (pip().is_ok_and(|output| output.status.success())
            || missing("python3 has no pip; install Debian's python3-pip"))
}
