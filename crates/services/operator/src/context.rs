//! What the parts of the operator share, and the work they hand each other.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use api::known::Unread;
use cluster::{Events, Outcome, Queue};
use health::Health;
use kube::Client;
use operate::trouble::{self, Trouble};
use operate::{Desired, Id, Installation, Step};
use parking_lot::Mutex;

use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::world::World;
use crate::{approve, credentials, gather, keep, policies, report, tokens, user_data};

/// The name under which fields are ours.
pub(crate) const MANAGER: &str = "machinist-operator";

/// Changes come in bursts; one look at the end of a burst is enough.
const QUIET: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(1);

/// How soon work is looked at again that waits for something to be readable. The API is being asked all the time; this
/// only picks up the answer.
pub(crate) const UNSEEN: Duration = Duration::from_secs(5);

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Work {
    /// Look at the cluster and decide what should be.
    Facts,
    /// Bring one object to what it should be.
    Keep(Id),
    /// Look at certificates, keys and the kubelets' first token.
    Credentials,
    /// Look at what new machines of one pool are given.
    UserData(String),
    /// Look at one certificate request.
    Approve(String),
    /// Take away tokens that ended long ago.
    Tokens,
    /// Merge the disruption policies.
    Policies,
    /// Write the ClusterOperator.
    Report,
}

/// Where a trouble comes from, so that it goes when its cause does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    Object(Id),
    Definition(Id),
    Images,
    ApiCa,
    Namespace,
    Clock,
    Credentials,
    UserData(String),
    Pods,
    Policies,
    Requests,
    Operators,
    /// What should be could not be decided, because something could not be read.
    Facts,
    /// A kind that is watched and cannot be read now.
    Watch(String),
}

pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) settings: Settings,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) health: Health,
    pub(crate) events: Events,
    pub(crate) queue: Queue<Work>,
    /// What is in force: as set, with the images of the ConfigMap.
    pub(crate) installation: Mutex<Installation>,
    pub(crate) desired: Mutex<BTreeMap<Id, Desired>>,
    /// What an object looked like when we last wrote it, so that our own writes are not taken for somebody's.
    pub(crate) written: Mutex<BTreeMap<Id, u64>>,
    troubles: Mutex<BTreeMap<Source, Trouble>>,
    /// Objects that were brought to what they should be at least once.
    pub(crate) kept: Mutex<BTreeSet<Id>>,
}

impl Context {
    pub(crate) fn new(client: Client, settings: Settings, metrics: Arc<Metrics>, health: Health) -> Self {
        let namespace = &settings.installation.namespace;
        Self {
            events: Events::start(client.clone(), "machineconfigoperator", namespace),
            installation: Mutex::new(settings.installation.clone()),
            client,
            metrics,
            health,
            queue: Queue::default(),
            desired: Mutex::default(),
            written: Mutex::default(),
            troubles: Mutex::default(),
            kept: Mutex::default(),
            settings,
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.settings.installation.namespace
    }

    pub(crate) fn installation(&self) -> Installation {
        self.installation.lock().clone()
    }

    pub(crate) fn now(&self) -> jiff::Timestamp {
        (self.settings.now)()
    }

    /// Notes what is wrong at `source`, or that nothing is any more.
    pub(crate) fn trouble(&self, source: Source, trouble: Option<Trouble>) {
        let mut troubles = self.troubles.lock();
        let old = match trouble.clone() {
            Some(trouble) => troubles.insert(source, trouble),
            None => troubles.remove(&source),
        };
        self.metrics.troubles.set(i64::try_from(troubles.len()).unwrap_or(i64::MAX));
        drop(troubles);
        if old == trouble {
            return;
        }
        if let Some(trouble) = trouble {
            tracing::warn!(step = %trouble.step, "{}", trouble.message);
        }
        self.soon(Work::Report);
    }

    /// Notes what could not be read for `source`, or that all of it could.
    pub(crate) fn unread(&self, source: Source, unread: Option<Unread>) {
        let trouble = unread.map(|unread| Trouble::new(Step::RenderConfig, trouble::unread(&unread)));
        self.trouble(source, trouble);
    }

    /// Whether this operator has stood aside for another one.
    pub(crate) fn stands_aside(&self) -> bool {
        self.troubles.lock().contains_key(&Source::Operators)
    }

    /// Whether it is not known yet if this operator may write at all.
    pub(crate) fn is_unsure(&self) -> bool {
        self.troubles.lock().contains_key(&Source::Facts)
    }

    pub(crate) fn troubles(&self) -> Vec<Trouble> {
        self.troubles.lock().values().cloned().collect()
    }

    /// After a moment of quiet.
    pub(crate) fn soon(&self, work: Work) {
        self.queue.add_quiet(work, QUIET, LONGEST);
    }
}

/// A process that leads and sees the cluster.
pub(crate) struct Leading {
    pub(crate) context: Arc<Context>,
    pub(crate) world: World,
}

impl Deref for Leading {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl Leading {
    /// Asks for everything once.
    pub(crate) fn begin(&self) {
        self.queue.add(Work::Facts);
        self.queue.add(Work::Credentials);
        self.queue.add(Work::Policies);
        self.queue.add(Work::Tokens);
        self.soon(Work::Report);
    }

    pub(crate) async fn handle(self: Arc<Self>, work: Work) -> Outcome {
        match self.world.is_switched_off(self.namespace()) {
            Ok(false) => {}
            Ok(true) => {
                // Hand edits stand. What was missed is looked at when the Deployment is scaled up again.
                tracing::debug!(?work, "the operator is scaled to 0, so nothing is done");
                return Outcome::Done;
            }
            // A person may have scaled it to 0 and not be seen to have. Only that is told.
            Err(unread) if work != Work::Report => {
                tracing::debug!(?work, error = &unread as &dyn std::error::Error, "nothing is written unseen");
                return Outcome::Again(UNSEEN);
            }
            Err(_) => {}
        }
        match &work {
            Work::Facts => gather::look(&self).await,
            Work::Keep(id) => keep::keep(&self, id).await,
            Work::Credentials => credentials::renew(&self).await,
            Work::UserData(pool) => user_data::renew(&self, pool).await,
            Work::Approve(request) => approve::look(&self, request).await,
            Work::Tokens => tokens::sweep(&self).await,
            Work::Policies => policies::merge(&self).await,
            Work::Report => report::report(&self).await,
        }
    }
}
