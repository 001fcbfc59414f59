//! Turns typed configuration into MachineConfig fragments.
//!
//! Templates, KubeletConfigs, ContainerRuntimeConfigs, mirror sets and image policies each become one generated fragment, or a
//! condition that says which field is at fault. Pure: the controllers fetch the objects and write the answers.

mod claim;
pub mod conditions;
pub mod defaults;
mod duration;
pub mod fragment;
pub mod kubelet;
pub mod names;
pub mod objects;
pub mod plan;
mod pools;
mod quantity;
pub mod registries;
pub mod runtime;
pub mod selection;
pub mod templates;
mod yaml;

pub use quantity::Quantity;
