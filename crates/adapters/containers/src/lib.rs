//! Machines that are systemd containers on this host: each has its own Debian, service manager, real units and reboots.
//!
//! They are used by `machinist up --systemd` and by tests on real nodes. What runs on a machine is up to the caller;
//! this crate knows nothing about clusters.

mod base;
mod container;
mod overlay;
mod requirements;
mod root;

use std::path::{Path, PathBuf};

pub use base::Base;
pub use container::{Container, State, Surroundings};
pub use overlay::{Overlay, unmount_beneath};
pub use requirements::{find_program, requirements};
pub use root::Root;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("systemd containers need root: their file systems are mounted, and their services are real")]
    NotRoot,
    #[error("{program} is not on the PATH; install {package}, as Debian calls it")]
    Missing { program: &'static str, package: &'static str },
    #[error(
        "debootstrap could not make the system that nodes start from: {said}; it downloads Debian {release}, so see that \
         this machine reaches the network (debootstrap honours http_proxy)"
    )]
    Base { said: String, release: &'static str },
    #[error("cannot {what} {path}")]
    Io {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "the root of {name} cannot be mounted: {said}; its folder has to be on a file system that can be the upper layer \
         of an overlay, such as ext4, xfs or tmpfs"
    )]
    Mount { name: String, said: String },
    #[error("{program} does not run in the nodes' Debian {release}: {said}")]
    Foreign { program: PathBuf, release: &'static str, said: String },
    #[error("{name} did not come up within {seconds} s; the end of its console:\n{console}")]
    DoesNotBoot { name: String, seconds: u64, console: String },
}

/// For `map_err`: the operation that failed, and its path.
fn cannot<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> Error + 'a {
    move |source| Error::Io { what, path: path.to_owned(), source }
}
