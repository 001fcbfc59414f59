//! A project of Google's, and machines that want instances in it.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gcp::{Gcp, Settings};
use jiff::Timestamp;
use machine::provider::{
    Deletion, Error, Instance, Intent, Mark, Provider, Request, Search, SecretData, Secrets, SpecRules,
};
use serde_json::{Value, json};

use crate::fake::Fake;

pub(crate) const USER_DATA: &str = r#"{"ignition":{"version":"3.5.0"}}"#;

/// A key as Google gives it out, made anew for each run.
fn key() -> &'static str {
    static KEY: OnceLock<String> = OnceLock::new();
    KEY.get_or_init(|| {
        let output =
            Command::new("openssl").args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    })
}

pub(crate) struct World {
    pub(crate) fake: Fake,
    pub(crate) provider: Gcp,
    pub(crate) id: String,
}

impl World {
    /// `None`, after it was recorded, where the description cannot be had.
    pub(crate) async fn start(id: &str) -> Option<Self> {
        if !(testkit::needs::python() && testkit::needs::program("openssl", "install Debian's openssl")) {
            return None;
        }
        let fake = Fake::start().await;
        let provider = provider(&fake);
        Some(Self { fake, provider, id: id.to_owned() })
    }

    pub(crate) fn restarted(&self) -> Gcp {
        provider(&self.fake)
    }

    pub(crate) fn spec(&self) -> Value {
        Self::plain_spec()
    }

    pub(crate) fn plain_spec() -> Value {
        json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "GCPMachineProviderSpec",
            "region": "us-east1", "zone": "us-east1-b", "projectID": "project-1", "machineType": "n1-standard-4",
            "disks": [{"autoDelete": true, "boot": true, "sizeGb": 128, "type": "pd-ssd", "image": "projects/p/global/images/i"}],
            "networkInterfaces": [{"network": "net", "subnetwork": "sub"}],
            "serviceAccounts": [{"email": "a@example.org", "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}],
            "tags": ["worker"],
            "userDataSecret": {"name": "worker-user-data"}, "credentialsSecret": {"name": "keys"},
        })
    }

    pub(crate) fn spec_with(&self, field: &str, value: Value) -> Value {
        let mut spec = self.spec();
        spec[field] = value;
        spec
    }

    pub(crate) fn secrets(&self) -> Secrets {
        service_account("a@example.org", &self.fake.url).unwrap()
    }

    pub(crate) fn search(&self) -> Search {
        let rules: &dyn SpecRules = &gcp::spec::Rules;
        let place = Arc::new(rules.place(&self.spec()));
        Search { cluster: format!("{}-cluster", self.id), place, secrets: Arc::new(self.secrets()) }
    }

    /// A machine whose intent is recorded.
    pub(crate) fn machine(&self, name: &str, spec: &Value) -> Request {
        let request = Self::request(&format!("{}-{name}", self.id), spec);
        Request {
            mark: Mark { cluster: format!("{}-cluster", self.id), ..request.mark },
            secrets: Arc::new(self.secrets()),
            ..request
        }
    }

    /// A machine of no world, without secrets.
    pub(crate) fn request(machine: &str, spec: &Value) -> Request {
        let machine = machine.to_owned();
        let rules: &dyn SpecRules = &gcp::spec::Rules;
        let mut request = Request {
            mark: Mark {
                cluster: "cluster".to_owned(),
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
            secrets: Arc::default(),
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
        for _ in 0..100 {
            if self.provider.delete(request).await.unwrap() == Deletion::Gone {
                return;
            }
            self.look(request).await;
        }
        panic!("{} never went away", request.mark.machine);
    }
}

/// Secrets of a service account that logs in at this address. `None`, after it was recorded, where no key can be made.
pub(crate) fn service_account(email: &str, url: &str) -> Option<Secrets> {
    if !testkit::needs::program("openssl", "install Debian's openssl") {
        return None;
    }
    let file = json!({"type": "service_account", "project_id": "project-1", "private_key_id": "k1", "private_key": key(),
        "client_email": email, "token_uri": format!("{url}/token")});
    let data = |key: &str, value: String| Some(SecretData(BTreeMap::from([(key.to_owned(), value.into_bytes())])));
    Some(Secrets {
        credentials: data("service_account.json", file.to_string()),
        user_data: data("userData", USER_DATA.to_owned()),
    })
}

fn provider(fake: &Fake) -> Gcp {
    let settings = Settings { endpoint: fake.url.clone(), patience: Duration::ZERO, ..Settings::default() };
    Gcp::new(settings).unwrap()
}
