//! The sources that the server serves from: a cluster, or a folder of manifests before there is one.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use api::machineconfiguration::MachineConfig;
use serving::report::Report;
use serving::token::Refusal;

use crate::{ClusterSource, FolderSource};

/// Where the objects for responses come from.
pub enum Source {
    Cluster(Box<ClusterSource>),
    Folder(FolderSource),
}

/// The state of a pool.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    /// The rendered config for new machines; `None` while there is none.
    pub(crate) config: Option<String>,
    /// The image built for that config, if a new machine can boot with it.
    pub(crate) image: Option<String>,
    /// Whether the pool is served without a token.
    pub(crate) open: bool,
}

/// Why a lookup failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Missing {
    /// A retry may succeed.
    #[error("{0}")]
    NotYet(String),
    #[error("there is no pool {0}; `kubectl get mcp` lists those there are")]
    Pool(String),
    #[error("{0}")]
    Broken(String),
}

/// The input of one response body.
#[derive(Clone, Debug)]
pub(crate) struct Materials {
    pub(crate) machine_config: MachineConfig,
    pub(crate) kubelet_ca: Vec<u8>,
    pub(crate) cloud_ca: Vec<u8>,
    pub(crate) kubeconfig: String,
    /// The image built for this config, if a new machine can boot with it.
    pub(crate) image: Option<String>,
    pub(crate) server_ca: Vec<u8>,
    pub(crate) registries: Vec<(String, Vec<u8>)>,
}

/// Why a client was refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The token could not be checked; it may be valid.
    #[error("the cluster cannot be asked about the token now")]
    Unavailable,
}

/// A client that was admitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// The Machine that the token is for.
    pub(crate) machine: Option<String>,
}

/// The input of the kubelet's bootstrap kubeconfig.
#[derive(Clone, Debug)]
pub struct BootstrapFiles {
    /// The API server's address as machines see it.
    pub api_server_url: String,
    /// A folder with `token` and `ca.crt`, as in a mounted service account secret.
    pub folder: PathBuf,
}

impl BootstrapFiles {
    pub(crate) fn kubeconfig(&self) -> Result<String, Missing> {
        let read = |name: &str| {
            let path = self.folder.join(name);
            std::fs::read(&path).map_err(|error| Missing::NotYet(format!("cannot read {}: {error}", path.display())))
        };
        let token = String::from_utf8(read("token")?)
            .map_err(|_| Missing::Broken("the bootstrap token is not UTF-8".to_owned()))?;
        Ok(serving::kubeconfig(&self.api_server_url, &read("ca.crt")?, token.trim()))
    }
}

impl Source {
    pub(crate) fn pool(&self, name: &str) -> Result<Pool, Missing> {
        match self {
            Source::Cluster(source) => source.pool(name),
            Source::Folder(source) => source.pool(name),
        }
    }

    pub(crate) async fn materials(&self, config: &str, image: Option<String>) -> Result<Materials, Missing> {
        match self {
            Source::Cluster(source) => source.materials(config, image).await,
            Source::Folder(source) => source.materials(config),
        }
    }

    /// Returns a value that changes whenever cached bodies may be stale although the config's name is the same.
    pub(crate) fn stamp(&self) -> Arc<str> {
        match self {
            Source::Cluster(source) => source.stamp(),
            Source::Folder(_) => Arc::from(""),
        }
    }

    /// Checks a token and, if `spent` is set, counts one use. The number of uses never exceeds the token's limit.
    pub(crate) async fn admit(
        &self,
        secret: Option<&str>,
        pool: &str,
        from: IpAddr,
        spent: bool,
    ) -> Result<Admitted, Denied> {
        match self {
            Source::Cluster(source) => source.admit(secret, pool, from, spent).await,
            Source::Folder(source) => Ok(source.admit(secret, pool, from, spent)?),
        }
    }

    /// Publishes a machine's report about its first boot.
    pub(crate) async fn report(
        &self,
        secret: Option<&str>,
        pool: &str,
        from: IpAddr,
        report: &Report,
    ) -> Result<(), Denied> {
        match self {
            Source::Cluster(source) => source.report(secret, pool, from, report).await,
            Source::Folder(source) => Ok(source.report(secret, pool, from, report)?),
        }
    }

    pub(crate) fn served(&self, pool: &str, config: &str, from: IpAddr, to: &Admitted) {
        match self {
            Source::Cluster(source) => source.served(pool, config, from, to),
            Source::Folder(_) => tracing::info!(pool, config, %from, "a config was handed out"),
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Source::Cluster(source) => source.is_ready(),
            Source::Folder(_) => true,
        }
    }

    /// Returns why the source is not ready, for `/readyz`.
    pub(crate) fn trouble(&self) -> Option<String> {
        match self {
            Source::Cluster(source) => source.trouble(),
            Source::Folder(_) => None,
        }
    }
}
