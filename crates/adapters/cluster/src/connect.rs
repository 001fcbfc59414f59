//! Creates a client from a kubeconfig, the environment or the service account of a pod.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read kubeconfig {path}; give a file with --kubeconfig")]
    ReadKubeconfig {
        path: PathBuf,
        #[source]
        source: kube::config::KubeconfigError,
    },
    #[error("no cluster is configured; give a kubeconfig with --kubeconfig, set KUBECONFIG or run in a pod")]
    Infer(#[source] kube::config::InferConfigError),
    #[error("cannot make a client from the configuration")]
    Client(#[source] kube::Error),
    #[error("cannot create namespace {name}")]
    CreateNamespace {
        name: String,
        #[source]
        source: kube::Error,
    },
}

/// Connects with `kubeconfig`, or as kubectl would without one: `KUBECONFIG`, the home folder, the pod's service account.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, Error> {
    let mut config = match kubeconfig {
        Some(path) => {
            let fail = |source| Error::ReadKubeconfig { path: path.to_owned(), source };
            let kubeconfig = Kubeconfig::read_from(path).map_err(fail)?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(fail)?
        }
        None => Config::infer().await.map_err(Error::Infer)?,
    };
    // By default the client retries inside a request for half a minute, for example when a disruption budget refuses an
    // eviction. Here every request returns its response, and the caller decides when to retry.
    config.default_retry = false;
    Client::try_from(config).map_err(Error::Client)
}

/// Connects with a kubeconfig that was read already; `path` is where it comes from.
pub async fn connect_with(kubeconfig: Kubeconfig, path: &str) -> Result<Client, Error> {
    let fail = |source| Error::ReadKubeconfig { path: PathBuf::from(path), source };
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(fail)?;
    config.default_retry = false;
    Client::try_from(config).map_err(Error::Client)
}

/// Connects to any server that speaks HTTPS and takes a bearer token, checked by `ca` (PEM) alone.
pub async fn connect_with_token(server: &str, ca: &[u8], token: &str) -> Result<Client, Error> {
    let fail = |source| Error::ReadKubeconfig { path: PathBuf::from(server), source };
    let kubeconfig = Kubeconfig::from_yaml(&serving::kubeconfig(server, ca, token)).map_err(fail)?;
    connect_with(kubeconfig, server).await
}

/// A client for a process that has work to finish and no way to the cluster: every request fails with `reason`.
pub fn disconnected(reason: &str) -> Client {
    let reason = reason.to_owned();
    let refuse = tower::service_fn(move |_: http::Request<kube::client::Body>| {
        let refusal: Result<http::Response<kube::client::Body>, kube::Error> =
            Err(kube::Error::Service(reason.clone().into()));
        std::future::ready(refusal)
    });
    Client::new(refuse, "default")
}

/// Creates the namespace of leases and events if it does not exist. On an installed cluster it always does.
pub async fn ensure_namespace(client: &Client, name: &str) -> Result<(), Error> {
    let api: Api<Namespace> = Api::all(client.clone());
    let fail = |source| Error::CreateNamespace { name: name.to_owned(), source };
    match api.get_opt(name).await {
        Ok(Some(_)) => return Ok(()),
        Ok(None) => {}
        // This process may not read namespaces. If the namespace is missing, writing the Lease reports it.
        Err(kube::Error::Api(status)) if status.code == 403 => return Ok(()),
        Err(error) => return Err(fail(error)),
    }
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    match api.create(&PostParams::default(), &namespace).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_already_exists() || status.code == 403 => Ok(()),
        Err(error) => Err(fail(error)),
    }
}
