//! Decides what a node's daemon does next.
//!
//! The real daemon, the simulated fleet and the simulation call the same functions, so a rule that holds in one holds in all.
