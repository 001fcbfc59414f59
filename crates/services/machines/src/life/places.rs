//! Bounds how many workers one place in the cloud may hold.
//!
//! A region that accepts connections and never answers holds every worker that calls it for minutes. Only some of them may
//! be held by one place; Machines that come later wait in a line of their own, without a worker.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use cluster::Queue;
use cluster::watch::Key;
use parking_lot::Mutex;

/// Calls to one place at the same time. A cloud that answers takes more calls in a second than its rate limit allows.
const AT_ONCE: usize = 64;

#[derive(Clone)]
pub(super) struct Places(Arc<Inner>);

struct Inner {
    queue: Queue<Key>,
    places: Mutex<HashMap<String, Place>>,
}

#[derive(Default)]
struct Place {
    calls: usize,
    waiting: VecDeque<Key>,
}

/// The right to call one place. Given back when it is dropped.
pub(super) struct Permit {
    places: Places,
    place: String,
}

impl Places {
    pub(super) fn new(queue: Queue<Key>) -> Self {
        Self(Arc::new(Inner { queue, places: Mutex::default() }))
    }

    /// A permit, or a place in the line: then the Machine is queued when its turn comes.
    pub(super) fn enter(&self, place: &str, machine: &Key) -> Option<Permit> {
        let mut places = self.0.places.lock();
        let entry = places.entry(place.to_owned()).or_default();
        if entry.calls >= AT_ONCE {
            if !entry.waiting.contains(machine) {
                entry.waiting.push_back(machine.clone());
            }
            return None;
        }
        entry.calls += 1;
        Some(Permit { places: self.clone(), place: place.to_owned() })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut places = self.places.0.places.lock();
        let Some(place) = places.get_mut(&self.place) else { return };
        place.calls -= 1;
        // As many as there is room for: one that does not need its turn any more must not keep it from the others.
        for _ in place.calls..AT_ONCE {
            let Some(next) = place.waiting.pop_front() else { break };
            self.places.0.queue.add(next);
        }
        if place.calls == 0 && place.waiting.is_empty() {
            places.remove(&self.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_place_keeps_others_waiting_and_no_other_place() {
        let queue = Queue::default();
        let places = Places::new(queue.clone());
        let key = |number: usize| Key::in_namespace("ns", &format!("m{number}"));
        let mut permits: Vec<_> = (0..AT_ONCE).filter_map(|number| places.enter("b", &key(number))).collect();
        assert_eq!(permits.len(), AT_ONCE);
        assert!(places.enter("b", &key(99)).is_none());
        assert!(places.enter("a", &key(99)).is_some());
        assert!(queue.is_empty());
        permits.pop();
        assert_eq!(queue.len(), 1, "its turn has come");
        assert!(places.enter("b", &key(99)).is_some());
    }
}
