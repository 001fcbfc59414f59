//! Decides how a node is emptied before it is changed or removed.
//!
//! [`eviction::work`] looks at the pods of a node and says which to evict now, which to wait for, and what blocks; it is
//! the same for a config change and for a machine that goes away. [`handshake::plan`] is the protocol with the node's
//! daemon around it: cordon, empty, confirm, uncordon. Nothing here talks to a cluster or looks at a clock.

pub mod eviction;
pub mod handshake;
pub mod pod;

pub use eviction::{Blocked, Options, Ours, Refusal, Work, work};
pub use handshake::{Action, Condition, Event, Next, Plan, Settings, Snapshot, Waiting, plan};
pub use pod::{DisruptionBudget, Owner, PodFacts};
