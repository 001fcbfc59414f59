//! The dashboard: the fleet as a web page, live.
//!
//! It shows what `status`, `why`, `plan`, `diff`, `blame` and `doctor` say, drawn from the same views, and has no rule of its
//! own. It reads the cluster with the rights of whoever started it, keeps one cache for all visitors, and never writes to the
//! cluster. In a cluster each visitor sees of that cache what the API would let them list.

mod access;
mod configs;
mod live;
mod planning;
mod rights;
pub mod roles;
mod scene;
mod timeline;
mod web;
mod world;

use std::net::SocketAddr;

use kube::Client;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use access::Keys;

/// How the dashboard is served.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Loopback unless a person says otherwise.
    pub listen: SocketAddr,
    pub entry: Entry,
}

/// How people get in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Entry {
    /// By a link that works once: they see what this process may read.
    #[default]
    Link,
    /// By a token of the cluster: they see what its API lets them list.
    Token,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}; choose another address with --listen")]
pub struct Error {
    address: SocketAddr,
    source: std::io::Error,
}

/// A dashboard that is being served; it ends when this is dropped.
pub struct Dashboard {
    address: SocketAddr,
    keys: Keys,
    tasks: JoinSet<()>,
}

impl Dashboard {
    /// Begins to serve pages; the cluster is watched from the first visit on.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn start(client: Client, settings: &Settings) -> Result<Self, Error> {
        let address = settings.listen;
        let listener = TcpListener::bind(address).await.map_err(|source| Error { address, source })?;
        let address = listener.local_addr().map_err(|source| Error { address, source })?;
        let keys = Keys::default();
        let mut tasks = JoinSet::new();
        let live = live::Live::default();
        tasks.spawn(live.clone().follow(client.clone()));
        let router = web::router(web::State::new(live, keys.clone(), client, address, settings.entry));
        tasks.spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(error = &error as &dyn std::error::Error, "the dashboard ended");
            }
        });
        Ok(Self { address, keys, tasks })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A link that lets one browser in, once.
    #[must_use]
    pub fn link(&self) -> String {
        format!("http://{}/?token={}", self.address, self.keys.issue())
    }

    /// Returns when the dashboard has ended by itself, which it does only on an error.
    pub async fn ended(&mut self) {
        while self.tasks.join_next().await.is_some_and(|task| task.is_ok()) {}
    }
}
