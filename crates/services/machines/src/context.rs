//! What every controller of this process shares.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cluster::events::Severity;
use cluster::watch::Key;
use cluster::{Events, Outcome};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt};
use machine::provider::Provider;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::index::Index;
use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::world::World;

/// When to look again at something that could not be read. Watches come back by themselves; this is how soon that shows.
pub(crate) const UNREAD: Outcome = Outcome::Again(Duration::from_secs(5));

/// News that came again within this time are not news. Each time it comes counts.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// Every machine of a fleet may have news at once.
const NEWS: usize = 16 * 1024;

pub(crate) struct Context {
    pub(crate) world: World,
    pub(crate) index: Mutex<Index>,
    pub(crate) settings: Settings,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) metrics: Arc<Metrics>,
    events: Events,
    /// What was told about each object, so that each look does not tell it again.
    told: Mutex<HashMap<(&'static str, Key), Told>>,
}

/// Texts, and when each was last to be told.
type Told = HashMap<String, Instant>;

impl Context {
    pub(crate) fn new(world: World, settings: Settings, provider: Arc<dyn Provider>, metrics: Arc<Metrics>) -> Self {
        let events =
            Events::start_with_room(world.client.clone(), "machine-api-controllers", &settings.namespace, NEWS);
        Self { world, index: Mutex::default(), settings, provider, metrics, events, told: Mutex::default() }
    }

    /// Tells about an object, unless this was told of it already.
    pub(crate) fn tell<K>(&self, object: &K, severity: Severity, reason: &str, message: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        let entry = (kind_of::<K>(), Key::of(object));
        let is_news = {
            let mut told = self.told.lock();
            let told = told.entry(entry).or_default();
            told.retain(|_, at| at.elapsed() < REMEMBERED);
            told.insert(format!("{reason}: {message}"), Instant::now()).is_none()
        };
        if is_news {
            self.publish(object, severity, reason, message);
        }
    }

    /// Tells about an object, however often.
    pub(crate) fn publish<K>(&self, object: &K, severity: Severity, reason: &str, message: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        let about = ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            name: Some(object.name_any()),
            namespace: object.namespace(),
            uid: object.uid(),
            ..ObjectReference::default()
        };
        self.events.publish_about(about, severity, reason, message);
    }

    /// An object is gone; one of the same name is told about anew.
    pub(crate) fn forget<K: 'static>(&self, key: &Key) {
        self.told.lock().remove(&(kind_of::<K>(), key.clone()));
    }
}

fn kind_of<K>() -> &'static str {
    std::any::type_name::<K>()
}

/// How bad an event is.
pub(crate) fn severity(warning: bool) -> Severity {
    if warning { Severity::Warning } else { Severity::Normal }
}

pub(crate) fn positive(wait: SignedDuration) -> Duration {
    Duration::try_from(wait).unwrap_or(Duration::ZERO)
}
