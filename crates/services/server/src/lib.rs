//! The config server: hands a new machine the Ignition config of its pool.
//!
//! What is served, and to whom, is decided in `serving`; this crate listens, looks things up, keeps the built bytes, and
//! counts. Nothing is given without a token unless the pool is open, and no log line or answer holds a secret.

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
