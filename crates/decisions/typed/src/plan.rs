//! What a planner asks a controller to do, and how generated MachineConfigs that exist are looked at.
//!
//! A plan is carried out in this order: MachineConfigs are applied, then others are deleted, then the objects they come from
//! are updated. Any of it may be cut off; the next plan finishes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use api::annotations;
use api::machineconfiguration::{MachineConfig, MachineConfigPool, MachineConfigSpec};
use api::machinist::KeptConfigSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::names;

/// How fingerprints of inputs begin. Another way to make them gets another number.
const INPUTS: &str = "1:";

/// What to do.
#[derive(Clone, Default, PartialEq)]
pub struct Plan {
    /// MachineConfigs to write.
    pub apply: Vec<MachineConfig>,
    /// MachineConfigs to delete.
    pub delete: Vec<String>,
    /// What to change about the objects that configuration comes from.
    pub updates: Vec<Update>,
    pub events: Vec<Event>,
    /// MachineConfigs of another controller that are kept as they are.
    pub kept: Vec<String>,
    /// What such MachineConfigs contain, to be remembered: a later edit of one is taken back to it.
    pub originals: BTreeMap<String, KeptConfigSpec>,
    /// Fingerprints of what such MachineConfigs were made from, to be noted on them: once that changes, ours replace them.
    pub inputs: BTreeMap<String, String>,
}

impl fmt::Debug for Plan {
    /// MachineConfigs by name: some of them hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { apply, delete, updates, events, kept, originals, inputs } = self;
        let apply: Vec<_> = apply.iter().filter_map(|config| config.metadata.name.as_deref()).collect();
        f.debug_struct("Plan")
            .field("apply", &apply)
            .field("delete", delete)
            .field("updates", updates)
            .field("events", events)
            .field("kept", kept)
            .field("originals", &originals.keys())
            .field("inputs", inputs)
            .finish()
    }
}

/// An object of the API.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    pub kind: &'static str,
    pub namespace: Option<String>,
    pub name: String,
}

/// Changes of one object. What is not named here is left alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    pub object: Object,
    /// Annotations to set.
    pub annotations: BTreeMap<String, String>,
    /// All finalizers it shall have, where that changes.
    pub finalizers: Option<Vec<String>>,
    pub status: Option<Value>,
}

/// Something to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub about: Object,
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
}

impl Object {
    pub fn new(kind: &'static str, name: impl Into<String>) -> Self {
        Self { kind, namespace: None, name: name.into() }
    }
}

impl Plan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        let Self { apply, delete, updates, events, kept: _, originals: _, inputs } = self;
        apply.is_empty() && delete.is_empty() && updates.is_empty() && events.is_empty() && inputs.is_empty()
    }

    pub(crate) fn update(&mut self, update: Update) {
        if !update.annotations.is_empty() || update.finalizers.is_some() || update.status.is_some() {
            self.updates.push(update);
        }
    }

    /// Writes a generated MachineConfig where it differs, and tells when that takes somebody's edit back.
    pub(crate) fn put(&mut self, desired: MachineConfig, existing: &Existing<'_>) {
        if !existing.differs(&desired) {
            return;
        }
        let name = desired.metadata.name.clone().unwrap_or_default();
        let is_put_back = |live: &MachineConfig| is_edited(live) && live.spec != desired.spec;
        if existing.get(&name).is_some_and(is_put_back) {
            let from = note(&desired, annotations::GENERATED_FROM).unwrap_or_default();
            let message = format!("MachineConfig {name} was changed by somebody and put back; change {from} instead");
            self.warn(Object::new("MachineConfig", name), "GeneratedConfigRestored", message);
        }
        self.apply.push(desired);
    }

    /// Leaves a MachineConfig of another controller as it was when we first saw it.
    pub(crate) fn keep(&mut self, live: &MachineConfig, originals: &BTreeMap<String, MachineConfigSpec>) {
        let name = live.metadata.name.clone().unwrap_or_default();
        match originals.get(&name) {
            None => {
                self.originals.insert(name.clone(), remembered(live));
            }
            Some(original) if *original != live.spec => {
                let mut restored = live.clone();
                restored.spec = original.clone();
                let message = format!(
                    "MachineConfig {name} was changed by somebody and put back; `machinist adopt` makes it ours"
                );
                self.warn(Object::new("MachineConfig", name.clone()), "GeneratedConfigRestored", message);
                self.apply.push(restored);
            }
            Some(_) => {}
        }
        self.kept.push(name);
    }

    /// Leaves a user's MachineConfig that has a name of ours as it is. The note on it keeps us from telling it again.
    pub(crate) fn stand_aside(&mut self, live: &MachineConfig, what: &str) -> MachineConfig {
        let name = live.metadata.name.clone().unwrap_or_default();
        let why = format!(
            "MachineConfig {name} exists and was not generated, so {what} cannot reach its pool; rename or delete it"
        );
        if note(live, annotations::LEFT_OUT) != Some(why.as_str()) {
            self.warn(Object::new("MachineConfig", name), "GeneratedConfigNotWritten", why.clone());
        }
        let mut noted = live.clone();
        noted.metadata.annotations.get_or_insert_default().insert(annotations::LEFT_OUT.to_owned(), why);
        noted
    }

    /// Deletes generated MachineConfigs that nobody wants any more. Those of another controller stay unless their object
    /// gave them up.
    pub(crate) fn tidy(
        &mut self,
        existing: &Existing<'_>,
        is_ours: impl Fn(&&MachineConfig) -> bool,
        wanted: &BTreeMap<String, MachineConfig>,
        released: &BTreeSet<String>,
        originals: &BTreeMap<String, MachineConfigSpec>,
    ) {
        for live in existing.iter().filter(is_ours) {
            let name = live.metadata.name.clone().unwrap_or_default();
            if wanted.contains_key(&name) {
                continue;
            }
            match standing(live) {
                Standing::Foreign if !released.contains(&name) => self.keep(live, originals),
                Standing::Ours | Standing::Foreign => self.delete.push(name),
                Standing::Users | Standing::Missing => {}
            }
        }
    }

    /// Early releases put the pool's uid into the name; once the content is in the new one, the old one goes.
    pub(crate) fn rename(
        &mut self,
        kind: names::Kind,
        pool: &MachineConfigPool,
        existing: &Existing<'_>,
        wanted: &BTreeMap<String, MachineConfig>,
    ) {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let older = kind.with_uid(name, pool.metadata.uid.as_deref().unwrap_or_default());
        if wanted.contains_key(&kind.plain(name)) && existing.get(&older).is_some() {
            self.delete.push(older);
        }
    }

    /// Whether what a kept MachineConfig was made from is not what it was when we first saw it. A fingerprint of another
    /// release may be made differently; it is replaced and says nothing, because an upgrade must not move a node.
    pub(crate) fn has_changed(&mut self, name: &str, inputs: &Value, known: &BTreeMap<String, String>) -> bool {
        let now = format!("{INPUTS}{}", fingerprint(inputs));
        match known.get(name).filter(|before| before.starts_with(INPUTS)) {
            Some(before) => *before != now,
            None => {
                self.inputs.insert(name.to_owned(), now);
                false
            }
        }
    }

    /// Tells on an object what it does not do; an empty sentence is for one of which everything has an effect. The annotation
    /// keeps the event from being repeated.
    pub(crate) fn remark(&mut self, object: Object, metadata: &ObjectMeta, reason: &'static str, says: &str) {
        let said = metadata.annotations.as_ref().and_then(|notes| notes.get(annotations::IGNORED));
        if said.map_or("", String::as_str) == says {
            return;
        }
        if !says.is_empty() {
            let message = format!("{} {}: {says}", object.kind, object.name);
            self.warn(object.clone(), reason, message);
        }
        let annotations = BTreeMap::from([(annotations::IGNORED.to_owned(), says.to_owned())]);
        self.update(Update { object, annotations, finalizers: None, status: None });
    }

    pub(crate) fn warn(&mut self, about: Object, reason: &'static str, message: String) {
        self.events.push(Event { about, is_warning: true, reason, message });
    }
}

/// Whose a MachineConfig is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Missing,
    /// We generated it.
    Ours,
    /// Another controller generated it, before we took the cluster over.
    Foreign,
    /// A user wrote it.
    Users,
}

/// The MachineConfigs that exist, by name.
pub struct Existing<'a> {
    by_name: BTreeMap<&'a str, &'a MachineConfig>,
}

impl<'a> Existing<'a> {
    pub fn new(machine_configs: &'a [MachineConfig]) -> Self {
        let named = |config: &'a MachineConfig| Some((config.metadata.name.as_deref()?, config));
        Self { by_name: machine_configs.iter().filter_map(named).collect() }
    }

    pub fn get(&self, name: &str) -> Option<&'a MachineConfig> {
        self.by_name.get(name).copied()
    }

    pub fn names(&self) -> BTreeSet<String> {
        self.by_name.keys().map(|name| (*name).to_owned()).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a MachineConfig> {
        self.by_name.values().copied()
    }

    pub fn standing(&self, name: &str) -> Standing {
        self.get(name).map_or(Standing::Missing, standing)
    }

    /// Whether writing a MachineConfig would change anything.
    pub(crate) fn differs(&self, desired: &MachineConfig) -> bool {
        let Some(live) = desired.metadata.name.as_deref().and_then(|name| self.get(name)) else { return true };
        let holds = |desired: &Option<BTreeMap<String, String>>, live: &Option<BTreeMap<String, String>>| {
            let live = live.as_ref();
            desired.iter().flatten().all(|(key, value)| live.and_then(|live| live.get(key)) == Some(value))
        };
        live.spec != desired.spec
            || !holds(&desired.metadata.labels, &live.metadata.labels)
            || !holds(&desired.metadata.annotations, &live.metadata.annotations)
            || live.metadata.owner_references != desired.metadata.owner_references
    }
}

/// Notes what a generated MachineConfig was made from, and how its content looks.
pub(crate) fn seal(mut config: MachineConfig, from: &str) -> MachineConfig {
    let hash = content_hash(&config.spec);
    config.metadata.annotations.get_or_insert_default().extend([
        (annotations::GENERATED_FROM.to_owned(), from.to_owned()),
        (annotations::CONTENT_HASH.to_owned(), hash),
    ]);
    config
}

/// Whether somebody changed the content of a MachineConfig that we generated.
pub(crate) fn is_edited(live: &MachineConfig) -> bool {
    note(live, annotations::CONTENT_HASH).is_some_and(|hash| hash != content_hash(&live.spec))
}

fn content_hash(spec: &MachineConfigSpec) -> String {
    fingerprint(&serde_json::to_value(spec).unwrap_or_default())
}

/// A short hash of a value. Members of JSON objects are sorted here, so equal contents are equal texts.
pub(crate) fn fingerprint(value: &Value) -> String {
    hex::encode(&Sha256::digest(value.to_string().as_bytes())[..16])
}

pub(crate) fn note<'a>(config: &'a MachineConfig, key: &str) -> Option<&'a str> {
    config.metadata.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str)
}

/// What is remembered of a MachineConfig that another controller made.
pub(crate) fn remembered(live: &MachineConfig) -> KeptConfigSpec {
    KeptConfigSpec {
        uid: live.metadata.uid.clone().unwrap_or_default(),
        version: note(live, annotations::GENERATED_BY_CONTROLLER_VERSION).unwrap_or_default().to_owned(),
        original: live.spec.clone(),
    }
}

/// Whose a MachineConfig is.
pub fn standing(config: &MachineConfig) -> Standing {
    // Any of our notes will do: one is soon lost to somebody who edits the object.
    let ours = [annotations::GENERATED_FROM, annotations::CONTENT_HASH, annotations::ACCEPTED_SETTINGS];
    if ours.iter().any(|key| note(config, key).is_some()) {
        Standing::Ours
    } else if note(config, annotations::GENERATED_BY_CONTROLLER_VERSION).is_some_and(|version| !version.is_empty()) {
        Standing::Foreign
    } else {
        Standing::Users
    }
}
