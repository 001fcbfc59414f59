//! Each host against the conformance suite, and real files against everything a disk can do.
#![allow(clippy::unwrap_used)]

mod boot_loader;
mod directory;
mod disk;
mod memory;
mod os;
mod watch;
