//! Machines on Google Compute Engine.

pub mod spec;
