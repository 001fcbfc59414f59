//! The config server, which serves a new machine the Ignition config of its pool.
//!
//! The crate `serving` decides what is served and to whom; this crate listens, looks objects up, caches response bodies
//! and counts. Nothing is served without a token unless the pool is open, and no log line or response contains a
//! secret.

mod answer;
mod body;
mod cluster_source;
mod daemon;
mod folder_source;
mod limits;
mod listen;
mod metrics;
mod parcel;
mod places;
mod roles;
mod source;
mod spend;
mod tls;

pub use cluster_source::{ClusterSettings, ClusterSource};
pub use daemon::{Daemon, Error as DaemonError};
pub use folder_source::FolderSource;
pub use listen::{Error, Listener, Settings};
pub use roles::ROLES;
pub use source::{BootstrapFiles, Source};
