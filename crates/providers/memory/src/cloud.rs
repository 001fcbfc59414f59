//! The cloud behind the provider: instances come, run and go, and their machines with them.
//!
//! Every change is in the account, and in its file, before anybody is told of it. What happens later (an instance that runs at
//! last, one that vanishes) is a task for each instance; a task looks at the account before it acts, so that one that lost
//! its instance does nothing.

mod account;
mod journal;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use machine::provider::{Mark, Request, Surroundings};
use parking_lot::Mutex;
use serde_json::Value;

use crate::boot::{Boot, Start};
use crate::spec::Behaviour;
use account::{Account, Entry};
use journal::Journal;

pub(crate) use account::{Life, Record};
pub use journal::Error;

/// A removal that ends within this time is told to whoever asked for it; a slower one shows in later looks.
const PROMPT: Duration = Duration::from_secs(1);

/// The simulated cloud. Clones share one account.
#[derive(Clone)]
pub struct Cloud(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    boot: Arc<dyn Boot>,
}

#[derive(Default)]
struct State {
    account: Account,
    journal: Option<Journal>,
    /// How often each token was refused, or its answer lost.
    refused: HashMap<String, u32>,
    /// Held while a machine is started or stopped, so that nothing is started after it was stopped.
    turns: HashMap<String, Arc<tokio::sync::Mutex<()>>>,
}

/// An instance that runs already and was not made by this cloud.
#[derive(Clone, Debug, PartialEq)]
pub struct Adopted {
    pub mark: Mark,
    pub provider_id: String,
    pub spec: Value,
}

impl Cloud {
    /// A cloud that is gone with its process.
    pub fn new(boot: Arc<dyn Boot>) -> Self {
        Self(Arc::new(Inner { state: Mutex::default(), boot }))
    }

    /// A cloud whose account is kept in a file, which no other process may use meanwhile. [`Cloud::resume`] goes on with the machines that are in it.
    pub fn open(path: &Path, boot: Arc<dyn Boot>) -> Result<Self, Error> {
        let (journal, account) = Journal::open(path)?;
        let state = State { account, journal: Some(journal), ..State::default() };
        Ok(Self(Arc::new(Inner { state: Mutex::new(state), boot })))
    }

    /// Goes on with every instance that an earlier process made.
    pub fn resume(&self) {
        let known: Vec<_> = self.0.state.lock().account.all().map(|record| (record.id.clone(), record.life)).collect();
        for (id, life) in known {
            match life {
                Life::Pending | Life::Running => self.live(id),
                Life::Deleting => drop(tokio::spawn(self.clone().end(id))),
                Life::Adopted => {}
            }
        }
    }

    /// Enters instances that run already. Those that are known, or were removed since, are left as they are.
    pub fn adopt(&self, instances: impl IntoIterator<Item = Adopted>) -> Result<(), Error> {
        let mut state = self.0.state.lock();
        let is_new = |id: &str| state.account.with_provider_id(id).is_none() && !is_gone(&state.account, id);
        let new = instances.into_iter().filter(|it| is_new(&it.provider_id));
        let entries: Vec<_> = new
            .map(|Adopted { mark, provider_id, spec }| {
                let id = provider_id.rsplit('/').next().unwrap_or_default().to_owned();
                let (token, user_data) = (Some(adoption(&provider_id)), Vec::new());
                let (life, created) = (Life::Adopted, Timestamp::now());
                Entry::Put(Box::new(Record { id, provider_id, mark, token, spec, user_data, life, created }))
            })
            .collect();
        state.write(entries)
    }

    /// Whether an instance was adopted once and is gone now.
    pub fn is_gone(&self, provider_id: &str) -> bool {
        is_gone(&self.0.state.lock().account, provider_id)
    }

    /// How many instances there are, in whatever state. This is the account that a test compares with the Machines.
    pub fn count(&self) -> usize {
        self.0.state.lock().account.all().count()
    }

    /// Removes an instance behind everybody's back, as a cloud does that lost the host beneath it.
    pub async fn vanish(&self, provider_id: &str) {
        let id = self.0.state.lock().account.with_provider_id(provider_id).map(|record| record.id.clone());
        if let Some(id) = id {
            self.clone().end(id).await;
        }
    }

    /// Runs `look` on the account.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Account) -> T) -> T {
        look(&self.0.state.lock().account)
    }

    /// Counts a call for a token and says how many came before it.
    pub(crate) fn count_call(&self, token: &str) -> u32 {
        let mut state = self.0.state.lock();
        let count = state.refused.entry(token.to_owned()).or_default();
        *count += 1;
        *count - 1
    }

    /// The instance of a token: the one that is there, or a new one. `Err(Some)` is an instance that is gone already.
    pub(crate) fn create(&self, new: New) -> Result<(Record, bool), Failure> {
        let mut state = self.0.state.lock();
        if let Some(record) = state.account.with_token(&new.token) {
            return Ok((record.clone(), false));
        }
        if let Some(id) = state.account.spent(&new.token) {
            return Err(Failure::Spent(id.to_owned()));
        }
        let id = state.account.next_id();
        let record = Record {
            provider_id: (new.provider_id)(&id),
            id,
            mark: new.mark,
            token: Some(new.token),
            spec: new.spec,
            user_data: new.user_data,
            life: if new.is_pending { Life::Pending } else { Life::Running },
            created: Timestamp::now(),
        };
        state.write(vec![Entry::Put(Box::new(record.clone()))]).map_err(Failure::Unkept)?;
        drop(state);
        self.live(record.id.clone());
        Ok((record, true))
    }

    /// Begins to remove instances, and says whether all of them are gone.
    pub(crate) async fn delete(&self, ids: Vec<String>) -> bool {
        let tasks: Vec<_> = ids.iter().map(|id| tokio::spawn(self.clone().end(id.clone()))).collect();
        // The tasks go on when nobody waits for them any more.
        let _ = tokio::time::timeout(PROMPT, futures::future::join_all(tasks)).await;
        // A task that has ended may not have been able to keep what it did.
        let state = self.0.state.lock();
        ids.iter().all(|id| state.account.get(id).is_none())
    }

    /// Plays the life of an instance: it runs after a while, then its machine boots, and one day it may vanish.
    fn live(&self, id: String) {
        let cloud = self.clone();
        tokio::spawn(async move {
            let Some((record, behaviour)) = cloud.behaviour(&id) else { return };
            let vanishing = behaviour.vanishes_after.map(|after| {
                let (cloud, id) = (cloud.clone(), id.clone());
                async move {
                    tokio::time::sleep(after).await;
                    cloud.end(id).await;
                }
            });
            if let Some(vanishing) = vanishing {
                tokio::spawn(vanishing);
            }
            if record.life == Life::Pending {
                tokio::time::sleep(behaviour.create_delay).await;
                cloud.change(&id, |life| (life == Life::Pending).then_some(Life::Running));
            }
            if !behaviour.never_boots {
                tokio::time::sleep(behaviour.boot_delay).await;
                cloud.start(&id, behaviour).await;
            }
        });
    }

    async fn start(&self, id: &str, behaviour: Behaviour) {
        let turn = self.turn(id);
        let _turn = turn.lock().await;
        let Some((record, _)) = self.behaviour(id).filter(|(record, _)| record.life == Life::Running) else { return };
        tracing::info!(machine = record.mark.machine, instance = id, "booting");
        let Behaviour { region, zone, instance_type, .. } = behaviour;
        let Record { mark, provider_id, user_data, .. } = record;
        self.0.boot.start(Start { name: mark.machine, provider_id, region, zone, instance_type, user_data }).await;
    }

    /// Ends an instance: its machine is stopped, then it is gone. Idempotent.
    async fn end(self, id: String) {
        self.change(&id, |life| (life != Life::Deleting).then_some(Life::Deleting));
        let Some((record, behaviour)) = self.behaviour(&id) else { return };
        tokio::time::sleep(behaviour.delete_delay).await;
        let turn = self.turn(&id);
        let _turn = turn.lock().await;
        if self.behaviour(&id).is_none() {
            return;
        }
        self.0.boot.stop(&record.mark.machine, &record.provider_id).await;
        tracing::info!(machine = record.mark.machine, instance = id, "gone");
        let mut state = self.0.state.lock();
        state.turns.remove(&id);
        if let Err(error) = state.write(vec![Entry::Gone { id, token: record.token }]) {
            tracing::error!(error = &error as &dyn std::error::Error, "the account is not kept");
        }
    }

    fn behaviour(&self, id: &str) -> Option<(Record, Behaviour)> {
        let record = self.0.state.lock().account.get(id).cloned()?;
        let behaviour = Behaviour::of(&record.spec, &Surroundings::default()).unwrap_or_default();
        Some((record, behaviour))
    }

    fn turn(&self, id: &str) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(self.0.state.lock().turns.entry(id.to_owned()).or_default())
    }

    fn change(&self, id: &str, to: impl FnOnce(Life) -> Option<Life>) {
        let mut state = self.0.state.lock();
        let Some(record) = state.account.get(id).cloned() else { return };
        let Some(life) = to(record.life) else { return };
        if let Err(error) = state.write(vec![Entry::Put(Box::new(Record { life, ..record }))]) {
            tracing::error!(error = &error as &dyn std::error::Error, "the account is not kept");
        }
    }
}

/// What a new instance is made from.
pub(crate) struct New {
    pub(crate) mark: Mark,
    pub(crate) token: String,
    pub(crate) spec: Value,
    pub(crate) user_data: Vec<u8>,
    pub(crate) is_pending: bool,
    /// Makes the provider id from the instance's id.
    pub(crate) provider_id: Box<dyn FnOnce(&str) -> String + Send>,
}

/// Why there is no instance.
pub(crate) enum Failure {
    /// The token's instance, by its id, is gone.
    Spent(String),
    /// The account could not be written.
    Unkept(Error),
}

impl State {
    /// Keeps the changes, then makes them. A change that cannot be kept is not made.
    fn write(&mut self, entries: Vec<Entry>) -> Result<(), Error> {
        if let Some(journal) = &mut self.journal {
            journal.append(&entries)?;
        }
        entries.into_iter().for_each(|entry| self.account.apply(entry));
        Ok(())
    }
}

/// Stands for the token of an instance that was not created here.
fn adoption(provider_id: &str) -> String {
    format!("adopted {provider_id}")
}

fn is_gone(account: &Account, provider_id: &str) -> bool {
    account.spent(&adoption(provider_id)).is_some()
}

/// The ids of the instances of a Machine.
pub(crate) fn ids(account: &Account, request: &Request) -> Vec<String> {
    account.of(request).map(|record| record.id.clone()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;
    use crate::boot::Nothing;

    #[tokio::test]
    async fn an_instance_is_not_gone_while_the_account_still_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let cloud = Cloud::open(&folder.path().join("account"), Arc::new(Nothing)).unwrap();
        let provider_id = "memory:///zone-a/worker-1".to_owned();
        cloud.adopt([Adopted { mark: Mark::default(), provider_id, spec: json!({}) }]).unwrap();
        cloud.0.state.lock().journal.as_mut().unwrap().tear();
        assert!(!cloud.delete(vec!["worker-1".to_owned()]).await, "the disk is full, so the account kept it");
        assert_eq!(cloud.count(), 1);
    }
}
