//! Our own components, each running while its Deployment wants it to.
//!
//! `kubectl scale deploy/machine-config-controller --replicas=0` really stops it, as on a cluster where it is a pod.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use machine::provider::Provider;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::{config_server, machines, told_to_stop};

/// The Deployment of the controllers.
pub(super) const CONTROLLER: &str = "machine-config-controller";

/// The Deployment of the machine controllers.
pub(super) const MACHINES: &str = "machine-api-controllers";

/// Runs the controllers while their Deployment has replicas, without settling: a trial should answer at once.
pub(super) async fn controller(client: Client, stopped: watch::Receiver<bool>) -> anyhow::Result<()> {
    let mut wanted = follow(client.clone(), api::names::NAMESPACE, CONTROLLER, stopped.clone());
    while wait_for(&mut wanted, true).await {
        let settings = controllers::Settings {
            identity: "machinist-up".to_owned(),
            settle: Duration::ZERO,
            templates: Some(super::templates::templates()),
            ..Default::default()
        };
        tracing::info!(component = CONTROLLER, "starting");
        controllers::run(client.clone(), settings, unwanted(&wanted)).await.context("the controllers failed")?;
        tracing::info!(component = CONTROLLER, "stopped");
    }
    Ok(())
}

/// Runs the machine controllers while their Deployment has replicas.
pub(super) async fn machines(
    client: Client,
    provider: Arc<dyn Provider>,
    stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let mut wanted = follow(client.clone(), api::names::MACHINE_API_NAMESPACE, MACHINES, stopped);
    while wait_for(&mut wanted, true).await {
        let settings = ::machines::Settings {
            identity: "machinist-up".to_owned(),
            // It is the embedded API's own store, which loses nothing with a node.
            etcd_elsewhere: true,
            // The cloud is ours alone.
            orphans: ::machines::Orphans::Remove { cluster: machines::CLUSTER.to_owned() },
            ..Default::default()
        };
        tracing::info!(component = MACHINES, "starting");
        let ended = ::machines::run(client.clone(), settings, Arc::clone(&provider), unwanted(&wanted)).await;
        ended.context("the machine controllers failed")?;
        tracing::info!(component = MACHINES, "stopped");
    }
    Ok(())
}

/// Returns when the component is not wanted any more.
fn unwanted(wanted: &watch::Receiver<Option<bool>>) -> impl Future<Output = ()> + use<> {
    let mut until = wanted.clone();
    async move { while until.borrow_and_update().is_some_and(|wanted| wanted) && until.changed().await.is_ok() {} }
}

/// Runs the operator, which looks at its own Deployment.
pub(super) async fn operator(
    client: Client,
    installation: ::operator::Installation,
    api_ca: Option<String>,
    stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let settings = ::operator::Settings {
        installation,
        identity: "machinist-up".to_owned(),
        installs: true,
        api_ca,
        ..::operator::Settings::default()
    };
    ::operator::run(client, settings, told_to_stop(stopped)).await.context("the operator failed")?;
    Ok(())
}

/// Runs the Machine API's operator, which looks at its own Deployment and makes that of the machine controllers. Without
/// a platform there is nothing for it to deploy, and it says so.
pub(super) async fn machine_operator(
    client: Client,
    installation: ::operator::Installation,
    webhook_url: String,
    stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let settings = ::operator::machine_api::Settings {
        webhook_url: Some(webhook_url),
        platform: installation.platform.clone(),
        identity: "machinist-up".to_owned(),
        installs: Some(installation),
        ..::operator::machine_api::Settings::default()
    };
    let ended = ::operator::machine_api::run(client, settings, told_to_stop(stopped)).await;
    ended.context("the operator of the Machine API failed")?;
    Ok(())
}

/// Admits Machines with the certificate that the operator makes, which a kubelet would bring to the pod's folder.
pub(super) async fn admission(
    client: Client,
    listener: TcpListener,
    folder: PathBuf,
    provider: Arc<dyn Provider>,
    stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), api::names::MACHINE_API_NAMESPACE);
    let mut states = watch_object(secrets, ::operator::machine_api::WEBHOOK_SECRET).boxed();
    let follow = async {
        while let Some(state) = states.next().await {
            let data = state.ok().flatten().and_then(|secret| secret.data).unwrap_or_default();
            // The key first: the certificate's time tells that both are there.
            for name in ["tls.key", "tls.crt"] {
                if let Some(contents) = data.get(name) {
                    let written = config_server::write_private(&folder, name, &contents.0);
                    written.with_context(|| format!("cannot write {} in {}", name, folder.display()))?;
                }
            }
        }
        anyhow::Ok(())
    };
    let tls = ::machines::webhook::Tls { certificates: folder.clone(), ..::machines::webhook::Tls::default() };
    tokio::select! {
        followed = follow => followed,
        () = ::machines::webhook::serve(listener, &tls, client, provider) => Ok(()),
        () = told_to_stop(stopped) => Ok(()),
    }
}

/// Waits until the component is wanted or not; false at the end of the fleet.
async fn wait_for(wanted: &mut watch::Receiver<Option<bool>>, this: bool) -> bool {
    match wanted.wait_for(|wanted| wanted.is_none() || *wanted == Some(this)).await {
        Ok(wanted) => wanted.is_some(),
        Err(_) => false,
    }
}

/// Follows whether a Deployment has replicas; `None` at the end of the fleet.
fn follow(
    client: Client,
    namespace: &'static str,
    name: &'static str,
    stopped: watch::Receiver<bool>,
) -> watch::Receiver<Option<bool>> {
    // Until it was first seen it is on its way: the operator makes it, and nobody should wait for that.
    let (sender, receiver) = watch::channel(Some(true));
    tokio::spawn(async move {
        let api: Api<Deployment> = Api::namespaced(client, namespace);
        let mut states = watch_object(api, name).boxed();
        let mut seen = false;
        loop {
            tokio::select! {
                state = states.next() => match state {
                    Some(Ok(deployment)) => {
                        seen |= deployment.is_some();
                        let replicas = deployment.and_then(|it| it.spec).map_or(0, |spec| spec.replicas.unwrap_or(1));
                        let wanted = replicas > 0 || !seen;
                        sender.send_if_modified(|was| was.replace(wanted) != Some(wanted));
                    }
                    // The watch tries again by itself; until then what was wanted stays.
                    Some(Err(_)) => tokio::time::sleep(Duration::from_millis(200)).await,
                    None => break,
                },
                () = told_to_stop(stopped.clone()) => break,
            }
        }
        sender.send_replace(None);
    });
    receiver
}
