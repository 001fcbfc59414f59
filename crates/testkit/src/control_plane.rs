//! The control plane of [`referee`], with an installation of ours when a test asks for it.
//!
//! A suite that must hold on both API servers runs for each of [`Kind::all`]:
//! ```no_run
//! # async fn story() {
//! for kind in testkit::Kind::all() {
//!     let Some(control_plane) = testkit::control_plane(kind).await else { continue };
//!     control_plane.install().await;
//! }
//! # }
//! ```

use std::ops::Deref;

use referee::Kind;

use crate::install;

/// A running control plane. Dropping it ends its processes and removes its data.
pub struct ControlPlane(referee::ControlPlane);

/// Starts a separate control plane for the calling test; see [`referee::control_plane`].
pub async fn control_plane(kind: Kind) -> Option<ControlPlane> {
    referee::control_plane(kind).await.map(ControlPlane)
}

/// Starts a real control plane with its data on disk; see [`referee::durable_control_plane`].
pub async fn durable_control_plane() -> Option<ControlPlane> {
    referee::durable_control_plane().await.map(ControlPlane)
}

impl ControlPlane {
    /// Installs all our kinds and lets nodes read MachineConfigs by name, like an installation.
    pub async fn install(&self) {
        install::install(self.client().await).await;
    }
}

impl Deref for ControlPlane {
    type Target = referee::ControlPlane;

    fn deref(&self) -> &referee::ControlPlane {
        &self.0
    }
}
