//! What was seen a moment ago, so that it is not asked for again.
//!
//! Nothing here is needed: whatever is missing is looked up. It saves a call for each machine whose tags are compared right
//! after a list brought them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use machine::provider::Capacity;

use crate::client::Client;
use crate::ec2::wire;

/// Tags that somebody changes meanwhile are put right one look later.
const INSTANCES: Duration = Duration::from_secs(120);
/// Options of a VPC change about never.
const DOMAINS: Duration = Duration::from_secs(3600);
/// After a refusal, such as a missing right, it is asked again sooner.
const UNKNOWN_DOMAINS: Duration = Duration::from_secs(300);
const CAPACITIES: Duration = Duration::from_secs(24 * 3600);
/// How many offers are kept; sets of machines name a few dozen types at most.
const MOST_CAPACITIES: usize = 1000;

#[derive(Default)]
pub(super) struct Memory {
    /// By id, since when.
    instances: Timed<String, wire::Instance>,
    /// Domain names by VPC, until when.
    domains: Timed<String, Vec<String>>,
    /// Offers by region and instance type, since when.
    capacities: Timed<(String, String), Option<Capacity>>,
}

type Timed<K, V> = Mutex<HashMap<K, (Instant, V)>>;

impl Memory {
    pub(super) fn remember(&self, instance: &wire::Instance) {
        let now = Instant::now();
        let mut instances = whole(&self.instances);
        instances.retain(|_, (since, _)| now.duration_since(*since) < INSTANCES);
        instances.insert(instance.instance_id.clone(), (now, instance.clone()));
    }

    pub(super) fn recall(&self, id: &str) -> Option<wire::Instance> {
        let instances = whole(&self.instances);
        let (since, instance) = instances.get(id)?;
        (since.elapsed() < INSTANCES).then(|| instance.clone())
    }

    pub(super) fn forget(&self, id: &str) {
        whole(&self.instances).remove(id);
    }

    pub(super) fn capacity(&self, key: &(String, String)) -> Option<Option<Capacity>> {
        let capacities = whole(&self.capacities);
        let (since, capacity) = capacities.get(key)?;
        (since.elapsed() < CAPACITIES).then(|| capacity.clone())
    }

    pub(super) fn learn(&self, key: (String, String), capacity: Option<Capacity>) {
        let mut capacities = whole(&self.capacities);
        if capacities.len() >= MOST_CAPACITIES {
            capacities.clear();
        }
        capacities.insert(key, (Instant::now(), capacity));
    }

    /// The domain names that DHCP gives in a VPC. They only add names, so not knowing them is no error.
    pub(super) async fn domains(&self, client: &Client, vpc: &str) -> Vec<String> {
        if vpc.is_empty() {
            return Vec::new();
        }
        if let Some((until, names)) = whole(&self.domains).get(vpc)
            && *until > Instant::now()
        {
            return names.clone();
        }
        let (names, time) = match client.domain_names(vpc).await {
            Ok(names) => (names, DOMAINS),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, vpc, "cannot read the domain names of a VPC");
                (Vec::new(), UNKNOWN_DOMAINS)
            }
        };
        whole(&self.domains).insert(vpc.to_owned(), (Instant::now() + time, names.clone()));
        names
    }
}

fn whole<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn instances_are_remembered_for_a_while() {
        let memory = Memory::default();
        let instance = wire::Instance { instance_id: "i-1".to_owned(), ..wire::Instance::default() };
        memory.remember(&instance);
        assert_eq!(memory.recall("i-1"), Some(instance));
        assert_eq!(memory.recall("i-2"), None);
        tokio::time::advance(INSTANCES).await;
        assert_eq!(memory.recall("i-1"), None);
    }
}
