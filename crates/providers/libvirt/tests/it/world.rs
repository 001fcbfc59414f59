//! A host with a pool, a base volume and a network, and machines that want domains on it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use libvirt::{Libvirt, Settings};
use machine::provider::{Error, Instance, Intent, Mark, Provider, Request, SecretData, Secrets, SpecRules};
use serde_json::{Value, json};
use testkit::LibvirtDaemon;

use crate::edge::Edge;

pub(crate) const USER_DATA: &str = r#"{"ignition":{"version":"3.5.0"}}"#;

/// One daemon serves all tests, which keep apart by names. `None` where it cannot run.
fn daemon() -> Option<&'static LibvirtDaemon> {
    static DAEMON: OnceLock<Option<LibvirtDaemon>> = OnceLock::new();
    // Asked outside the lock, so that each test that cannot run is recorded.
    if !testkit::needs::libvirt() {
        return None;
    }
    DAEMON.get_or_init(|| Some(LibvirtDaemon::start().unwrap())).as_ref()
}

pub(crate) struct World {
    pub(crate) edge: Edge,
    pub(crate) provider: Libvirt,
    /// Names of pools, networks and machines begin with it.
    pub(crate) id: String,
    pub(crate) uri: String,
    storage: String,
    pub(crate) folder: PathBuf,
}

impl World {
    /// With volumes that are files.
    pub(crate) async fn start(id: &str) -> Option<Self> {
        Self::start_with(id, true).await
    }

    /// With the test driver's volumes, which have a size and nothing in them.
    pub(crate) async fn start_without_storage(id: &str) -> Option<Self> {
        Self::start_with(id, false).await
    }

    async fn start_with(id: &str, is_real: bool) -> Option<Self> {
        let daemon = tokio::task::spawn_blocking(daemon).await.unwrap()?;
        let storage = if is_real { daemon.storage_uri() } else { daemon.uri() };
        let edge = Edge::new(is_real.then(|| storage.clone()));
        let provider = provider(&edge);
        let (uri, folder) = (daemon.uri(), daemon.pool_folder(id));
        let world = Self { edge, provider, id: id.to_owned(), uri, storage, folder };
        let target = world.folder.display().to_string();
        world.store(&["pool-define-as", id, "dir", "--target", &target]);
        if is_real {
            world.store(&["pool-build", id]);
        }
        world.store(&["pool-start", id]);
        world.store(&["vol-create-as", id, "base", "1G", "--format", "qcow2"]);
        let network = format!(
            "<network><name>{id}</name><forward mode='nat'/><ip address='10.7.0.1' netmask='255.255.255.0'><dhcp>\
             <range start='10.7.0.2' end='10.7.0.254'/></dhcp></ip></network>"
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), network).unwrap();
        world.ask(&["net-define", &file.path().display().to_string()]);
        world.ask(&["net-start", id]);
        Some(world)
    }

    /// A provider of another process.
    pub(crate) fn restarted(&self) -> Libvirt {
        provider(&self.edge)
    }

    /// Asks libvirt as a person with a terminal would.
    #[track_caller]
    pub(crate) fn ask(&self, arguments: &[&str]) -> String {
        LibvirtDaemon::virsh(&self.uri, arguments).unwrap()
    }

    /// The same about pools and volumes.
    #[track_caller]
    pub(crate) fn store(&self, arguments: &[&str]) -> String {
        LibvirtDaemon::virsh(&self.storage, arguments).unwrap()
    }

    /// Names of the pool's volumes beside the base.
    pub(crate) fn volumes(&self) -> Vec<String> {
        let listed = self.store(&["vol-list", &self.id]);
        let names = listed.lines().filter_map(|line| line.split_whitespace().next());
        names.filter(|name| *name != "base").map(str::to_owned).collect()
    }

    /// Names of this world's domains.
    pub(crate) fn domains(&self) -> Vec<String> {
        let listed = self.ask(&["list", "--all", "--name"]);
        listed.lines().map(str::trim).filter(|name| name.starts_with(&self.id)).map(str::to_owned).collect()
    }

    pub(crate) fn network(&self) -> String {
        self.ask(&["net-dumpxml", &self.id])
    }

    /// Nothing of any machine is left.
    #[track_caller]
    pub(crate) fn assert_empty(&self, when: &str) {
        assert_eq!((self.domains(), self.volumes()), (Vec::new(), Vec::new()), "{when}");
        assert!(!self.network().contains("<host"), "{when}: {}", self.network());
    }

    pub(crate) fn spec(&self) -> Value {
        json!({
            "apiVersion": "libvirtproviderconfig.openshift.io/v1beta1",
            "kind": "LibvirtMachineProviderConfig",
            "uri": self.uri,
            "domainMemory": 2048,
            "domainVcpu": 2,
            "ignition": {"userDataSecret": "worker-user-data"},
            "volume": {"poolName": self.id, "baseVolumeID": "base"},
            "networkInterfaceName": self.id,
            "networkInterfaceAddress": "10.7.0.0/24",
        })
    }

    pub(crate) fn spec_with(&self, field: &str, value: Value) -> Value {
        let mut spec = self.spec();
        spec[field] = value;
        spec
    }

    /// A machine whose intent is recorded.
    pub(crate) fn machine(&self, name: &str, spec: &Value) -> Request {
        let machine = format!("{}-{name}", self.id);
        let rules: &dyn SpecRules = &libvirt::spec::Rules;
        let mut request = Request {
            mark: Mark {
                cluster: format!("{}-cluster", self.id),
                namespace: "openshift-machine-api".to_owned(),
                uid: format!("uid-{machine}"),
                machine: machine.clone(),
            },
            labels: BTreeMap::new(),
            control_plane: false,
            spec: Arc::new(spec.clone()),
            provider_id: None,
            provider_status: None,
            intent: None,
            secrets: Arc::new(secrets()),
        };
        request.intent = Some(Intent {
            token: format!("token-{machine}-1"),
            attempt: 1,
            children: rules.children(&request),
            place: rules.place(spec),
            recorded: Timestamp::now(),
        });
        request
    }

    pub(crate) async fn create(&self, request: &Request) -> Result<Instance, Error> {
        self.provider.create(request, request.intent.as_ref().unwrap()).await
    }

    pub(crate) async fn look(&self, request: &Request) -> Vec<Instance> {
        self.provider.instances(std::slice::from_ref(request)).await.pop().unwrap().unwrap()
    }
}

fn provider(edge: &Edge) -> Libvirt {
    Libvirt::with(Arc::new(edge.clone()), Settings::default())
}

pub(crate) fn secrets() -> Secrets {
    let user_data = BTreeMap::from([("userData".to_owned(), USER_DATA.as_bytes().to_vec())]);
    Secrets { credentials: None, user_data: Some(SecretData(user_data)) }
}
