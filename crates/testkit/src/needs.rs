//! Says whether the machine has what a test needs: the parts that [`referee::needs`] knows, and those of clusters of ours.

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
