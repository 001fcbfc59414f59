//! What only a laptop runs: `machinist up`, and what it has in place of a cluster.
//!
//! [`fleet`] plays thousands of nodes in memory. [`standins`] play the scheduler, the kubelets and the workload controllers.
//! [`up`] puts them together with the embedded API and the product's own services. A real cluster runs none of this.

mod first_boot;
pub mod fleet;
pub mod standins;
pub mod up;
