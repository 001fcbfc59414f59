//! A project of a cloud, and machines that want servers in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use machine::provider::{
    Deletion, Error, Instance, Intent, Mark, Provider, Request, Search, SecretData, Secrets, SpecRules, State,
};
use openstack::spec::Rules;
use openstack::{OpenStack, Settings};
use serde_json::{Value, json};

use crate::fake::{APPLICATION_SECRET, Fake, PASSWORD};

pub(crate) const USER_DATA: &str = r#"{"ignition":{"version":"3.5.0"}}"#;
pub(crate) const CLUSTER: &str = "c1";

pub(crate) struct World {
    pub(crate) fake: Fake,
    pub(crate) provider: OpenStack,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self { fake: Fake::start().await, provider: OpenStack::new(settings()) }
    }

    pub(crate) fn secrets(&self) -> Secrets {
        secrets(&password(&self.fake.url), None)
    }

    /// A machine whose intent is recorded.
    pub(crate) fn machine(&self, name: &str, spec: &Value) -> Request {
        let mark = Mark {
            cluster: CLUSTER.to_owned(),
            namespace: "openshift-machine-api".to_owned(),
            uid: format!("uid-{name}"),
            machine: name.to_owned(),
        };
        let bare = Request {
            mark,
            labels: BTreeMap::new(),
            control_plane: false,
            spec: Arc::new(spec.clone()),
            provider_id: None,
            provider_status: None,
            intent: None,
            secrets: Arc::new(self.secrets()),
        };
        let intent = Intent {
            token: format!("token-{name}-1"),
            attempt: 1,
            children: Rules.children(&bare),
            place: Rules.place(spec),
            recorded: Timestamp::now(),
        };
        Request { intent: Some(intent), ..bare }
    }

    pub(crate) async fn create(&self, request: &Request) -> Result<Instance, Error> {
        self.provider.create(request, request.intent.as_ref().unwrap()).await
    }

    pub(crate) async fn look(&self, request: &Request) -> Vec<Instance> {
        self.looked(request).await.unwrap()
    }

    pub(crate) async fn looked(&self, request: &Request) -> Result<Vec<Instance>, Error> {
        self.provider.instances(std::slice::from_ref(request)).await.pop().unwrap()
    }

    /// Creates until the instance has an id, and looks until it runs.
    pub(crate) async fn run(&self, request: &Request) -> Instance {
        for _ in 0..20 {
            if self.create(request).await.unwrap().provider_id.is_some() {
                break;
            }
        }
        for _ in 0..20 {
            if let Some(instance) = self.look(request).await.pop().filter(|it| it.state == State::Running) {
                return instance;
            }
        }
        panic!("it never ran: {:?}", self.look(request).await);
    }

    pub(crate) async fn delete(&self, request: &Request) {
        for _ in 0..20 {
            if self.provider.delete(request).await.unwrap() == Deletion::Gone {
                return;
            }
        }
        panic!("it never went: {}", self.fake.left());
    }

    pub(crate) fn search(&self) -> Search {
        let place = Arc::new(Rules.place(&spec(json!({}))));
        Search { cluster: CLUSTER.to_owned(), place, secrets: Arc::new(self.secrets()) }
    }

    /// What nova was asked for, of the only server.
    pub(crate) fn asked(&self) -> Value {
        let project = self.fake.project.lock();
        assert_eq!(project.servers.len(), 1);
        project.servers[0]["asked"].clone()
    }

    pub(crate) fn assert_empty(&self, when: &str) {
        assert_eq!(self.fake.left(), "", "{when}");
    }
}

fn settings() -> Settings {
    Settings { virtual_addresses: vec!["10.0.0.5".to_owned()], ..Settings::default() }
}

pub(crate) fn spec(more: Value) -> Value {
    let mut spec = json!({
        "apiVersion": "machine.openshift.io/v1alpha1", "kind": "OpenstackProviderSpec",
        "cloudName": "openstack", "cloudsSecret": {"name": "keys"},
        "flavor": "m1.large", "image": "base",
        "networks": [{"subnets": [{"filter": {"name": "nodes-v4", "tags": "of=nodes"}}]}],
        "securityGroups": [{"name": "worker"}],
        "userDataSecret": {"name": "worker-user-data"},
    });
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
        spec.extend(more);
    }
    spec
}

pub(crate) fn password(url: &str) -> String {
    format!(
        "clouds: {{openstack: {{auth: {{auth_url: {url}/identity, username: ops, password: {PASSWORD}, \
         project_name: machines, user_domain_name: Default, project_domain_name: Default}}, region_name: one}}}}"
    )
}

pub(crate) fn application_credential(url: &str) -> String {
    format!(
        "clouds: {{openstack: {{auth_type: v3applicationcredential, auth: {{auth_url: {url}/identity/v3, \
         application_credential_id: credential-1, application_credential_secret: {APPLICATION_SECRET}}}, \
         region_name: one}}}}"
    )
}

pub(crate) fn secrets(clouds: &str, authority: Option<&str>) -> Secrets {
    let data = |entries: &[(&str, &str)]| {
        SecretData(entries.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect())
    };
    let mut credentials = vec![("clouds.yaml", clouds)];
    credentials.extend(authority.map(|pem| ("cacert", pem)));
    Secrets { credentials: Some(data(&credentials)), user_data: Some(data(&[("userData", USER_DATA)])) }
}
