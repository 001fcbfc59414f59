//! A cloud in memory that keeps account of every instance, with faults on demand.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeAddress;
use machine::provider::{
    Capacity, Deletion, Error, ErrorKind, Instance, Intent, Mark, Marked, Problem, Provider, Request, Search,
    SecretNeed, SecretPurpose, SpecRules, State, Surroundings, Verdict,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use crate::wire::Life;

/// A cluster whose things this cloud never lists. It is asked for before all others.
pub(crate) const SILENT: &str = "a-silent-cluster";

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) mark: Mark,
    token: String,
    pub(crate) created: Timestamp,
    /// It was asked to go and is still listed once more.
    leaving: bool,
}

#[derive(Default)]
pub(crate) struct Account {
    /// All instances say that they have the same address.
    pub(crate) one_address: bool,
    pub(crate) entries: Vec<Entry>,
    /// Refusals of the next creations.
    pub(crate) refusals: VecDeque<ErrorKind>,
    /// Every refusal from now on is this one.
    pub(crate) refuses: Option<ErrorKind>,
    /// Instances that are asked to go stay for one more look.
    pub(crate) lingers: bool,
    /// Machines, by uid, that ever had two instances at once.
    pub(crate) doubles: BTreeSet<String>,
    /// How many machines each lookup asked about.
    pub(crate) looks: Vec<usize>,
    pub(crate) creations: usize,
    /// The most instances that there ever were at once.
    pub(crate) peak: usize,
    pub(crate) deletions: usize,
    /// How often everything that carries a mark was listed.
    pub(crate) searches: usize,
    /// The user data of the last creation.
    pub(crate) user_data: Option<String>,
    pub(crate) refuses_updates: bool,
    /// Calls about machines of region `b` never return.
    pub(crate) hangs: Option<Hang>,
    counter: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hang {
    Look,
    Create,
}

/// The account, as one process reaches it.
#[derive(Clone)]
pub(crate) struct Cloud {
    pub(crate) account: Arc<Mutex<Account>>,
    pub(crate) life: Life,
    /// Where new instances are told of, so that they boot.
    pub(crate) boots: UnboundedSender<Entry>,
}

impl Account {
    /// An instance that was there before.
    pub(crate) fn add(&mut self, id: &str) {
        self.add_marked(id, Mark::default(), Timestamp::now());
    }

    /// An instance that was made for a Machine at some time.
    pub(crate) fn add_marked(&mut self, id: &str, mark: Mark, created: Timestamp) {
        self.entries.push(Entry { id: id.to_owned(), mark, token: String::new(), created, leaving: false });
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.entries.iter().any(|entry| entry.id == id)
    }

    fn show(&self, entry: &Entry) -> Instance {
        let mut instance = entry.shown();
        if self.one_address {
            instance.addresses[0].address = "10.0.0.7".to_owned();
        }
        instance
    }

    fn find(&self, request: &Request) -> Vec<Entry> {
        let is_its =
            |entry: &&Entry| (entry.mark.uid == request.mark.uid) || request.provider_id.as_deref() == Some(&entry.id);
        self.entries.iter().filter(is_its).cloned().collect()
    }

    fn create(&mut self, request: &Request, intent: &Intent) -> Result<Entry, Error> {
        self.creations += 1;
        self.user_data = request.secrets.user_data.as_ref().and_then(|data| data.text("userData")).map(str::to_owned);
        if request.spec["broken"] == json!(true) {
            return Err(Error::new(ErrorKind::InvalidSpec, "providerSpec.broken: no such machine"));
        }
        if let Some(entry) = self.entries.iter().find(|entry| entry.token == intent.token) {
            return Ok(entry.clone());
        }
        if let Some(kind) = self.refusals.pop_front().or(self.refuses) {
            return Err(Error::new(kind, "not now"));
        }
        if !self.find(request).is_empty() {
            self.doubles.insert(request.mark.uid.clone());
        }
        self.counter += 1;
        let id = format!("fake:///{}", self.counter);
        let entry = Entry {
            id,
            mark: request.mark.clone(),
            token: intent.token.clone(),
            created: Timestamp::now(),
            leaving: false,
        };
        self.entries.push(entry.clone());
        self.peak = self.peak.max(self.entries.len());
        Ok(entry)
    }

    fn delete(&mut self, request: &Request) -> Deletion {
        self.deletions += 1;
        let found = self.find(request);
        if self.lingers {
            let is_its = |entry: &&mut Entry| found.iter().any(|other| other.id == entry.id);
            self.entries.iter_mut().filter(is_its).for_each(|entry| entry.leaving = true);
            return Deletion::Requested;
        }
        self.entries.retain(|entry| found.iter().all(|other| other.id != entry.id));
        Deletion::Gone
    }
}

impl Entry {
    fn shown(&self) -> Instance {
        let number: u32 = self.id.rsplit('/').next().unwrap().parse().unwrap_or(0);
        let address = format!("10.0.{}.{}", number / 250, number % 250);
        Instance {
            provider_id: Some(self.id.clone()),
            state: State::Running,
            state_word: "running".to_owned(),
            addresses: vec![NodeAddress { address, type_: "InternalIP".to_owned() }],
            zone: Some("z1".to_owned()),
            region: Some("r1".to_owned()),
            instance_type: Some("small".to_owned()),
            provider_status: Some(json!({"instanceId": self.id, "instanceState": "running"})),
            created: Some(Timestamp::UNIX_EPOCH),
            ..Instance::default()
        }
    }
}

impl Provider for Cloud {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn rules(&self) -> &dyn SpecRules {
        self
    }

    fn instances<'a>(&'a self, requests: &'a [Request]) -> BoxFuture<'a, Vec<Result<Vec<Instance>, Error>>> {
        let mut account = self.account.lock().unwrap();
        account.looks.push(requests.len());
        if account.hangs == Some(Hang::Look) && requests.iter().any(|request| request.spec["region"] == "b") {
            return std::future::pending().boxed();
        }
        let answer = |request: &Request| Ok(account.find(request).iter().map(|entry| account.show(entry)).collect());
        let answers = requests.iter().map(answer).collect();
        account.entries.retain(|entry| !entry.leaving);
        std::future::ready(answers).boxed()
    }

    fn create<'a>(&'a self, request: &'a Request, intent: &'a Intent) -> BoxFuture<'a, Result<Instance, Error>> {
        let made = async {
            let hangs = self.account.lock().unwrap().hangs == Some(Hang::Create) && request.spec["region"] == "b";
            if hangs {
                self.account.lock().unwrap().creations += 1;
                return std::future::pending().await;
            }
            let entry = self.account.lock().unwrap().create(request, intent)?;
            if request.spec["boots"] != json!(false) {
                let _ = self.boots.send(entry.clone());
            }
            Ok(self.account.lock().unwrap().show(&entry))
        };
        self.life.effect(made).boxed()
    }

    fn update<'a>(&'a self, _: &'a Request, instance: &'a Instance) -> BoxFuture<'a, Result<Instance, Error>> {
        let refuses = self.account.lock().unwrap().refuses_updates;
        let answer = if refuses { Err(Error::new(ErrorKind::Other, "not now")) } else { Ok(instance.clone()) };
        std::future::ready(answer).boxed()
    }

    fn delete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Deletion, Error>> {
        self.life.effect(async { Ok(self.account.lock().unwrap().delete(request)) }).boxed()
    }

    fn marked<'a>(&'a self, search: &'a Search) -> BoxFuture<'a, Result<Vec<Marked>, Error>> {
        if search.cluster == SILENT {
            return std::future::pending().boxed();
        }
        // Everything, as a cloud would list it that does not filter: the rule has to tell whose it is.
        let mut account = self.account.lock().unwrap();
        account.searches += 1;
        let marked = |entry: &Entry| Marked {
            mark: entry.mark.clone(),
            kind: "instance".to_owned(),
            id: entry.id.clone(),
            provider_id: Some(entry.id.clone()),
            created: Some(entry.created),
        };
        std::future::ready(Ok(account.entries.iter().map(marked).collect())).boxed()
    }

    fn remove<'a>(&'a self, _: &'a Search, orphan: &'a Marked) -> BoxFuture<'a, Result<Deletion, Error>> {
        self.account.lock().unwrap().entries.retain(|entry| entry.id != orphan.id);
        std::future::ready(Ok(Deletion::Gone)).boxed()
    }
}

impl SpecRules for Cloud {
    fn default(&self, spec: &Value, _: &Surroundings) -> Result<Value, Problem> {
        Ok(spec.clone())
    }

    fn validate(&self, _: &Value, _: &Surroundings) -> Verdict {
        Verdict::default()
    }

    fn secrets(&self, spec: &Value) -> Vec<SecretNeed> {
        let fields = [("userDataSecret", SecretPurpose::UserData), ("credentialsSecret", SecretPurpose::Credentials)];
        let need = |(field, purpose): (&str, SecretPurpose)| {
            let name = spec[field]["name"].as_str()?.to_owned();
            Some(SecretNeed { purpose, namespace: None, name, field: format!("providerSpec.{field}.name") })
        };
        fields.into_iter().filter_map(need).collect()
    }

    fn place(&self, spec: &Value) -> Value {
        json!({"region": spec["region"].as_str().unwrap_or("r1")})
    }

    fn children(&self, _: &Request) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn capacity(&self, spec: &Value) -> Option<Capacity> {
        let number = |field: &str| spec[field].as_u64();
        Some(Capacity { cpus: number("cpus")?, memory_mib: number("memory")?, ..Capacity::default() })
    }
}
