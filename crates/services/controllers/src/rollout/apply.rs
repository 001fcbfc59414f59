//! Writes what a plan says, in its order.

use std::collections::BTreeMap;

use api::annotations;
use api::machineconfiguration::{MachineConfigPool, MachineConfigPoolStatus};
use api::machinist::{PoolLedger, PoolLedgerSpec};
use cluster::events::Severity;
use cluster::{Outcome, Problem, problem, write};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{Api, PostParams};
use rollout::{About, Action, Event, Ledger, NodeFacts, Plan, ResourceVersion, Target};
use serde_json::{Value, json};

use super::{MANAGER, Rollout, outcome};

/// Node writes at once. The API server is the limit; more only makes it queue.
const AT_ONCE: usize = 32;

#[derive(Debug, thiserror::Error)]
#[allow(clippy::enum_variant_names, reason = "each variant names the operation that failed")]
pub(super) enum Error {
    #[error("cannot write the ledger of pool {pool}")]
    WriteLedger {
        pool: String,
        #[source]
        source: kube::Error,
    },
    #[error("cannot write node {node}")]
    WriteNode {
        node: String,
        #[source]
        source: kube::Error,
    },
    #[error("cannot write the status of pool {pool}")]
    WriteStatus {
        pool: String,
        #[source]
        source: kube::Error,
    },
}

impl Rollout {
    /// Carries out a plan. What met a newer object is left for the next plan, which the newer object brings about.
    pub(super) async fn apply(&self, pool: &str, plan: &Plan) -> Result<Outcome, Error> {
        if !self.write_ledger(pool, plan).await? {
            return Ok(Outcome::Retry);
        }
        let failed = self.write_nodes(plan).await;
        self.write_status(pool, &plan.status).await?;
        match failed {
            Some(error) => Err(error),
            None => {
                plan.events.iter().for_each(|event| self.publish(pool, event));
                Ok(outcome(&plan.next))
            }
        }
    }

    /// Claims first: what is not in the ledger must not be written to a node. False when the ledger is newer than the plan.
    async fn write_ledger(&self, pool: &str, plan: &Plan) -> Result<bool, Error> {
        for action in &plan.actions {
            let Action::WriteLedger { resource_version, spec } = action else { continue };
            match self.put_ledger(pool, resource_version.as_deref(), spec).await {
                Ok(ledger) => {
                    self.context.metrics.wrote("PoolLedger");
                    let ledger = Ledger::from_object(Some(&ledger));
                    self.index.lock().put_ledger(&self.pools, pool, ledger, false);
                }
                Err(error) if problem(&error) == Problem::Conflict => {
                    self.context.metrics.conflicted("PoolLedger");
                    return Ok(false);
                }
                Err(source) => return Err(Error::WriteLedger { pool: pool.to_owned(), source }),
            }
        }
        Ok(true)
    }

    /// Replaces the whole object: nobody else writes ledgers, and only a replace with a version can conflict.
    async fn put_ledger(
        &self,
        pool: &str,
        resource_version: Option<&str>,
        spec: &PoolLedgerSpec,
    ) -> Result<PoolLedger, kube::Error> {
        let api: Api<PoolLedger> = Api::all(self.context.world.client.clone());
        let mut ledger = PoolLedger::new(pool, spec.clone());
        ledger.metadata.resource_version = resource_version.map(str::to_owned);
        let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match resource_version {
            Some(_) => write::in_time(api.replace(pool, &parameters, &ledger)).await,
            None => write::in_time(api.create(&parameters, &ledger)).await,
        }
    }

    /// Writes nodes side by side; returns one failure that is worth a retry, if there was any.
    async fn write_nodes(&self, plan: &Plan) -> Option<Error> {
        let writes: Vec<(String, Value)> = plan.actions.iter().filter_map(node_write).collect();
        let writes = writes.into_iter().map(|(node, patch)| async move { self.write_node(&node, &patch).await });
        let mut answers = futures::stream::iter(writes).buffer_unordered(AT_ONCE);
        let mut failure = None;
        while let Some(answer) = answers.next().await {
            failure = failure.or(answer.err());
        }
        failure
    }

    async fn write_node(&self, node: &str, patch: &Value) -> Result<(), Error> {
        let api: Api<Node> = Api::all(self.context.world.client.clone());
        match write::merge(&api, MANAGER, node, patch).await {
            Ok(written) => {
                self.context.metrics.wrote("Node");
                self.index.lock().observe(&self.pools, NodeFacts::from_object(&written));
                Ok(())
            }
            Err(error) => match problem(&error) {
                Problem::Conflict => {
                    self.context.metrics.conflicted("Node");
                    Ok(())
                }
                Problem::NotFound => Ok(()),
                _ => Err(Error::WriteNode { node: node.to_owned(), source: error }),
            },
        }
    }

    async fn write_status(&self, pool: &str, status: &MachineConfigPoolStatus) -> Result<(), Error> {
        let known = self.index.lock().status(pool).cloned();
        if known.as_ref() == Some(status) {
            return Ok(());
        }
        let api: Api<MachineConfigPool> = Api::all(self.context.world.client.clone());
        let object = json!({
            "apiVersion": format!("{}/{}", api::machineconfiguration::GROUP, api::machineconfiguration::VERSION),
            "kind": "MachineConfigPool",
            "metadata": { "name": pool },
            "status": status,
        });
        match write::apply_status(&api, MANAGER, pool, &object).await {
            Ok(written) => {
                self.context.metrics.wrote("MachineConfigPool.status");
                self.context.metrics.worked("machineconfigcontroller-nodecontroller", "Sync Machine Config Pool", pool);
                self.index.lock().put_status(pool, written.status.unwrap_or_default());
                Ok(())
            }
            // A pool that was deleted meanwhile has no status to write.
            Err(error) if problem(&error) == Problem::NotFound => Ok(()),
            Err(source) => Err(Error::WriteStatus { pool: pool.to_owned(), source }),
        }
    }

    fn publish(&self, pool: &str, event: &Event) {
        let severity = if event.warning { Severity::Warning } else { Severity::Normal };
        match &event.about {
            About::Pool => self.events.publish::<MachineConfigPool>(pool, None, severity, event.reason, &event.message),
            About::Node(node) => self.events.publish::<Node>(node, None, severity, event.reason, &event.message),
        }
    }
}

/// The node an action writes, and the patch. A patch with a version lands on that version of the node or not at all.
fn node_write(action: &Action) -> Option<(String, Value)> {
    match action {
        Action::WriteLedger { .. } | Action::DegradeNode { .. } => None,
        Action::Target(target) => Some((target.node.clone(), target_patch(target))),
        Action::Fence { node, resource_version } => {
            let fence = BTreeMap::from([(annotations::FENCE, resource_version.text.clone())]);
            Some((
                node.clone(),
                json!({ "metadata": { "resourceVersion": resource_version.text, "annotations": fence } }),
            ))
        }
        Action::SetTaints { node, resource_version, taints } => {
            Some((node.clone(), taints_patch(resource_version, taints)))
        }
        Action::SetTopology { node, topology } => {
            let annotation = BTreeMap::from([(annotations::CONTROL_PLANE_TOPOLOGY, topology)]);
            Some((node.clone(), json!({ "metadata": { "annotations": annotation } })))
        }
    }
}

fn target_patch(target: &Target) -> Value {
    let mut annotations = BTreeMap::from([(annotations::DESIRED_CONFIG, json!(target.config))]);
    annotations.insert(annotations::DESIRED_IMAGE, json!(target.image));
    json!({ "metadata": { "resourceVersion": target.resource_version.text, "annotations": annotations } })
}

fn taints_patch(resource_version: &ResourceVersion, taints: &[Taint]) -> Value {
    json!({ "metadata": { "resourceVersion": resource_version.text }, "spec": { "taints": taints } })
}
