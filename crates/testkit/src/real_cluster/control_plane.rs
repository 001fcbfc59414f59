//! The control plane of a cluster with real kubelets: etcd, kube-apiserver, kube-controller-manager and kube-scheduler as
//! processes in the namespace in the middle.
//!
//! Unlike the control plane of other suites it runs every controller, because there are kubelets that answer for nodes and
//! pods.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;

use super::network::{API_SERVICE, Forward, HUB, Network, SERVICES};
use referee::control_plane::credentials::{Authority, Identity};
use referee::control_plane::ready;
use referee::process::Process;
use referee::{cache, needs};

/// With this token a kubelet asks for its certificate; it is good for nothing else.
const BOOTSTRAP_TOKEN: &str = "machinist-test-bootstrap-token";

const API_PORT: u16 = 6443;

/// The running processes. The API server is the first to end: it waits long for an etcd that has gone.
pub(super) struct ControlPlane {
    api_server: Process,
    _scheduler: Process,
    _controller_manager: Process,
    _etcd: Process,
    _forward: Forward,
    files: Files,
}

/// Certificates and kubeconfigs.
pub(super) struct Files {
    authority: Authority,
    folder: PathBuf,
}

impl Files {
    /// Makes an authority, and what it signs for the control plane and for new nodes.
    pub(super) fn create(folder: &Path) -> Result<Self> {
        let authority = Authority::create(folder)?;
        authority.write_serving(&[HUB, API_SERVICE])?;
        authority.write_service_account_key()?;
        authority.write_client("kubelet-client", Identity { user: "kube-apiserver", group: Some("system:masters") })?;
        let tokens = format!("{BOOTSTRAP_TOKEN},kubelet-bootstrap,kubelet-bootstrap,system:bootstrappers\n");
        fs::write(folder.join("tokens.csv"), tokens)?;
        let files = Self { authority, folder: folder.to_owned() };
        let server = format!("https://{HUB}:{API_PORT}");
        let in_cluster = |user: &str, group: Option<&str>, name: &str| {
            files.authority.write_kubeconfig(Identity { user, group }, &server, &files.path(name))
        };
        in_cluster("admin", Some("system:masters"), "control-plane.kubeconfig")?;
        in_cluster("system:kube-proxy", None, "proxy.kubeconfig")?;
        files.authority.write_token_kubeconfig(BOOTSTRAP_TOKEN, &server, &files.path("bootstrap.kubeconfig"))?;
        Ok(files)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(super) fn read(&self, name: &str) -> Result<String> {
        let path = self.path(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    fn argument(&self, flag: &str, name: &str) -> String {
        format!("--{flag}={}", self.path(name).display())
    }
}

impl ControlPlane {
    /// Starts everything and waits until the API answers.
    pub(super) async fn start(files: Files, network: &Network) -> Result<Self> {
        let (plane, nodes) =
            tokio::task::spawn_blocking(|| (cache::control_plane_programs(), cache::node_programs())).await?;
        let (plane, nodes) = (plane?, nodes?);
        let hub = network.hub();
        let start = |program: &Path, arguments: &[String]| start(&hub, &files, program, arguments);
        let etcd = start(&needs::on_path("etcd").context("etcd is not on the PATH")?, &etcd(&files))?;
        let api_server = start(&plane.join("kube-apiserver"), &api_server(&files))?;
        let forward = network.forward((HUB, API_PORT).into())?;
        let server = format!("https://127.0.0.1:{}", forward.port());
        let admin = Identity { user: "admin", group: Some("system:masters") };
        files.authority.write_kubeconfig(admin, &server, &files.path("admin.kubeconfig"))?;
        let api_server = ready(api_server, &files.path("admin.kubeconfig")).await?;
        let controller_manager = start(&plane.join("kube-controller-manager"), &controller_manager(&files))?;
        let scheduler = start(&nodes.join("kube-scheduler"), &scheduler(&files))?;
        let client = referee::control_plane::client(&files.path("admin.kubeconfig")).await;
        allow_kubelets_to_join(client).await?;
        Ok(Self {
            api_server,
            _scheduler: scheduler,
            _controller_manager: controller_manager,
            _etcd: etcd,
            _forward: forward,
            files,
        })
    }

    /// The administrator's kubeconfig, for programs on this machine.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.files.path("admin.kubeconfig")
    }

    /// The last words of the API server, for the message of a failed test.
    pub(super) fn log(&self) -> String {
        self.api_server.tail(20)
    }
}

fn start(hub: &Path, files: &Files, program: &Path, arguments: &[String]) -> Result<Process> {
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut words = vec![format!("--net={}", hub.display()), "--".to_owned(), program.display().to_string()];
    words.extend(arguments.iter().cloned());
    let nsenter = needs::on_path("nsenter").context("nsenter is not on the PATH")?;
    Process::start(&nsenter, &words, &[], &files.path(&format!("{name}.log")))
        .with_context(|| format!("cannot start {name}"))
}

fn etcd(files: &Files) -> Vec<String> {
    let (client, peer) = ("http://127.0.0.1:2379", "http://127.0.0.1:2380");
    vec![
        files.argument("data-dir", "etcd"),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--log-level=error".to_owned(),
        "--snapshot-count=1000000".to_owned(),
    ]
}

fn api_server(files: &Files) -> Vec<String> {
    vec![
        "--etcd-servers=http://127.0.0.1:2379".to_owned(),
        "--bind-address=0.0.0.0".to_owned(),
        format!("--advertise-address={HUB}"),
        format!("--secure-port={API_PORT}"),
        files.argument("cert-dir", "certificates"),
        files.argument("tls-cert-file", "serving.crt"),
        files.argument("tls-private-key-file", "serving.key"),
        files.argument("client-ca-file", "ca.crt"),
        files.argument("token-auth-file", "tokens.csv"),
        files.argument("service-account-key-file", "service-account.pub"),
        files.argument("service-account-signing-key-file", "service-account.key"),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        files.argument("kubelet-client-certificate", "kubelet-client.crt"),
        files.argument("kubelet-client-key", "kubelet-client.key"),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        format!("--service-cluster-ip-range={SERVICES}"),
        "--allow-privileged=true".to_owned(),
        // Both wait for progress notifications of etcd, which Debian's is too old to send: kubelets would see changes late.
        "--feature-gates=WatchList=false,SizeBasedListCostEstimate=false".to_owned(),
        "--profiling=false".to_owned(),
        "--v=0".to_owned(),
    ]
}

fn controller_manager(files: &Files) -> Vec<String> {
    vec![
        files.argument("kubeconfig", "control-plane.kubeconfig"),
        files.argument("service-account-private-key-file", "service-account.key"),
        files.argument("root-ca-file", "ca.crt"),
        files.argument("cluster-signing-cert-file", "ca.crt"),
        files.argument("cluster-signing-key-file", "ca.key"),
        files.argument("cert-dir", "certificates"),
        "--leader-elect=false".to_owned(),
        "--kube-api-qps=1000".to_owned(),
        "--kube-api-burst=2000".to_owned(),
        "--v=0".to_owned(),
    ]
}

fn scheduler(files: &Files) -> Vec<String> {
    vec![
        files.argument("kubeconfig", "control-plane.kubeconfig"),
        files.argument("cert-dir", "certificates"),
        "--leader-elect=false".to_owned(),
        "--v=0".to_owned(),
    ]
}

/// Lets kubelets ask for certificates with the bootstrap token, has the requests approved, and lets them renew.
async fn allow_kubelets_to_join(client: Client) -> Result<()> {
    let requests = "system:certificates.k8s.io:certificatesigningrequests";
    let rights = [
        ("testkit-kubelets-ask", "system:node-bootstrapper".to_owned(), "system:bootstrappers"),
        ("testkit-kubelets-join", format!("{requests}:nodeclient"), "system:bootstrappers"),
        ("testkit-kubelets-renew", format!("{requests}:selfnodeclient"), "system:nodes"),
    ];
    let bindings: Api<ClusterRoleBinding> = Api::all(client);
    for (name, role, group) in rights {
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
        });
        bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
    }
    Ok(())
}
