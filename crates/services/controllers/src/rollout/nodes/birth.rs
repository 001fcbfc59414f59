//! Gathers the credential that a new machine was let in with, for the judgement on the pool it says it was born into.
//!
//! It is read when a machine joins a custom pool, which is once in its life, so nothing is watched for it. What cannot be read
//! is not believed and not refused: it is asked again.

use std::time::Duration;

use api::annotations;
use api::machine::Machine;
use api::machinist::BootstrapToken;
use cluster::events::Severity;
use cluster::{Outcome, read};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use rollout::birth::{Verdict, judge};
use rollout::{Marks, NodeFacts};

use super::{Error, Rollout, Unread};

/// How soon a machine is looked at again whose credential is not known yet.
const AGAIN: Duration = Duration::from_secs(10);

impl Rollout {
    /// Takes the birth out of `marks` and adds what is written about it, if anything is now.
    pub(super) async fn judge_birth(&self, facts: &NodeFacts, marks: &mut Marks) -> Result<Outcome, Error> {
        let Some(birth) = marks.birth.take() else { return Ok(Outcome::Done) };
        if birth.labels.is_empty() {
            // Somebody who may label nodes has said the same.
            birth.believe(marks);
            return Ok(Outcome::Done);
        }
        let fail = |source| Error::Birth { node: facts.name.clone(), source };
        match self.verdict(facts, &birth.pool).await.map_err(fail)? {
            Verdict::Believed => birth.believe(marks),
            Verdict::Waits { until } => {
                let left = Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default();
                return Ok(Outcome::Again(left.clamp(Duration::from_secs(1), AGAIN)));
            }
            Verdict::Refused { why } => {
                self.events.publish::<Node>(
                    &facts.name,
                    facts.uid.as_deref(),
                    Severity::Warning,
                    "BirthNotBelieved",
                    &why,
                );
                birth.refuse(marks);
            }
        }
        Ok(Outcome::Done)
    }

    async fn verdict(&self, facts: &NodeFacts, pool: &str) -> Result<Verdict, Unread> {
        let client = &self.context.world.client;
        let now = Timestamp::now();
        let tokens: Api<BootstrapToken> = Api::all(client.clone());
        let tokens = read::list(&tokens, ListParams::default()).await;
        let tokens =
            tokens.fresh_or_none("bootstraptokens", now)?.map_or(&[][..], |tokens| tokens.into_inner().as_slice());
        let machine = self.machine(&facts.name, now).await?;
        Ok(judge(facts, pool, tokens, machine.as_ref(), now))
    }

    /// The Machine that the node names.
    async fn machine(&self, node: &str, now: Timestamp) -> Result<Option<Machine>, Unread> {
        let client = &self.context.world.client;
        let nodes: Api<Node> = Api::all(client.clone());
        let node = read::get(&nodes, node).await;
        let node = node.fresh("nodes", now)?;
        let named = node.as_ref().and_then(|node| node.annotations().get(annotations::MACHINE)?.split_once('/'));
        let Some((namespace, name)) = named else { return Ok(None) };
        let machines: Api<Machine> = Api::namespaced(client.clone(), namespace);
        let machine = read::get(&machines, name).await;
        Ok(machine.fresh("machines", now)?.into_inner().clone())
    }
}
