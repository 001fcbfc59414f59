//! A vCenter with a template, and machines that want to be in it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use machine::provider::{Deletion, Error, Instance, Intent, Mark, Provider, Request, SecretData, Secrets, SpecRules};
use serde_json::{Value, json};
use testkit::Vcsim;
use testkit::vcsim::{PASSWORD, USER};
use vsphere::claims::{Address, Claims, Wish};
use vsphere::{FailureDomain, Settings, Vsphere};

use crate::edge::Edge;

pub(crate) const SERVER: &str = "vcenter.example.org";
pub(crate) const USER_DATA: &str = r#"{"ignition":{"version":"3.5.0"}}"#;
/// How often a state is looked for before it is said never to come.
const PATIENCE: usize = 500;

pub(crate) struct World {
    pub(crate) edge: Edge,
    pub(crate) provider: Vsphere,
    pub(crate) id: String,
    pub(crate) vcsim: Vcsim,
}

impl World {
    /// `None`, after it was recorded, where vcsim cannot be built.
    pub(crate) async fn start(id: &str) -> Option<Self> {
        if !(testkit::needs::go() && testkit::needs::program("setpriv", "install Debian's util-linux")) {
            return None;
        }
        let vcsim = tokio::task::spawn_blocking(|| Vcsim::start().unwrap()).await.unwrap();
        let edge = Edge::start(&vcsim.address).await;
        let provider = provider(&edge.url);
        Some(Self { edge, provider, id: id.to_owned(), vcsim })
    }

    /// A provider of another process.
    pub(crate) fn restarted(&self) -> Vsphere {
        provider(&self.edge.url)
    }

    pub(crate) fn spec(&self) -> Value {
        json!({
            "apiVersion": "machine.openshift.io/v1beta1",
            "kind": "VSphereMachineProviderSpec",
            "template": "template",
            "workspace": {
                "server": SERVER, "datacenter": "DC0", "folder": "/DC0/vm/machines", "datastore": "LocalDS_0",
                "resourcePool": "/DC0/host/DC0_C0/Resources",
            },
            "network": {"devices": [{"networkName": "VM Network"}]},
            "numCPUs": 4, "memoryMiB": 8192, "diskGiB": 120,
            "userDataSecret": {"name": "worker-user-data"},
            "credentialsSecret": {"name": "keys"},
        })
    }

    pub(crate) fn spec_with(&self, field: &str, value: Value) -> Value {
        let mut spec = self.spec();
        spec[field] = value;
        spec
    }

    pub(crate) fn spec_in(&self, field: &str, value: &str) -> Value {
        let mut spec = self.spec();
        spec["workspace"][field] = json!(value);
        spec
    }

    /// A machine whose intent is recorded.
    pub(crate) fn machine(&self, name: &str, spec: &Value) -> Request {
        let machine = format!("{}-{name}", self.id);
        let rules: &dyn SpecRules = &vsphere::spec::Rules;
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

    pub(crate) async fn delete(&self, request: &Request) {
        self.delete_with(&self.provider, request).await;
    }

    pub(crate) async fn delete_with(&self, provider: &Vsphere, request: &Request) {
        for _ in 0..PATIENCE {
            if provider.delete(request).await.unwrap() == Deletion::Gone {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{} never went away", request.mark.machine);
    }

    /// Looks until the machine has exactly one instance for which something holds.
    pub(crate) async fn look_until(&self, request: &Request, is: impl Fn(&Instance) -> bool) -> Instance {
        let mut last = Vec::new();
        for _ in 0..PATIENCE {
            last = self.look(request).await;
            if let [only] = last.as_slice()
                && is(only)
            {
                return only.clone();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{}: last seen: {last:?}", request.mark.machine);
    }

    /// Creates with a provider that does not wait for tasks.
    pub(crate) async fn create_impatiently(&self, request: &Request) -> Result<Instance, Error> {
        let settings = Settings { patience: Duration::ZERO, ..settings(&self.edge.url) };
        let provider = Vsphere::new(settings, Arc::new(NoPools));
        provider.create(request, request.intent.as_ref().unwrap()).await
    }

    /// Looks and creates, as the controllers do, until the machine is an instance that runs.
    pub(crate) async fn until_made(&self, request: &Request) -> Instance {
        for _ in 0..PATIENCE {
            match self.look(request).await.as_slice() {
                [] => drop(self.create(request).await.unwrap()),
                [only] if only.state == machine::provider::State::Running => return only.clone(),
                _ => {}
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{} was never made", request.mark.machine);
    }

    /// Waits until the machine is there, in whatever state.
    pub(crate) async fn look_until_marked(&self, request: &Request) -> bool {
        for _ in 0..PATIENCE {
            if self.marked().await.contains(&request.mark.machine) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        false
    }

    /// Names of everything with a mark of this world's cluster.
    pub(crate) async fn marked(&self) -> Vec<String> {
        let search = machine::provider::Search {
            cluster: format!("{}-cluster", self.id),
            place: Arc::new(vsphere::spec::Rules.place(&self.spec())),
            secrets: Arc::new(secrets()),
        };
        let marked = self.provider.marked(&search).await.unwrap();
        marked.into_iter().map(|marked| marked.mark.machine).collect()
    }

    /// SHA-256 of vcsim's certificate.
    pub(crate) async fn thumbprint(&self) -> String {
        let http = reqwest::Client::builder().tls_danger_accept_invalid_certs(true).tls_info(true).build().unwrap();
        let answer = http.get(format!("https://{}/about", self.vcsim.address)).send().await.unwrap();
        let info = answer.extensions().get::<reqwest::tls::TlsInfo>().unwrap();
        hex::encode(ring::digest::digest(&ring::digest::SHA256, info.peer_certificate().unwrap()))
    }

    /// Asks vCenter as a person would, and returns the answer as XML.
    pub(crate) async fn ask(&self, method: &str, this: (&str, &str), arguments: &str) -> String {
        let http = reqwest::Client::builder().tls_danger_accept_invalid_certs(true).build().unwrap();
        let url = format!("https://{}/sdk", self.vcsim.address);
        let envelope = |method: &str, this: (&str, &str), arguments: &str| {
            format!(
                "<soapenv:Envelope xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\" \
                 xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\" xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\">\
                 <soapenv:Body><{method} xmlns=\"urn:vim25\"><_this type=\"{}\">{}</_this>{arguments}</{method}>\
                 </soapenv:Body></soapenv:Envelope>",
                this.0, this.1
            )
        };
        let login = format!("<userName>{USER}</userName><password>{PASSWORD}</password>");
        let login = envelope("Login", ("SessionManager", "SessionManager"), &login);
        let session = http.post(&url).body(login).send().await.unwrap();
        let cookie = session.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let answer =
            http.post(&url).header("cookie", cookie).body(envelope(method, this, arguments)).send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success(), "{method}: {status}: {text}");
        text
    }

    /// A property of a virtual machine, as XML.
    pub(crate) async fn property(&self, vm: &str, path: &str) -> String {
        let arguments = format!(
            "<specSet><propSet><type>VirtualMachine</type><pathSet>{path}</pathSet></propSet>\
             <objectSet><obj type=\"VirtualMachine\">{vm}</obj></objectSet></specSet><options/>"
        );
        self.ask("RetrievePropertiesEx", ("PropertyCollector", "propertyCollector"), &arguments).await
    }

    /// The id of the virtual machine of a name in the folder of machines.
    pub(crate) async fn vm(&self, name: &str) -> String {
        let path = format!("<inventoryPath>/DC0/vm/machines/{name}</inventoryPath>");
        let answer = self.ask("FindByInventoryPath", ("SearchIndex", "SearchIndex"), &path).await;
        let rest = answer.split_once("VirtualMachine\">").unwrap_or_else(|| panic!("no {name}: {answer}")).1;
        rest.split('<').next().unwrap().to_owned()
    }

    /// A machine that a person makes in the folder of machines.
    pub(crate) async fn copy_by_hand(&self, name: &str) {
        let path = "<inventoryPath>/DC0/vm/machines</inventoryPath>";
        let folder = self.ask("FindByInventoryPath", ("SearchIndex", "SearchIndex"), path).await;
        let folder = folder.split_once("Folder\">").unwrap().1.split('<').next().unwrap().to_owned();
        let path = "<inventoryPath>/DC0/host/DC0_C0/Resources</inventoryPath>";
        let pool = self.ask("FindByInventoryPath", ("SearchIndex", "SearchIndex"), path).await;
        let pool = pool.split_once("ResourcePool\">").unwrap().1.split('<').next().unwrap().to_owned();
        let config = format!(
            "<config><name>{name}</name><guestId>otherGuest</guestId><files><vmPathName>[LocalDS_0]</vmPathName></files>\
             </config><pool type=\"ResourcePool\">{pool}</pool>"
        );
        self.ask("CreateVM_Task", ("Folder", &folder), &config).await;
        for _ in 0..PATIENCE {
            if self.has_vm(name).await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{name} was never made");
    }

    /// The key of the controller that a machine's disks are on.
    pub(crate) async fn controller(&self, vm: &str) -> String {
        let devices = self.property(vm, "config.hardware.device").await;
        let disk = devices.split("\"VirtualDisk\"").nth(1).unwrap_or_else(|| panic!("no disk: {devices}"));
        disk.split_once("<controllerKey>").unwrap().1.split('<').next().unwrap().to_owned()
    }

    pub(crate) async fn has_vm(&self, name: &str) -> bool {
        let path = format!("<inventoryPath>/DC0/vm/machines/{name}</inventoryPath>");
        self.ask("FindByInventoryPath", ("SearchIndex", "SearchIndex"), &path).await.contains("VirtualMachine\">")
    }
}

/// The interface of tags, as a person uses it.
impl World {
    async fn rest(&self, path: &str, body: &Value) -> Value {
        let http = reqwest::Client::builder().tls_danger_accept_invalid_certs(true).build().unwrap();
        let url = |path: &str| format!("https://{}/rest/com/vmware/cis/{path}", self.vcsim.address);
        let session = http.post(url("session")).basic_auth(USER, Some(PASSWORD)).send().await.unwrap();
        let session: Value = session.json().await.unwrap();
        let request =
            http.post(url(path)).json(body).header("vmware-api-session-id", session["value"].as_str().unwrap());
        let answer = request.send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success(), "{path}: {status}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    pub(crate) async fn make_tag(&self, name: &str) -> String {
        let category = json!({"create_spec": {"name": format!("{name}s"), "description": "", "cardinality": "MULTIPLE",
            "associable_types": []}});
        let category = self.rest("tagging/category", &category).await["value"].clone();
        let tag = json!({"create_spec": {"name": name, "description": "", "category_id": category}});
        self.rest("tagging/tag", &tag).await["value"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn tags_of(&self, vm: &str) -> Vec<String> {
        let object = json!({"object_id": {"type": "VirtualMachine", "id": vm}});
        let answer = self.rest("tagging/tag-association?~action=list-attached-tags", &object).await;
        serde_json::from_value(answer["value"].clone()).unwrap()
    }
}

pub(crate) fn settings(url: &str) -> Settings {
    let domain = FailureDomain {
        region: "east".to_owned(),
        zone: "east-1".to_owned(),
        server: SERVER.to_owned(),
        datacenter: "DC0".to_owned(),
        cluster: "/DC0/host/DC0_C0".to_owned(),
    };
    Settings {
        endpoints: BTreeMap::from([(SERVER.to_owned(), url.to_owned())]),
        failure_domains: vec![domain],
        ..Settings::default()
    }
}

pub(crate) fn provider(url: &str) -> Vsphere {
    Vsphere::new(settings(url), Arc::new(NoPools))
}

pub(crate) fn secrets() -> Secrets {
    secrets_with(PASSWORD)
}

pub(crate) fn secrets_with(password: &str) -> Secrets {
    let data = |entries: &[(&str, &str)]| {
        SecretData(entries.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect())
    };
    let (user, pass) = (format!("{SERVER}.username"), format!("{SERVER}.password"));
    Secrets {
        credentials: Some(data(&[(&user, USER), (&pass, password)])),
        user_data: Some(data(&[("userData", USER_DATA)])),
    }
}

/// A cluster that has no pools.
pub(crate) struct NoPools;

impl Claims for NoPools {
    fn claim<'a>(&'a self, _: &'a Mark, wishes: &'a [Wish]) -> BoxFuture<'a, Result<BTreeMap<String, Address>, Error>> {
        async move { panic!("nobody claims {wishes:?}") }.boxed()
    }

    fn release<'a>(&'a self, _: &'a Mark, _: &'a [String]) -> BoxFuture<'a, Result<(), Error>> {
        async { Ok(()) }.boxed()
    }
}
