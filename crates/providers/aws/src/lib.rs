//! Machines on Amazon EC2.
//!
//! `spec` is pure. `client` is the wire, on which `ec2` and `elb` are the calls. `instance` is the port that the machine
//! controllers use; it translates and decides nothing.

mod client;
mod ec2;
mod elb;
mod instance;
mod settings;
pub mod spec;

pub use instance::Aws;
pub use settings::{IpFamily, Settings};
