//! Turns typed configuration into MachineConfig fragments.
//!
//! Templates, KubeletConfigs, ContainerRuntimeConfigs, mirror sets and image policies each become one generated fragment, or a
//! condition that says which field is at fault. Pure: the controllers fetch the objects and write the answers.

/// Debugging of values that hold MachineConfigs or what they are made from: pull secrets and passwords of proxies are in
/// there, so only the named fields are printed.
macro_rules! debug_without_contents {
    ($type:ident { $($field:ident),* }) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type))$(.field(stringify!($field), &self.$field))*.finish_non_exhaustive()
            }
        }
    };
}

mod claim;
pub mod conditions;
pub mod defaults;
mod duration;
pub mod fragment;
pub mod inert;
pub mod kubelet;
pub mod names;
pub mod objects;
pub mod pinned;
pub mod plan;
mod pools;
mod quantity;
pub mod registries;
pub mod runtime;
pub mod selection;
pub mod survey;
pub mod templates;
mod yaml;

pub use quantity::Quantity;
