//! Claims an object before anything is deleted for it, so that two processes that both believe to lead do not both act.
//!
//! A Lease does not stop a process that was stopped for a minute and goes on with the plan it had. So a plan that takes
//! machines away is first claimed in an annotation under the object's resource version: a plan on an older view is a conflict.
//! A claim is good for a moment only, and longer than that moment every other process leaves the object alone.

use std::collections::HashMap;
use std::fmt::Debug;
use std::time::Duration;

use api::machine::annotation;
use cluster::watch::Key;
use jiff::Timestamp;
use kube::api::Api;
use kube::{Error, Resource, ResourceExt};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::Instant;

use crate::write;

/// A claim is acted on for so long. What is left then is planned and claimed again.
const GOOD_FOR: Duration = Duration::from_secs(10);

/// Others act no earlier than this after a claim: it is good for ten seconds, and the last call of its owner may take
/// another thirty.
const RESPECTED_FOR: Duration = Duration::from_secs(60);

/// The claims that a process takes and meets.
#[derive(Default)]
pub(crate) struct Claims {
    /// The claim of another process on each object, and when it was first seen here. The time that it names is for people:
    /// the clock that it comes from may be wrong.
    met: Mutex<HashMap<Key, (String, Instant)>>,
}

/// The right to act on one plan.
pub(crate) struct Claim(Instant);

impl Claim {
    /// Whether there is still time to act. To be asked before every action.
    pub(crate) fn is_good(&self) -> bool {
        self.0.elapsed() < GOOD_FOR
    }
}

impl Claims {
    /// How much longer another process may act for this object. To be asked whenever the object is looked at, also while
    /// nothing has to go: the wait counts from when a claim was first met here, and a process that follows another one meets
    /// its claims when it begins.
    pub(crate) fn foreign<K: Resource>(&self, key: &Key, object: &K, identity: &str) -> Option<Duration> {
        let claim = object.annotations().get(annotation::CLAIM)?;
        let (owner, _) = claim.split_once(' ')?;
        let mut met = self.met.lock();
        if owner == identity {
            met.remove(key);
            return None;
        }
        if met.get(key).is_none_or(|(known, _)| known != claim) {
            met.insert(key.clone(), (claim.clone(), Instant::now()));
        }
        let seen = met.get(key).map_or(Duration::ZERO, |(_, since)| since.elapsed());
        RESPECTED_FOR.checked_sub(seen).filter(|left| !left.is_zero())
    }

    /// Claims `object` for a plan about these machines, made at this time. An object that has changed since is a conflict.
    pub(crate) async fn take<K>(
        api: &Api<K>,
        manager: &str,
        object: &K,
        identity: &str,
        machines: &[&str],
        planned: Instant,
    ) -> Result<(K, Claim), Error>
    where
        K: Resource + Clone + DeserializeOwned + Debug,
    {
        // Counted from before the write, so that others never wait for less than this process acts; and from the plan, because
        // machines change without the object's version, and a process may have stood still since it looked at them.
        let claim = Claim(planned);
        let text = format!("{identity} {} {}", Timestamp::now(), machines.join(","));
        let patch = json!({ "metadata": { "annotations": { annotation::CLAIM: text } } });
        Ok((write::merge(api, manager, object, patch).await?, claim))
    }

    pub(crate) fn forget(&self, key: &Key) {
        self.met.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use api::machine::MachineSet;

    use super::*;

    fn claimed(text: &str) -> MachineSet {
        let mut set = MachineSet::default();
        set.metadata.annotations = Some([(annotation::CLAIM.to_owned(), text.to_owned())].into());
        set
    }

    #[tokio::test(start_paused = true)]
    async fn another_process_is_waited_for_from_when_its_claim_was_first_met() {
        let (claims, key) = (Claims::default(), Key::in_namespace("ns", "a"));
        let left = |text: &str| claims.foreign(&key, &claimed(text), "me");
        assert_eq!(left("other 2026-01-01T00:00:00Z m1"), Some(RESPECTED_FOR));
        tokio::time::advance(RESPECTED_FOR / 2).await;
        assert_eq!(left("other 2026-01-01T00:00:00Z m1"), Some(RESPECTED_FOR / 2));
        tokio::time::advance(RESPECTED_FOR / 2).await;
        assert_eq!(left("other 2026-01-01T00:00:00Z m1"), None);
        assert_eq!(left("other 2026-01-01T00:01:00Z m2"), Some(RESPECTED_FOR), "it claimed again");
        assert_eq!(left("me 2026-01-01T00:02:00Z m2"), None);
    }
}
