//! The simulated cloud: instances in an account of its own, with delays and faults by providerSpec.
//!
//! [`Memory`] is the `Provider`. It also answers to the name `kubemark`, with that provider's spec. [`Cloud`] is what lies
//! behind it: the account that every provider of one process shares, kept in a file if it shall outlive the process. What an
//! instance is made of is not known here: the [`Boot`] port starts and stops it, and the sandbox implements that.

mod boot;
mod cloud;
mod instance;
pub mod spec;

pub use boot::{Boot, Nothing, Start};
pub use cloud::{Adopted, Cloud, Error};
pub use instance::Memory;
