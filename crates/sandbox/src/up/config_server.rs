//! The config server of `up`, with the certificate and the token that the operator makes.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use ::server::{BootstrapFiles, ClusterSettings, ClusterSource, Listener, Settings, Source};
use anyhow::Context as _;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::told_to_stop;

/// Secrets of the operator, the files that are made of each, and where.
const SECRETS: [(&str, &str); 2] = [("machine-config-server-tls", "tls"), ("node-bootstrapper-token", "bootstrap")];

/// A port of its own. The operator has to know it before the server has its certificate, and nobody may take it meanwhile.
pub(super) async fn reserve() -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no port is free for the config server")?;
    let address = listener.local_addr().context("cannot tell the port of the config server")?;
    Ok((listener, address))
}

/// Serves as soon as its certificate is there.
pub(super) async fn run(
    client: Client,
    folder: PathBuf,
    (listener, address): (TcpListener, SocketAddr),
    api_server_url: String,
    stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let serving = async {
        for (secret, part) in SECRETS {
            keep_files(client.clone(), secret, folder.join(part)).await?;
        }
        let settings = Settings {
            secure: address,
            insecure: None,
            certificate: folder.join("tls/tls.crt"),
            key: folder.join("tls/tls.key"),
            // Machines of a laptop's fleet are processes here.
            daemon: None,
            host: None,
        };
        let files = BootstrapFiles { api_server_url, folder: folder.join("bootstrap") };
        let ca = Some(folder.join("tls/ca.crt")).filter(|path| path.is_file());
        let namespace = api::names::NAMESPACE.to_owned();
        let source = ClusterSource::start(client, ClusterSettings { files, server_ca: ca, namespace });
        let listener = Listener::on(listener, settings, Source::Cluster(Box::new(source)));
        let listener = listener.with_context(|| format!("the config server cannot serve on {address}"))?;
        tracing::info!(%address, "serving configs");
        listener.run().await;
        anyhow::Ok(())
    };
    tokio::select! {
        served = serving => served,
        () = told_to_stop(stopped) => Ok(()),
    }
}

/// Writes a secret's keys as files, now and whenever they change; returns once they are there.
async fn keep_files(client: Client, name: &'static str, folder: PathBuf) -> anyhow::Result<()> {
    let api: Api<Secret> = Api::namespaced(client, api::names::NAMESPACE);
    let mut states = watch_object(api, name).boxed();
    loop {
        let state = states.next().await.with_context(|| format!("secret {name} can no longer be watched"))?;
        let Ok(Some(secret)) = state else { continue };
        write_all(&secret, &folder).with_context(|| format!("cannot write into {}", folder.display()))?;
        break;
    }
    tokio::spawn(async move {
        while let Some(state) = states.next().await {
            if let Ok(Some(secret)) = state
                && let Err(error) = write_all(&secret, &folder)
            {
                tracing::warn!(error = &error as &dyn std::error::Error, name, "cannot keep its files");
            }
        }
    });
    Ok(())
}

fn write_all(secret: &Secret, folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut files = secret.data.iter().flatten();
    files.try_for_each(|(key, value)| write_private(folder, key, &value.0))
}

/// Writes a file that only we may read. Whoever reads meanwhile finds the old file or the new one.
pub(super) fn write_private(folder: &Path, name: &str, contents: &[u8]) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let beside = folder.join(format!(".{name}.new"));
    let mut file = std::fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&beside)?;
    file.write_all(contents)?;
    std::fs::rename(beside, folder.join(name))
}
