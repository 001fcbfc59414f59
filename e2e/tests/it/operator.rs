//! The operator on real and embedded API servers: what it creates, repairs, renews, approves and reports.

mod bad_input;
mod healing;
mod installing;
mod leading;
mod new_machines;
mod node_rights;
mod pods;
mod stage;
mod upgrading;
