//! Machines on VMware vSphere.

pub mod spec;
