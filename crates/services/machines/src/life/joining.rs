//! Finds out where a machine stopped that has an instance and does not become a node.
//!
//! Tokens and certificate requests are listed only while such a machine exists, and then once for all of them. What they
//! mean is decided by `machine::joining`.

use std::sync::Arc;
use std::time::Duration;

use api::known::Reading;
use api::machine::{condition as types, phase};
use api::machinist::BootstrapToken;
use cluster::read;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::Client;
use kube::api::{Api, ListParams};
use machine::condition;
use machine::joining::{self, CertificateRequest};
use machine::lifecycle::Joining;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{Machines, Pass};

/// How long a list is used. Machines that do not join are looked at every half a minute.
const MOMENT: Duration = Duration::from_secs(5);

/// What machines leave behind on their way.
#[derive(Default)]
pub(super) struct Traces(Mutex<Option<(Instant, Arc<Found>)>>);

struct Found {
    tokens: Vec<BootstrapToken>,
    requests: Vec<CertificateRequest>,
}

impl Machines {
    /// How far the machine of this pass is, if it should have joined by now and has not.
    pub(super) async fn joining(&self, pass: &Pass) -> Option<Joining> {
        let machine = &pass.machine;
        let status = machine.status.as_ref()?;
        let waits = machine.metadata.deletion_timestamp.is_none()
            && status.node_ref.is_none()
            && status.phase.as_deref() == Some(phase::PROVISIONED);
        let since = condition::find(&status.conditions, types::INSTANCE_EXISTS)?.last_transition_time.as_ref()?.0;
        let age = Duration::try_from(Timestamp::now().duration_since(since)).unwrap_or_default();
        if !waits || age < self.context.settings.joining_after {
            return None;
        }
        let moment = MOMENT.min(self.context.settings.joining_after);
        let found = self.traces.find(&self.context.world.client, moment).await;
        joining::of(machine, &found.tokens, &found.requests)
    }
}

impl Traces {
    async fn find(&self, client: &Client, moment: Duration) -> Arc<Found> {
        let mut known = self.0.lock().await;
        if let Some((_, found)) = known.as_ref().filter(|(at, _)| at.elapsed() < moment) {
            return found.clone();
        }
        let tokens: Api<BootstrapToken> = Api::all(client.clone());
        let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
        let (tokens, requests) =
            tokio::join!(read::list(&tokens, ListParams::default()), read::list(&requests, ListParams::default()));
        let requests = seen(requests).iter().filter_map(CertificateRequest::from_object).collect();
        let found = Arc::new(Found { tokens: seen(tokens), requests });
        *known = Some((Instant::now(), found.clone()));
        found
    }
}

/// What could not be read is not known, and then less is said: nothing is done because of it.
fn seen<T>(reading: Reading<Vec<T>>) -> Vec<T> {
    match reading {
        Reading::Known { value, .. } => value,
        Reading::NotInstalled => Vec::new(),
        Reading::Unknown(why) => {
            tracing::debug!(why, "cannot read what machines left behind on their way");
            Vec::new()
        }
    }
}
