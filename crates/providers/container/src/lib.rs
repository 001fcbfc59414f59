//! Machines that are systemd containers on this host.
//!
//! [`Container`] is the `Provider`. [`Host`] is what lies behind it: one file for each container, written before anything is
//! started or removed, so that a process that dies at any point finds what it had begun. What a container is made of is not
//! known here: the [`Boot`] port starts it and takes it away, and the sandbox implements that.

mod boot;
mod host;
mod instance;
pub mod spec;

pub use boot::{Boot, Start};
pub use host::{Adopted, Error, Host};
pub use instance::Container;
