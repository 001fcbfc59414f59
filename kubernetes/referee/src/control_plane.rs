//! A Kubernetes control plane for one test, real or embedded, behind one type.
//!
//! A suite that must hold on both runs for each of [`Kind::all`]:
//! ```no_run
//! # async fn story() {
//! for kind in referee::Kind::all() {
//!     let Some(control_plane) = referee::control_plane(kind).await else { continue };
//!     let client = control_plane.client().await;
//! }
//! # }
//! ```

pub mod credentials;
mod embedded;
mod real;

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::LazyLock;

use kube::Client;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{kubectl, needs};
use embedded::Embedded;
use real::{Real, Storage};

pub use real::ready;

/// Which API server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// kube-apiserver with etcd and kube-controller-manager.
    Real,
    /// Our own `apiserver`.
    Embedded,
}

impl Kind {
    /// The kinds that a suite of the product runs on.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Real, Self::Embedded].into_iter()
    }
}

/// Each control plane takes about half a gigabyte and, while starting, every core.
static PLACES: LazyLock<std::sync::Arc<Semaphore>> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    std::sync::Arc::new(Semaphore::new((cores / 2).clamp(1, 4)))
});

/// A running control plane. Dropping it ends its processes and removes its data.
pub struct ControlPlane {
    backend: Backend,
    _place: Option<OwnedSemaphorePermit>,
}

enum Backend {
    Real(Box<Real>),
    Embedded(Box<Embedded>),
}

/// Starts a control plane of its own for the calling test.
///
/// `None` when this machine lacks a part; the test has then been recorded by [`needs`] and returns.
///
/// # Panics
/// When the parts are there and it does not start.
pub async fn control_plane(kind: Kind) -> Option<ControlPlane> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    match kind {
        Kind::Real if !needs::real_control_plane() => None,
        Kind::Real => Some(real_control_plane(Storage::Quick).await),
        Kind::Embedded => {
            let embedded = Embedded::start();
            let embedded = embedded.unwrap_or_else(|error| panic!("the embedded API does not start: {error:#}"));
            Some(ControlPlane { backend: Backend::Embedded(Box::new(embedded)), _place: None })
        }
    }
}

/// As [`control_plane`] of [`Kind::Real`], with its data on disk: what benchmarks compare with.
pub async fn durable_control_plane() -> Option<ControlPlane> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    if !needs::real_control_plane() {
        return None;
    }
    Some(real_control_plane(Storage::Durable).await)
}

async fn real_control_plane(storage: Storage) -> ControlPlane {
    let place = PLACES.clone().acquire_owned().await.expect("the semaphore is never closed");
    let real = Real::start(storage).await;
    let real = real.unwrap_or_else(|error| panic!("the control plane does not start: {error:#}"));
    ControlPlane { backend: Backend::Real(Box::new(real)), _place: Some(place) }
}

impl ControlPlane {
    pub fn kind(&self) -> Kind {
        match &self.backend {
            Backend::Real(_) => Kind::Real,
            Backend::Embedded(_) => Kind::Embedded,
        }
    }

    /// The address, `https://127.0.0.1:PORT`.
    pub fn server(&self) -> &str {
        match &self.backend {
            Backend::Real(real) => real.server(),
            Backend::Embedded(embedded) => embedded.server(),
        }
    }

    /// The administrator's kubeconfig (`system:masters`).
    pub fn kubeconfig(&self) -> PathBuf {
        match &self.backend {
            Backend::Real(real) => real.admin_kubeconfig(),
            Backend::Embedded(embedded) => embedded.admin_kubeconfig(),
        }
    }

    /// The administrator's bearer token.
    pub fn token(&self) -> &'static str {
        real::TOKEN
    }

    /// A new client of the administrator. Each belongs to the runtime that asks for it.
    pub async fn client(&self) -> Client {
        client(&self.kubeconfig()).await
    }

    /// A kubeconfig for `system:node:<name>`, the kubelet's own identity.
    pub fn node_kubeconfig(&self, name: &str) -> PathBuf {
        self.user_kubeconfig(&format!("system:node:{name}"), Some("system:nodes"))
    }

    /// A client with the identity of a node's kubelet.
    pub async fn node_client(&self, name: &str) -> Client {
        client(&self.node_kubeconfig(name)).await
    }

    /// A kubeconfig for any user and group; what they may do is up to RBAC.
    pub fn user_kubeconfig(&self, user: &str, group: Option<&str>) -> PathBuf {
        let written = match &self.backend {
            Backend::Real(real) => real.kubeconfig(user, group),
            Backend::Embedded(embedded) => embedded.kubeconfig(user, group),
        };
        written.expect("a kubeconfig can be written")
    }

    /// Runs kubectl as the administrator.
    ///
    /// # Panics
    /// When kubectl fails; the message has what it said.
    #[track_caller]
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        kubectl::must(&self.kubeconfig(), arguments, None)
    }

    /// Runs kubectl with `input` on its standard input and returns whatever came of it.
    pub fn try_kubectl(&self, arguments: &[&str], input: Option<&str>) -> Output {
        self.kubectl_with(arguments, input, &[])
    }

    /// As `try_kubectl`, with variables for kubectl's environment.
    pub fn kubectl_with(&self, arguments: &[&str], input: Option<&str>, variables: &[(&str, &str)]) -> Output {
        kubectl::run(&self.kubeconfig(), arguments, input, variables)
    }

    /// `kubectl apply -f -` of a manifest.
    #[track_caller]
    pub fn apply(&self, manifest: &str) -> String {
        kubectl::must(&self.kubeconfig(), &["apply", "-f", "-"], Some(manifest))
    }

    /// Ends the API server at once, as a crash would. Nothing stored is lost.
    pub fn stop_api_server(&self) {
        match &self.backend {
            Backend::Real(real) => real.stop_api_server(),
            Backend::Embedded(embedded) => embedded.stop_api_server(),
        }
    }

    /// Starts it again on the same port and waits until it is ready.
    pub async fn start_api_server(&self) {
        let started = match &self.backend {
            Backend::Real(real) => real.start_api_server().await,
            Backend::Embedded(embedded) => embedded.start_api_server(),
        };
        started.unwrap_or_else(|error| panic!("the API server does not come back: {error:#}"));
    }

    /// Process ids of the servers, for tests about leftovers. The embedded one has none of its own.
    pub fn processes(&self) -> Vec<u32> {
        match &self.backend {
            Backend::Real(real) => real.processes(),
            Backend::Embedded(_) => Vec::new(),
        }
    }
}

/// A client of the user of a kubeconfig.
pub async fn client(kubeconfig: &Path) -> Client {
    real::client(kubeconfig).await.unwrap_or_else(|error| panic!("no client from {}: {error:#}", kubeconfig.display()))
}
