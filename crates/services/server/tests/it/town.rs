//! A cluster with a pool, a rendered config and several config servers. Used by the quick tests on the embedded API and
//! by `e2e` on a real one.

use std::net::SocketAddr;
use std::sync::Mutex;

use api::machine::Machine;
use api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use api::machinist::{BootstrapToken, PoolPolicy};
use api::names;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use server::{BootstrapFiles, ClusterSettings, ClusterSource, Listener, Settings, Source};
use serving::token::Grant;
use testkit::{ControlPlane, Kind, certify, control_plane, wait_for_all, wait_until};

/// A word in the served file that only clients with a token may see.
pub(crate) const SECRET_WORD: &str = "open-sesame";
pub(crate) const CONFIG: &str = "rendered-worker-1";
const ACCEPT: &str = "application/vnd.coreos.ignition+json;version=3.5.0";

pub(crate) struct Town {
    pub(crate) control_plane: ControlPlane,
    pub(crate) client: Client,
    /// The server's own service account, with exactly the permissions it declares.
    account: Client,
    pub(crate) servers: Vec<SocketAddr>,
    pub(crate) web: reqwest::Client,
    pub(crate) folder: tempfile::TempDir,
    /// Every token that was issued.
    pub(crate) secrets: Mutex<Vec<String>>,
}

impl Town {
    /// Returns `None` if this machine lacks a prerequisite.
    pub(crate) async fn start(kind: Kind, servers: usize) -> Option<Self> {
        let control_plane = control_plane(kind).await?;
        control_plane.install().await;
        let client = cluster::connect(Some(&control_plane.kubeconfig())).await.unwrap();
        for namespace in [names::NAMESPACE, names::MACHINE_API_NAMESPACE] {
            cluster::ensure_namespace(&client, namespace).await.unwrap();
        }
        furnish(&client).await;
        let folder = tempfile::tempdir().unwrap();
        certify(folder.path(), "town");
        std::fs::write(folder.path().join("token"), "kubelet-token").unwrap();
        std::fs::write(folder.path().join("ca.crt"), "kubelet-ca").unwrap();
        let certificate = std::fs::read(folder.path().join("tls.crt")).unwrap();
        let trusted = reqwest::Certificate::from_pem(&certificate).unwrap();
        let web = reqwest::Client::builder().tls_certs_only([trusted]).build().unwrap();
        let account = account(&control_plane, &client).await;
        let mut town =
            Self { control_plane, client, account, servers: Vec::new(), web, folder, secrets: Mutex::default() };
        for _ in 0..servers {
            let server = town.serve();
            town.servers.push(server);
        }
        town.ready().await;
        Some(town)
    }

    fn serve(&self) -> SocketAddr {
        let path = |name: &str| self.folder.path().join(name);
        let settings = ClusterSettings {
            files: BootstrapFiles {
                api_server_url: self.control_plane.server().to_owned(),
                folder: self.folder.path().to_owned(),
            },
            server_ca: Some(path("tls.crt")),
            namespace: names::NAMESPACE.to_owned(),
        };
        let source = Source::Cluster(Box::new(ClusterSource::start(self.account.clone(), settings)));
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let (certificate, key) = (path("tls.crt"), path("tls.key"));
        let settings = Settings { secure: any, insecure: None, certificate, key, daemon: None, host: None };
        let listener = Listener::bind(settings, source).unwrap();
        let address = listener.address().unwrap();
        tokio::spawn(listener.run());
        address
    }

    async fn ready(&self) {
        for index in 0..self.servers.len() {
            wait_until("the server to be ready", || async {
                let answer = self.web.get(self.url(index, "/readyz")).send().await.ok()?;
                (answer.status() == 200).then_some(())
            })
            .await;
        }
    }

    pub(crate) fn url(&self, server: usize, path: &str) -> String {
        format!("https://{}{path}", self.servers[server])
    }

    /// Requests a pool's config from one of the servers.
    pub(crate) async fn ask(&self, server: usize, pool: &str, token: Option<&str>) -> (u16, String) {
        let request = self.web.get(self.url(server, &format!("/config/{pool}"))).header("accept", ACCEPT);
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    pub(crate) async fn report(&self, token: &str, report: &Value) -> (u16, String) {
        let request = self.web.post(self.url(0, "/report/worker")).bearer_auth(token).body(report.to_string());
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// Issues a token and waits until every server knows it.
    pub(crate) async fn token(&self, change: impl FnOnce(&mut Grant)) -> String {
        let mut grant = Grant { pool: "worker".to_owned(), ..Grant::default() };
        change(&mut grant);
        let secret = cluster::tokens::issue(&self.client, &grant).await.unwrap();
        self.secrets.lock().unwrap().push(secret.clone());
        for index in 0..self.servers.len() {
            // A HEAD checks the token without using it up. An unknown token gets 401.
            let url = self.url(index, &format!("/config/{}", grant.pool));
            wait_until("the server to know the token", || async {
                if grant.machine.is_some() || grant.expires.is_some_and(|end| end <= Timestamp::now()) {
                    return Some(());
                }
                let head = self.web.head(&url).header("accept", ACCEPT).bearer_auth(&secret).send().await.ok()?;
                (![401, 429].contains(&head.status().as_u16())).then_some(())
            })
            .await;
        }
        secret
    }

    pub(crate) async fn token_object(&self, pool: &str, secret: &str) -> BootstrapToken {
        Api::all(self.client.clone()).get(&serving::token::name(pool, secret)).await.unwrap()
    }

    /// Waits for an event with this reason whose note contains these words.
    pub(crate) async fn event(&self, reason: &str, words: &[&str]) -> Event {
        let events: Api<Event> = Api::all(self.client.clone());
        let matches = |event: &Event| {
            let note = event.note.clone().unwrap_or_default();
            event.reason.as_deref() == Some(reason) && words.iter().all(|word| note.contains(word))
        };
        let what = format!("event {reason} with {words:?}");
        let all = wait_for_all(&events, &what, |events| events.iter().any(matches)).await;
        all.into_iter().find(matches).unwrap()
    }

    pub(crate) fn machines(&self) -> Api<Machine> {
        Api::namespaced(self.client.clone(), names::MACHINE_API_NAMESPACE)
    }

    /// Creates a Machine with this address.
    pub(crate) async fn machine(&self, name: &str, address: &str) {
        let mut machine = Machine::default();
        machine.metadata.name = Some(name.to_owned());
        self.machines().create(&PostParams::default(), &machine).await.unwrap();
        let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": address}]}});
        self.machines().patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    pub(crate) async fn open_pool(&self, open: bool) {
        let policy = json!({
            "apiVersion": "machinist.dev/v1alpha1", "kind": "PoolPolicy", "metadata": {"name": "worker"},
            "spec": {"configServer": {"open": open}},
        });
        let policies: Api<PoolPolicy> = Api::all(self.client.clone());
        let parameters = PatchParams::apply("town").force();
        policies.patch("worker", &parameters, &Patch::Apply(&policy)).await.unwrap();
    }
}

pub(crate) fn in_an_hour() -> Timestamp {
    Timestamp::now() + SignedDuration::from_hours(1)
}

/// Creates the service account that an installation runs the server with.
async fn account(control_plane: &ControlPlane, client: &Client) -> Client {
    let name = "machine-config-server";
    for object in cluster::rights::manifests(name, names::NAMESPACE, &server::ROLES) {
        let object: kube::api::DynamicObject = serde_json::from_value(object).unwrap();
        let types = object.types.clone().unwrap();
        let kind = kube::core::GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", &types.kind);
        let resource = kube::api::ApiResource::from_gvk(&kind);
        let api: Api<kube::api::DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        api.create(&PostParams::default(), &object).await.unwrap();
    }
    let user = format!("system:serviceaccount:{}:{name}", names::NAMESPACE);
    cluster::connect(Some(&control_plane.user_kubeconfig(&user, None))).await.unwrap()
}

/// Creates a pool `worker` with one rendered config, a pool `ghost` whose config is missing, a pool without a config,
/// and the ControllerConfig.
async fn furnish(client: &Client) {
    let file = json!({
        "path": "/etc/secret", "mode": 384, "overwrite": true, "contents": {"source": format!("data:,{SECRET_WORD}")},
    });
    let ignition = json!({"ignition": {"version": "3.5.0"}, "storage": {"files": [file]}});
    let config = testkit::objects::machine_config(CONFIG, "worker", ignition);
    let configs: Api<MachineConfig> = Api::all(client.clone());
    configs.create(&PostParams::default(), &config).await.unwrap();
    let pools: Api<MachineConfigPool> = Api::all(client.clone());
    for (name, config) in [("worker", Some(CONFIG)), ("ghost", Some("rendered-ghost-1")), ("empty", None)] {
        let pool = pools.create(&PostParams::default(), &testkit::objects::pool(name)).await.unwrap();
        if let Some(config) = config {
            let status = json!({"status": {"configuration": {"name": config}}});
            pools.patch_status(&pool.name_any(), &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        }
    }
    let controller_config = testkit::objects::controller_config();
    let controller_configs: Api<ControllerConfig> = Api::all(client.clone());
    let parameters = PatchParams::apply("town").force();
    let patch = Patch::Apply(&controller_config);
    controller_configs.patch(names::CONTROLLER_CONFIG, &parameters, &patch).await.unwrap();
}
