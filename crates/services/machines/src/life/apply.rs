//! Writes what a Machine's plan says: the actions in their order, then the status.

use api::Translate;
use api::machine::{Machine, MachineStatus, annotation, phase};
use api::names::MACHINE_FINALIZER;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use machine::lifecycle::{Action, Amendment, Plan};
use serde_json::{Value, json};

use super::{Error, MANAGER, Machines, Pass};
use crate::context::severity;
use crate::{delete, write};

impl Machines {
    pub(super) async fn apply(&self, pass: &mut Pass, plan: &Plan) -> Result<(), Error> {
        for action in &plan.actions {
            match action {
                Action::AddFinalizer => {
                    let finalizers = finalizers(&pass.machine).chain([MACHINE_FINALIZER]).collect::<Vec<_>>();
                    self.patch(pass, json!({ "metadata": { "finalizers": finalizers } })).await?;
                }
                Action::RemoveFinalizer => {
                    let left = finalizers(&pass.machine).filter(|it| *it != MACHINE_FINALIZER).collect::<Vec<_>>();
                    let is_last = left.is_empty();
                    self.patch(pass, json!({ "metadata": { "finalizers": left } })).await?;
                    tracing::info!(machine = pass.key.name, "the machine is deleted");
                    if is_last {
                        return Ok(());
                    }
                }
                Action::RecordIntent(record) => {
                    let text = serde_json::to_string(record).unwrap_or_default();
                    let annotations = json!({ annotation::INSTANCE_INTENT: text });
                    self.patch(pass, json!({ "metadata": { "annotations": annotations } })).await?;
                }
                Action::Amend(amendment) => self.patch(pass, amended(amendment)).await?,
                Action::DeleteNode { name, uid } => self.delete_node(name, uid).await?,
                Action::Event { warning, reason, message } => {
                    self.context.tell(&pass.machine, severity(*warning), reason, message);
                }
            }
        }
        self.write_status(pass, &plan.status).await
    }

    /// Writes a status that differs from what the Machine has.
    pub(super) async fn write_status(&self, pass: &mut Pass, status: &MachineStatus) -> Result<(), Error> {
        let old = pass.machine.status.clone().unwrap_or_default();
        let api = self.api(pass);
        let written = write::status(&api, MANAGER, &pass.machine, &old, status).await;
        let Some(machine) = written.map_err(|source| Error::Write { key: pass.key.clone(), source })? else {
            return Ok(());
        };
        if old.phase != status.phase
            && let Some(phase) = status.phase.as_deref().filter(|phase| *phase != phase::DELETING)
            && let Some(created) = &machine.metadata.creation_timestamp
        {
            tracing::info!(machine = pass.key.name, phase, "the machine's phase changed");
            let age = Timestamp::now().duration_since(created.0);
            self.context.metrics.phase_reached(phase, age.as_secs_f64());
        }
        self.keep(pass, machine);
        Ok(())
    }

    async fn patch(&self, pass: &mut Pass, patch: Value) -> Result<(), Error> {
        let written = write::merge(&self.api(pass), MANAGER, &pass.machine, patch).await;
        let machine = written.map_err(|source| Error::Write { key: pass.key.clone(), source })?;
        self.keep(pass, machine);
        Ok(())
    }

    /// Goes on with the Machine as it was written.
    fn keep(&self, pass: &mut Pass, mut machine: Machine) {
        machine.metadata.managed_fields = None;
        machine.translate();
        self.context.metrics.wrote("Machine");
        self.written.lock().insert(pass.key.clone(), machine.clone());
        pass.machine = machine;
    }

    fn api(&self, pass: &Pass) -> Api<Machine> {
        Api::namespaced(self.context.world.client.clone(), &pass.key.namespace)
    }

    async fn delete_node(&self, name: &str, uid: &str) -> Result<(), Error> {
        let api: Api<Node> = Api::all(self.context.world.client.clone());
        delete::by_uid(&api, name, uid).await.map_err(|source| Error::Node { node: name.to_owned(), source })
    }
}

fn finalizers(machine: &Machine) -> impl Iterator<Item = &str> {
    machine.metadata.finalizers.iter().flatten().map(String::as_str)
}

fn amended(amendment: &Amendment) -> Value {
    let Amendment { provider_id, labels, annotations, node_labels } = amendment;
    let mut patch = json!({ "metadata": { "labels": labels, "annotations": annotations } });
    if let Some(id) = provider_id {
        patch["spec"]["providerID"] = json!(id);
    }
    if !node_labels.is_empty() {
        patch["spec"]["metadata"]["labels"] = json!(node_labels);
    }
    patch
}
