//! The daemon's line to the cluster: the kubelet's credential, a kubeconfig that was given, or the pod's account.
//!
//! A kubelet renews its certificate every few weeks or days. The daemon then ends its loop between two steps, as it does
//! when it is told to stop, and begins again with the new one.
//!
//! A config can take the line away, and then the daemon must still be able to take that config back: with an update under
//! way it runs without a line, and without one it says what is wrong and ends.

use std::time::Duration;

use anyhow::anyhow;
use daemon::access::{Access, Source};
use daemon::store::Store;
use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::arguments::Start;
use crate::serve::open_host;

/// Certificates are renewed long before they end.
const LOOK: Duration = Duration::from_secs(60);
/// Somebody may be mending it right now, and there is not much else to do.
const LOOK_WITHOUT_LINE: Duration = Duration::from_secs(2);

pub(crate) struct Line {
    pub(crate) client: Client,
    pub(crate) access: Access,
}

/// Watches for another credential while the loop runs.
pub(crate) struct Renewal {
    looking: JoinHandle<bool>,
    stop: watch::Sender<bool>,
}

impl Line {
    /// Connects, or says why not. While an update is under way there is a line in any case, if only one that leads nowhere.
    pub(crate) async fn open(arguments: &Start) -> anyhow::Result<Self> {
        let mut access = Access { source: source(arguments), ..Access::default() };
        let problem = match connect(arguments, &mut access).await {
            Ok(client) => {
                access.is_remade = true;
                return Ok(Self { client, access });
            }
            Err(problem) => problem,
        };
        if !is_at_work(arguments) {
            return Err(problem);
        }
        let reason = format!("{problem:#}");
        tracing::error!(reason, "the cluster cannot be reached; what is under way on this host goes on");
        let client = cluster::connect::disconnected(&reason);
        access.problem = Some(reason);
        Ok(Self { client, access })
    }

    /// A word that turns true when the daemon is told to stop or when there is another credential.
    pub(crate) fn renewed(
        &self,
        arguments: &Start,
        stopped: watch::Receiver<bool>,
    ) -> (Renewal, watch::Receiver<bool>) {
        let (end, ended) = watch::channel(false);
        let (stop, stopping) = watch::channel(false);
        let (arguments, access) = (arguments.clone(), self.access.clone());
        let looking = tokio::spawn(async move {
            let is_found = look(&arguments, &access, stopped, stopping.clone()).await;
            let _ = end.send(true);
            // The receiver must not see the channel end before it has seen the word.
            let mut stopping = stopping;
            let _ = stopping.wait_for(|stop| *stop).await;
            is_found
        });
        (Renewal { looking, stop }, ended)
    }
}

impl Renewal {
    /// Whether there is reason to connect anew.
    pub(crate) async fn end(self) -> bool {
        let _ = self.stop.send(true);
        self.looking.await.unwrap_or_default()
    }
}

fn source(arguments: &Start) -> Source {
    match &arguments.kubeconfig {
        _ if arguments.in_cluster => Source::Account,
        Some(path) => Source::Kubeconfig(path.clone()),
        None => Source::Kubelet,
    }
}

async fn connect(arguments: &Start, access: &mut Access) -> anyhow::Result<Client> {
    let found = open_host(arguments).and_then(|host| Ok(access.source.read(host.files())?));
    if arguments.node.is_none() {
        // The credential stays the one to compare with: a trial is still to be judged without a name.
        access.used = found.ok().flatten().map(Box::new);
        return Err(anyhow!("node-name is required: give --node or set NODE_NAME"));
    }
    access.used = found?.map(Box::new);
    Ok(match &access.used {
        None => cluster::connect(None).await?,
        Some(credential) => cluster::connect::connect_with(credential.kubeconfig.clone(), &credential.path).await?,
    })
}

/// Whether a journal asks for something. One that cannot be read does: only the loop can say what is wrong with it.
fn is_at_work(arguments: &Start) -> bool {
    open_host(arguments).is_ok_and(|host| !matches!(Store::new(host.files()).journal(), Ok(None)))
}

async fn look(
    arguments: &Start,
    access: &Access,
    mut stopped: watch::Receiver<bool>,
    mut done: watch::Receiver<bool>,
) -> bool {
    let (is_cut, is_on_host) = (access.problem.is_some(), !matches!(access.source, Source::Account));
    loop {
        let pause = if is_cut { LOOK_WITHOUT_LINE } else { LOOK };
        tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => return false,
            _ = done.wait_for(|done| *done) => return false,
            () = tokio::time::sleep(pause), if is_on_host || is_cut => {}
        }
        // Without a line nothing new can begin, so the process may end and say why.
        if is_cut && !is_at_work(arguments) {
            return true;
        }
        // One that cannot be read now may be half written.
        let Ok(host) = open_host(arguments) else { continue };
        if access.look(host.files()) == daemon::access::Found::Other {
            return true;
        }
    }
}
