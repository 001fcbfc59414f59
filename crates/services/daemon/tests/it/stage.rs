//! The daemon's loop on a folder, with the embedded API at the end of a line that a test can cut.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::machineconfiguration::MachineConfig;
use api::{annotations, labels};
use change::host::Host;
use daemon::access::{Access, Source};
use daemon::engine::{Engine, Prepared};
use daemon::metrics::Metrics;
use daemon::run::{Ended, Options};
use daemon::store::Store;
use host::directory::Directory;
use http::Request;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::client::Body;
use serde_json::{Value, json};
use testkit::{ControlPlane, Kind, control_plane, wait_for, wait_for_all};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(crate) const NODE: &str = "n1";

/// Which requests of the daemon fail before they leave the machine.
type Cut = Arc<dyn Fn(&Request<Body>) -> bool + Send + Sync>;

/// What becomes of a request of the daemon.
pub(crate) enum Fate {
    Arrives,
    /// It never leaves the machine.
    Lost,
    /// The API answers that the daemon may not ask this.
    Refused,
}

pub(crate) struct Stage {
    /// Ends with the stage.
    control_plane: ControlPlane,
    folder: tempfile::TempDir,
    /// The test's own, which no cut touches.
    pub(crate) client: Client,
    pub(crate) nodes: Api<Node>,
    pub(crate) host: Arc<Directory>,
    /// How many requests of the daemon found the line cut.
    lost: watch::Sender<usize>,
    stop: watch::Sender<bool>,
}

impl Stage {
    /// A node that runs `config`, whose daemon has not started yet.
    pub(crate) async fn start(config: &MachineConfig) -> Self {
        let name = config.metadata.name.clone().unwrap();
        let stage = Self::start_idle(json!({
            annotations::CURRENT_CONFIG: name, annotations::DESIRED_CONFIG: name, annotations::STATE: "Done",
            // Such a node is not drained.
            annotations::CONTROL_PLANE_TOPOLOGY: "SingleReplica",
        }))
        .await;
        settle(&*stage.host, config);
        stage.create(config).await;
        stage
    }

    /// A node with these annotations whose host never had a config.
    pub(crate) async fn start_idle(annotations: Value) -> Self {
        let control_plane = control_plane(Kind::Embedded).await.expect("the embedded API needs nothing");
        control_plane.install().await;
        let client = cluster::connect(Some(&control_plane.kubeconfig())).await.unwrap();
        // Where events go.
        cluster::ensure_namespace(&client, api::names::NAMESPACE).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let host = Arc::new(Directory::image_based(folder.path()).unwrap().that_ignores_reboots());
        crate::configs::furnish(&*host);
        let stage = Self {
            nodes: Api::all(client.clone()),
            host,
            lost: watch::channel(0).0,
            stop: watch::channel(false).0,
            client,
            folder,
            control_plane,
        };
        let node = json!({"metadata": {"name": NODE, "annotations": annotations}});
        stage.nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
        stage
    }

    /// A rendered config of the pool `worker`.
    pub(crate) async fn create(&self, config: &MachineConfig) {
        let mut config = config.clone();
        config.metadata.labels = Some([(labels::RENDERED_FOR.to_owned(), "worker".to_owned())].into());
        let configs: Api<MachineConfig> = Api::all(self.client.clone());
        configs.create(&PostParams::default(), &config).await.unwrap();
    }

    /// The cluster's MachineConfiguration, with this spec.
    pub(crate) async fn configure(&self, spec: Value) {
        let kind = kube::api::GroupVersionKind::gvk("operator.openshift.io", "v1", "MachineConfiguration");
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kube::api::ApiResource::from_gvk(&kind));
        let object = json!({
            "apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration",
            "metadata": {"name": "cluster"}, "spec": spec,
        });
        api.patch("cluster", &PatchParams::apply("test").force(), &Patch::Apply(&object)).await.unwrap();
    }

    pub(crate) async fn ask_for(&self, config: &str) {
        let patch = json!({"metadata": {"annotations": {annotations::DESIRED_CONFIG: config}}});
        self.nodes.patch(NODE, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Starts the daemon; requests that `cut` picks never arrive.
    pub(crate) fn run(&self, witness: &str, cut: Cut) -> JoinHandle<Ended> {
        self.run_with(witness, move |request| if cut(request) { Fate::Lost } else { Fate::Arrives })
    }

    /// Starts the daemon; `fate` says what becomes of its requests.
    pub(crate) fn run_with(
        &self,
        witness: &str,
        fate: impl Fn(&Request<Body>) -> Fate + Send + Sync + 'static,
    ) -> JoinHandle<Ended> {
        let (client, lost) = (self.client.clone(), self.lost.clone());
        let line = tower::service_fn(move |request: Request<Body>| {
            let (client, fate, lost) = (client.clone(), fate(&request), lost.clone());
            async move {
                match fate {
                    Fate::Arrives => client.send(request).await,
                    Fate::Lost => {
                        lost.send_modify(|count| *count += 1);
                        Err(kube::Error::Service("network is unreachable".into()))
                    }
                    Fate::Refused => {
                        lost.send_modify(|count| *count += 1);
                        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                            "message": "nodes is forbidden", "reason": "Forbidden", "code": 403});
                        let answer = http::Response::builder().status(403);
                        Ok(answer.body(Body::from(status.to_string().into_bytes())).unwrap())
                    }
                }
            }
        });
        self.begin(Client::new(line, "default"), witness, Access::default())
    }

    /// Starts the daemon as on a real host: it has a kubeconfig, which leads through `door`.
    pub(crate) async fn run_through(&self, door: SocketAddr, witness: &str) -> JoinHandle<Ended> {
        let text = std::fs::read_to_string(self.control_plane.kubeconfig()).unwrap();
        let path = self.folder.path().join("kubeconfig");
        let text = text.replace(&self.authority(), &door.to_string());
        std::fs::write(&path, text).unwrap();
        let used = daemon::credential::load(&path).unwrap();
        let client = cluster::connect::connect_with(used.kubeconfig.clone(), "kubeconfig").await.unwrap();
        let source = Source::Kubeconfig(path);
        self.begin(client, witness, Access { source, used: Some(Box::new(used)), problem: None, is_remade: true })
    }

    /// `host:port` of the API.
    pub(crate) fn authority(&self) -> String {
        let used = daemon::credential::load(&self.control_plane.kubeconfig()).unwrap();
        let server: http::Uri = used.server().unwrap().parse().unwrap();
        server.authority().unwrap().to_string()
    }

    fn begin(&self, client: Client, witness: &str, access: Access) -> JoinHandle<Ended> {
        let options = Options {
            node: NODE.to_owned(),
            watched_root: Some(self.root()),
            metrics: Metrics::default(),
            witness: daemon::trial::Witness::At(witness.to_owned()),
            kubelet: String::new(),
            namespace: api::names::NAMESPACE.to_owned(),
            access,
        };
        let (host, stopped) = (Arc::clone(&self.host) as Arc<dyn Host>, self.stop.subscribe());
        tokio::spawn(async move { daemon::run::run(host, client, options, stopped).await.unwrap() })
    }

    /// Waits until this many more requests have found the line cut.
    pub(crate) async fn loses(&self, more: usize) {
        let mut lost = self.lost.subscribe();
        let enough = *lost.borrow() + more;
        let waiting = tokio::time::timeout(Duration::from_secs(60), lost.wait_for(|lost| *lost >= enough));
        assert!(waiting.await.is_ok(), "the daemon does not ask again");
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Waits until the Node's annotations are as wanted.
    pub(crate) async fn node(&self, what: &str, is_so: impl Fn(&dyn Fn(&str) -> String) -> bool) -> Node {
        let holds = |node: Option<&Node>| {
            let all = node.and_then(|node| node.metadata.annotations.as_ref());
            all.is_some_and(|all| is_so(&|key| all.get(key).cloned().unwrap_or_default()))
        };
        wait_for(&self.nodes, NODE, what, holds).await.expect("the node is there")
    }

    /// Waits for an event about the node with this reason.
    pub(crate) async fn event(&self, reason: &str) {
        let events: Api<Event> = Api::all(self.client.clone());
        wait_for_all(&events, &format!("an event {reason}"), |events: &[Event]| {
            events.iter().any(|event| event.reason.as_deref() == Some(reason))
        })
        .await;
    }

    /// The phase of the update under way, as the journal has it.
    pub(crate) fn phase(&self) -> Option<&'static str> {
        Store::new(self.host.files()).journal().unwrap().map(|journal| journal.phase.word())
    }
}

/// Brings a host to its first config, without a cluster.
pub(crate) fn settle(host: &dyn Host, to: &MachineConfig) {
    let engine = Engine::new(host);
    let steps = engine.prepare(&MachineConfig::default(), to).unwrap();
    let prepared = Prepared { from: MachineConfig::default(), to: to.clone(), steps, actions: Vec::new(), trial: None };
    engine.execute(&prepared).unwrap();
    engine.finish().unwrap();
}
