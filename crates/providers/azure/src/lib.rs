//! Machines on Microsoft Azure.

pub mod spec;
