//! `machinist machine-api-operator start`: deploys the machine controllers that a platform needs, keeps them so, and says
//! how they are in `ClusterOperator/machine-api`.
//!
//! It gathers, asks what should run, writes exactly that and reports. While its own Deployment is scaled to 0 it writes
//! nothing at all. It neither makes Machines nor hands out rights.

mod certificate;
mod decide;
mod report;
mod sync;
mod world;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cluster::leader::{self, Election, Leadership};
use cluster::{Events, Queue};
use health::Health;
use jiff::Timestamp;
use kube::Client;
use operate::Installation;
use parking_lot::Mutex;
use tokio::task::JoinSet;

pub use operate::machine_api::webhook::SECRET as WEBHOOK_SECRET;
pub use operate::machine_api::{Choices, SIMULATED};

use crate::metrics::Metrics;
use crate::{End, Error};
use decide::Decision;
use sync::Memory;
use world::World;

/// The name under which fields are ours, and under which events are told.
const MANAGER: &str = operate::machine_api::OPERATOR;

/// How long it waits before it tries again to install into a cluster that refuses it.
const AGAIN: Duration = Duration::from_secs(1);

/// How one process is set up. Parsed once by the binary; only this type travels.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the operator, the controllers and the images are.
    pub namespace: String,
    /// The platform, as the Infrastructure object would spell it; absent, found from the cluster.
    pub platform: Option<String>,
    /// What was decided about the controllers.
    pub choices: Choices,
    /// A file of images; absent, they are in the ConfigMap `machine-api-operator-images`.
    pub images: Option<PathBuf>,
    /// What is reported once it is deployed.
    pub version: String,
    /// Name of this process in the Lease and the logs.
    pub identity: String,
    /// How long a leader that vanished still counts; absent, there is no election.
    pub lease: Option<Duration>,
    /// Where `/healthz`, `/readyz` and `/metrics` are served; absent, nowhere.
    pub listen: Option<SocketAddr>,
    /// Where admission is served, such as `https://127.0.0.1:8443`; absent, behind its Service.
    pub webhook_url: Option<String>,
    /// Brings what `machinist install` prints for the Machine API, where nobody else does.
    pub installs: Option<Installation>,
    /// The clock; another one only in tests.
    pub now: fn() -> Timestamp,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: api::names::MACHINE_API_NAMESPACE.to_owned(),
            platform: None,
            choices: Choices::default(),
            images: None,
            version: operate::Images::default().release_version,
            identity: "machinist".to_owned(),
            lease: None,
            listen: None,
            webhook_url: None,
            installs: None,
            now: Timestamp::now,
        }
    }
}

/// What the parts of one process share.
struct Context {
    client: Client,
    settings: Settings,
    metrics: Arc<Metrics>,
    health: Health,
    events: Events,
    /// There is one thing to do: look at everything, and bring it to what it should be.
    queue: Queue<()>,
    /// What was decided last. It is kept while a new decision cannot be made.
    decision: Mutex<Option<Decision>>,
    /// What the API server trusts of admission, as last known.
    bundle: Mutex<Option<String>>,
    memory: Mutex<Memory>,
}

/// Runs until `stop` or until another process leads.
pub async fn run(client: Client, settings: Settings, stop: impl Future<Output = ()>) -> Result<End, Error> {
    let metrics = Arc::new(Metrics::default());
    let rendered = metrics.clone();
    let health = Health::new(move || rendered.render());
    let mut tasks = JoinSet::new();
    health.serve_in(&mut tasks, settings.listen).await?;
    let namespace = settings.namespace.clone();
    let fail = |source| Error::Namespace { name: namespace.clone(), source };
    cluster::ensure_namespace(&client, &namespace).await.map_err(fail)?;
    let leadership = match settings.lease {
        Some(duration) => leader::elect(client.clone(), &election(&settings, duration)).await?,
        None => Leadership::unopposed(),
    };
    let context = Context {
        events: Events::start(client.clone(), MANAGER, &namespace),
        client,
        metrics,
        health,
        queue: Queue::default(),
        decision: Mutex::default(),
        bundle: Mutex::default(),
        memory: Mutex::default(),
        settings,
    };
    let begin = |tasks: &mut JoinSet<()>| {
        tracing::info!(identity = context.settings.identity, "leading");
        tasks.spawn(lead(Arc::new(context)));
    };
    Ok(leadership.run(tasks, begin, stop).await)
}

fn election(settings: &Settings, duration: Duration) -> Election {
    Election {
        namespace: settings.namespace.clone(),
        lease: operate::machine_api::OPERATOR.to_owned(),
        identity: settings.identity.clone(),
        duration,
    }
}

async fn lead(context: Arc<Context>) {
    while !install(&context).await {
        tokio::time::sleep(AGAIN).await;
    }
    let mut tasks = JoinSet::new();
    let world = Arc::new(World::start(&context, &mut tasks));
    world.settled().await;
    context.queue.add(());
    let queue = context.queue.clone();
    queue.run(1, |()| sync::sync(context.clone(), world.clone())).await;
}

/// Brings what an installation brings, if that is asked of this process.
async fn install(context: &Context) -> bool {
    let Some(installation) = &context.settings.installs else { return true };
    for desired in operate::machine_api::installed(installation) {
        if let Err(error) = crate::keep::write_one(&context.client, MANAGER, &desired).await {
            let id = desired.id();
            tracing::warn!(%id, error = &error as &dyn std::error::Error, "an object could not be installed");
            return false;
        }
    }
    true
}
