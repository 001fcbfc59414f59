//! An account of AWS with a network, and machines that want instances in it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use aws::{Aws, Settings};
use jiff::Timestamp;
use machine::provider::{Error, Instance, Intent, Mark, Provider, Request, SecretData, Secrets, SpecRules};
use serde_json::{Value, json};
use testkit::Moto;

use crate::edge::Edge;

pub(crate) const SECRET_KEY: &str = "a-key-that-nobody-may-print";
pub(crate) const USER_DATA: &str = r#"{"ignition":{"version":"3.5.0"}}"#;

/// moto is slow to start and keeps accounts and clusters apart, so one serves all tests. `None` where it cannot run.
fn moto() -> Option<&'static Moto> {
    static MOTO: OnceLock<Option<Moto>> = OnceLock::new();
    // Asked outside the lock, so that each test that cannot run is recorded.
    if !testkit::needs::python() {
        return None;
    }
    MOTO.get_or_init(|| Some(Moto::start().unwrap())).as_ref()
}

pub(crate) struct World {
    pub(crate) edge: Edge,
    pub(crate) provider: Aws,
    /// Names in it are unique in moto.
    pub(crate) id: String,
    account: String,
    pub(crate) subnet: String,
    pub(crate) vpc: String,
    pub(crate) image: String,
}

impl World {
    /// `None`, after it was recorded, where moto cannot run.
    pub(crate) async fn start(id: &str) -> Option<Self> {
        let moto = tokio::task::spawn_blocking(moto).await.unwrap()?;
        let edge = Edge::start(&moto.url).await;
        let provider = provider(&edge.url);
        let account = format!("AKIA{}", id.to_uppercase().replace('-', ""));
        let empty = String::new;
        let mut world =
            Self { edge, provider, id: id.to_owned(), account, subnet: empty(), vpc: empty(), image: empty() };
        world.vpc = world.made("CreateVpc", &[("CidrBlock", "10.0.0.0/16")], "vpcId").await;
        let subnet = [
            ("VpcId", world.vpc.clone()),
            ("CidrBlock", "10.0.1.0/24".into()),
            ("AvailabilityZone", "us-east-1a".into()),
        ];
        let subnet: Vec<_> = subnet.iter().map(|(key, value)| (*key, value.as_str())).collect();
        world.subnet = world.made("CreateSubnet", &subnet, "subnetId").await;
        world.tag(&world.subnet, "Name", &format!("{id}-subnet")).await;
        world.security_group(&format!("{id}-node")).await;
        world.image = world.made("RegisterImage", &[("Name", &format!("{id}-image"))], "imageId").await;
        Some(world)
    }

    /// A provider of another process.
    pub(crate) fn restarted(&self) -> Aws {
        provider(&self.edge.url)
    }

    /// Asks AWS as a person with a terminal would.
    pub(crate) async fn ask(&self, action: &str, fields: &[(&str, &str)]) -> String {
        self.ask_service("ec2", "2016-11-15", action, fields).await
    }

    pub(crate) async fn ask_service(
        &self,
        service: &str,
        version: &str,
        action: &str,
        fields: &[(&str, &str)],
    ) -> String {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.append_pair("Action", action).append_pair("Version", version).extend_pairs(fields);
        let scope = format!("AWS4-HMAC-SHA256 Credential={}/20260101/us-east-1/{service}/aws4_request", self.account);
        let request = reqwest::Client::new()
            .post(format!("{}/", moto().unwrap().url))
            .header("content-type", "application/x-www-form-urlencoded; charset=utf-8")
            .header("authorization", format!("{scope}, SignedHeaders=host, Signature=0"))
            .body(form.finish());
        let response = request.send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        assert!(status.is_success(), "{action}: {status}: {text}");
        text
    }

    /// Asks for something new and returns its id.
    pub(crate) async fn made(&self, action: &str, fields: &[(&str, &str)], element: &str) -> String {
        only(&self.ask(action, fields).await, element)
    }

    pub(crate) async fn tag(&self, id: &str, key: &str, value: &str) {
        self.ask("CreateTags", &[("ResourceId.1", id), ("Tag.1.Key", key), ("Tag.1.Value", value)]).await;
    }

    pub(crate) async fn security_group(&self, name: &str) -> String {
        let fields = [("GroupName", name), ("GroupDescription", "nodes"), ("VpcId", self.vpc.as_str())];
        let group = self.made("CreateSecurityGroup", &fields, "groupId").await;
        self.tag(&group, "Name", name).await;
        group
    }

    pub(crate) fn spec(&self) -> Value {
        json!({
            "apiVersion": "machine.openshift.io/v1beta1",
            "kind": "AWSMachineProviderConfig",
            "ami": {"id": self.image},
            "instanceType": "m5.large",
            "placement": {"region": "us-east-1", "availabilityZone": "us-east-1a"},
            "subnet": {"filters": [{"name": "tag:Name", "values": [format!("{}-subnet", self.id)]}]},
            "securityGroups": [{"filters": [{"name": "tag:Name", "values": [format!("{}-node", self.id)]}]}],
            "userDataSecret": {"name": "worker-user-data"},
            "credentialsSecret": {"name": "keys"},
        })
    }

    pub(crate) fn spec_with(&self, field: &str, value: Value) -> Value {
        let mut spec = self.spec();
        spec[field] = value;
        spec
    }

    pub(crate) fn secrets(&self) -> Secrets {
        secrets(&self.account)
    }

    pub(crate) fn account(&self) -> &str {
        &self.account
    }

    /// A machine whose intent is recorded.
    pub(crate) fn machine(&self, name: &str, spec: &Value) -> Request {
        let machine = format!("{}-{name}", self.id);
        let rules: &dyn SpecRules = &aws::spec::Rules;
        Request {
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
            intent: Some(Intent {
                token: format!("token-{machine}-1"),
                attempt: 1,
                children: BTreeMap::new(),
                place: rules.place(spec),
                recorded: Timestamp::now(),
            }),
            secrets: Arc::new(self.secrets()),
        }
    }

    pub(crate) async fn create(&self, request: &Request) -> Result<Instance, Error> {
        self.provider.create(request, request.intent.as_ref().unwrap()).await
    }

    pub(crate) async fn look(&self, request: &Request) -> Vec<Instance> {
        self.provider.instances(std::slice::from_ref(request)).await.pop().unwrap().unwrap()
    }

    /// What AWS says of an instance, as XML.
    pub(crate) async fn described(&self, instance: &Instance) -> String {
        self.ask("DescribeInstances", &[("InstanceId.1", id_of(instance))]).await
    }
}

pub(crate) fn provider(url: &str) -> Aws {
    let endpoints = ["ec2", "elasticloadbalancing"].map(|service| (service.to_owned(), url.to_owned()));
    Aws::new(Settings { endpoints: endpoints.into(), ..Settings::default() }).unwrap()
}

pub(crate) fn secrets(account: &str) -> Secrets {
    let data = |entries: &[(&str, &str)]| {
        SecretData(entries.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect())
    };
    Secrets {
        credentials: Some(data(&[("aws_access_key_id", account), ("aws_secret_access_key", SECRET_KEY)])),
        user_data: Some(data(&[("userData", USER_DATA)])),
    }
}

pub(crate) fn id_of(instance: &Instance) -> &str {
    instance.provider_id.as_deref().unwrap().rsplit('/').next().unwrap()
}

/// The text of the first element of a name.
pub(crate) fn only(xml: &str, element: &str) -> String {
    let rest = xml.split_once(&format!("<{element}>")).unwrap_or_else(|| panic!("no {element} in {xml}")).1;
    rest.split('<').next().unwrap().to_owned()
}
