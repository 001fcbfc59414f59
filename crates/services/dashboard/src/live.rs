//! Keeps the newest scene of every view and tells open pages what changed.
//!
//! A view is the fleet as visitors with the same rights see it. Whoever started the dashboard has the view of everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use explain::{Drains, Objects};
use jiff::Timestamp;
use kube::{Client, ResourceExt};
use parking_lot::RwLock;
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::rights::{Kind, Rights};
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

/// Views that are kept at once; more kinds of rights than this are rare, and the one that was asked for longest ago goes.
const VIEWS: usize = 16;

/// Namespaces of one kind that a visitor's rights are asked about.
const NAMESPACES: usize = 50;

/// What all pages share.
#[derive(Clone)]
pub(crate) struct Live {
    shared: Arc<Shared>,
}

struct Shared {
    /// Whether anybody was let in yet.
    wanted: watch::Sender<bool>,
    /// Somebody came whose view is not there yet.
    came: Notify,
    read: RwLock<Option<Arc<Read>>>,
    views: RwLock<BTreeMap<Rights, View>>,
}

/// What was read last.
struct Read {
    objects: Objects,
    drains: Drains,
    notes: Vec<String>,
    now: Timestamp,
    version: u64,
}

/// The fleet for visitors with the same rights.
struct View {
    scene: Option<Arc<Scene>>,
    timeline: Timeline,
    news: broadcast::Sender<Arc<str>>,
    asked: Instant,
}

impl Default for View {
    fn default() -> Self {
        let news = broadcast::channel(BEHIND).0;
        Self { scene: None, timeline: Timeline::default(), news, asked: Instant::now() }
    }
}

impl Default for Live {
    fn default() -> Self {
        let shared = Shared {
            wanted: watch::channel(false).0,
            came: Notify::new(),
            read: RwLock::default(),
            views: RwLock::default(),
        };
        Self { shared: Arc::new(shared) }
    }
}

impl Live {
    /// Somebody with these rights wants to see the fleet.
    pub(crate) fn want(&self, rights: &Rights) {
        self.shared.wanted.send_if_modified(|wanted| !std::mem::replace(wanted, true));
        let mut views = self.shared.views.write();
        if let Some(view) = views.get_mut(rights) {
            view.asked = Instant::now();
            return;
        }
        views.insert(rights.clone(), View::default());
        if views.len() > VIEWS
            && let Some(oldest) = views.iter().min_by_key(|(_, view)| view.asked).map(|(rights, _)| rights.clone())
        {
            views.remove(&oldest);
        }
        drop(views);
        let read = self.shared.read.read().clone();
        match read {
            Some(read) => self.show(rights, &read),
            None => self.shared.came.notify_one(),
        }
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
            let read = Arc::new(Read { objects, drains, notes, now: Timestamp::now(), version });
            *self.shared.read.write() = Some(read.clone());
            let views: Vec<Rights> = self.shared.views.read().keys().cloned().collect();
            for rights in views {
                self.show(&rights, &read);
            }
            tokio::time::sleep(PACE.max(began.elapsed() * SHARE).max(asking)).await;
            tokio::select! {
                _ = tokio::time::timeout(REST, changes.next()) => {}
                () = self.shared.came.notified() => {}
            }
        }
    }

    /// Draws one view anew and tells its pages what changed.
    fn show(&self, rights: &Rights, read: &Read) {
        let Read { objects, drains, notes, now, version } = read;
        let Drains { pods, budgets, daemon_sets } = drains;
        let mut drains = Drains { pods: pods.clone(), budgets: budgets.clone(), daemon_sets: daemon_sets.clone() };
        let (mut objects, mut notes) = (objects.clone(), notes.clone());
        rights.narrow(&mut objects, &mut drains, &mut notes);
        let scene = Arc::new(Scene::new(*version, objects, &drains, notes, *now));
        let mut views = self.shared.views.write();
        let Some(view) = views.get_mut(rights) else { return };
        view.timeline.observe(&scene.snapshot);
        let old = view.scene.replace(scene.clone());
        let Some(delta) = old.map(|old| scene.since(&old)).filter(|delta| !delta.is_empty()) else { return };
        match serde_json::to_string(&delta) {
            // Nobody may be listening.
            Ok(text) => drop(view.news.send(text.into())),
            Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "a change cannot be told"),
        }
    }

    /// The newest scene of a view, once there was one.
    pub(crate) fn scene(&self, rights: &Rights) -> Option<Arc<Scene>> {
        self.shared.views.read().get(rights)?.scene.clone()
    }

    pub(crate) fn rollouts(&self, rights: &Rights, pool: &str) -> Vec<Rollout> {
        self.shared.views.read().get(rights).map(|view| view.timeline.of(pool)).unwrap_or_default()
    }

    pub(crate) fn news(&self, rights: &Rights) -> Option<broadcast::Receiver<Arc<str>>> {
        Some(self.shared.views.read().get(rights)?.news.subscribe())
    }

    /// The namespaces in which there is something of each kind; nothing before the first look.
    pub(crate) fn namespaces(&self) -> Option<BTreeMap<Kind, BTreeSet<String>>> {
        fn of<T: ResourceExt>(objects: &[T]) -> BTreeSet<String> {
            let all: BTreeSet<String> = objects.iter().filter_map(ResourceExt::namespace).collect();
            all.into_iter().take(NAMESPACES).collect()
        }
        let read = self.shared.read.read().clone()?;
        let Read { objects, drains, .. } = &*read;
        let mut pods = of(&objects.pods);
        pods.extend(of(&drains.pods));
        let namespaces = [
            (Kind::Machines, of(&objects.machines)),
            (Kind::MachineSets, of(&objects.machine_sets)),
            (Kind::HealthChecks, of(&objects.health_checks)),
            (Kind::Deployments, of(&objects.deployments)),
            (Kind::Pods, pods),
            (Kind::Budgets, of(&drains.budgets)),
        ];
        Some(namespaces.into())
    }
}
