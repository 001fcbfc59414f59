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

/// Starts a control plane of its own for the calling test, as [`referee::control_plane`] does.
pub async fn control_plane(kind: Kind) -> Option<ControlPlane> {
    referee::control_plane(kind).await.map(ControlPlane)
}

/// A real control plane with its data on disk, as [`referee::durable_control_plane`] starts it.
pub async fn durable_control_plane() -> Option<ControlPlane> {
    referee::durable_control_plane().await.map(ControlPlane)
}

impl ControlPlane {
    /// Installs every kind of ours and lets nodes read MachineConfigs by name, as an installation would.
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
