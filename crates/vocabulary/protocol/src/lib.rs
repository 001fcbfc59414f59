//! What the annotations of a Node say, read and written in one place.
//!
//! The annotations are the protocol between the rollout controller and the daemon, whoever wrote either of them. Nothing here
//! talks to a cluster.
