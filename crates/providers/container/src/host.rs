//! The containers of this host: which there are, which are being removed, and which are gone.
//!
//! Every change is in its file before anybody is told of it, and before anything is started or removed.

mod record;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use machine::provider::{Mark, Request};
use parking_lot::Mutex;

use crate::boot::{Boot, Start};

pub use record::Error;
pub(crate) use record::{Life, Record};

/// A removal that ends within this time is told to whoever asked for it; a slower one shows in later looks.
const PROMPT: Duration = Duration::from_secs(1);

/// The containers of this host, behind one folder. Clones share them.
#[derive(Clone)]
pub struct Host(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    boot: Arc<dyn Boot>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    records: BTreeMap<String, Record>,
    /// Held while a container is started or stopped, so that nothing is started after it was stopped.
    turns: HashMap<String, Arc<tokio::sync::Mutex<()>>>,
}

/// A container that runs already and was not made by this provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    pub mark: Mark,
    pub provider_id: String,
    pub zone: String,
}

/// What a new container is made from.
pub(crate) struct New {
    pub(crate) mark: Mark,
    pub(crate) token: String,
    pub(crate) zone: String,
    pub(crate) user_data: Vec<u8>,
}

/// Why there is no container.
pub(crate) enum Failure {
    /// The token's container, by its id, is gone.
    Spent(String),
    /// Another Machine's container has the name.
    Taken { id: String, uid: String },
    /// Its file could not be written.
    Unkept(Error),
}

impl Host {
    /// The containers that are kept in a folder, which no other process may use meanwhile. [`Host::resume`] goes on with them.
    pub fn open(folder: &Path, boot: Arc<dyn Boot>) -> Result<Self, Error> {
        let records = record::load(folder)?.into_iter().map(|record| (record.id.clone(), record)).collect();
        let state = Mutex::new(State { records, ..State::default() });
        Ok(Self(Arc::new(Inner { folder: folder.to_owned(), boot, state })))
    }

    /// Goes on with every container that an earlier process made.
    pub fn resume(&self) {
        for record in self.look(|records| records.values().cloned().collect::<Vec<_>>()) {
            match record.life {
                Life::Running => drop(tokio::spawn(self.clone().start(record.id))),
                Life::Deleting => drop(tokio::spawn(self.clone().end(record.id))),
                Life::Adopted | Life::Gone => {}
            }
        }
    }

    /// Enters containers that run already. Those that are known, or were removed since, are left as they are.
    pub fn adopt(&self, containers: impl IntoIterator<Item = Adopted>) -> Result<(), Error> {
        let mut state = self.0.state.lock();
        for Adopted { mark, provider_id, zone } in containers {
            if state.records.values().any(|record| record.provider_id == provider_id) {
                continue;
            }
            let id = provider_id.rsplit('/').next().unwrap_or_default().to_owned();
            let (life, created) = (Life::Adopted, Timestamp::now());
            let record = Record { id, provider_id, mark, token: None, zone, user_data: String::new(), life, created };
            self.write(&mut state, record)?;
        }
        Ok(())
    }

    /// Whether a container was there once and is gone now.
    pub fn is_gone(&self, provider_id: &str) -> bool {
        self.look(|records| {
            records.values().any(|record| record.provider_id == provider_id && record.life == Life::Gone)
        })
    }

    /// How many containers there are, in whatever state.
    pub fn count(&self) -> usize {
        self.look(|records| records.values().filter(|record| record.life != Life::Gone).count())
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&BTreeMap<String, Record>) -> T) -> T {
        look(&self.0.state.lock().records)
    }

    /// Every container of a Machine that is not gone: by provider id, intent and mark, each of which names the Machine's uid.
    pub(crate) fn of(&self, request: &Request) -> Vec<Record> {
        self.look(|records| {
            let is_its = |record: &&Record| record.life != Life::Gone && record.mark.uid == request.mark.uid;
            records.values().filter(is_its).cloned().collect()
        })
    }

    /// The container of a token: the one that is there, or a new one.
    pub(crate) fn create(&self, new: New) -> Result<Record, Failure> {
        let mut state = self.0.state.lock();
        let New { mark, token, zone, user_data } = new;
        if let Some(record) = state.records.values().find(|record| record.token.as_ref() == Some(&token)) {
            return if record.life == Life::Gone { Err(Failure::Spent(record.id.clone())) } else { Ok(record.clone()) };
        }
        let has_name = |record: &&Record| record.life != Life::Gone && record.mark.machine == mark.machine;
        if let Some(other) = state.records.values().find(has_name) {
            return Err(Failure::Taken { id: other.id.clone(), uid: other.mark.uid.clone() });
        }
        let id = next_id(&state.records);
        let record = Record {
            provider_id: format!("container:///{zone}/{id}"),
            id,
            mark,
            token: Some(token),
            zone,
            user_data: String::from_utf8_lossy(&user_data).into_owned(),
            life: Life::Running,
            created: Timestamp::now(),
        };
        self.write(&mut state, record.clone()).map_err(Failure::Unkept)?;
        drop(state);
        tokio::spawn(self.clone().start(record.id.clone()));
        Ok(record)
    }

    /// Begins to remove containers, and says whether all of them are gone.
    pub(crate) async fn delete(&self, ids: Vec<String>) -> Result<bool, String> {
        let tasks: Vec<_> = ids.iter().map(|id| tokio::spawn(self.clone().end(id.clone()))).collect();
        // The tasks go on when nobody waits for them any more.
        let ended = tokio::time::timeout(PROMPT, futures::future::join_all(tasks)).await;
        if let Some(error) = ended.into_iter().flatten().flatten().find_map(Result::err) {
            return Err(error);
        }
        let is_gone = |record: Option<&Record>| record.is_none_or(|record| record.life == Life::Gone);
        Ok(self.look(|records| ids.iter().all(|id| is_gone(records.get(id)))))
    }

    async fn start(self, id: String) {
        let turn = self.turn(&id);
        let _turn = turn.lock().await;
        let Some(record) = self.record(&id).filter(|record| record.life == Life::Running) else { return };
        tracing::info!(machine = record.mark.machine, instance = id, "starting its container");
        let Record { mark, provider_id, zone, user_data, .. } = record;
        self.0.boot.start(Start { name: mark.machine, provider_id, zone, user_data: user_data.into_bytes() }).await;
    }

    /// Ends a container: it is stopped and removed, then it is gone. Idempotent.
    async fn end(self, id: String) -> Result<(), String> {
        self.change(&id, Life::Deleting).map_err(|error| error.to_string())?;
        let turn = self.turn(&id);
        let _turn = turn.lock().await;
        let Some(record) = self.record(&id).filter(|record| record.life != Life::Gone) else { return Ok(()) };
        if let Err(error) = self.0.boot.stop(&record.mark.machine).await {
            tracing::warn!(machine = record.mark.machine, instance = id, error, "cannot remove its container");
            return Err(error);
        }
        self.change(&id, Life::Gone).map_err(|error| error.to_string())?;
        tracing::info!(machine = record.mark.machine, instance = id, "its container is gone");
        self.0.state.lock().turns.remove(&id);
        Ok(())
    }

    fn record(&self, id: &str) -> Option<Record> {
        self.look(|records| records.get(id).cloned())
    }

    fn turn(&self, id: &str) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(self.0.state.lock().turns.entry(id.to_owned()).or_default())
    }

    /// Moves a container on in its life. What is gone stays gone.
    fn change(&self, id: &str, life: Life) -> Result<(), Error> {
        let mut state = self.0.state.lock();
        let Some(record) = state.records.get(id).filter(|record| ![Life::Gone, life].contains(&record.life)) else {
            return Ok(());
        };
        // A container that is gone needs no token for its first boot.
        let user_data = if life == Life::Gone { String::new() } else { record.user_data.clone() };
        let record = Record { life, user_data, ..record.clone() };
        self.write(&mut state, record)
    }

    /// Keeps a record, then makes it known. One that cannot be kept is not made.
    fn write(&self, state: &mut State, record: Record) -> Result<(), Error> {
        record::save(&self.0.folder, &record)?;
        state.records.insert(record.id.clone(), record);
        Ok(())
    }
}

/// Numbers are never used twice: a record stays when its container is gone.
fn next_id(records: &BTreeMap<String, Record>) -> String {
    let number = |id: &String| id.strip_prefix("c-").and_then(|number| number.parse::<u64>().ok());
    format!("c-{:05}", records.keys().filter_map(number).max().map_or(0, |last| last + 1))
}
