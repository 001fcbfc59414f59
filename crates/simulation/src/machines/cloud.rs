//! A simulated cloud. It keeps its own account of every instance and knows no planner: what a real cloud does with tokens,
//! tags, capacity and lost answers is written here from the port's contract alone.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::NodeAddress;
use machine::provider::{Deletion, Error, ErrorKind, Instance, Intent, Mark, Marked, Request, State};
use serde_json::json;

use crate::random::Random;

/// The cluster's id in the cloud.
pub(crate) const CLUSTER: &str = "c";

/// A caller gives a creation up after this time, and no cloud of ours begins one later.
const LONGEST_CREATION: usize = 90;

/// One instance in the account.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) mark: Mark,
    token: String,
    pub(crate) created: Timestamp,
    /// Lookups and deletions find it from then on.
    visible: Timestamp,
    /// When its kubelet registers, unless it never does.
    pub(crate) boots: Option<Timestamp>,
    /// When it is gone.
    pub(crate) leaving: Option<Timestamp>,
    /// When the cloud gives up on it, and why.
    failed: Option<(Timestamp, Error)>,
    number: u64,
    /// A Machine of upstream's controllers, whose instance is known by its id alone.
    pub(crate) unmarked: bool,
}

impl Entry {
    /// Whether it costs money and is meant to stay.
    pub(crate) fn is_live(&self, now: Timestamp) -> bool {
        self.leaving.is_none() && !self.has_failed(now)
    }

    /// Whether a lookup has shown it for a while, and it still costs money.
    pub(crate) fn was_visible(&self, now: Timestamp) -> bool {
        self.is_live(now) && now.duration_since(self.visible) > SignedDuration::from_secs(60)
    }

    pub(crate) fn has_failed(&self, now: Timestamp) -> bool {
        self.failed.as_ref().is_some_and(|(since, _)| *since <= now)
    }
}

/// What the cloud is like at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mood {
    pub(crate) full: bool,
    pub(crate) throttles: bool,
    pub(crate) unreachable: bool,
    pub(crate) locked_out: bool,
    /// New instances never boot.
    pub(crate) boots_nothing: bool,
    /// Single calls go wrong now and then.
    pub(crate) whims: bool,
}

/// An answer and when it arrives.
pub(crate) struct Reply<T> {
    pub(crate) at: Timestamp,
    pub(crate) answer: Result<T, Error>,
}

/// A creation that the cloud has accepted and not begun.
#[derive(Clone, Debug)]
struct Order {
    at: Timestamp,
    mark: Mark,
    token: String,
    boots: Option<SignedDuration>,
    fails: Option<(SignedDuration, Error)>,
}

#[derive(Debug, Default)]
pub(crate) struct Cloud {
    pub(crate) now: Timestamp,
    pub(crate) entries: BTreeMap<String, Entry>,
    /// Tokens whose instance is gone. They stand for it for ever.
    spent: BTreeSet<String>,
    orders: Vec<Order>,
    /// How long a new instance may stay invisible.
    pub(crate) settling: SignedDuration,
    pub(crate) mood: Mood,
    counter: u64,
    /// Counts what changes in the account.
    pub(crate) changes: u64,
    /// Machines (by uid) that had two live instances at once.
    pub(crate) doubles: Vec<String>,
}

impl Cloud {
    pub(crate) fn create(&mut self, request: &Request, intent: &Intent, random: &mut Random) -> Reply<Instance> {
        if let Some(refusal) = self.refusal(random) {
            return self.reply(Err(refusal), random);
        }
        if let Some(entry) = self.entries.values().find(|entry| entry.token == intent.token) {
            let shown = self.shown(entry);
            return self.reply(Ok(shown), random);
        }
        if self.spent.contains(&intent.token) {
            let gone = Error::new(ErrorKind::Other, "the instance of this token is terminated");
            return self.reply(Ok(Instance { state: State::Failed(gone), ..Instance::default() }), random);
        }
        if self.mood.full {
            let kind = if random.once_in(2) { ErrorKind::NoCapacity } else { ErrorKind::Quota };
            return self.reply(Err(Error::new(kind, "not now")), random);
        }
        let whim = if self.mood.whims { random.below(12) } else { 12 };
        let unanswered = Error::new(ErrorKind::Unreachable, "the provider did not answer");
        if whim == 0 {
            return self.reply(Err(unanswered), random);
        }
        let delay = if whim == 1 { random.seconds(LONGEST_CREATION) } else { SignedDuration::ZERO };
        let fails = match whim {
            2 => Some((random.seconds(60), Error::new(ErrorKind::NoCapacity, "gave up"))),
            3 => Some((SignedDuration::ZERO, Error::new(ErrorKind::Other, "gave up"))),
            _ => None,
        };
        let never = self.mood.boots_nothing || whim == 4;
        let boots = (!never).then(|| SignedDuration::from_secs(20) + random.seconds(60));
        let order =
            Order { at: self.now + delay, mark: request.mark.clone(), token: intent.token.clone(), boots, fails };
        let token = order.token.clone();
        self.orders.push(order);
        self.pass(self.now);
        let is_lost = matches!(whim, 1 | 5 | 6);
        let answer = match self.entries.values().find(|entry| entry.token == token) {
            Some(entry) if !is_lost => Ok(self.shown(entry)),
            Some(_) | None => Err(unanswered),
        };
        let wait = if is_lost { random.seconds(LONGEST_CREATION) } else { random.seconds(2) };
        Reply { at: self.now + wait, answer }
    }

    /// The instances of a Machine, as far as they are visible.
    pub(crate) fn look(&self, request: &Request, random: &mut Random) -> Result<Vec<Instance>, Error> {
        if let Some(refusal) = self.refusal(random) {
            return Err(refusal);
        }
        Ok(self.found(request).map(|entry| self.shown(entry)).collect())
    }

    pub(crate) fn update(&self, instance: &Instance, random: &mut Random) -> Result<Instance, Error> {
        if let Some(refusal) = self.refusal(random) {
            return Err(refusal);
        }
        let entry = instance.provider_id.as_ref().and_then(|id| self.entries.get(id));
        entry.map(|entry| self.shown(entry)).ok_or_else(|| Error::new(ErrorKind::Other, "it is gone"))
    }

    /// Removes the instances of a Machine. Gives the ids of those that it took away, whatever the answer says.
    pub(crate) fn delete(&mut self, request: &Request, random: &mut Random) -> (Vec<String>, Reply<Deletion>) {
        if let Some(refusal) = self.refusal(random) {
            return (Vec::new(), self.reply(Err(refusal), random));
        }
        let found: Vec<String> = self.found(request).map(|entry| entry.id.clone()).collect();
        let mut taken = Vec::new();
        for id in &found {
            taken.extend(self.take_away(id, random));
        }
        let is_lost = self.mood.whims && random.once_in(10);
        let answer = match found.is_empty() {
            _ if is_lost => Err(Error::new(ErrorKind::Unreachable, "the provider did not answer")),
            true => Ok(Deletion::Gone),
            false => Ok(Deletion::Requested),
        };
        (taken, self.reply(answer, random))
    }

    /// Everything that carries the cluster's mark.
    pub(crate) fn marked(&self, cluster: &str, random: &mut Random) -> Result<Vec<Marked>, Error> {
        if let Some(refusal) = self.refusal(random) {
            return Err(refusal);
        }
        let ours = self.entries.values().filter(|entry| entry.mark.cluster == cluster && entry.leaving.is_none());
        let marked = ours.map(|entry| Marked {
            mark: entry.mark.clone(),
            kind: "instance".to_owned(),
            id: entry.id.clone(),
            provider_id: Some(entry.id.clone()),
            created: Some(entry.created),
        });
        Ok(marked.collect())
    }

    /// Begins to remove one instance. Says its id if it was not on its way out already.
    pub(crate) fn take_away(&mut self, id: &str, random: &mut Random) -> Option<String> {
        let until = self.now + SignedDuration::from_secs(2) + random.seconds(40);
        let entry = self.entries.get_mut(id).filter(|entry| entry.leaving.is_none())?;
        entry.leaving = Some(until);
        self.changes += 1;
        Some(id.to_owned())
    }

    /// An instance that is there from the start, or that nobody of ours made.
    pub(crate) fn place(&mut self, mark: Mark, token: &str, unmarked: bool) -> String {
        let order =
            Order { at: self.now, mark, token: token.to_owned(), boots: Some(SignedDuration::ZERO), fails: None };
        let id = self.begin(order);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.unmarked = unmarked;
            entry.visible = entry.created;
            // It has run for a day.
            entry.created -= SignedDuration::from_hours(24);
        }
        id
    }

    /// Lets time pass: creations begin, and what was taken away goes.
    pub(crate) fn pass(&mut self, now: Timestamp) {
        self.now = now;
        let (due, later) = std::mem::take(&mut self.orders).into_iter().partition(|order| order.at <= now);
        self.orders = later;
        let due: Vec<Order> = due;
        for order in due {
            // Two orders with one token are one.
            if !self.entries.values().any(|entry| entry.token == order.token) && !self.spent.contains(&order.token) {
                self.begin(order);
            }
        }
        let gone = |entry: &Entry| entry.leaving.is_some_and(|until| until <= now);
        let before = self.entries.len();
        self.spent.extend(self.entries.values().filter(|entry| gone(entry)).map(|entry| entry.token.clone()));
        self.entries.retain(|_, entry| !gone(entry));
        self.changes += u64::try_from(before - self.entries.len()).unwrap_or(0);
        self.count();
    }

    /// When something happens next by the passing of time alone.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let orders = self.orders.iter().map(|order| order.at);
        let times = self.entries.values().flat_map(|entry| {
            let failed = entry.failed.as_ref().map(|(at, _)| *at);
            let address = entry.created + SignedDuration::from_secs(10);
            [entry.leaving, entry.boots, failed, Some(entry.visible), Some(address)]
        });
        orders.chain(times.flatten()).filter(|at| *at > self.now).min()
    }

    fn begin(&mut self, order: Order) -> String {
        self.counter += 1;
        self.changes += 1;
        let (id, number) = (format!("sim:///i-{}", self.counter), self.counter);
        let entry = Entry {
            id: id.clone(),
            mark: order.mark,
            token: order.token,
            created: self.now,
            visible: self.now + self.settling,
            boots: order.boots.map(|after| self.now + after),
            leaving: None,
            failed: order.fails.map(|(after, error)| (self.now + after, error)),
            number,
            unmarked: false,
        };
        self.entries.insert(id.clone(), entry);
        id
    }

    fn count(&mut self) {
        let mut live: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in self.entries.values().filter(|entry| entry.is_live(self.now) && !entry.mark.uid.is_empty()) {
            *live.entry(entry.mark.uid.as_str()).or_default() += 1;
        }
        let doubles: Vec<String> =
            live.into_iter().filter(|(_, count)| *count > 1).map(|(uid, _)| uid.to_owned()).collect();
        self.doubles.extend(doubles);
    }

    fn found<'a>(&'a self, request: &'a Request) -> impl Iterator<Item = &'a Entry> {
        let belongs = |entry: &&Entry| {
            // The uid alone says whose it is: labels and names may be edited. What another controller made has no uid.
            let named = entry.unmarked && request.provider_id.as_ref() == Some(&entry.id);
            (!entry.mark.uid.is_empty() && entry.mark.uid == request.mark.uid) || named
        };
        self.entries.values().filter(belongs).filter(|entry| entry.visible <= self.now)
    }

    fn refusal(&self, random: &mut Random) -> Option<Error> {
        let Mood { throttles, unreachable, locked_out, whims, .. } = self.mood;
        let whim = if whims { random.below(24) } else { 24 };
        if throttles || whim == 0 {
            let retry_after = random.once_in(2).then(|| SignedDuration::from_secs(3));
            return Some(Error::new(ErrorKind::Throttled { retry_after }, "slow down"));
        }
        if unreachable || whim == 1 {
            return Some(Error::new(ErrorKind::Unreachable, "no route"));
        }
        locked_out.then(|| Error::new(ErrorKind::Credentials, "who are you"))
    }

    fn reply<T>(&self, answer: Result<T, Error>, random: &mut Random) -> Reply<T> {
        Reply { at: self.now + random.seconds(2), answer }
    }

    fn shown(&self, entry: &Entry) -> Instance {
        let runs = self.now.duration_since(entry.created) >= SignedDuration::from_secs(10);
        let failed = entry.failed.as_ref().filter(|(since, _)| *since <= self.now);
        let (state, word) = match (entry.leaving, failed, runs) {
            (Some(_), _, _) => (State::Deleting, "shutting-down"),
            (None, Some((_, error)), _) => (State::Failed(error.clone()), "error"),
            (None, None, true) => (State::Running, "running"),
            (None, None, false) => (State::Pending, "pending"),
        };
        let address = NodeAddress { address: address(entry.number), type_: "InternalIP".to_owned() };
        Instance {
            provider_id: Some(entry.id.clone()),
            state,
            state_word: word.to_owned(),
            addresses: if runs { vec![address] } else { Vec::new() },
            provider_status: Some(json!({ "instanceId": entry.id, "instanceState": word })),
            created: Some(entry.created),
            ..Instance::default()
        }
    }
}

fn address(number: u64) -> String {
    format!("10.0.{}.{}", number / 250, number % 250)
}
