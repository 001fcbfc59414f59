//! A cluster that new machines can join: a pool with a rendered config, the controllers, and `machinist server`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use api::machineconfiguration::{ControllerConfig, MachineConfigPool};
use api::machinist::PoolPolicy;
use api::names;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use testkit::binaries::binary;
use testkit::process::Process;
use testkit::{ControlPlane, Kind, certify, control_plane, needs, objects, wait_for, wait_for_all, wait_until};

use super::machine::Machine;

const DAEMON: &str = include_str!("../../../../manifests/node/machinistd.service");
const BOOTSTRAPPER: &str = "node-bootstrapper";

pub(super) struct Scene {
    control_plane: ControlPlane,
    pub(super) client: Client,
    /// The rendered config of pool `worker`.
    pub(super) config: String,
    address: String,
    folder: tempfile::TempDir,
    _server: Process,
}

impl Scene {
    /// Returns `None` if this machine lacks a prerequisite.
    pub(super) async fn start() -> Option<Self> {
        if !needs::nspawn() || !needs::root() || !needs::go() {
            return None;
        }
        let control_plane = control_plane(Kind::Real).await?;
        control_plane.install().await;
        let client = cluster::connect(Some(&control_plane.kubeconfig())).await.unwrap();
        for namespace in [names::NAMESPACE, names::MACHINE_API_NAMESPACE] {
            cluster::ensure_namespace(&client, namespace).await.unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        certify(folder.path(), "scene");
        let token = bootstrapper(&client).await;
        let files = folder.path().join("bootstrap-token");
        std::fs::create_dir(&files).unwrap();
        std::fs::write(files.join("token"), token).unwrap();
        std::fs::write(files.join("ca.crt"), authority(&control_plane.kubeconfig())).unwrap();

        let settings =
            ::controllers::Settings { settle: Duration::ZERO, identity: "scene".into(), ..Default::default() };
        tokio::spawn(::controllers::run(client.clone(), settings, std::future::pending()));
        let config = furnish(&client).await;
        let (server, address) = serve(&control_plane, folder.path()).await;
        Some(Self { control_plane, client, config, address, folder, _server: server })
    }

    /// Returns user data for a machine of pool `worker`, created with the command that users run.
    pub(super) fn pointer(&self, more: &[&str]) -> String {
        let mut command = Command::new(binary("machinist"));
        command.args(["pointer", "--pool", "worker", "--server", &self.address, "--ca"]);
        command.arg(self.folder.path().join("tls.crt")).arg("--kubeconfig").arg(self.control_plane.kubeconfig());
        let output = command.args(more).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Opens the pool, so that no token is needed, or closes it.
    pub(super) async fn open_pool(&self, open: bool) {
        let policy = json!({
            "apiVersion": "machinist.dev/v1alpha1", "kind": "PoolPolicy", "metadata": {"name": "worker"},
            "spec": {"configServer": {"open": open}},
        });
        let policies: Api<PoolPolicy> = Api::all(self.client.clone());
        policies.patch("worker", &PatchParams::apply("scene").force(), &Patch::Apply(&policy)).await.unwrap();
    }

    /// Waits for an event with this reason whose note contains these words.
    pub(super) async fn event(&self, reason: &str, words: &[&str]) {
        let events: Api<Event> = Api::all(self.client.clone());
        let matches = |event: &Event| {
            let note = event.note.clone().unwrap_or_default();
            event.reason.as_deref() == Some(reason) && words.iter().all(|word| note.contains(word))
        };
        wait_for_all(&events, &format!("event {reason} with {words:?}"), |events| events.iter().any(matches)).await;
    }

    /// Does what a kubelet does first: requests a certificate with its bootstrap kubeconfig, and registers its Node.
    pub(super) async fn play_kubelet(&self, name: &str, machine: &Machine) {
        let served = self.folder.path().join("served-kubeconfig");
        std::fs::write(&served, machine.read("etc/kubernetes/kubeconfig")).unwrap();
        let bootstrapping = cluster::connect(Some(&served)).await.unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name.push(rcgen::DnType::OrganizationName, "system:nodes");
        parameters.distinguished_name.push(rcgen::DnType::CommonName, format!("system:node:{name}"));
        let request = parameters.serialize_request(&key).unwrap().pem().unwrap();
        let request = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
            "spec": {
                "request": STANDARD.encode(request), "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
                "usages": ["digital signature", "client auth"],
            },
        });
        let requests: Api<CertificateSigningRequest> = Api::all(bootstrapping);
        let request: CertificateSigningRequest = serde_json::from_value(request).unwrap();
        requests.create(&PostParams::default(), &request).await.unwrap();
        self.control_plane.kubectl(&["certificate", "approve", name]);
        let requests: Api<CertificateSigningRequest> = Api::all(self.client.clone());
        let signed = wait_for(&requests, name, "the certificate to be signed", |request| {
            request.and_then(|request| request.status.as_ref()?.certificate.as_ref()).is_some()
        });
        let certificate = signed.await.unwrap().status.unwrap().certificate.unwrap().0;
        let kubeconfig = json!({
            "clusters": [{"name": "local", "cluster": {
                "server": self.control_plane.server(),
                "certificate-authority-data": STANDARD.encode(authority(&self.control_plane.kubeconfig())),
            }}],
            "users": [{"name": "kubelet", "user": {
                "client-certificate-data": STANDARD.encode(certificate),
                "client-key-data": STANDARD.encode(key.serialize_pem()),
            }}],
            "contexts": [{"name": "kubelet", "context": {"cluster": "local", "user": "kubelet"}}],
            "current-context": "kubelet",
        });
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.create(&PostParams::default(), &objects::node(name, &["worker"])).await.unwrap();
        std::fs::create_dir_all(machine.path("var/lib/kubelet")).unwrap();
        std::fs::write(machine.path("var/lib/kubelet/kubeconfig"), kubeconfig.to_string()).unwrap();
    }
}

/// Creates a pool with the files that the machines need, and returns its rendered config.
async fn furnish(client: &Client) -> String {
    let controller_config = objects::controller_config();
    let configs: Api<ControllerConfig> = Api::all(client.clone());
    let (parameters, patch) = (PatchParams::apply("scene").force(), Patch::Apply(&controller_config));
    configs.patch(names::CONTROLLER_CONFIG, &parameters, &patch).await.unwrap();

    let greeting =
        json!({"path": "/etc/greeting", "mode": 420, "overwrite": true, "contents": {"source": "data:,hello"}});
    let units = json!([
        {"name": "machinistd.service", "enabled": true, "contents": DAEMON,
         "dropins": [{"name": "10-name.conf", "contents": "[Service]\nEnvironment=NODE_NAME=%H\n"}]},
    ]);
    let ignition = json!({
        "ignition": {"version": "3.4.0"}, "storage": {"files": [greeting]}, "systemd": {"units": units},
    });
    let fragment = objects::machine_config("00-worker", "worker", ignition);
    Api::all(client.clone()).create(&PostParams::default(), &fragment).await.unwrap();
    let pools: Api<MachineConfigPool> = Api::all(client.clone());
    pools.create(&PostParams::default(), &objects::pool("worker")).await.unwrap();
    let served =
        |pool: &MachineConfigPool| pool.status.as_ref().and_then(|status| status.configuration.as_ref()?.name.clone());
    let pool = wait_for(&pools, "worker", "the pool to have a config", |pool| pool.and_then(served).is_some()).await;
    served(&pool.unwrap()).unwrap()
}

/// Creates the service account whose token lets new machines request certificates, and nothing else.
async fn bootstrapper(client: &Client) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), names::NAMESPACE);
    let mut account = ServiceAccount::default();
    account.metadata.name = Some(BOOTSTRAPPER.to_owned());
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": BOOTSTRAPPER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-bootstrapper"},
        "subjects": [{"kind": "ServiceAccount", "name": BOOTSTRAPPER, "namespace": names::NAMESPACE}],
    });
    let binding: ClusterRoleBinding = serde_json::from_value(binding).unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &binding).await.unwrap();
    let request = serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": 3600}})).unwrap();
    let answer = accounts.create_token_request(BOOTSTRAPPER, &PostParams::default(), &request).await.unwrap();
    answer.status.unwrap().token
}

/// Returns the API's own CA from the administrator's kubeconfig.
fn authority(kubeconfig: &Path) -> Vec<u8> {
    let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
    let cluster = kubeconfig.clusters.into_iter().next().unwrap().cluster.unwrap();
    match (cluster.certificate_authority_data, cluster.certificate_authority) {
        (Some(data), _) => STANDARD.decode(data).unwrap(),
        (None, path) => std::fs::read(path.unwrap()).unwrap(),
    }
}

/// Starts `machinist server` on a free port and waits until it is ready.
async fn serve(control_plane: &ControlPlane, folder: &Path) -> (Process, String) {
    let path = |name: &str| folder.join(name).display().to_string();
    let argument = |name: &str, value: String| [format!("--{name}"), value];
    let arguments: Vec<String> = [
        ["server".to_owned(), "--secure-port=0".to_owned()],
        argument("address", "127.0.0.1".to_owned()),
        argument("cert", path("tls.crt")),
        argument("key", path("tls.key")),
        argument("ca", path("tls.crt")),
        argument("bootstrap-token", path("bootstrap-token")),
        argument("apiserver-url", control_plane.server().to_owned()),
        argument("server", "127.0.0.1".to_owned()),
        argument("daemon-binary", stripped(folder)),
        argument("kubeconfig", control_plane.kubeconfig().display().to_string()),
    ]
    .into_iter()
    .flatten()
    .collect();
    let log: PathBuf = folder.join("server.log");
    let server = Process::start(&binary("machinist"), &arguments, &[], &log).unwrap();
    let address = wait_until("the server to say where it is", || async {
        let output = server.output();
        let line = output.lines().find_map(|line| line.strip_prefix("Serving https://"))?;
        Some(line.trim().to_owned())
    })
    .await;
    let certificate = reqwest::Certificate::from_pem(&std::fs::read(folder.join("tls.crt")).unwrap()).unwrap();
    let web = reqwest::Client::builder().tls_certs_only([certificate]).build().unwrap();
    wait_until("the server to be ready", || async {
        let answer = web.get(format!("https://{address}/readyz")).send().await.ok()?;
        (answer.status() == 200).then_some(())
    })
    .await;
    (server, address)
}

/// Returns the daemon without debug information, as in a release.
fn stripped(folder: &Path) -> String {
    let path = folder.join("machinistd").display().to_string();
    let status = Command::new("strip").arg("-o").arg(&path).arg(binary("machinistd")).status().unwrap();
    assert!(status.success());
    path
}
