//! The loop: listens to the daemon's own Node, lets the engine work, and reports.
//!
//! It gathers, asks `decide`, and carries out exactly that. Work on the host runs on another thread, so the loop stays
//! awake. The API is needed to learn of a new config and for drains, never to finish what has begun.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::node::{Move, Situation, decide, words};
use api::annotations;
use api::machineconfiguration::MachineConfig;
use api::names::state;
use change::host::Host;
use cluster::events::Severity;
use cluster::{Events, Patience};
use futures::StreamExt;
use host::watch::Watch;
use kube::Client;
use kube::runtime::watcher;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use crate::access::{Access, Found};
use crate::cluster_policy::ClusterPolicy;
use crate::conditions::Conditions;
use crate::engine::{self, Engine, Standing};
use crate::journal::{Journal, Phase};
use crate::metrics::Metrics;
use crate::node::{self, Node, Report, View};
use crate::prepare;
use crate::store::{self, Store};
use crate::trial;

mod allowed;
mod draining;
mod drift;
mod report;
mod trying;

use drift::{file_event, register};

/// How long one request may take; the client itself would wait for ever.
const REQUEST: Duration = Duration::from_secs(15);

#[derive(Clone, Debug)]
pub struct Options {
    pub node: String,
    /// Where files are watched for drift; nowhere on hosts that are not on a disk.
    pub watched_root: Option<PathBuf>,
    pub metrics: Metrics,
    pub witness: trial::Witness,
    /// Where the kubelet tells its health.
    pub kubelet: String,
    /// The namespace of the installation.
    pub namespace: String,
    /// What the client was made from.
    pub access: Access,
}

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A reboot was asked for.
    Rebooting,
    /// The host has another credential than the one in use.
    Reconnect,
    Terminated,
}

/// What the loop waits for, next to changes of its Node.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Next {
    /// Look again at once.
    Again,
    OnChange,
    After(Duration),
    Reboot,
    Reconnect,
}

/// A failed move: how it is told, and that it is tried again.
#[derive(Debug)]
struct Problem {
    state: &'static str,
    reason: String,
}

impl Problem {
    fn degraded(reason: impl Into<String>) -> Self {
        Self { state: state::DEGRADED, reason: reason.into() }
    }
}

impl From<engine::Error> for Problem {
    fn from(error: engine::Error) -> Self {
        Self::degraded(error.to_string())
    }
}

impl From<store::Error> for Problem {
    fn from(error: store::Error) -> Self {
        Self::degraded(error.to_string())
    }
}

/// Runs until a reboot is asked for or `stop` says so.
pub async fn run(
    host: Arc<dyn Host>,
    client: Client,
    options: Options,
    mut stop: tokio::sync::watch::Receiver<bool>,
) -> Result<Ended, engine::Error> {
    let node = Node::new(client.clone(), &options.node);
    let mut watch = std::pin::pin!(node.watch());
    let mut patience = Patience::up_to(crate::LONGEST_PAUSE);
    let watched = options.watched_root.as_deref().and_then(|root| match Watch::open(root) {
        Ok(watch) => register(watch),
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "files cannot be watched for drift");
            None
        }
    });
    let mut daemon = Daemon {
        events: Events::start(client.clone(), "machineconfigdaemon", api::names::NAMESPACE),
        conditions: Conditions::new(client.clone(), &options.node),
        host,
        client,
        node: node.clone(),
        options,
        view: None,
        seen: 0,
        report: Report::default(),
        waiting_since: None,
        failures: 0,
        pool: String::new(),
        watched,
        followed: String::new(),
        must_verify: true,
        finalize_failure: String::new(),
        os_updates: "",
        asked: Asked::default(),
    };
    daemon.look_back().await;
    // Certificates do not wait for updates, nor for a pool that is paused. The task ends with this loop.
    let mut certificates = tokio::task::JoinSet::new();
    certificates.spawn(crate::certificates::follow(
        Arc::clone(&daemon.host),
        daemon.client.clone(),
        daemon.options.node.clone(),
        daemon.options.namespace.clone(),
        daemon.events.clone(),
    ));
    certificates.spawn(crate::pinned::follow(
        Arc::clone(&daemon.host),
        daemon.client.clone(),
        daemon.options.node.clone(),
        daemon.asked.pinned.subscribe(),
        daemon.events.clone(),
    ));
    certificates.spawn(crate::survey::follow(
        Arc::clone(&daemon.host),
        daemon.client.clone(),
        daemon.options.node.clone(),
        daemon.asked.survey.subscribe(),
    ));
    // Unfinished work is carried on before anything is heard from the API.
    let mut wake = Some(Instant::now());
    loop {
        let sleep = tokio::time::sleep_until(wake.unwrap_or_else(|| Instant::now() + Duration::from_secs(86_400)));
        let mut are_conditions_due = false;
        tokio::select! {
            event = patience.then(watch.next()) => match event {
                Some(Ok(event)) => {
                    patience.hear(&event);
                    if !daemon.notice(event) {
                        continue;
                    }
                }
                Some(Err(error)) => {
                    let pause = patience.lose();
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        pause = pause.as_secs(),
                        "the watch of the Node was interrupted"
                    );
                    continue;
                }
                None => return Ok(Ended::Terminated),
            },
            () = file_event(&mut daemon.watched) => {
                daemon.must_verify = true;
                let soon = Instant::now() + drift::DEBOUNCE;
                wake = Some(wake.map_or(soon, |wake| wake.min(soon)));
                continue;
            }
            () = sleep, if wake.is_some() => {}
            () = daemon.conditions.due() => are_conditions_due = true,
            _ = stop.wait_for(|stopped| *stopped) => return Ok(Ended::Terminated),
        }
        if are_conditions_due {
            daemon.publish_conditions().await;
            continue;
        }
        match daemon.sync().await {
            Next::Reboot => return Ok(Ended::Rebooting),
            Next::Reconnect => return Ok(Ended::Reconnect),
            Next::Again | Next::OnChange => wake = None,
            Next::After(pause) => wake = Some(Instant::now() + pause),
        }
    }
}

struct Daemon {
    host: Arc<dyn Host>,
    client: Client,
    node: Node,
    options: Options,
    /// `None` until the API was heard for the first time.
    view: Option<View>,
    /// The version of the Node that the view is of.
    seen: u64,
    report: Report,
    /// Since when the drain controller is waited for.
    waiting_since: Option<Instant>,
    failures: u32,
    /// The pool of the config last fetched.
    pool: String,
    events: Events,
    conditions: Conditions,
    watched: Option<AsyncFd<Watch>>,
    /// The config whose paths are watched.
    followed: String,
    /// The host was not compared with its config yet, or a file event says that it may differ now.
    must_verify: bool,
    /// Why the last reboot did not bring the OS that was staged.
    finalize_failure: String,
    /// How the host updates its operating system, for those who plan; empty before it was looked at.
    os_updates: &'static str,
    asked: Asked,
}

/// What the Node asks of the tasks that run beside the loop.
#[derive(Default)]
struct Asked {
    pinned: tokio::sync::watch::Sender<Option<String>>,
    /// The Node's uid and the request.
    survey: tokio::sync::watch::Sender<(String, String)>,
}

impl Asked {
    fn hear(&self, view: &View) {
        self.pinned.send_if_modified(|known| replace(known, &Some(view.pinned.clone())));
        let survey = (view.uid.clone(), view.survey.clone());
        self.survey.send_if_modified(|known| replace(known, &survey));
    }
}

fn replace<T: Clone + PartialEq>(known: &mut T, new: &T) -> bool {
    let is_new = known != new;
    known.clone_from(new);
    is_new
}

impl Daemon {
    /// Takes a change of the Node in. Says whether anything that matters changed.
    fn notice(
        &mut self,
        event: watcher::Event<kube::api::PartialObjectMeta<k8s_openapi::api::core::v1::Node>>,
    ) -> bool {
        let node = match event {
            watcher::Event::Apply(node) | watcher::Event::InitApply(node) => node,
            watcher::Event::Delete(_) | watcher::Event::Init | watcher::Event::InitDone => return false,
        };
        let (view, version) = (node::read(&node), node::version(&node));
        // The answer to a report of our own is ahead of the watch: what comes after it is told only then.
        let is_older = self.view.as_ref().is_some_and(|known| known.uid == view.uid) && version < self.seen;
        if is_older || self.view.as_ref() == Some(&view) {
            return false;
        }
        if self.view.is_none() {
            self.report = Report::of(&view);
        }
        self.report.finalize_failure.clone_from(&self.finalize_failure);
        self.report.os_updates = self.os_updates.to_owned();
        self.see(view, version);
        true
    }

    /// Knows the Node as it is at `version`, and prints the lines that runbooks look for, whoever changed it.
    fn see(&mut self, view: View, version: u64) {
        for line in self.view.iter().flat_map(|old| old.transitions(&view)) {
            tracing::info!("{line}");
        }
        self.seen = version;
        self.asked.hear(&view);
        self.view = Some(view);
    }

    /// What can only be known once, at the start.
    async fn look_back(&mut self) {
        let known = self.blocking(|host| {
            let system = host.system();
            let foreign = system.foreign_packages(&change::plan::all_extension_packages());
            let word = change::backend::word(system.backend());
            Ok::<_, store::Error>((system.finalize_failure().unwrap_or_default(), foreign, word))
        });
        let Ok((failure, foreign, word)) = known.await else { return };
        if !failure.is_empty() {
            tracing::error!(failure, "the staged OS was not finished at the last shutdown");
        }
        self.options.metrics.set_foreign_packages(self.node.name(), foreign);
        self.finalize_failure = failure;
        self.os_updates = word;
    }

    /// Moves until there is nothing more to do now.
    async fn sync(&mut self) -> Next {
        loop {
            match self.one_move().await {
                Ok(Next::Again) => {}
                Ok(next) => {
                    self.failures = 0;
                    return next;
                }
                Err(problem) => return self.tell(problem).await,
            }
        }
    }

    async fn one_move(&mut self) -> Result<Next, Problem> {
        let is_answered = self.answer().await;
        let Looked { standing, born, on_disk, forced, reverted } = self.look().await?;
        let view = self.view.clone().unwrap_or_default();
        let situation = Situation {
            born: born.as_deref(),
            on_disk: on_disk.as_deref(),
            standing: &standing,
            node: self.view.as_ref(),
            forced,
            reverted: reverted.as_ref().map(|reverted| reverted.config.as_str()),
        };
        let next = decide(&situation);
        tracing::debug!(?next, "decided");
        if let Standing::WentBack { reason } = &standing {
            return self.went_back(reason).await;
        }
        let next = match next {
            Move::Idle if is_answered => Next::OnChange,
            Move::Idle => Next::After(report::RETRY),
            Move::Adopt { config } => self.adopt(&config).await?,
            Move::Update { to, forced } => self.update(&to, forced).await?,
            Move::Act => self.act().await?,
            Move::Reboot => self.reboot().await?,
            Move::Try => self.try_out().await?,
            Move::Held { config } => {
                // Also after a restart, when this process has not seen the trial itself.
                self.report.reverted = config;
                let reason = reverted.map(|reverted| reverted.reason).unwrap_or_default();
                self.hold(&reason).await?
            }
            Move::Release { drain } => self.release(&drain).await?,
            Move::Rest => self.rest(on_disk.unwrap_or_default()).await?,
        };
        let waits = matches!(next, Next::OnChange | Next::After(_));
        Ok(if waits && self.is_asked_anew(&view) { Next::Again } else { next })
    }

    /// Whether something was asked of the node since `before`. The API's answer to a report may be the first to say so, and
    /// the watch does not repeat what the daemon has seen in an answer: whoever waits for the next change would miss it.
    fn is_asked_anew(&self, before: &View) -> bool {
        self.view.as_ref().is_some_and(|view| {
            view.desired != before.desired
                || view.last_applied_drain != before.last_applied_drain
                || view.probe != before.probe
        })
    }

    async fn look(&self) -> Result<Looked, Problem> {
        self.blocking(|host| {
            let engine = Engine::new(host);
            let standing = engine.recover()?;
            let store = engine.store();
            let on_disk = or_damaged(store.current())?.map(|config| engine::name(&config));
            let birth = or_damaged(store.birth())?.unwrap_or_default();
            let born = birth.get(annotations::CURRENT_CONFIG).cloned();
            Ok(Looked { standing, born, on_disk, forced: store.is_forced(), reverted: store.reverted()? })
        })
        .await
        .map_err(|error: engine::Error| error.into())
    }

    /// The host is said to run this config, by its birth or by its Node; from now on it knows it itself.
    async fn adopt(&mut self, name: &str) -> Result<Next, Problem> {
        let Some(view) = self.view.clone() else { return Ok(Next::OnChange) };
        let told = self.blocking(|host| {
            let store = Store::new(host.files());
            Ok::<_, store::Error>((or_damaged(store.birth())?, or_damaged(store.load::<MachineConfig>(store::SERVED))?))
        });
        let (birth, served) = told.await?;
        let config = match served.filter(|config| engine::name(config) == name) {
            Some(served) if birth.is_some() => served,
            _ => self.download(name).await?,
        };
        if let Some(birth) = birth {
            let news = view.introduction(&birth);
            let reason = match tokio::time::timeout(REQUEST, self.node.introduce(&news)).await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(cluster::error::chain(&error)),
                Err(_) => Some("the API does not answer".to_owned()),
            };
            if let Some(reason) = reason {
                let problem = format!("the Node could not be told what this machine was made with: {reason}");
                return Err(Problem::degraded(problem));
            }
        }
        self.blocking(move |host| {
            let store = Store::new(host.files());
            store.save_current(&config)?;
            store.flush()?;
            store.close(store::SERVED)?;
            let target = engine::read(&config)?;
            if !target.files.contains_key(&store::known(store::KUBECONFIG)) {
                store.close(store::KUBECONFIG)?;
            }
            store.rename_done(store::NODE_ANNOTATIONS, store::NODE_ANNOTATIONS_DONE)?;
            Ok::<_, engine::Error>(store.flush()?)
        })
        .await?;
        Ok(Next::Again)
    }

    async fn update(&mut self, to: &str, forced: bool) -> Result<Next, Problem> {
        let config = self.fetch(to).await?;
        let policy = self.policy(&config).await.map_err(Problem::degraded)?;
        self.conditions.begin(to);
        let ready = self.blocking(move |host| prepare::prepare(host, config, &policy, forced)).await;
        let mut ready = ready.map_err(|error| Problem { state: error.state(), reason: error.to_string() })?;
        let actions: Vec<String> = ready.prepared.actions.iter().map(|action| format!("{action:?}")).collect();
        self.conditions.tell([words::prepared(&actions, ready.drain)]);
        if !self.view.as_ref().is_some_and(View::is_failing) {
            state::WORKING.clone_into(&mut self.report.state);
        }
        if let Some(next) = self.drain(&ready, to).await? {
            return Ok(next);
        }
        self.conditions.tell(words::applying(to));
        if let Some(next) = self.cannot_begin(to).await {
            return Ok(next);
        }
        if let Some(view) = self.view.as_mut().filter(|view| forced && !view.forced.is_empty()) {
            // Left in place it would ask for the same again after the reboot, and again.
            let cleared = self.node.clear_force().await;
            cleared.map_err(|error| Problem::degraded(format!("cannot take the force off this node: {error}")))?;
            view.forced.clear();
        }
        if let Some(trial) = &mut ready.prepared.trial {
            let access = self.options.access.clone();
            let server = self.blocking(move |host| Ok::<_, store::Error>(access.config_server(host.files()))).await?;
            trial::note_what_works(trial, &self.options, server).await;
            if trial.live {
                let units = std::mem::take(&mut trial.units);
                let working = self.blocking(move |host| Ok::<_, store::Error>(trial::without_failed(host, units)));
                trial.units = working.await?;
            }
            if let Found::Same { way } = self.found().await {
                trial.way = Some(self.way(way));
            }
        }
        tracing::info!(from = ready.from, to, steps = ready.prepared.steps.len(), "Starting update");
        let changes_os = ready.prepared.steps.iter().any(engine::is_system);
        let applied = self.blocking(move |host| match Engine::new(host).execute(&ready.prepared) {
            // Whoever forced it has got it.
            Ok(()) => Ok(Store::new(host.files()).clear_force().map(|()| true)?),
            // `recover` closes what went back and remembers why.
            Err(engine::Error::Undone { .. }) => Ok(false),
            Err(error) => Err(error),
        });
        let applied = applied.await?;
        if changes_os {
            self.options.metrics.pivoted(applied);
        }
        if !applied {
            return Ok(Next::Again);
        }
        self.conditions.tell(words::applied(to));
        self.must_verify = true;
        Ok(Next::Again)
    }

    async fn act(&mut self) -> Result<Next, Problem> {
        let reboots =
            self.blocking(|host| Ok::<_, store::Error>(journal(host)?.is_some_and(|journal| journal.reboots())));
        if reboots.await? {
            self.conditions.tell([words::reboots()]);
            return self.reboot().await;
        }
        self.blocking(|host| match Engine::new(host).act() {
            Err(engine::Error::Undone { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                let engine = Engine::new(host);
                match engine.store().journal()? {
                    Some(journal) if journal.trial.is_some() => engine.time_trial().map(drop),
                    _ => engine.finish(),
                }
            }
        })
        .await?;
        self.conditions.tell([words::acted()]);
        Ok(Next::Again)
    }

    async fn reboot(&mut self) -> Result<Next, Problem> {
        let into = |journal: Journal| {
            let was_asked = matches!(journal.phase, Phase::Rebooting { .. } | Phase::RebootingBack { .. });
            (if journal.phase.goes_back() { journal.from } else { journal.to }, was_asked)
        };
        let (name, was_asked) =
            self.blocking(move |host| Ok::<_, store::Error>(journal(host)?.map(into))).await?.unwrap_or_default();
        if was_asked {
            self.options.metrics.reboot_failed();
            let message = format!("The reboot into config {name} was asked for and has not happened; asking again");
            tracing::warn!("{message}");
            self.event(Severity::Warning, "RebootNotHappened", &message);
        }
        self.blocking(|host| Engine::new(host).mark_rebooting()).await?;
        state::REBOOTING.clone_into(&mut self.report.post_action);
        self.event(Severity::Normal, "Reboot", &format!("Node will reboot into config {name}"));
        self.publish().await;
        let reason = format!("machine-config-daemon: Node will reboot into config {name}");
        tracing::info!("initiating reboot: Node will reboot into config {name}");
        let asked = self.blocking(move |host| host.system().reboot(&reason)).await;
        match asked {
            Ok(()) => Ok(Next::Reboot),
            Err(error) => {
                self.options.metrics.reboot_failed();
                Err(Problem::degraded(format!("reboot command failed, something is seriously wrong: {error}")))
            }
        }
    }

    async fn policy(&self, config: &MachineConfig) -> Result<ClusterPolicy, String> {
        let unread = |why: String| format!("cannot read what the cluster says about updates: {why}");
        match tokio::time::timeout(REQUEST, ClusterPolicy::read(&self.client, config)).await {
            Ok(Ok(policy)) => Ok(policy),
            Ok(Err(error)) => Err(unread(cluster::error::chain(&error))),
            Err(_) => Err(unread("the API did not answer".to_owned())),
        }
    }

    async fn fetch(&mut self, name: &str) -> Result<MachineConfig, Problem> {
        let wanted = name.to_owned();
        let stored = self.blocking(move |host| {
            let current = Store::new(host.files()).current();
            Ok::<_, store::Error>(current.ok().flatten().filter(|config| engine::name(config) == wanted))
        });
        match stored.await? {
            Some(config) => Ok(config),
            None => self.download(name).await,
        }
    }

    async fn download(&mut self, name: &str) -> Result<MachineConfig, Problem> {
        match allowed::get(&self.client, name).await {
            Ok(Some(mut config)) => {
                config.metadata.managed_fields = None;
                let pool = config.metadata.labels.as_ref().and_then(|labels| labels.get(api::labels::RENDERED_FOR));
                self.pool = pool.cloned().unwrap_or_default();
                Ok(config)
            }
            Ok(None) => {
                Err(Problem::degraded(format!("machineconfig.machineconfiguration.openshift.io \"{name}\" not found")))
            }
            Err(why) => Err(Problem::degraded(format!("cannot read machineconfig \"{name}\": {why}"))),
        }
    }

    async fn blocking<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: FnOnce(&dyn Host) -> Result<T, E> + Send + 'static,
    {
        let host = Arc::clone(&self.host);
        match tokio::task::spawn_blocking(move || work(&*host)).await {
            Ok(result) => result,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

/// What is on the host, before anything is decided.
struct Looked {
    standing: Standing,
    born: Option<String>,
    on_disk: Option<String>,
    forced: bool,
    reverted: Option<store::Reverted>,
}

/// A file that cannot be read counts as none: the cluster's copy takes its place, and the host is then adopted anew.
fn or_damaged<T>(loaded: Result<Option<T>, store::Error>) -> Result<Option<T>, store::Error> {
    match loaded {
        Err(error @ store::Error::Damaged { .. }) => {
            tracing::error!(error = &error as &dyn std::error::Error, "a file of ours cannot be read");
            Ok(None)
        }
        other => other,
    }
}

fn journal(host: &dyn Host) -> Result<Option<Journal>, store::Error> {
    Store::new(host.files()).journal()
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}
