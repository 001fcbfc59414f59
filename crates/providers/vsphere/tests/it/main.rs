//! vSphere's simulator plays vCenter; an edge before it counts calls and loses answers.

#![allow(clippy::unwrap_used)]

mod claims;
mod conformance;
mod edge;
mod guide;
mod interrupted;
mod launch;
mod lookup;
mod removal;
mod trouble;
mod world;
