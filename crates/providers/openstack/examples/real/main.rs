//! The provider against real services: keystone, nova with its fake driver, neutron, glance and placement, as `up.sh` starts
//! them. The argument is their folder. Outside CI; the result goes into `docs/proofs.md`.

// A proof that cannot go on says so with a panic.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use machine::provider::conformance::Suite;
use machine::provider::{
    Deletion, Error, ErrorKind, Instance, Intent, Mark, Provider, Request, Search, SecretData, Secrets, SpecRules,
    State, Surroundings,
};
use openstack::spec::Rules;
use openstack::{OpenStack, Settings};
use serde_json::{Value, json};

const CLUSTER: &str = "proof";

struct Proof {
    provider: OpenStack,
    secrets: Secrets,
    facts: Value,
    runtime: tokio::runtime::Runtime,
}

fn main() {
    rustls::crypto::ring::default_provider().install_default().unwrap();
    let folder = std::env::args().nth(1).expect("name the folder of the services");
    let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).unwrap();
    let data = |key: &str, value: String| SecretData(BTreeMap::from([(key.to_owned(), value.into_bytes())]));
    let user_data = r#"{"ignition":{"version":"3.5.0"}}"#.to_owned();
    let proof = Proof {
        provider: OpenStack::new(Settings { virtual_addresses: vec!["10.0.0.5".to_owned()], ..Settings::default() }),
        secrets: Secrets {
            credentials: Some(data("clouds.yaml", read("clouds.yaml"))),
            user_data: Some(data("userData", user_data)),
        },
        facts: serde_json::from_str(&read("facts.json")).unwrap(),
        runtime: tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap(),
    };
    proof.step("promises of the port, by an application credential", |proof| proof.promises("plain", spec(json!({}))));
    proof.step("promises of the port with trunks, by a password", |proof| {
        proof.promises("trunks", spec(json!({"trunk": true, "cloudName": "password"})));
    });
    proof.step("fixed addresses, tags, server group, floating address", Proof::everything);
    proof.step("a server that no host has room for", Proof::no_room);
    proof.step("a quota of ports", Proof::quota);
    proof.step("ten machines at once", Proof::fleet);
    assert!(proof.marked().is_empty(), "left: {:?}", proof.marked());
    println!("nothing is left");
}

fn spec(more: Value) -> Value {
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

impl Proof {
    fn step(&self, name: &str, run: impl Fn(&Self)) {
        let since = Instant::now();
        run(self);
        println!("{name}: {:.1} s", since.elapsed().as_secs_f64());
    }

    fn promises(&self, run_id: &str, spec: Value) {
        let mut broken = spec.clone();
        broken["flavor"] = json!("");
        let suite = Suite {
            make: &|| Box::new(OpenStack::new(Settings::default())),
            spec,
            broken: Some(broken),
            secrets: self.secrets.clone(),
            surroundings: Surroundings { cluster: CLUSTER.to_owned(), ..Surroundings::default() },
            drive: &|future| self.runtime.block_on(future),
            pause: &|| std::thread::sleep(Duration::from_millis(300)),
            // An earlier run that was killed may have left servers.
            run_id: format!("{run_id}-{}", std::process::id()),
            now: Timestamp::now(),
        };
        suite.run().unwrap();
    }

    fn machine(&self, name: &str, spec: &Value) -> Request {
        let [cluster, namespace, machine] = [CLUSTER, "openshift-machine-api", name].map(str::to_owned);
        let bare = Request {
            mark: Mark { cluster, namespace, uid: format!("uid-{name}-{}", std::process::id()), machine },
            labels: BTreeMap::new(),
            control_plane: false,
            spec: Arc::new(spec.clone()),
            provider_id: None,
            provider_status: None,
            intent: None,
            secrets: Arc::new(self.secrets.clone()),
        };
        let children = Rules.children(&bare);
        let place = Rules.place(spec);
        let intent = Intent { token: format!("token-{name}"), attempt: 1, children, place, recorded: Timestamp::now() };
        Request { intent: Some(intent), ..bare }
    }

    fn create(&self, request: &Request) -> Result<Instance, Error> {
        self.runtime.block_on(self.provider.create(request, request.intent.as_ref().unwrap()))
    }

    fn look(&self, request: &Request, is: impl Fn(&Instance) -> bool) -> Instance {
        for _ in 0..300 {
            let seen =
                self.runtime.block_on(self.provider.instances(std::slice::from_ref(request))).pop().unwrap().unwrap();
            if let Some(instance) = seen.into_iter().find(&is) {
                return instance;
            }
            std::thread::sleep(Duration::from_millis(300));
        }
        panic!("{} never came so far", request.mark.machine);
    }

    fn delete(&self, request: &Request) {
        for _ in 0..300 {
            if self.runtime.block_on(self.provider.delete(request)).unwrap() == Deletion::Gone {
                return;
            }
            std::thread::sleep(Duration::from_millis(300));
        }
        panic!("{} never went", request.mark.machine);
    }

    fn marked(&self) -> Vec<machine::provider::Marked> {
        let place = Arc::new(Rules.place(&spec(json!({}))));
        let search = Search { cluster: CLUSTER.to_owned(), place, secrets: Arc::new(self.secrets.clone()) };
        self.runtime.block_on(self.provider.marked(&search)).unwrap()
    }

    fn everything(&self) {
        let fact = |name: &str| self.facts[name].as_str().unwrap().to_owned();
        let floating = fact("floating");
        let port = json!({"networkID": fact("network"), "nameSuffix": "own", "trunk": false, "tags": ["mine"], "description": "d",
            "fixedIPs": [{"subnetID": fact("subnet"), "ipAddress": "10.0.0.77"}], "securityGroups": [fact("group")],
            "allowedAddressPairs": [{"ipAddress": "10.0.0.0/24"}]});
        let more = json!({"trunk": true, "ports": [port], "serverGroupName": "spread", "floatingIP": floating, "tags": ["team"],
            "serverMetadata": {"Name": "worker"}, "configDrive": true, "availabilityZone": "nova"});
        let request = self.machine("everything", &spec(more));
        self.create(&request).unwrap();
        let seen = self.look(&request, |instance| instance.state == State::Running);
        assert!(seen.addresses.iter().any(|it| it.address == "10.0.0.77"), "{seen:?}");
        self.runtime.block_on(self.provider.update(&request, &seen)).unwrap();
        let seen = self.look(&request, |instance| instance.addresses.iter().any(|it| it.address == floating));
        assert_eq!((seen.zone.as_deref(), seen.instance_type.as_deref()), (Some("nova"), Some("m1.large")));
        let kinds: Vec<_> = self.marked().into_iter().map(|it| it.kind).collect();
        assert_eq!(kinds.iter().filter(|kind| *kind == "port").count(), 2, "{kinds:?}");
        assert!(kinds.contains(&"trunk".to_owned()), "{kinds:?}");
        self.delete(&request);
    }

    fn no_room(&self) {
        let request = self.machine("huge", &spec(json!({"flavor": "m1.huge", "trunk": true})));
        self.create(&request).unwrap();
        let seen = self.look(&request, |instance| matches!(instance.state, State::Failed(_)));
        assert!(matches!(seen.state, State::Failed(Error { kind: ErrorKind::NoCapacity, .. })), "{seen:?}");
        self.delete(&request);
        assert!(self.marked().is_empty(), "{:?}", self.marked());
    }

    fn quota(&self) {
        let set = |ports: i64| {
            let url = format!("http://127.0.0.1:35696/v2.0/quotas/{}", self.facts["project"].as_str().unwrap());
            let request = reqwest::Client::new().put(url).header("x-auth-token", self.facts["token"].as_str().unwrap());
            let sent = self.runtime.block_on(request.json(&json!({"quota": {"port": ports}})).send()).unwrap();
            assert!(sent.status().is_success(), "{sent:?}");
        };
        set(0);
        let request = self.machine("many", &spec(json!({})));
        let error = self.create(&request).unwrap_err();
        set(500);
        assert_eq!(error.kind, ErrorKind::Quota, "{error}");
        assert!(error.request_id.is_some(), "{error:?}");
        self.delete(&request);
    }

    fn fleet(&self) {
        let requests: Vec<_> =
            (0..10).map(|number| self.machine(&format!("fleet-{number}"), &spec(json!({})))).collect();
        for request in &requests {
            self.create(request).unwrap();
        }
        for request in &requests {
            self.look(request, |instance| instance.state == State::Running);
        }
        let answers = self.runtime.block_on(self.provider.instances(&requests));
        assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|seen| seen.len() == 1)));
        for request in &requests {
            self.delete(request);
        }
    }
}
