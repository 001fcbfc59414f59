//! Machines on Amazon EC2.

pub mod spec;
