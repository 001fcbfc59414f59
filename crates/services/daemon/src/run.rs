//! The loop: listens to the daemon's own Node, lets the engine work, and reports.
//!
//! It gathers, asks `decide`, and carries out exactly that. Work on the host runs on another thread, so the loop stays
//! awake. The API is needed to learn of a new config and for drains, never to finish what has begun.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::machineconfiguration::MachineConfig;
use api::names::{drain, node_condition, state, status};
use change::host::Host;
use cluster::Events;
use cluster::events::Severity;
use futures::StreamExt;
use host::watch::Watch;
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::Client;
use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use crate::cluster_policy::ClusterPolicy;
use crate::conditions::{Conditions, Identity};
use crate::decide::{Move, Situation, decide};
use crate::engine::{self, Engine, Standing};
use crate::journal::Journal;
use crate::metrics::Metrics;
use crate::node::{Node, Report, View};
use crate::prepare::{self, Ready};
use crate::store::{self, Store};
use crate::trial::{self, Verdict};
use crate::{repair, verify};

/// How long one request may take; the client itself would wait for ever.
const REQUEST: Duration = Duration::from_secs(15);
/// Upstream's patience for a drain before it complains; draining goes on meanwhile.
const DRAIN: Duration = Duration::from_secs(3600);
const UNCORDON: Duration = Duration::from_secs(600);
/// File events come in bursts: an editor truncates, writes and renames. Still well within a second.
const DEBOUNCE: Duration = Duration::from_millis(250);
/// How often a config on trial is looked at.
const TRIAL: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub struct Options {
    pub node: String,
    /// Where files are watched for drift; nowhere on hosts that are not on a disk.
    pub watched_root: Option<PathBuf>,
    pub metrics: Metrics,
    /// `host:port` that tells whether the network is there when the API is not.
    pub witness: Option<String>,
    /// Where the kubelet tells its health.
    pub kubelet: String,
}

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A reboot was asked for.
    Rebooting,
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
    let mut watch = std::pin::pin!(node.watch().backoff(watcher::DefaultBackoff::default()));
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
        report: Report::default(),
        waiting_since: None,
        failures: 0,
        pool: String::new(),
        watched,
        followed: String::new(),
        must_verify: true,
    };
    // Unfinished work is carried on before anything is heard from the API.
    let mut wake = Some(Instant::now());
    loop {
        let sleep = tokio::time::sleep_until(wake.unwrap_or_else(|| Instant::now() + Duration::from_secs(86_400)));
        tokio::select! {
            event = watch.next() => match event {
                Some(Ok(event)) => {
                    if !daemon.notice(event) {
                        continue;
                    }
                }
                Some(Err(error)) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "the watch of the Node was interrupted");
                    continue;
                }
                None => return Ok(Ended::Terminated),
            },
            () = file_event(&mut daemon.watched) => {
                daemon.must_verify = true;
                let soon = Instant::now() + DEBOUNCE;
                wake = Some(wake.map_or(soon, |wake| wake.min(soon)));
                continue;
            }
            () = sleep, if wake.is_some() => {}
            _ = stop.wait_for(|stopped| *stopped) => return Ok(Ended::Terminated),
        }
        match daemon.sync().await {
            Next::Reboot => return Ok(Ended::Rebooting),
            Next::Again | Next::OnChange => wake = None,
            Next::After(pause) => wake = Some(Instant::now() + pause),
        }
    }
}

/// The safe constructor is deprecated for types whose descriptor may change while it is registered; a `Watch` keeps its own.
#[allow(deprecated)]
fn register(watch: Watch) -> Option<AsyncFd<Watch>> {
    AsyncFd::new(watch).ok()
}

/// Returns when a followed path may have changed.
async fn file_event(watched: &mut Option<AsyncFd<Watch>>) {
    let Some(watch) = watched else { return std::future::pending().await };
    loop {
        let Ok(mut ready) = watch.readable_mut().await else { return std::future::pending().await };
        let matters = ready.get_inner_mut().drain();
        ready.clear_ready();
        if matters {
            return;
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
        let view = View::read(&node);
        if self.view.as_ref() == Some(&view) {
            return false;
        }
        if let Some(old) = self.view.as_ref().filter(|old| old.state != view.state || old.reason != view.reason) {
            tracing::info!("Transitioned from state: {} -> {}", old.state, view.state);
        }
        if self.view.is_none() {
            self.report = Report::of(&view);
        }
        self.view = Some(view);
        true
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

    async fn tell(&mut self, problem: Problem) -> Next {
        tracing::error!(reason = problem.reason, "{}", problem.state);
        let name = self.node.name().to_owned();
        let message = format!("Node {name} upgrade failure. {}", problem.reason);
        self.conditions.set(node_condition::NODE_DEGRADED, status::TRUE, "NodeDegraded", &message);
        self.options.metrics.updated(&self.report.current, &problem.reason, now());
        if self.report.reason != problem.reason {
            self.event(Severity::Warning, "Degraded", &problem.reason);
        }
        problem.state.clone_into(&mut self.report.state);
        self.report.reason = problem.reason;
        self.publish().await;
        self.failures = (self.failures + 1).min(7);
        Next::After(Duration::from_secs(1 << self.failures.min(6)).min(Duration::from_secs(60)))
    }

    async fn one_move(&mut self) -> Result<Next, Problem> {
        let (standing, on_disk, forced, reverted) = self.look().await?;
        let view = self.view.clone().unwrap_or_default();
        let situation = Situation {
            on_disk: on_disk.as_deref(),
            standing: &standing,
            node: &view,
            forced,
            reverted: reverted.as_ref().map(|reverted| reverted.config.as_str()),
        };
        let next = decide(&situation);
        tracing::debug!(?next, "decided");
        if let Standing::WentBack { reason } = &standing {
            return self.went_back(reason).await;
        }
        match next {
            Move::Idle => Ok(Next::OnChange),
            Move::Adopt { config } => self.adopt(&config).await,
            Move::Update { to, forced } => self.update(&to, forced).await,
            Move::Act => self.act().await,
            Move::Reboot => self.reboot().await,
            Move::Try => self.try_out().await,
            Move::Held { config } => {
                // Also after a restart, when this process has not seen the trial itself.
                self.report.reverted = config;
                let reason = reverted.map(|reverted| reverted.reason).unwrap_or_default();
                self.hold(&reason).await
            }
            Move::Release { drain } => self.release(&drain).await,
            Move::Rest => self.rest(on_disk.unwrap_or_default()).await,
        }
    }

    async fn look(&self) -> Result<(Standing, Option<String>, bool, Option<store::Reverted>), Problem> {
        self.blocking(|host| {
            let engine = Engine::new(host);
            let standing = engine.recover()?;
            let store = engine.store();
            let current = match store.current() {
                Ok(current) => current.map(|config| engine::name(&config)),
                // The cluster's copy takes its place: the host is then adopted anew.
                Err(error @ store::Error::Damaged { .. }) => {
                    tracing::error!(error = &error as &dyn std::error::Error, "the config on disk cannot be read");
                    None
                }
                Err(error) => return Err(error.into()),
            };
            Ok((standing, current, store.is_forced(), store.reverted()?))
        })
        .await
        .map_err(|error: engine::Error| error.into())
    }

    /// The Node names a config that the host is said to run; from now on the host knows it too.
    async fn adopt(&mut self, name: &str) -> Result<Next, Problem> {
        let config = self.fetch(name).await?;
        self.blocking(move |host| {
            let store = Store::new(host.files());
            store.save_current(&config)?;
            store.rename_done(store::NODE_ANNOTATIONS, store::NODE_ANNOTATIONS_DONE)?;
            store.flush()
        })
        .await?;
        Ok(Next::Again)
    }

    async fn update(&mut self, to: &str, forced: bool) -> Result<Next, Problem> {
        let config = self.fetch(to).await?;
        let policy = ClusterPolicy::read(&self.client, &config).await;
        let options = self.options.clone();
        self.conditions.begin(to);
        let ready = self.blocking(move |host| prepare::prepare(host, config, &policy, forced)).await;
        let mut ready = ready.map_err(|error| Problem { state: error.state(), reason: error.to_string() })?;
        let actions: Vec<String> = ready.prepared.actions.iter().map(|action| format!("{action:?}")).collect();
        let message =
            format!("Update Compatible. Post Cfg Actions: [{}] Drain Required: {}", actions.join(" "), ready.drain);
        self.conditions.set(node_condition::UPDATE_PREPARED, status::TRUE, "UpdatePrepared", &message);
        if let Some(trial) = &mut ready.prepared.trial {
            trial::note_what_works(trial, &options).await;
        }
        if !self.view.as_ref().is_some_and(View::is_failing) {
            state::WORKING.clone_into(&mut self.report.state);
        }
        if let Some(next) = self.drain(&ready, to).await? {
            return Ok(next);
        }
        let message = format!("Updating the Files and OS on disk as a part of the in progress phase to {to}");
        self.conditions.set(node_condition::UPDATE_EXECUTED, status::UNKNOWN, "AppliedFilesAndOS", &message);
        let reason = "UpdateExecutedAppliedFilesAndOS";
        self.conditions.set(node_condition::APPLIED_FILES_AND_OS, status::UNKNOWN, reason, &message);
        self.publish().await;
        tracing::info!(from = ready.from, to, steps = ready.prepared.steps.len(), "Starting update");
        self.blocking(move |host| {
            let engine = Engine::new(host);
            match engine.execute(&ready.prepared) {
                // `recover` closes what went back and remembers why.
                Ok(()) | Err(engine::Error::Undone { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        })
        .await?;
        self.blocking(move |host| Store::new(host.files()).clear_force()).await?;
        let message = format!("Applied new Files and OS to the node. The node is on {to}");
        let reason = "UpdateExecutedAppliedFilesAndOS";
        self.conditions.set(node_condition::APPLIED_FILES_AND_OS, status::TRUE, reason, &message);
        self.conditions.set(node_condition::UPDATE_EXECUTED, status::TRUE, "UpdateExecuted", &message);
        self.must_verify = true;
        Ok(Next::Again)
    }

    /// Asks for a drain and waits for it. `None` when writing may begin.
    async fn drain(&mut self, ready: &Ready, to: &str) -> Result<Option<Next>, Problem> {
        let view = self.view.clone().unwrap_or_default();
        let wanted = format!("{}-{to}", drain::DRAIN);
        if !ready.drain || view.topology == "SingleReplica" || view.last_applied_drain == wanted {
            self.waiting_since = None;
            return Ok(None);
        }
        if self.report.desired_drain != wanted {
            self.event(Severity::Normal, "Drain", "Draining node to update config.");
        }
        self.report.desired_drain = wanted;
        self.publish().await;
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= DRAIN {
            let name = self.node.name();
            return Err(Problem::degraded(format!(
                "failed to drain node: {name} after 1 hour. Please see machine-config-controller logs for more information"
            )));
        }
        Ok(Some(Next::After(DRAIN)))
    }

    async fn act(&mut self) -> Result<Next, Problem> {
        let reboots =
            self.blocking(|host| Ok::<_, store::Error>(journal(host)?.is_some_and(|journal| journal.reboots())));
        if reboots.await? {
            let message = "Upgrade requires a reboot.";
            self.conditions.set(node_condition::REBOOTED_NODE, status::UNKNOWN, "RebootedNode", message);
            return self.reboot().await;
        }
        self.blocking(|host| match Engine::new(host).act() {
            Err(engine::Error::Undone { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                let engine = Engine::new(host);
                match engine.store().journal()? {
                    Some(journal) if journal.trial.is_some() => engine.begin_trial(now()).map(drop),
                    _ => engine.finish(),
                }
            }
        })
        .await?;
        let message = "Post-update actions are complete; no reboot is needed";
        let type_ = node_condition::UPDATE_POST_ACTION_COMPLETE;
        self.conditions.set(type_, status::TRUE, type_, message);
        Ok(Next::Again)
    }

    async fn reboot(&mut self) -> Result<Next, Problem> {
        let into = |journal: Journal| if journal.phase.goes_back() { journal.from } else { journal.to };
        let name =
            self.blocking(move |host| Ok::<_, store::Error>(journal(host)?.map(into))).await?.unwrap_or_default();
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

    async fn try_out(&mut self) -> Result<Next, Problem> {
        if self.report.post_action == state::REBOOTING {
            self.report.post_action.clear();
            self.conditions.set(node_condition::REBOOTED_NODE, status::TRUE, "RebootedNode", "Node has rebooted");
        }
        let api_is_heard = self.view.is_some();
        let started = self.blocking(|host| {
            let since = Engine::new(host).begin_trial(now())?;
            Ok::<_, engine::Error>((since, journal(host)?))
        });
        let (since, journal) = started.await?;
        let Some(trial) = journal.and_then(|journal| journal.trial) else {
            self.blocking(|host| Engine::new(host).finish()).await?;
            return Ok(Next::Again);
        };
        let units = trial.units.clone();
        let failed = self.blocking(move |host| Ok::<_, store::Error>(verify::failed_units(host, &units))).await?;
        let checks = trial.clone();
        let inactive = self.blocking(move |host| Ok::<_, store::Error>(trial::inactive_units(host, &checks))).await?;
        let seen = trial::observe(&trial, &self.options, api_is_heard, failed, inactive).await;
        match trial::judge(&trial, &seen, now() - since) {
            Verdict::Passed => {
                tracing::info!("the new config has passed its trial");
                self.blocking(|host| Engine::new(host).finish()).await?;
                Ok(Next::Again)
            }
            Verdict::Waiting => Ok(Next::After(TRIAL)),
            Verdict::Failed(reason) => {
                self.options.metrics.reverted();
                self.event(Severity::Warning, "TrialFailed", &reason);
                self.blocking(move |host| match Engine::new(host).go_back(&reason) {
                    Err(engine::Error::Undone { .. }) => Ok(()),
                    other => other,
                })
                .await?;
                Ok(Next::Again)
            }
        }
    }

    async fn went_back(&mut self, reason: &str) -> Result<Next, Problem> {
        let reverted = self.blocking(|host| Store::new(host.files()).reverted()).await?;
        match reverted {
            Some(reverted) if reverted.reason == reason => {
                self.report.reverted = reverted.config;
                self.hold(reason).await
            }
            // It never got as far as a trial: a full disk or a busy service manager may be over soon.
            _ => Err(Problem::degraded(reason)),
        }
    }

    /// The config that was wanted does not work here; the node keeps the one before and says so.
    async fn hold(&mut self, reason: &str) -> Result<Next, Problem> {
        self.report.post_action.clear();
        let current = self.blocking(|host| Store::new(host.files()).current()).await?;
        self.report.current = current.map(|config| engine::name(&config)).unwrap_or_default();
        state::DEGRADED.clone_into(&mut self.report.state);
        reason.clone_into(&mut self.report.reason);
        if self.view.as_ref().is_some_and(View::is_drained_by_us) {
            self.report.desired_drain = format!("{}-{}", drain::UNCORDON, self.report.current);
        }
        Ok(self.publish_or_retry().await)
    }

    async fn release(&mut self, wanted: &str) -> Result<Next, Problem> {
        self.report.post_action.clear();
        wanted.clone_into(&mut self.report.desired_drain);
        let next = self.publish_or_retry().await;
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        if self.view.as_ref().is_some_and(|view| view.last_applied_drain == wanted) {
            self.waiting_since = None;
            return Ok(Next::Again);
        }
        if since.elapsed() >= UNCORDON {
            let name = self.node.name();
            return Err(Problem::degraded(format!(
                "failed to uncordon node: {name} after 10 minutes. Please see machine-config-controller logs for more information"
            )));
        }
        Ok(if next == Next::OnChange { Next::After(UNCORDON) } else { next })
    }

    async fn rest(&mut self, current: String) -> Result<Next, Problem> {
        self.waiting_since = None;
        if std::mem::take(&mut self.must_verify) {
            let started = self.followed.is_empty();
            self.follow(&current).await;
            if let Some(problem) = self.compare(&current, started).await? {
                return Err(problem);
            }
        }
        // Another config works here now: what was given back earlier may be asked for again.
        self.blocking(|host| Store::new(host.files()).forget_reverted()).await?;
        let was_done = self.report.state == state::DONE && self.report.current == current;
        let name = self.node.name().to_owned();
        self.report = Report {
            current: current.clone(),
            state: state::DONE.into(),
            reason: String::new(),
            desired_drain: self.report.desired_drain.clone(),
            post_action: String::new(),
            reverted: String::new(),
        };
        if !was_done {
            self.event(Severity::Normal, "NodeDone", &format!("Setting node {name}, currentConfig {current} to Done"));
            self.options.metrics.updated(&current, "", now());
        }
        self.conditions.set(node_condition::UPDATED, status::TRUE, "Updated", &format!("Node {name} Updated"));
        self.conditions.set(
            node_condition::RESUMED,
            status::TRUE,
            "Resumed",
            &format!("In desired config {current}. Resumed normal operations."),
        );
        self.conditions.set(
            node_condition::NODE_DEGRADED,
            status::FALSE,
            "UpgradeSucceeded",
            &format!("Node {name} upgrade succeeded"),
        );
        Ok(self.publish_or_retry().await)
    }

    /// Watches the paths of the config the host runs now.
    async fn follow(&mut self, current: &str) {
        if self.followed == current || self.watched.is_none() {
            return;
        }
        let paths = self.blocking(|host| {
            let config = Store::new(host.files()).current()?.unwrap_or_default();
            let mut paths = verify::watched_paths(host, &engine::read(&config)?);
            // Whoever puts the force file there does not want to wait for the next retry.
            paths.push(store::known(store::FORCE));
            Ok::<_, engine::Error>(paths)
        });
        let (Ok(paths), Some(watched)) = (paths.await, self.watched.as_mut()) else { return };
        match watched.get_mut().follow(paths) {
            Ok(()) => current.clone_into(&mut self.followed),
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "files cannot be watched for drift")
            }
        }
    }

    /// Compares the host with its config. Drift is mended where the policy says so, else it is the problem.
    async fn compare(&mut self, current: &str, started: bool) -> Result<Option<Problem>, Problem> {
        let found = self.blocking(|host| {
            let config = Store::new(host.files()).current()?.unwrap_or_default();
            let target = engine::read(&config)?;
            Ok::<_, engine::Error>((verify::verify(host, &target), config))
        });
        let (mismatches, config) = found.await?;
        if mismatches.is_empty() {
            self.options.metrics.set_drift(0);
            return Ok(None);
        }
        self.options.metrics.set_drift(now());
        let details: Vec<&str> = mismatches.iter().filter_map(|mismatch| mismatch.detail.as_deref()).collect();
        tracing::warn!(config = current, details = details.join("\n"), "drift: {}", verify::list(&mismatches));
        let policy = ClusterPolicy::read(&self.client, &config).await;
        if policy.repairs_drift() {
            self.event(Severity::Warning, "ConfigDriftRepaired", &verify::list(&mismatches));
            self.blocking(move |host| repair::repair(host, &config)).await?;
            self.options.metrics.set_drift(0);
            return Ok(None);
        }
        // It is looked at again when a file changes, and with every retry.
        self.must_verify = true;
        let reason = if started { verify::sentence(current, &mismatches) } else { verify::list(&mismatches) };
        self.event(Severity::Warning, "ConfigDriftDetected", &reason);
        Ok(Some(Problem::degraded(reason)))
    }

    fn event(&self, severity: Severity, reason: &str, message: &str) {
        let uid = self.view.as_ref().map(|view| view.uid.as_str());
        self.events.publish::<NodeObject>(self.node.name(), uid, severity, reason, message);
    }

    async fn fetch(&mut self, name: &str) -> Result<MachineConfig, Problem> {
        let wanted = name.to_owned();
        let stored = self.blocking(move |host| {
            let current = Store::new(host.files()).current();
            Ok::<_, store::Error>(current.ok().flatten().filter(|config| engine::name(config) == wanted))
        });
        if let Some(config) = stored.await? {
            return Ok(config);
        }
        let api: Api<MachineConfig> = Api::all(self.client.clone());
        match tokio::time::timeout(REQUEST, api.get_opt(name)).await {
            Ok(Ok(Some(mut config))) => {
                config.metadata.managed_fields = None;
                let pool = config.metadata.labels.as_ref().and_then(|labels| labels.get(api::labels::RENDERED_FOR));
                self.pool = pool.cloned().unwrap_or_default();
                Ok(config)
            }
            Ok(Ok(None)) => {
                Err(Problem::degraded(format!("machineconfig.machineconfiguration.openshift.io \"{name}\" not found")))
            }
            Ok(Err(error)) => Err(Problem::degraded(format!("cannot read machineconfig \"{name}\": {error}"))),
            Err(_) => Err(Problem::degraded(format!("cannot read machineconfig \"{name}\": the API did not answer"))),
        }
    }

    async fn publish_or_retry(&mut self) -> Next {
        if self.publish().await { Next::OnChange } else { Next::After(Duration::from_secs(5)) }
    }

    /// Reports, if anything is new. Says whether the API knows it now.
    async fn publish(&mut self) -> bool {
        self.options.metrics.set_state(&self.report.state, &self.report.reason, now());
        self.options.metrics.set_well(self.report.state != state::DEGRADED, self.view.is_some());
        let Some(view) = &self.view else { return true };
        let identity = Identity {
            uid: view.uid.clone(),
            pool: self.pool.clone(),
            current: self.report.current.clone(),
            desired: view.desired.clone(),
        };
        if Report::of(view) == self.report && !view.daemon.is_empty() {
            let _ = tokio::time::timeout(REQUEST, self.conditions.publish(&identity)).await;
            return true;
        }
        match tokio::time::timeout(REQUEST, self.node.publish(&view.uid, &self.report)).await {
            Ok(Ok(view)) => {
                self.view = Some(view);
                let _ = tokio::time::timeout(REQUEST, self.conditions.publish(&identity)).await;
                true
            }
            Ok(Err(error)) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the Node could not be written");
                false
            }
            Err(_) => false,
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

fn journal(host: &dyn Host) -> Result<Option<Journal>, store::Error> {
    Store::new(host.files()).journal()
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}
