//! Where answers come from: a cluster, or a folder of manifests before there is one.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use api::machineconfiguration::MachineConfig;
use serving::report::Report;
use serving::token::Refusal;

use crate::{ClusterSource, FolderSource};

/// The objects behind the answers.
pub enum Source {
    Cluster(Box<ClusterSource>),
    Folder(FolderSource),
}

/// What is known of a pool that was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    /// The rendered config that new machines get; `None` while there is none.
    pub(crate) config: Option<String>,
    /// The image built for it, where there is one to be born on.
    pub(crate) image: Option<String>,
    /// Served without a token.
    pub(crate) open: bool,
}

/// Why a lookup gave nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Missing {
    /// Asking again helps.
    #[error("{0}")]
    NotYet(String),
    #[error("there is no pool {0}; `kubectl get mcp` lists those there are")]
    Pool(String),
    #[error("{0}")]
    Broken(String),
}

/// Everything a body is made from.
#[derive(Clone, Debug)]
pub(crate) struct Materials {
    pub(crate) machine_config: MachineConfig,
    pub(crate) kubelet_ca: Vec<u8>,
    pub(crate) cloud_ca: Vec<u8>,
    pub(crate) kubeconfig: String,
    /// The image built for this config, where there is one to be born on.
    pub(crate) image: Option<String>,
    pub(crate) server_ca: Vec<u8>,
    pub(crate) registries: Vec<(String, Vec<u8>)>,
}

/// Why a machine was not let in.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Its token may be good; nobody can say.
    #[error("the cluster cannot be asked about the token now")]
    Unavailable,
}

/// Who was let in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// The Machine that its token is for.
    pub(crate) machine: Option<String>,
}

/// The files from which the kubelet's first kubeconfig is made.
#[derive(Clone, Debug)]
pub struct BootstrapFiles {
    /// The address that machines reach the API at.
    pub api_server_url: String,
    /// A folder with `token` and `ca.crt`, as a mounted service-account secret has them.
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

    /// Different whenever bodies that were built may be stale, though the config's name is the same.
    pub(crate) fn stamp(&self) -> Arc<str> {
        match self {
            Source::Cluster(source) => source.stamp(),
            Source::Folder(_) => Arc::from(""),
        }
    }

    /// Checks a token and, where it is `spent`, counts one use of it, at most as often as it allows.
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

    /// Tells on how a machine's first boot went.
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

    /// What keeps it from being ready, for `/readyz`.
    pub(crate) fn trouble(&self) -> Option<String> {
        match self {
            Source::Cluster(source) => source.trouble(),
            Source::Folder(_) => None,
        }
    }
}
