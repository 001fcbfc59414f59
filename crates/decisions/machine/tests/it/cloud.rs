//! A cloud in memory that keeps account of every instance, with faults on demand.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::NodeAddress;
use machine::provider::{
    Capacity, Deletion, Error, ErrorKind, Instance, Intent, Mark, Marked, Problem, Provider, Request, Search,
    SecretNeed, SpecRules, State, Surroundings, Verdict,
};
use serde_json::{Value, json};

/// What a defective provider does wrong, for the conformance suite to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    IgnoresTokens,
    ForgetsMarks,
    AnswersOutOfOrder,
    DeletesByPrefix,
    SaysGoneTooEarly,
    LeavesOrphansUnlisted,
    AcceptsAnySpec,
    TellsSecrets,
    DefaultsTwice,
    NewIdentityOnUpdate,
}

/// What happens to the next creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is refused.
    Refuse(ErrorKind),
    /// It is accepted, and has failed when anybody looks.
    FailLater(ErrorKind),
    /// It is accepted, shows an instance that comes up, and fails after twenty seconds.
    FailWhileBooting(ErrorKind),
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) mark: Mark,
    pub(crate) token: String,
    pub(crate) created: Timestamp,
    pub(crate) deleting: bool,
    /// The cloud gives up, from this time on.
    pub(crate) failed: Option<(Timestamp, Error)>,
    /// Where it is. A request sees only what is in its own region.
    pub(crate) region: Value,
}

#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) now: Timestamp,
    pub(crate) entries: Vec<Entry>,
    pub(crate) faults: VecDeque<Fault>,
    /// How long a new instance is invisible.
    pub(crate) settling: SignedDuration,
    /// Tokens whose instance is gone. They stand for it for ever.
    pub(crate) spent: Vec<String>,
    /// How long an instance takes to go.
    pub(crate) lingering: BTreeMap<String, Timestamp>,
    pub(crate) counter: u32,
}

/// A provider on an account that several providers may share.
#[derive(Clone)]
pub(crate) struct Cloud {
    pub(crate) account: Arc<Mutex<Account>>,
    pub(crate) defect: Option<Defect>,
}

impl Account {
    pub(crate) fn create(
        &mut self,
        request: &Request,
        intent: &Intent,
        defect: Option<Defect>,
    ) -> Result<Instance, Error> {
        if request.spec["broken"] == json!(true) && defect != Some(Defect::AcceptsAnySpec) {
            let secret = request.secrets.credentials.as_ref().and_then(|data| data.text("password")).unwrap_or("");
            let text = if defect == Some(Defect::TellsSecrets) { secret } else { "no such type" };
            return Err(Error::new(ErrorKind::InvalidSpec, format!("refused: {text}")));
        }
        let known = self.entries.iter().find(|entry| entry.token == intent.token);
        if let Some(entry) = known.filter(|_| defect != Some(Defect::IgnoresTokens)) {
            return Ok(self.shown(entry));
        }
        if self.spent.contains(&intent.token) && defect != Some(Defect::IgnoresTokens) {
            let gone = Error::new(ErrorKind::Other, "the instance of this token is terminated");
            return Ok(Instance { state: State::Failed(gone), ..Instance::default() });
        }
        let failed = match self.faults.pop_front() {
            Some(Fault::Refuse(kind)) => return Err(Error::new(kind, "not now")),
            Some(Fault::FailLater(kind)) => Some((self.now, Error::new(kind, "gave up"))),
            Some(Fault::FailWhileBooting(kind)) => {
                Some((self.now + SignedDuration::from_secs(20), Error::new(kind, "gave up")))
            }
            None => None,
        };
        self.counter += 1;
        let id = format!("fake:///{}", self.counter);
        let entry = Entry {
            id,
            mark: request.mark.clone(),
            token: intent.token.clone(),
            created: self.now,
            deleting: false,
            failed,
            region: request.spec["region"].clone(),
        };
        let shown = self.shown(&entry);
        self.entries.push(entry);
        Ok(shown)
    }

    /// What a lookup shows of the instances of a Machine.
    pub(crate) fn look(&self, request: &Request, defect: Option<Defect>) -> Vec<Instance> {
        let by_mark = |entry: &&Entry| defect != Some(Defect::ForgetsMarks) && entry.mark == request.mark;
        let known = |entry: &&Entry| {
            // What carries the mark of another Machine is that Machine's, whoever names its id.
            by_mark(entry)
                || (defect == Some(Defect::ForgetsMarks) && request.provider_id.as_deref() == Some(&entry.id))
                || request.intent.as_ref().is_some_and(|intent| intent.token == entry.token)
        };
        let visible = |entry: &&Entry| {
            self.now.duration_since(entry.created) >= self.settling && entry.region == request.spec["region"]
        };
        self.entries.iter().filter(known).filter(visible).map(|entry| self.shown(entry)).collect()
    }

    pub(crate) fn delete(&mut self, request: &Request, defect: Option<Defect>) -> Deletion {
        let is_ours = |entry: &Entry| {
            entry.mark == request.mark
                || (defect == Some(Defect::DeletesByPrefix) && entry.mark.machine.starts_with("run-narrow"))
        };
        // What a lookup does not show yet, a deletion does not find.
        let (now, settling) = (self.now, self.settling);
        let is_found = |entry: &Entry| {
            is_ours(entry) && now.duration_since(entry.created) >= settling && entry.region == request.spec["region"]
        };
        for entry in self.entries.iter_mut().filter(|entry| is_found(entry) && !entry.deleting) {
            entry.deleting = true;
            self.lingering.insert(entry.id.clone(), now + SignedDuration::from_secs(5));
        }
        if defect == Some(Defect::SaysGoneTooEarly) || !self.entries.iter().any(is_found) {
            return Deletion::Gone;
        }
        Deletion::Requested
    }

    /// Lets time pass: what was deleted goes.
    pub(crate) fn pass(&mut self, time: SignedDuration) {
        self.now += time;
        let gone: Vec<_> = self.lingering.iter().filter(|(_, at)| **at <= self.now).map(|(id, _)| id.clone()).collect();
        self.spent
            .extend(self.entries.iter().filter(|entry| gone.contains(&entry.id)).map(|entry| entry.token.clone()));
        self.entries.retain(|entry| !gone.contains(&entry.id));
        self.lingering.retain(|id, _| !gone.contains(id));
    }

    pub(crate) fn shown(&self, entry: &Entry) -> Instance {
        let running = self.now.duration_since(entry.created) >= SignedDuration::from_secs(10);
        let failed = entry.failed.as_ref().filter(|(since, _)| *since <= self.now);
        let (state, word) = match (failed, entry.deleting, running) {
            (_, true, _) => (State::Deleting, "shutting-down"),
            (Some((_, error)), false, _) => (State::Failed(error.clone()), "error"),
            (None, false, true) => (State::Running, "running"),
            (None, false, false) => (State::Pending, "pending"),
        };
        let number: u32 = entry.id.rsplit('/').next().unwrap().parse().unwrap();
        let address =
            NodeAddress { address: format!("10.0.{}.{}", number / 250, number % 250), type_: "InternalIP".into() };
        Instance {
            provider_id: Some(entry.id.clone()),
            state,
            state_word: word.to_owned(),
            addresses: if running { vec![address] } else { Vec::new() },
            zone: Some("z1".to_owned()),
            provider_status: Some(json!({"instanceId": entry.id, "instanceState": word})),
            created: Some(entry.created),
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
        let account = self.account.lock().unwrap();
        let mut answers: Vec<_> = requests.iter().map(|request| Ok(account.look(request, self.defect))).collect();
        if self.defect == Some(Defect::AnswersOutOfOrder) {
            answers.reverse();
        }
        std::future::ready(answers).boxed()
    }

    fn create<'a>(&'a self, request: &'a Request, intent: &'a Intent) -> BoxFuture<'a, Result<Instance, Error>> {
        let answer = self.account.lock().unwrap().create(request, intent, self.defect);
        std::future::ready(answer).boxed()
    }

    fn update<'a>(&'a self, request: &'a Request, instance: &'a Instance) -> BoxFuture<'a, Result<Instance, Error>> {
        let _ = request;
        let mut instance = instance.clone();
        if self.defect == Some(Defect::NewIdentityOnUpdate) {
            instance.provider_id = Some("fake:///another".to_owned());
        }
        std::future::ready(Ok(instance)).boxed()
    }

    fn delete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Deletion, Error>> {
        let answer = self.account.lock().unwrap().delete(request, self.defect);
        std::future::ready(Ok(answer)).boxed()
    }

    fn marked<'a>(&'a self, search: &'a Search) -> BoxFuture<'a, Result<Vec<Marked>, Error>> {
        let account = self.account.lock().unwrap();
        let ours = account.entries.iter().filter(|entry| entry.mark.cluster == search.cluster);
        let listed = ours.map(|entry| Marked {
            mark: entry.mark.clone(),
            kind: "instance".to_owned(),
            id: entry.id.clone(),
            provider_id: Some(entry.id.clone()),
            created: Some(entry.created),
        });
        let listed = if self.defect == Some(Defect::LeavesOrphansUnlisted) { Vec::new() } else { listed.collect() };
        std::future::ready(Ok(listed)).boxed()
    }

    fn remove<'a>(&'a self, search: &'a Search, orphan: &'a Marked) -> BoxFuture<'a, Result<Deletion, Error>> {
        let _ = search;
        self.account.lock().unwrap().entries.retain(|entry| entry.id != orphan.id);
        std::future::ready(Ok(Deletion::Gone)).boxed()
    }
}

impl SpecRules for Cloud {
    fn default(&self, spec: &Value, _: &Surroundings) -> Result<Value, Problem> {
        let mut spec = spec.clone();
        let turn = spec["turn"].as_u64().unwrap_or(0);
        if self.defect == Some(Defect::DefaultsTwice) || turn == 0 {
            spec["turn"] = json!(turn + 1);
        }
        Ok(spec)
    }

    fn validate(&self, spec: &Value, _: &Surroundings) -> Verdict {
        let broken =
            (spec["broken"] == json!(true)).then(|| Problem::new("providerSpec.broken", "Invalid value: true: no"));
        Verdict { problems: broken.into_iter().collect(), warnings: Vec::new() }
    }

    fn secrets(&self, _: &Value) -> Vec<SecretNeed> {
        Vec::new()
    }

    fn place(&self, spec: &Value) -> Value {
        place(spec)
    }

    fn capacity(&self, _: &Value) -> Option<Capacity> {
        None
    }
}

/// Where the instance of a spec is. A broken spec does not say.
pub(crate) fn place(spec: &Value) -> Value {
    if spec["broken"] == json!(true) { Value::Null } else { json!({"region": spec["region"]}) }
}
