//! Decides how a pool's target reaches its nodes: which nodes belong to a pool, how many may be down, whose turn it is,
//! and what the pool's status says about it.
//!
//! Nothing here waits, writes or looks at a clock. [`plan`] turns a [`Snapshot`] into a [`Plan`]; controllers gather the
//! one and carry out the other, and the simulation does the same by the hundred thousand.

pub mod birth;
pub mod budget;
pub mod control_plane;
pub mod goal;
pub mod ledger;
pub mod marks;
pub mod membership;
pub mod node;
pub mod order;
pub mod pause;
pub mod plan;
pub mod pool_nodes;
mod progress;
mod quote;
pub mod report;
pub mod snapshot;
mod status;

pub use control_plane::{EtcdMember, Named, Peer};
pub use goal::{Build, BuildStage, Goal, Layering};
pub use ledger::Ledger;
pub use marks::{Birth, Marks, marks};
pub use membership::{Contested, Membership, NodeSelector, Pools};
pub use node::{NodeFacts, ResourceVersion};
pub use plan::{About, Action, Event, Next, Plan, Probe, Spending, TakenBack, Target, Waiting, plan};
pub use pool_nodes::{PoolNodes, Rules};
pub use progress::progress;
pub use report::Report;
pub use snapshot::{Objects, PoolFacts, Settings, Snapshot};
pub use status::REFUSED;
