//! Decides what a node's daemon does next.
//!
//! The real daemon, the simulated fleet and the simulation call the same functions, so a rule that holds in one holds in all.
//! Nothing here changes a host or asks a cluster; which steps lead from one config to another is decided in `change`.

pub mod decide;
pub mod trial;
pub mod view;
pub mod words;

pub use decide::{Move, Situation, Standing, decide};
pub use view::{Report, View};
