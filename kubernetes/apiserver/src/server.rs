//! The server as a value: build it, start it, talk to it, stop it.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use crate::{
    admission::{allocation::Allocations, quota::Quotas},
    auth::{
        Access, User, bootstrap,
        certificates::{self, Authority, Identity, write_private},
    },
    discovery::Documents,
    housekeeping::{self, Keeper},
    http,
    kubeconfig::Kubeconfig,
    registry::Registry,
    store::{DiskError, Store},
    verbs::subresources::{
        exec::{PodExec, PodExecs, Run},
        log::{PodLog, PodLogs},
    },
};

/// Why the server cannot start, or a credential cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data folder is in use by another server, damaged, or not readable.
    #[error(transparent)]
    Store(#[from] DiskError),
    /// The certificate authority cannot be made or read, or a certificate cannot be issued.
    #[error(transparent)]
    Certificates(#[from] certificates::Error),
    /// The address is taken or not allowed.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// The data folder is not there and cannot be made.
    #[error("cannot make the data folder {path}: {source}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The objects every cluster starts with cannot be written.
    #[error("cannot write the first objects: {0}")]
    Bootstrap(String),
}

/// What every request works on.
pub(crate) struct Api {
    pub store: Store,
    pub registry: ArcSwap<Registry>,
    pub access: Access,
    pub authority: Authority,
    pub documents: Documents,
    pub allocations: Allocations,
    pub quotas: Quotas,
    pub stopping: watch::Receiver<bool>,
    /// Who plays the kubelet where logs are concerned.
    pub logs: Option<PodLogs>,
    /// Who plays it where commands are concerned.
    pub execs: Option<PodExecs>,
    /// How long a client may take nothing of an answer.
    pub patience: Duration,
}

/// Ends when the server is told to stop.
pub(crate) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // The guard this returns must not be held; a closed channel means the same.
    drop(stopping.wait_for(|stopping| *stopping).await);
}

/// Settings of a server that is not started yet; made by [`Server::builder`].
#[derive(Clone)]
pub struct Builder {
    data: Option<PathBuf>,
    address: SocketAddr,
    tokens: Vec<(String, String, Vec<String>)>,
    logs: Option<PodLogs>,
    execs: Option<PodExecs>,
    patience: Duration,
}

/// As long as a client may be silent before the real server asks whether it is still there.
const PATIENCE: Duration = Duration::from_secs(30);

/// The entry point: `Server::builder().start().await`.
pub struct Server;

impl Server {
    /// A server that keeps its objects in memory and listens on a free port of the loopback address.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            data: None,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            tokens: Vec::new(),
            logs: None,
            execs: None,
            patience: PATIENCE,
        }
    }
}

impl Builder {
    /// Keeps objects in memory only. This is the default.
    #[must_use]
    pub fn in_memory(mut self) -> Self {
        self.data = None;
        self
    }

    /// Keeps objects, the certificate authority and the administrator's `kubeconfig` in this folder, which is made if it is
    /// not there. Every write is on disk before it is answered, so nothing is lost when the process is killed.
    #[must_use]
    pub fn data(mut self, folder: impl Into<PathBuf>) -> Self {
        self.data = Some(folder.into());
        self
    }

    /// Listens on this port; 0, the default, picks a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.address.set_port(port);
        self
    }

    /// Listens on this address instead of the loopback address. The certificate is valid for it, too.
    #[must_use]
    pub fn address(mut self, address: IpAddr) -> Self {
        self.address.set_ip(address);
        self
    }

    /// Accepts a bearer token as the credential of a user with these groups.
    #[must_use]
    pub fn token(mut self, token: &str, user: &str, groups: &[&str]) -> Self {
        self.tokens.push((token.to_owned(), user.to_owned(), groups.iter().map(|&group| group.to_owned()).collect()));
        self
    }

    /// Answers `kubectl logs` with what this function returns: the whole log of a container at this moment, oldest line
    /// first, or `None` if there is none.
    #[must_use]
    pub fn pod_logs(mut self, logs: impl Fn(&PodLog) -> Option<String> + Send + Sync + 'static) -> Self {
        self.logs = Some(Arc::new(logs));
        self
    }

    /// Closes watches, lists and connections whose client has read nothing for this long, instead of 30 seconds. Logs and the
    /// output of commands are allowed ten times as long.
    #[must_use]
    pub fn end_stalled_after(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Answers `kubectl exec` with what this function returns: what runs the command, or the reason why it cannot be run.
    #[must_use]
    pub fn pod_exec(mut self, execs: impl Fn(&PodExec) -> Result<Run, String> + Send + Sync + 'static) -> Self {
        self.execs = Some(Arc::new(execs));
        self
    }

    /// Starts the server; it is ready when this returns. Its tasks run on the current tokio runtime.
    ///
    /// # Errors
    /// The data folder cannot be used, or the address is taken.
    pub async fn start(self) -> Result<Running, Error> {
        let Self { data, address, tokens, logs, execs, patience } = self;
        let (store, authority) = match &data {
            None => (Store::in_memory(), Authority::new()?),
            Some(folder) => {
                make_folder(folder)?;
                // The store first: it holds the lock, so two servers never write the other files at once.
                let store = Store::open(folder)?;
                (store, Authority::open(folder)?)
            }
        };
        http::listen::raise_file_limit();
        let listen_error = |source| Error::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let (stop, stopping) = watch::channel(false);
        let access = Access::new(secret(data.as_deref(), "service-account.key")?.into_bytes());
        for (token, user, groups) in &tokens {
            let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
            access.tokens.add(token, User::new(user, &groups));
        }
        let admin_token = secret(data.as_deref(), "admin.token")?;
        access.tokens.add(&admin_token, User::new("admin", &["system:masters"]));
        let tls = authority.tls(&certificate_addresses(address.ip()))?;
        let (api, keeper) = prepare(Api {
            store,
            registry: ArcSwap::from_pointee(Registry::builtin()),
            access,
            authority,
            documents: Documents::default(),
            allocations: Allocations::default(),
            quotas: Quotas::default(),
            stopping,
            logs,
            execs,
            patience,
        })
        .await?;
        let admin = api.authority.client("kubernetes-admin", &["system:masters"])?;
        let host = if address.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { address.ip() };
        let kubeconfig = Kubeconfig {
            server: format!("https://{}", SocketAddr::new(host, address.port())),
            authority: api.authority.pem.clone(),
            identity: admin,
        };
        if let Some(folder) = &data {
            write_private(&folder.join("kubeconfig"), kubeconfig.yaml().as_bytes())?;
        }
        let tasks = vec![
            tokio::spawn(http::listen::run(Arc::clone(&api), listener, Arc::new(tls))),
            tokio::spawn(keeper.run(Arc::clone(&api))),
        ];
        Ok(Running { api, address, kubeconfig, admin_token, stop, tasks })
    }
}

/// Writes the first objects and serves what is defined.
async fn prepare(api: Api) -> Result<(Arc<Api>, Keeper), Error> {
    let feed = api.store.take_feed().ok_or_else(|| Error::Bootstrap("the store has a keeper already".to_owned()))?;
    let api = Arc::new(api);
    housekeeping::serve_definitions(&api);
    bootstrap::ensure(&api).await.map_err(Error::Bootstrap)?;
    let keeper = Keeper::new(&api, feed);
    Ok((api, keeper))
}

/// A server in memory that nobody listens for and whose keeper works when told to.
#[cfg(test)]
pub(crate) async fn bare(stopping: watch::Receiver<bool>) -> Result<(Arc<Api>, Keeper), Error> {
    prepare(Api {
        store: Store::in_memory(),
        registry: ArcSwap::from_pointee(Registry::builtin()),
        access: Access::new(b"key".to_vec()),
        authority: Authority::new()?,
        documents: Documents::default(),
        allocations: Allocations::default(),
        quotas: Quotas::default(),
        stopping,
        logs: None,
        execs: None,
        patience: PATIENCE,
    })
    .await
}

fn make_folder(folder: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|source| Error::Folder { path: folder.to_owned(), source })
}

/// A secret of the server, kept beside the store so that it survives a restart.
fn secret(data: Option<&Path>, name: &str) -> Result<String, Error> {
    let fresh = || format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
    let Some(folder) = data else { return Ok(fresh()) };
    let path = folder.join(name);
    match std::fs::read_to_string(&path) {
        Ok(token) if !token.trim().is_empty() => Ok(token.trim().to_owned()),
        _ => {
            let token = fresh();
            write_private(&path, token.as_bytes())?;
            Ok(token)
        }
    }
}

fn certificate_addresses(bound: IpAddr) -> Vec<IpAddr> {
    let mut addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)];
    if !bound.is_unspecified() && !addresses.contains(&bound) {
        addresses.push(bound);
    }
    addresses
}

/// A started server. Dropping it stops it; [`Running::shutdown`] also waits for the store to be closed.
pub struct Running {
    api: Arc<Api>,
    /// Where it listens.
    pub address: SocketAddr,
    kubeconfig: Kubeconfig,
    admin_token: String,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Running {
    /// A kubeconfig of the administrator (`system:masters`), as YAML.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig.yaml()
    }

    /// Makes credentials for this server, also after the server has stopped.
    pub fn credentials(&self) -> Credentials {
        Credentials { api: Arc::clone(&self.api), kubeconfig: self.kubeconfig.clone() }
    }

    /// A kubeconfig of another user with at most two groups, as YAML. What they may do is up to RBAC.
    ///
    /// # Errors
    /// The certificate cannot be issued.
    pub fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> Result<String, Error> {
        self.credentials().kubeconfig_for(user, groups)
    }

    /// A client certificate of a user with at most two groups.
    ///
    /// # Errors
    /// The certificate cannot be issued.
    pub fn client_certificate(&self, user: &str, groups: &[&str]) -> Result<Identity, Error> {
        Ok(self.api.authority.client(user, groups)?)
    }

    /// Its URL, such as `https://127.0.0.1:42285`.
    pub fn server(&self) -> &str {
        &self.kubeconfig.server
    }

    /// The certificate of the authority that signed the server's own, as PEM.
    pub fn certificate_authority(&self) -> &str {
        &self.api.authority.pem
    }

    /// A bearer token of the administrator, for clients that cannot use a client certificate.
    pub fn admin_token(&self) -> &str {
        &self.admin_token
    }

    /// From now on accepts a bearer token as the credential of a user with these groups.
    pub fn add_token(&self, token: &str, user: &str, groups: &[&str]) {
        self.api.access.tokens.add(token, User::new(user, groups));
    }

    /// Closes watches and connections, commits what was accepted and closes the store.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(true);
        for task in std::mem::take(&mut self.tasks) {
            // Connections get a moment to finish; a client that does not hang up must not hold the server.
            let abort = task.abort_handle();
            if tokio::time::timeout(Duration::from_secs(2), task).await.is_err() {
                abort.abort();
            }
        }
        self.api.store.close().await;
    }
}

/// Makes credentials that a server accepts; see [`Running::credentials`].
#[derive(Clone)]
pub struct Credentials {
    api: Arc<Api>,
    kubeconfig: Kubeconfig,
}

impl Credentials {
    /// A kubeconfig of a user with at most two groups, as YAML.
    ///
    /// # Errors
    /// The certificate cannot be issued.
    pub fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> Result<String, Error> {
        let identity = self.api.authority.client(user, groups)?;
        Ok(Kubeconfig { identity, ..self.kubeconfig.clone() }.yaml())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        for task in &self.tasks {
            task.abort();
        }
    }
}
