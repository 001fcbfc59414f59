//! The engine and the loop on hosts that are not machines.
#![allow(clippy::unwrap_used)]

mod adoption;
mod configs;
mod directory;
mod drift;
mod honest;
mod once;
mod power;
mod stage;
mod trial;
mod words;
