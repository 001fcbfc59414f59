//! Keeps the newest scene and tells every open page what changed.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use parking_lot::RwLock;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::scene::Scene;
use crate::timeline::{Rollout, Timeline};
use crate::world::World;

/// The shortest time between two looks. People notice nothing faster.
const PACE: Duration = Duration::from_millis(250);

/// How much of the time may be spent on looking: a large fleet is looked at less often.
const SHARE: u32 = 10;

/// Without any change a look is taken after this, because how long something lasts is part of what is said.
const REST: Duration = Duration::from_secs(15);

/// Changes that a page may be behind before it fetches everything anew.
const BEHIND: usize = 64;

/// What all pages share.
#[derive(Clone)]
pub(crate) struct Live {
    shared: Arc<Shared>,
}

struct Shared {
    /// Whether anybody was let in yet.
    wanted: watch::Sender<bool>,
    scene: RwLock<Option<Arc<Scene>>>,
    timeline: RwLock<Timeline>,
    news: broadcast::Sender<Arc<str>>,
}

impl Default for Live {
    fn default() -> Self {
        let shared = Shared {
            wanted: watch::channel(false).0,
            scene: RwLock::default(),
            timeline: RwLock::default(),
            news: broadcast::channel(BEHIND).0,
        };
        Self { shared: Arc::new(shared) }
    }
}

impl Live {
    /// Somebody wants to see the fleet.
    pub(crate) fn want(&self) {
        self.shared.wanted.send_if_modified(|wanted| !std::mem::replace(wanted, true));
    }

    /// Looks whenever something changed, from the first visit on. Before that a dashboard costs its process and the API nothing.
    pub(crate) async fn follow(self, client: Client) {
        let _ = self.shared.wanted.subscribe().wait_for(|wanted| *wanted).await;
        let mut watches = JoinSet::new();
        let (world, mut changes) = World::start(&client, &mut watches);
        world.settled().await;
        let mut version = 0;
        loop {
            version += 1;
            let asked = Instant::now();
            let (objects, drains, notes) = world.objects().await;
            // What the API is asked for costs it something too, and waiting costs this process nothing.
            let (began, asking) = (Instant::now(), asked.elapsed());
            self.show(Scene::new(version, objects, &drains, notes, Timestamp::now()));
            tokio::time::sleep(PACE.max(began.elapsed() * SHARE).max(asking)).await;
            let _ = tokio::time::timeout(REST, changes.next()).await;
        }
    }

    fn show(&self, scene: Scene) {
        self.shared.timeline.write().observe(&scene.snapshot);
        let scene = Arc::new(scene);
        let old = self.shared.scene.write().replace(scene.clone());
        let Some(delta) = old.map(|old| scene.since(&old)).filter(|delta| !delta.is_empty()) else { return };
        match serde_json::to_string(&delta) {
            // Nobody may be listening.
            Ok(text) => drop(self.shared.news.send(text.into())),
            Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "a change cannot be told"),
        }
    }

    /// The newest scene, once there was one.
    pub(crate) fn scene(&self) -> Option<Arc<Scene>> {
        self.shared.scene.read().clone()
    }

    pub(crate) fn rollouts(&self, pool: &str) -> Vec<Rollout> {
        self.shared.timeline.read().of(pool)
    }

    pub(crate) fn news(&self) -> broadcast::Receiver<Arc<str>> {
        self.shared.news.subscribe()
    }
}
