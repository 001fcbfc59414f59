//! The daemon's line to the cluster: the kubelet's credential, a kubeconfig that was given, or the pod's account.
//!
//! A kubelet renews its certificate every few weeks or days. The daemon then ends its loop between two steps, as it does
//! when it is told to stop, and begins again with the new one.

use std::time::Duration;

use daemon::credential::{self, Credential};
use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::arguments::Start;
use crate::serve::open_host;

/// Certificates are renewed long before they end.
const LOOK: Duration = Duration::from_secs(60);

pub(crate) enum Line {
    /// Its client follows the token by itself.
    Account,
    Credential(Box<Credential>),
}

/// Watches for another credential while the loop runs.
pub(crate) struct Renewal {
    looking: JoinHandle<Option<Line>>,
    stop: watch::Sender<bool>,
}

impl Line {
    pub(crate) fn find(arguments: &Start) -> anyhow::Result<Self> {
        let credential = match &arguments.kubeconfig {
            _ if arguments.in_cluster => return Ok(Self::Account),
            Some(path) => credential::load(path)?,
            None => credential::find(open_host(arguments)?.files())?,
        };
        Ok(Self::Credential(Box::new(credential)))
    }

    pub(crate) async fn connect(&self) -> anyhow::Result<Client> {
        Ok(match self {
            Self::Account => cluster::connect(None).await?,
            Self::Credential(credential) => {
                cluster::connect::connect_with(credential.kubeconfig.clone(), &credential.path).await?
            }
        })
    }

    /// A word that turns true when the daemon is told to stop or when there is another credential.
    pub(crate) fn renewed(
        &self,
        arguments: &Start,
        stopped: watch::Receiver<bool>,
    ) -> (Renewal, watch::Receiver<bool>) {
        let (end, ended) = watch::channel(false);
        let (stop, stopping) = watch::channel(false);
        let known = match self {
            Self::Account => None,
            Self::Credential(credential) => Some(credential.clone()),
        };
        let arguments = arguments.clone();
        let looking = tokio::spawn(async move {
            let found = look(&arguments, known, stopped, stopping.clone()).await;
            let _ = end.send(true);
            // The receiver must not see the channel end before it has seen the word.
            let mut stopping = stopping;
            let _ = stopping.wait_for(|stop| *stop).await;
            found
        });
        (Renewal { looking, stop }, ended)
    }
}

impl Renewal {
    /// The other credential, if one was found.
    pub(crate) async fn end(self) -> Option<Line> {
        let _ = self.stop.send(true);
        self.looking.await.ok().flatten()
    }
}

async fn look(
    arguments: &Start,
    known: Option<Box<Credential>>,
    mut stopped: watch::Receiver<bool>,
    mut done: watch::Receiver<bool>,
) -> Option<Line> {
    loop {
        tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => return None,
            _ = done.wait_for(|done| *done) => return None,
            () = tokio::time::sleep(LOOK), if known.is_some() => {}
        }
        // One that cannot be read now may be half written.
        let Ok(Line::Credential(now)) = Line::find(arguments) else { continue };
        if known.as_ref().is_some_and(|known| !known.is_same(&now)) {
            return Some(Line::Credential(now));
        }
    }
}
