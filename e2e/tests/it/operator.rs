//! The operator on real and embedded API servers: what it makes, heals, renews, approves and says.

mod bad_input;
mod healing;
mod installing;
mod leading;
mod new_machines;
mod node_rights;
mod pods;
mod stage;
mod upgrading;
