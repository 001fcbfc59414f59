//! A config on trial: it passes, it waits, or the node goes back to the one before and says so.

use std::convert::Infallible;
use std::time::Duration;

use ::node::words;
use api::names::state;
use cluster::events::Severity;
use protocol::DrainRequest;

use super::{Daemon, Next, Problem, journal};
use crate::access::Found;
use crate::engine::{self, Engine};
use crate::node::{Node, View};
use crate::store::{self, Store};
use crate::trial::{self, Credential, Verdict};
use crate::verify;

/// How often a config on trial is looked at.
const TRIAL: Duration = Duration::from_secs(2);
/// How long the API may take to answer during a trial. An API in trouble is asked again at the next look.
const HEAR: Duration = Duration::from_secs(5);

impl Daemon {
    pub(super) async fn try_out(&mut self) -> Result<Next, Problem> {
        if self.report.post_action == state::REBOOTING {
            self.report.post_action.clear();
            self.conditions.tell([words::rebooted()]);
        }
        let started = self.blocking(|host| {
            let elapsed = Engine::new(host).time_trial()?;
            Ok::<_, engine::Error>((elapsed, journal(host)?))
        });
        let (elapsed, journal) = started.await?;
        let Some(trial) = journal.and_then(|journal| journal.trial) else {
            self.blocking(|host| Engine::new(host).finish()).await?;
            return Ok(Next::Again);
        };
        let units = trial.units.clone();
        let failed = self.blocking(move |host| Ok::<_, store::Error>(verify::failed_units(host, &units))).await?;
        let checks = trial.clone();
        let inactive = self.blocking(move |host| Ok::<_, store::Error>(trial::inactive_units(host, &checks))).await?;
        let credential = match self.found().await {
            Found::Other => return Ok(Next::Reconnect),
            Found::Broken(reason) => Credential::Broken(reason),
            Found::Same { way } => match &trial.way {
                Some(before) if *before != self.way(way) => Credential::Other,
                _ => Credential::Same,
            },
        };
        let api_is_heard = self.view.is_some() && self.hears_api().await;
        let seen = trial::observe(&trial, &self.options, (api_is_heard, credential), failed, inactive).await;
        match trial::judge(&trial, &seen, elapsed) {
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

    /// What the host says now about how to reach the cluster.
    pub(super) async fn found(&self) -> Found {
        let access = self.options.access.clone();
        let found = self.blocking(move |host| Ok::<_, Infallible>(access.look(host.files()))).await;
        found.unwrap_or_else(|never| match never {})
    }

    /// Who asks is a part of the way: a node of another name is refused.
    pub(super) fn way(&self, way: Option<String>) -> String {
        format!("{}@{}", self.options.node, way.unwrap_or_default())
    }

    /// Whether the API answers now, over a new connection. A view says nothing about that, nor does an answer over an old
    /// connection: both may be of before the change.
    async fn hears_api(&self) -> bool {
        let asked = async {
            match self.options.access.connect_anew().await {
                None => self.node.is_there().await,
                Some(Ok(client)) => Node::new(client, self.node.name()).is_there().await,
                Some(Err(error)) => Err(kube::Error::Service(Box::new(error))),
            }
        };
        match tokio::time::timeout(HEAR, asked).await {
            Ok(Ok(_)) => true,
            // A refusal is an answer, so the network works; who must not read its Node says so elsewhere.
            Ok(Err(kube::Error::Api(refusal))) => {
                tracing::warn!(code = refusal.code, "the API answers during a trial, and refuses: {}", refusal.message);
                true
            }
            Ok(Err(error)) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the API is not heard during a trial");
                false
            }
            Err(_) => false,
        }
    }

    pub(super) async fn went_back(&mut self, reason: &str) -> Result<Next, Problem> {
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
    pub(super) async fn hold(&mut self, reason: &str) -> Result<Next, Problem> {
        self.report.post_action.clear();
        let current = self.blocking(|host| Store::new(host.files()).current()).await?;
        self.report.current = current.map(|config| engine::name(&config)).unwrap_or_default();
        state::DEGRADED.clone_into(&mut self.report.state);
        reason.clone_into(&mut self.report.reason);
        if self.view.as_ref().is_some_and(View::is_drained_by_us) {
            self.report.desired_drain = DrainRequest::Uncordon(self.report.current.as_str().into()).to_string();
        }
        Ok(self.publish_or_retry().await)
    }
}
