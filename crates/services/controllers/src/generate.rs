//! Generates MachineConfigs from typed configuration: templates, KubeletConfigs, ContainerRuntimeConfigs, registries.
//!
//! All of it is planned anew from everything there is, in one place and one at a time; the rules are in the crate `typed`.
//! Kinds that do nothing are told so here too. A kind that cannot be read stops only what is made from it, and what was generated before stays.

mod apply;
mod gather;
mod pinning;
mod seen;

use std::sync::Arc;
use std::time::Duration;

use api::known::Unread;
use cluster::{Events, Outcome, Queue};
use jiff::Timestamp;
use tokio::sync::mpsc::UnboundedReceiver;
use typed::objects::Objects;
use typed::plan::Plan;

use crate::context::Context;
use seen::Written;

/// `kubectl apply` of a folder writes one object after the other; generating waits for this much quiet.
const QUIET: Duration = Duration::from_millis(50);

/// Somebody who never stops writing still gets an answer.
const LONGEST: Duration = Duration::from_secs(1);

/// The watches show our own writes within milliseconds.
const LAG: Duration = Duration::from_millis(10);

pub(crate) const MANAGER: &str = "machinist-generate";
const COMPONENT: &str = "machineconfigcontroller-templatecontroller";

pub(crate) struct Generate {
    context: Arc<Context>,
    /// There is only one thing to do.
    queue: Queue<()>,
    written: Written,
    events: Events,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot write MachineConfig {name}")]
    WriteConfig {
        name: String,
        #[source]
        source: kube::Error,
    },
    #[error("cannot delete MachineConfig {name}")]
    DeleteConfig {
        name: String,
        #[source]
        source: kube::Error,
    },
    #[error("cannot remember MachineConfig {name} of another controller")]
    Remember {
        name: String,
        #[source]
        source: kube::Error,
    },
    #[error("cannot tell node {name} of its PinnedImageSets")]
    TellNode {
        name: String,
        #[source]
        source: kube::Error,
    },
    #[error("cannot write {kind} {name}")]
    WriteSource {
        kind: &'static str,
        name: String,
        #[source]
        source: kube::Error,
    },
    #[error(transparent)]
    Unread(#[from] Unread),
}

impl Generate {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        let namespace = &context.settings.namespace;
        let events = Events::start(context.world.client.clone(), COMPONENT, namespace);
        Self { events, queue: Queue::default(), written: Written::default(), context }
    }

    /// Turns changes into work.
    pub(crate) async fn follow(self: Arc<Self>, mut changes: UnboundedReceiver<()>) {
        while changes.recv().await.is_some() {
            self.queue.add_quiet((), QUIET, LONGEST);
        }
    }

    pub(crate) async fn run(self: Arc<Self>) {
        self.queue.add(());
        let handler = self.clone();
        self.queue.run(1, move |()| handler.clone().handle()).await;
    }

    async fn handle(self: Arc<Self>) -> Outcome {
        // Planned on objects from before our own writes, these would be written once more.
        if self.written.is_awaited(&self.context.world) {
            return Outcome::Again(LAG);
        }
        let now = Timestamp::now();
        let done = match self.objects(now) {
            Ok(objects) => self.carry_out(&objects, now).await,
            Err(unread) => vec![Err(unread.into())],
        };
        let mut outcome = Outcome::Done;
        for error in done.into_iter().filter_map(Result::err) {
            tracing::warn!(error = &error as &dyn std::error::Error, "will try again");
            outcome = Outcome::Retry;
        }
        outcome
    }

    /// Carries every plan out; one that cannot be made or written stops no other.
    async fn carry_out(&self, objects: &Objects, now: Timestamp) -> Vec<Result<(), Error>> {
        let mut done = Vec::new();
        for plan in self.plan(objects, now).await {
            done.push(match plan {
                Ok(plan) => self.apply(plan).await,
                Err(unread) => Err(unread.into()),
            });
        }
        done.push(self.forget(&objects.memory.outdated).await);
        done.push(self.pin(now).await);
        done
    }

    /// One plan for each kind of configuration.
    async fn plan(&self, objects: &Objects, now: Timestamp) -> Vec<Result<Plan, Unread>> {
        let secret = self.pull_secret(objects).await;
        let certificates = objects.controller_config.as_ref().map(|config| gather::certificates(&config.spec));
        vec![
            Ok(objects.plan_templates(secret, certificates.unwrap_or_default())),
            self.kubelets(now).map(|kubelets| objects.plan_kubelets(&kubelets)),
            self.runtime_configs(now).map(|configs| objects.plan_runtimes(&configs)),
            self.registries(now).map(|registries| objects.plan_registries(&registries)),
            self.inert(now).map(|inert| inert.plan(now)),
        ]
    }
}
