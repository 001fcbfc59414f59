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
use tokio::sync::{broadcast, watch};
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

/// How long a view is drawn that no page listens to. Longer than the minute after which pages of visitors ask anew.
const UNWATCHED: Duration = Duration::from_secs(120);

/// How long a request waits for its view to be drawn for the first time.
const FIRST: Duration = Duration::from_secs(2);

/// What all pages share.
#[derive(Clone)]
pub(crate) struct Live {
    shared: Arc<Shared>,
}

struct Shared {
    /// Whether anybody was let in yet.
    wanted: watch::Sender<bool>,
    read: RwLock<Option<Arc<Read>>>,
    views: RwLock<BTreeMap<Rights, View>>,
    /// What all nodes went through. One for everybody, so that it is not lost with a view; visitors see what they may of it.
    timeline: RwLock<Timeline>,
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
    scene: watch::Sender<Option<Arc<Scene>>>,
    news: broadcast::Sender<Arc<str>>,
    asked: Instant,
}

impl View {
    fn new(asked: Instant) -> Self {
        Self { scene: watch::channel(None).0, news: broadcast::channel(BEHIND).0, asked }
    }

    /// Takes a newer scene, and tells the pages what is different. An older one that took longer to draw is dropped.
    fn take(&self, scene: Arc<Scene>) {
        let mut old = None;
        let is_new = self.scene.send_if_modified(|place| {
            let is_new = place.as_ref().is_none_or(|old| old.version < scene.version);
            if is_new {
                old = place.replace(scene.clone());
            }
            is_new
        });
        let delta = old.filter(|_| is_new).map(|old| scene.since(&old)).filter(|delta| !delta.is_empty());
        let Some(delta) = delta else { return };
        match serde_json::to_string(&delta) {
            // Nobody may be listening.
            Ok(text) => drop(self.news.send(text.into())),
            Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "a change cannot be told"),
        }
    }

    fn is_watched(&self) -> bool {
        self.news.receiver_count() > 0
    }
}

impl Default for Live {
    fn default() -> Self {
        let shared = Shared {
            wanted: watch::channel(false).0,
            read: RwLock::default(),
            views: RwLock::default(),
            timeline: RwLock::default(),
        };
        Self { shared: Arc::new(shared) }
    }
}

impl Live {
    /// Somebody with these rights wants to see the fleet. A new view is drawn once, beside the requests that wait for it.
    pub(crate) fn want(&self, rights: &Rights) {
        self.shared.wanted.send_if_modified(|wanted| !std::mem::replace(wanted, true));
        let (rights, now) = (rights.drawn(), Instant::now());
        if !self.open(&rights, now) {
            return;
        }
        // Before the first look there is nothing to draw from; that look draws every view.
        let Some(read) = self.shared.read.read().clone() else { return };
        let live = self.clone();
        tokio::task::spawn_blocking(move || live.show(&rights, &read));
    }

    /// Notes that a view was asked for. Says whether it is new.
    fn open(&self, rights: &Rights, now: Instant) -> bool {
        let mut views = self.shared.views.write();
        if let Some(view) = views.get_mut(rights) {
            view.asked = now;
            return false;
        }
        if views.len() >= VIEWS {
            let oldest = views.iter().min_by_key(|(_, view)| (view.is_watched(), view.asked));
            if let Some(oldest) = oldest.map(|(rights, _)| rights.clone()) {
                views.remove(&oldest);
            }
        }
        views.insert(rights.clone(), View::new(now));
        true
    }

    /// Lets views go that no page listens to any more.
    fn expire(&self, now: Instant) {
        let mut views = self.shared.views.write();
        views.retain(|_, view| view.is_watched() || now.duration_since(view.asked) < UNWATCHED);
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
            self.expire(began);
            let live = self.clone();
            if let Err(error) = tokio::task::spawn_blocking(move || live.draw(&read)).await {
                tracing::error!(error = &error as &dyn std::error::Error, "a look at the fleet failed");
            }
            tokio::time::sleep(PACE.max(began.elapsed() * SHARE).max(asking)).await;
            let _ = tokio::time::timeout(REST, changes.next()).await;
        }
    }

    /// Draws everything anew: first the whole fleet, which the timeline is made from, then what others may see of it.
    fn draw(&self, read: &Read) {
        let Read { objects, drains, notes, now, version } = read;
        let whole = Arc::new(Scene::new(*version, objects.clone(), drains, notes.clone(), *now));
        self.shared.timeline.write().observe(&whole.snapshot);
        let everything = Rights::all().drawn();
        let views: Vec<Rights> = self.shared.views.read().keys().cloned().collect();
        for rights in views {
            if rights == everything { self.put(&rights, whole.clone()) } else { self.show(&rights, read) }
        }
    }

    /// Draws one view anew.
    fn show(&self, rights: &Rights, read: &Read) {
        let Read { objects, drains, notes, now, version } = read;
        let (mut objects, mut drains, mut notes) = (objects.clone(), drains.clone(), notes.clone());
        rights.narrow(&mut objects, &mut drains, &mut notes);
        self.put(rights, Arc::new(Scene::new(*version, objects, &drains, notes, *now)));
    }

    fn put(&self, rights: &Rights, scene: Arc<Scene>) {
        if let Some(view) = self.shared.views.read().get(rights) {
            view.take(scene);
        }
    }

    /// The newest scene of a view; nothing if it is not drawn in time.
    pub(crate) async fn scene(&self, rights: &Rights) -> Option<Arc<Scene>> {
        let mut scene = self.shared.views.read().get(&rights.drawn())?.scene.subscribe();
        let drawn = tokio::time::timeout(FIRST, scene.wait_for(Option::is_some)).await.ok()?.ok()?;
        drawn.clone()
    }

    /// What the nodes of a pool went through.
    ///
    /// # Errors
    /// In one sentence, what a visitor may not list of that which it is made from.
    pub(crate) fn rollouts(&self, rights: &Rights, pool: &str) -> Result<Vec<Rollout>, String> {
        let needed = [Kind::Pools, Kind::Nodes, Kind::NodeReports];
        if let Some(lack) = rights.lack("The history of rollouts", &needed) {
            return Err(lack);
        }
        let mut rollouts = self.shared.timeline.read().of(pool);
        if !rights.has(Kind::Ledgers) {
            rollouts.iter_mut().for_each(Rollout::forget_ledger);
        }
        Ok(rollouts)
    }

    pub(crate) fn news(&self, rights: &Rights) -> Option<broadcast::Receiver<Arc<str>>> {
        Some(self.shared.views.read().get(&rights.drawn())?.news.subscribe())
    }

    /// The namespaces in which there is something of each kind; nothing before the first look.
    pub(crate) fn namespaces(&self) -> Option<BTreeMap<Kind, BTreeSet<String>>> {
        fn of<T: ResourceExt>(objects: &[T]) -> BTreeSet<String> {
            objects.iter().filter_map(ResourceExt::namespace).collect()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A look at a pool with one node on its way.
    fn read(version: u64) -> Arc<Read> {
        let prefix = "machineconfiguration.openshift.io";
        let pool = json!({"metadata": {"name": "worker"}, "spec": {
            "nodeSelector": {"matchLabels": {"node-role.kubernetes.io/worker": ""}},
            "configuration": {"name": "rendered-worker-2"},
        }});
        let node = json!({"metadata": {"name": "a", "labels": {"node-role.kubernetes.io/worker": ""}, "annotations": {
            format!("{prefix}/currentConfig"): "rendered-worker-1",
            format!("{prefix}/desiredConfig"): "rendered-worker-2",
            format!("{prefix}/state"): "Working",
        }}});
        let objects = Objects {
            pools: vec![serde_json::from_value(pool).expect("it is a pool")],
            nodes: vec![serde_json::from_value(node).expect("it is a node")],
            ..Objects::default()
        };
        let (drains, notes) = (Drains::default(), Vec::new());
        Arc::new(Read { objects, drains, notes, now: Timestamp::UNIX_EPOCH, version })
    }

    #[tokio::test]
    async fn views_that_no_page_listens_to_are_let_go() {
        let (live, now) = (Live::default(), Instant::now());
        let (watched, alone) = (Rights::only(&[Kind::Pools]), Rights::only(&[Kind::Nodes]));
        assert!(live.open(&watched, now) && live.open(&alone, now) && !live.open(&alone, now));
        let listening = live.news(&watched).expect("it is there");
        live.expire(now + UNWATCHED / 2);
        assert!(live.news(&alone).is_some());
        live.expire(now + UNWATCHED * 2);
        assert!(live.news(&alone).is_none() && live.news(&watched).is_some());
        drop(listening);
        live.expire(now + UNWATCHED * 2);
        assert!(live.news(&watched).is_none());
    }

    #[tokio::test]
    async fn a_view_that_is_watched_is_not_the_first_to_go_when_there_are_too_many() {
        let (live, now) = (Live::default(), Instant::now());
        let first = Rights::only(&[Kind::Pools]);
        live.open(&first, now);
        let _listening = live.news(&first);
        for kind in Kind::ALL.into_iter().skip(1).take(VIEWS - 1).chain([Kind::Events]) {
            live.open(&Rights::only(&[kind, Kind::Configs]), now);
        }
        live.open(&Rights::only(&[Kind::Machines, Kind::Pods, Kind::Nodes]), now);
        assert!(live.news(&first).is_some());
        assert_eq!(live.shared.views.read().len(), VIEWS);
    }

    #[tokio::test]
    async fn a_scene_is_drawn_beside_the_request_and_an_older_one_is_dropped() {
        let live = Live::default();
        *live.shared.read.write() = Some(read(2));
        let rights = Rights::only(&[Kind::Pools]);
        live.want(&rights);
        let scene = live.scene(&rights).await.expect("it is drawn");
        assert_eq!((scene.version, scene.fleet.pools[0].state), (2, explain::State::Unknown));
        live.show(&rights.drawn(), &read(1));
        assert_eq!(live.scene(&rights).await.map(|scene| scene.version), Some(2));
        live.show(&rights.drawn(), &read(3));
        assert_eq!(live.scene(&rights).await.map(|scene| scene.version), Some(3));
    }

    #[tokio::test]
    async fn the_history_of_rollouts_is_one_for_everybody_who_may_list_what_it_is_made_from() {
        let live = Live::default();
        live.draw(&read(1));
        let may = [Kind::Pools, Kind::Nodes, Kind::NodeReports];
        let rollouts = live.rollouts(&Rights::only(&may), "worker").expect("it is allowed");
        assert_eq!(rollouts.iter().map(|rollout| rollout.nodes.len()).collect::<Vec<_>>(), [1]);
        let refused =
            live.rollouts(&Rights::only(&[Kind::Pools, Kind::Nodes]), "worker").expect_err("reports are missing");
        assert!(refused.contains("machineconfignodes"), "{refused}");
    }

    #[test]
    fn nothing_ends_a_rollout_while_nodes_are_not_read() {
        let live = Live::default();
        live.draw(&read(1));
        let blind = read(2);
        let mut objects = blind.objects.clone();
        objects.nodes.clear();
        objects.unread.add(explain::Input::Nodes, "they cannot be read");
        let blind = Read { objects, drains: Drains::default(), notes: Vec::new(), now: blind.now, version: 2 };
        live.draw(&blind);
        let rollouts = live.rollouts(&Rights::all(), "worker").expect("it is allowed");
        assert!(rollouts[0].ended.is_none());
    }
}
