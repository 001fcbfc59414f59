//! The suite that holds every provider to the words of the port.
//!
//! A provider's tests make a [`Suite`] and call [`Suite::run`]. Each promise is tried on Machines of its own, so a cloud
//! that is shared with other tests does no harm. The suite is written without a runtime: the caller says how a future is
//! driven and how a moment passes, which is virtual time for a simulated cloud and a short sleep for a real server.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;

use super::{Deletion, Error, Instance, Intent, Mark, Provider, Request, Search, Secrets, Surroundings};

/// How often the suite looks again before it says that something never happened.
const PATIENCE: usize = 200;

/// A provider under test.
pub struct Suite<'a> {
    /// Makes a provider on the same cloud. A new one stands for a restarted process.
    pub make: &'a dyn Fn() -> Box<dyn Provider>,
    /// A spec that works.
    pub spec: Value,
    /// A spec that the cloud or the rules refuse, if there is one that can be written down.
    pub broken: Option<Value>,
    pub secrets: Secrets,
    pub surroundings: Surroundings,
    /// Drives a future to its end.
    pub drive: &'a dyn Fn(BoxFuture<'_, ()>),
    /// Lets a moment pass between two looks.
    pub pause: &'a dyn Fn(),
    /// Distinguishes the Machines of this run from those of others on the same cloud.
    pub run_id: String,
    /// Any time; intents carry it.
    pub now: Timestamp,
}

/// What a provider promises, and how that is tried.
type Promise = (&'static str, fn(&Suite) -> Result<(), String>);

const PROMISES: &[Promise] = &[
    ("defaulting twice changes nothing more, and what it gives is valid", defaults_settle),
    ("a Machine that was never created has no instance, and deleting it succeeds", nothing_is_nothing),
    ("a created instance is found, runs at last, and has an identity", creation_shows),
    ("creating again under the same intent makes no second instance", creation_is_idempotent),
    ("an instance is found by its mark alone", found_by_mark),
    ("many Machines are looked up at once, in order, and each gets its own", batches_keep_order),
    ("updating changes no identity and is idempotent", update_keeps_identity),
    ("deletion ends, is idempotent, and needs neither provider id nor spec", deletion_ends),
    ("deleting one Machine leaves the others alone", deletion_is_narrow),
    ("everything with the cluster's mark is listed, and can be removed from the list", marked_is_complete),
    ("an invalid spec is refused and makes nothing", invalid_specs_make_nothing),
    ("no error tells a secret", secrets_stay_secret),
];

impl Suite<'_> {
    /// Tries every promise and says which were broken.
    pub fn run(&self) -> Result<(), String> {
        let broken: Vec<_> = PROMISES
            .iter()
            .filter_map(|(promise, try_it)| try_it(self).err().map(|why| format!("{promise}: {why}")))
            .collect();
        if broken.is_empty() { Ok(()) } else { Err(broken.join("\n")) }
    }

    fn wait<T: Send>(&self, future: BoxFuture<'_, T>) -> T {
        let mut answer = None;
        (self.drive)(future.map(|value| answer = Some(value)).boxed());
        answer.expect("the suite's driver runs a future to its end")
    }

    fn provider(&self) -> Box<dyn Provider> {
        (self.make)()
    }

    fn request(&self, name: &str, spec: &Value) -> Request {
        let machine = format!("{}-{name}", self.run_id);
        Request {
            mark: Mark {
                cluster: self.surroundings.cluster.clone(),
                namespace: "openshift-machine-api".to_owned(),
                uid: format!("uid-of-{machine}"),
                machine,
            },
            labels: BTreeMap::new(),
            control_plane: false,
            spec: Arc::new(spec.clone()),
            provider_id: None,
            provider_status: None,
            intent: None,
            secrets: Arc::new(self.secrets.clone()),
        }
    }

    /// A request with a recorded intent, as the controller has it before it calls `create`.
    fn intended(&self, name: &str) -> Request {
        self.intended_with(name, &self.spec)
    }

    fn intended_with(&self, name: &str, spec: &Value) -> Request {
        let request = self.request(name, spec);
        let provider = self.provider();
        let rules = provider.rules();
        let intent = Intent {
            token: format!("token-of-{}", request.mark.machine),
            attempt: 1,
            children: rules.children(&request),
            place: rules.place(spec),
            recorded: self.now,
        };
        Request { intent: Some(intent), ..request }
    }

    fn create(&self, request: &Request) -> Result<Instance, Error> {
        let intent = request.intent.as_ref().expect("the suite records an intent before it creates");
        let provider = self.provider();
        self.wait(provider.create(request, intent))
    }

    fn look(&self, request: &Request) -> Result<Vec<Instance>, String> {
        let provider = self.provider();
        let mut answers = self.wait(provider.instances(std::slice::from_ref(request)));
        match (answers.pop(), answers.len()) {
            (Some(Ok(instances)), 0) => Ok(instances),
            (Some(Err(error)), 0) => Err(format!("lookup failed: {error}")),
            (_, more) => Err(format!("one request got {} answers", more + 1)),
        }
    }

    /// Looks until exactly one instance is there and satisfies the condition.
    fn look_until(&self, request: &Request, what: &str, is: fn(&Instance) -> bool) -> Result<Instance, String> {
        let mut last = Vec::new();
        for _ in 0..PATIENCE {
            last = self.look(request)?;
            if last.len() > 1 {
                return Err(format!("{} instances for one Machine: {last:?}", last.len()));
            }
            if let Some(instance) = last.first().filter(|instance| is(instance)) {
                return Ok(instance.clone());
            }
            (self.pause)();
        }
        Err(format!("never {what}; last seen: {last:?}"))
    }

    fn delete(&self, request: &Request) -> Result<(), String> {
        for _ in 0..PATIENCE {
            let provider = self.provider();
            match self.wait(provider.delete(request)) {
                Ok(Deletion::Gone) => return self.is_absent(request),
                Ok(Deletion::Requested) => (self.pause)(),
                Err(error) => return Err(format!("deletion failed: {error}")),
            }
        }
        Err("deletion never ended".to_owned())
    }

    fn is_absent(&self, request: &Request) -> Result<(), String> {
        let left = self.look(request)?;
        if left.is_empty() { Ok(()) } else { Err(format!("said to be gone, but there is {left:?}")) }
    }
}

fn defaults_settle(suite: &Suite) -> Result<(), String> {
    let provider = suite.provider();
    let rules = provider.rules();
    let once = rules.default(&suite.spec, &suite.surroundings).map_err(|problem| problem.to_string())?;
    let twice = rules.default(&once, &suite.surroundings).map_err(|problem| problem.to_string())?;
    if once != twice {
        return Err(format!("{once} became {twice}"));
    }
    let verdict = rules.validate(&once, &suite.surroundings);
    if verdict.problems.is_empty() { Ok(()) } else { Err(format!("invalid: {:?}", verdict.problems)) }
}

fn nothing_is_nothing(suite: &Suite) -> Result<(), String> {
    let request = suite.intended("never-made");
    suite.is_absent(&request)?;
    suite.delete(&request)?;
    suite.delete(&suite.request("never-intended", &suite.spec))
}

fn creation_shows(suite: &Suite) -> Result<(), String> {
    let mut request = suite.intended("shows");
    suite.create(&request).map_err(|error| error.to_string())?;
    let seen = suite.look_until(&request, "running", |instance| instance.state == super::State::Running)?;
    let id = seen.provider_id.clone().ok_or("it runs without a provider id")?;
    if seen.state_word.is_empty() {
        return Err("it has no word for its state".to_owned());
    }
    request.provider_id = Some(id.clone());
    request.provider_status = seen.provider_status.clone();
    let again = suite.look_until(&request, "seen again", |_| true)?;
    if again.provider_id.as_ref() != Some(&id) {
        return Err(format!("its provider id changed from {id} to {:?}", again.provider_id));
    }
    if again.provider_status != seen.provider_status {
        return Err(format!("its status changed by looking: {:?}, {:?}", seen.provider_status, again.provider_status));
    }
    suite.delete(&request)
}

fn creation_is_idempotent(suite: &Suite) -> Result<(), String> {
    let request = suite.intended("twice");
    let first = suite.create(&request).map_err(|error| error.to_string())?;
    let second = suite.create(&request).map_err(|error| format!("the second call failed: {error}"))?;
    if let (Some(first), Some(second)) = (&first.provider_id, &second.provider_id)
        && first != second
    {
        return Err(format!("two instances: {first}, {second}"));
    }
    let seen = suite.look_until(&request, "running", |instance| instance.state == super::State::Running)?;
    let later = suite.create(&request).map_err(|error| format!("a call while it runs failed: {error}"))?;
    if later.provider_id != seen.provider_id {
        return Err(format!("another instance: {:?}, {:?}", seen.provider_id, later.provider_id));
    }
    suite.look_until(&request, "alone", |_| true)?;
    suite.delete(&request)
}

fn found_by_mark(suite: &Suite) -> Result<(), String> {
    let created = suite.intended("by-mark");
    suite.create(&created).map_err(|error| error.to_string())?;
    let unknown = suite.request("by-mark", &suite.spec);
    suite.look_until(&unknown, "found by its mark", |_| true)?;
    suite.delete(&unknown)
}

fn batches_keep_order(suite: &Suite) -> Result<(), String> {
    let mut requests: Vec<_> = (0..5).map(|number| suite.intended(&format!("batch-{number}"))).collect();
    let absent = 2;
    for (_, request) in requests.iter_mut().enumerate().filter(|(number, _)| *number != absent) {
        suite.create(request).map_err(|error| error.to_string())?;
        let seen = suite.look_until(request, "identified", |instance| instance.provider_id.is_some())?;
        request.provider_id = seen.provider_id;
        request.provider_status = seen.provider_status;
    }
    let provider = suite.provider();
    let answers = suite.wait(provider.instances(&requests));
    if answers.len() != requests.len() {
        return Err(format!("{} requests got {} answers", requests.len(), answers.len()));
    }
    for (request, answer) in requests.iter().zip(answers) {
        let ids: Vec<_> = answer.map_err(|error| error.to_string())?.into_iter().map(|it| it.provider_id).collect();
        let expected: Vec<_> = request.provider_id.iter().cloned().map(Some).collect();
        if ids != expected {
            return Err(format!("{} should have {expected:?} and got {ids:?}", request.mark.machine));
        }
    }
    requests.iter().try_for_each(|request| suite.delete(request))
}

fn update_keeps_identity(suite: &Suite) -> Result<(), String> {
    let request = suite.intended("updated");
    suite.create(&request).map_err(|error| error.to_string())?;
    let seen = suite.look_until(&request, "running", |instance| instance.state == super::State::Running)?;
    let provider = suite.provider();
    let request = Request { provider_id: seen.provider_id.clone(), ..request };
    let once = suite.wait(provider.update(&request, &seen)).map_err(|error| error.to_string())?;
    let twice = suite.wait(provider.update(&request, &once)).map_err(|error| error.to_string())?;
    if once.provider_id != seen.provider_id || twice != once {
        return Err(format!("{seen:?} became {once:?}, then {twice:?}"));
    }
    suite.delete(&request)
}

fn deletion_ends(suite: &Suite) -> Result<(), String> {
    let request = suite.intended("deleted");
    suite.create(&request).map_err(|error| error.to_string())?;
    // At once, while the instance may still be on its way, and with no more than the place that the intent kept.
    let place = request.intent.as_ref().map(|intent| intent.place.clone()).unwrap_or_default();
    let bare = Request { spec: Arc::new(place), ..request };
    suite.look_until(&bare, "visible", |_| true)?;
    suite.delete(&bare)?;
    suite.delete(&bare)
}

fn deletion_is_narrow(suite: &Suite) -> Result<(), String> {
    let [kept, removed] = ["narrow", "narrow-1"].map(|name| suite.intended(name));
    for request in [&kept, &removed] {
        suite.create(request).map_err(|error| error.to_string())?;
        suite.look_until(request, "visible", |_| true)?;
    }
    suite.delete(&removed)?;
    suite.look_until(&kept, "still there", |_| true)?;
    suite.delete(&kept)
}

fn marked_is_complete(suite: &Suite) -> Result<(), String> {
    let request = suite.intended("orphan");
    suite.create(&request).map_err(|error| error.to_string())?;
    suite.look_until(&request, "visible", |_| true)?;
    let provider = suite.provider();
    let search = Search {
        cluster: suite.surroundings.cluster.clone(),
        place: Arc::new(provider.rules().place(&suite.spec)),
        secrets: Arc::new(suite.secrets.clone()),
    };
    let mut seen = false;
    for _ in 0..PATIENCE {
        let listed = suite.wait(provider.marked(&search)).map_err(|error| error.to_string())?;
        let ours: Vec<_> = listed.into_iter().filter(|it| it.mark.machine == request.mark.machine).collect();
        if ours.is_empty() && seen {
            return suite.is_absent(&request);
        }
        if !seen && !ours.iter().any(|it| it.kind == "instance") {
            return Err(format!("the instance is not among {ours:?}"));
        }
        seen = true;
        for orphan in &ours {
            suite.wait(provider.remove(&search, orphan)).map_err(|error| format!("{}: {error}", orphan.kind))?;
        }
        (suite.pause)();
    }
    Err("orphans never went away".to_owned())
}

fn invalid_specs_make_nothing(suite: &Suite) -> Result<(), String> {
    let Some(broken) = &suite.broken else { return Ok(()) };
    let provider = suite.provider();
    let verdict = provider.rules().validate(broken, &suite.surroundings);
    if let Some(problem) = verdict.problems.iter().find(|problem| !problem.path.starts_with("providerSpec")) {
        return Err(format!("the path of {problem} does not begin with providerSpec"));
    }
    let request = suite.intended_with("broken", broken);
    match suite.create(&request) {
        Err(error) if error.is_final() => suite.delete(&request),
        Err(error) => Err(format!("refused as {} instead of InvalidSpec: {error}", error.kind)),
        Ok(instance) => Err(format!("made {instance:?}")),
    }
}

fn secrets_stay_secret(suite: &Suite) -> Result<(), String> {
    let spec = suite.broken.as_ref().unwrap_or(&suite.spec);
    let request = suite.intended_with("secret", spec);
    let text = match suite.create(&request) {
        Err(error) => format!("{error:?}"),
        Ok(instance) => format!("{instance:?}"),
    };
    let known = [&suite.secrets.credentials, &suite.secrets.user_data].into_iter().flatten();
    for (key, value) in known.flat_map(|data| &data.0) {
        // Short values, such as a user's name, occur in harmless sentences too.
        if let Ok(value) = std::str::from_utf8(value)
            && value.len() >= 8
            && text.contains(value)
        {
            return Err(format!("the value of {key} stands in {} characters of output", text.len()));
        }
    }
    suite.delete(&request)
}
