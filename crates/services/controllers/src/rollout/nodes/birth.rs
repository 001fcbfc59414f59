//! Gathers the credential that a new machine was let in with, for the judgement on the pool it says it was born into.
//!
//! It is read when a machine joins a custom pool, which is once in its life, so nothing is watched for it. What cannot be read
//! is not believed and not told of as unproven: it is asked again.

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

use super::{Rollout, Unread, is_name};

/// How soon a machine is looked at again whose credential is not known yet.
const AGAIN: Duration = Duration::from_secs(10);

/// How soon a machine is looked at again that nothing speaks for, while a person may be on it.
const LATER: Duration = Duration::from_secs(300);

impl Rollout {
    /// Takes the birth out of `marks` and adds what is written about it, if anything is now.
    pub(super) async fn judge_birth(&self, facts: &NodeFacts, marks: &mut Marks) -> Outcome {
        let Some(birth) = marks.birth.take() else { return Outcome::Done };
        if birth.labels.is_empty() {
            // Somebody who may label nodes has said the same.
            birth.believe(marks);
            return Outcome::Done;
        }
        match self.verdict(facts, &birth.pool).await {
            Ok(Verdict::Believed) => birth.believe(marks),
            Ok(Verdict::Waits { until }) => {
                let left = Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default();
                return Outcome::Again(left.clamp(Duration::from_secs(1), AGAIN));
            }
            Ok(Verdict::Unproven { why }) => {
                self.tell_birth(facts, "BirthNotBelieved", &why);
                return Outcome::Again(LATER);
            }
            Err(unread) => {
                let why = format!("the birth of node {} cannot be judged: {unread}", facts.name);
                tracing::warn!(node = facts.name, %unread, "the birth of a node cannot be judged");
                self.tell_birth(facts, "BirthNotRead", &why);
                return Outcome::Retry;
            }
        }
        Outcome::Done
    }

    fn tell_birth(&self, facts: &NodeFacts, reason: &'static str, why: &str) {
        self.events.publish::<Node>(&facts.name, facts.uid.as_deref(), Severity::Warning, reason, why);
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
        // The node writes this itself, and the API would refuse garbage for ever.
        let Some((namespace, name)) = named.filter(|(namespace, name)| is_name(namespace) && is_name(name)) else {
            return Ok(None);
        };
        let machines: Api<Machine> = Api::namespaced(client.clone(), namespace);
        let machine = read::get(&machines, name).await;
        Ok(machine.fresh("machines", now)?.into_inner().clone())
    }
}
