//! etcd, kube-apiserver and kube-controller-manager as child processes on free loopback ports.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::credentials::{Authority, Identity};
use crate::process::Process;
use crate::{cache, needs};

/// The controllers without which owner references, namespaces, disruption budgets, service accounts, certificate requests,
/// quotas and deleted volumes never move. Nothing that would interfere with nodes or pods that a test made up.
const CONTROLLERS: &str = "garbage-collector-controller,namespace-controller,disruption-controller,\
    serviceaccount-controller,serviceaccount-token-controller,root-ca-certificate-publisher-controller,\
    certificatesigningrequest-signing-controller,certificatesigningrequest-approving-controller,\
    certificatesigningrequest-cleaner-controller,validatingadmissionpolicy-status-controller,\
    persistentvolumeclaim-protection-controller,persistentvolume-protection-controller,\
    volumeattributesclass-protection-controller,resourcequota-controller";

/// Ports are chosen free and then released for the child; now and then somebody else is faster.
const ATTEMPTS: usize = 5;

/// Where etcd keeps its data.
#[derive(Clone, Copy, Debug)]
pub(super) enum Storage {
    /// In memory, if the machine has such a folder.
    Quick,
    /// On disk, as in production; what benchmarks compare with.
    Durable,
}

pub(super) struct Real {
    authority: Authority,
    server: String,
    etcd: Mutex<Process>,
    api_server: Mutex<Process>,
    api_server_command: (PathBuf, Vec<String>),
    _controller_manager: Process,
    // Last, so that it is removed after the processes that write into it are gone.
    folder: tempfile::TempDir,
}

impl Real {
    pub(super) async fn start(storage: Storage) -> Result<Self> {
        let programs = tokio::task::spawn_blocking(cache::control_plane_programs).await??;
        let mut last = None;
        for _ in 0..ATTEMPTS {
            match Self::attempt(&programs, storage).await {
                Ok(real) => return Ok(real),
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("there was at least one attempt"))
    }

    async fn attempt(programs: &Path, storage: Storage) -> Result<Self> {
        let folder = match storage {
            Storage::Quick => quick_folder()?,
            Storage::Durable => tempfile::Builder::new().prefix("machinist-control-plane-").tempdir()?,
        };
        let path = folder.path();
        let authority = Authority::create(path)?;
        authority.write_serving(&[SERVICE])?;
        authority.write_service_account_key()?;
        fs::write(path.join("tokens.csv"), format!("{TOKEN},admin,admin,system:masters\n"))?;

        let [client, peer, secure] = free_ports()?;
        let etcd = start_etcd(path, client, peer)?;
        let server = format!("https://127.0.0.1:{secure}");
        authority.write_kubeconfig(ADMIN, &server, &path.join("admin.kubeconfig"))?;
        let command = (programs.join("kube-apiserver"), api_server_arguments(path, client, secure));
        let api_server = Process::start(&command.0, &command.1, &[], &path.join("kube-apiserver.log"))?;
        let api_server = ready(api_server, &path.join("admin.kubeconfig")).await?;
        let manager = programs.join("kube-controller-manager");
        let log = path.join("kube-controller-manager.log");
        let controller_manager = Process::start(&manager, &controller_manager_arguments(path), &[], &log)?;
        Ok(Self {
            authority,
            server,
            etcd: Mutex::new(etcd),
            api_server: Mutex::new(api_server),
            api_server_command: command,
            _controller_manager: controller_manager,
            folder,
        })
    }

    pub(super) fn admin_kubeconfig(&self) -> PathBuf {
        self.folder.path().join("admin.kubeconfig")
    }

    pub(super) fn kubeconfig(&self, user: &str, group: Option<&str>) -> Result<PathBuf> {
        let path = self.folder.path().join(format!("{}.kubeconfig", user.replace([':', '/'], "_")));
        self.authority.write_kubeconfig(Identity { user, group }, &self.server, &path)?;
        Ok(path)
    }

    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// Ends the API server as a crash would; etcd keeps everything.
    pub(super) fn stop_api_server(&self) {
        self.api_server.lock().expect("no panic under this lock").kill();
    }

    pub(super) async fn start_api_server(&self) -> Result<()> {
        let (program, arguments) = &self.api_server_command;
        let log = self.folder.path().join("kube-apiserver.log");
        let process = Process::start(program, arguments, &[], &log)?;
        let process = ready(process, &self.admin_kubeconfig()).await?;
        *self.api_server.lock().expect("no panic under this lock") = process;
        Ok(())
    }

    pub(super) fn processes(&self) -> Vec<u32> {
        let id = |process: &Mutex<Process>| process.lock().expect("no panic under this lock").id();
        vec![id(&self.etcd), id(&self.api_server)]
    }
}

/// The API's own Service, the first of the range below.
const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// Accepted beside certificates, for clients that only speak bearer tokens.
pub(super) const TOKEN: &str = "machinist-test-token";

const ADMIN: Identity<'static> = Identity { user: "admin", group: Some("system:masters") };

fn start_etcd(path: &Path, client: u16, peer: u16) -> Result<Process> {
    let client = format!("http://127.0.0.1:{client}");
    let peer = format!("http://127.0.0.1:{peer}");
    let arguments = [
        format!("--data-dir={}", path.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--log-level=error".to_owned(),
        // A test's life is short, and a snapshot in the middle of it only costs time.
        "--snapshot-count=1000000".to_owned(),
    ];
    let program = needs::on_path("etcd").context("etcd is not on the PATH")?;
    // Debian's etcd refuses architectures it was not tested on unless told otherwise.
    let environment = [("ETCD_UNSUPPORTED_ARCH".to_owned(), "arm64".to_owned())];
    let environment = if cfg!(target_arch = "aarch64") { &environment[..] } else { &[] };
    Ok(Process::start(&program, &arguments, environment, &path.join("etcd.log"))?)
}

fn api_server_arguments(path: &Path, etcd: u16, port: u16) -> Vec<String> {
    let file = |name: &str| path.join(name).display().to_string();
    vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", file("certificates")),
        format!("--tls-cert-file={}", file("serving.crt")),
        format!("--tls-private-key-file={}", file("serving.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--token-auth-file={}", file("tokens.csv")),
        format!("--service-account-key-file={}", file("service-account.pub")),
        format!("--service-account-signing-key-file={}", file("service-account.key")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--profiling=false".to_owned(),
        "--v=0".to_owned(),
    ]
}

fn controller_manager_arguments(path: &Path) -> Vec<String> {
    let file = |name: &str| path.join(name).display().to_string();
    vec![
        format!("--kubeconfig={}", file("admin.kubeconfig")),
        format!("--controllers={CONTROLLERS}"),
        format!("--service-account-private-key-file={}", file("service-account.key")),
        format!("--root-ca-file={}", file("ca.crt")),
        format!("--cluster-signing-cert-file={}", file("ca.crt")),
        format!("--cluster-signing-key-file={}", file("ca.key")),
        format!("--cert-dir={}", file("certificates")),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--kube-api-qps=1000".to_owned(),
        "--kube-api-burst=2000".to_owned(),
        "--v=0".to_owned(),
    ]
}

/// Waits until an API server that was just started answers the user of a kubeconfig.
///
/// # Errors
/// With its last words, when it ends or takes two minutes.
pub async fn ready(mut api_server: Process, kubeconfig: &Path) -> Result<Process> {
    let client = client(kubeconfig).await?;
    for _ in 0..2400 {
        if !api_server.is_running() {
            bail!("kube-apiserver ended: {}", api_server.tail(20));
        }
        let request = http_get("/readyz");
        if client.request_text(request).await.is_ok_and(|text| text == "ok") {
            return Ok(api_server);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("kube-apiserver was not ready in 2 minutes: {}", api_server.tail(20))
}

fn http_get(path: &str) -> http::Request<Vec<u8>> {
    http::Request::get(path).body(Vec::new()).expect("the path is a constant")
}

pub(super) async fn client(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// In memory where the machine has such a folder: etcd waits for the disk on each write.
fn quick_folder() -> Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let mut builder = tempfile::Builder::new();
    builder.prefix("machinist-control-plane-");
    if memory.is_dir()
        && let Ok(folder) = builder.tempdir_in(memory)
    {
        return Ok(folder);
    }
    Ok(builder.tempdir()?)
}

fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut ports = [0; N];
    let mut listeners = Vec::new();
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        *port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(ports)
}
