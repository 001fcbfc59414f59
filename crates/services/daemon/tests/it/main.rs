//! The engine and the loop on hosts that are not machines.
#![allow(clippy::unwrap_used)]

mod adoption;
mod asked;
mod configs;
mod directory;
mod drift;
mod honest;
mod kernel_arguments;
mod metrics;
mod once;
mod policy;
mod power;
mod resent;
mod stage;
mod trial;
mod words;
