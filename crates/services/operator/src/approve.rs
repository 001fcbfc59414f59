//! Approves the certificate requests that the rules allow, and says why it leaves the others.

use std::collections::BTreeSet;

use cluster::events::Severity;
use cluster::{Outcome, Problem, problem, write};
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use operate::requests::{Known, Left, Machine, Request, decide};
use serde_json::json;

use crate::context::{Leading, MANAGER, Work};

/// One request; without a name, all that are open, because a machine became known.
pub(crate) async fn look(leading: &Leading, name: &str) -> Outcome {
    if name.is_empty() {
        for request in leading.world.requests.all().iter().filter(|request| !is_decided(request)) {
            leading.queue.add(Work::Approve(request.name_any()));
        }
        return Outcome::Done;
    }
    let Some(request) = leading.world.requests.named(name) else { return Outcome::Done };
    match decide(&read(&request), &known(leading)) {
        Ok(node) => approve(leading, &request, &node).await,
        Err(Left::Decided | Left::OtherSigner(_)) => Outcome::Done,
        Err(reason) => {
            tracing::info!(request = name, %reason, "a certificate request is left to a person");
            Outcome::Done
        }
    }
}

async fn approve(leading: &Leading, request: &CertificateSigningRequest, node: &str) -> Outcome {
    let api: Api<CertificateSigningRequest> = Api::all(leading.client.clone());
    let message = format!("machinist knows the machine of node {node}");
    let conditions = json!([{
        "type": "Approved", "status": "True", "reason": "MachinistApproved", "message": message,
        "lastUpdateTime": leading.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    }]);
    // The resource version makes the decision one about exactly this request.
    let patch =
        json!({"metadata": {"resourceVersion": request.resource_version()}, "status": {"conditions": conditions}});
    let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let name = request.name_any();
    match write::in_time(api.patch_approval(&name, &parameters, &Patch::Merge(patch))).await {
        Ok(_) => {
            leading.metrics.approved.inc();
            tracing::info!(request = name, node, "approved a certificate request");
            let uid = request.uid();
            leading.events.publish::<CertificateSigningRequest>(
                &name,
                uid.as_deref(),
                Severity::Normal,
                "RequestApproved",
                &message,
            );
            Outcome::Done
        }
        Err(error) if problem(&error) == Problem::NotFound => Outcome::Done,
        Err(error) => {
            tracing::warn!(request = name, error = &error as &dyn std::error::Error, "a request could not be approved");
            Outcome::Retry
        }
    }
}

fn read(request: &CertificateSigningRequest) -> Request {
    let spec = &request.spec;
    Request {
        signer: spec.signer_name.clone(),
        user: spec.username.clone().unwrap_or_default(),
        groups: spec.groups.clone().unwrap_or_default(),
        usages: spec.usages.clone().unwrap_or_default(),
        pem: spec.request.0.clone(),
        created: request.creation_timestamp().map(|time| time.0),
        decided: is_decided(request),
    }
}

fn is_decided(request: &CertificateSigningRequest) -> bool {
    request
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref())
        .is_some_and(|conditions| !conditions.is_empty())
}

/// Machines are known by their objects, and by tokens that were made for one machine and were used.
fn known(leading: &Leading) -> Known {
    let world = &leading.world;
    let machines = world.machines.all();
    let mut machines: Vec<Machine> =
        machines.iter().filter(|one| one.metadata.deletion_timestamp.is_none()).map(|one| machine(one)).collect();
    machines.extend(world.tokens.all().iter().filter_map(|token| {
        let name = token.spec.machine.clone()?;
        let used: Timestamp = token.status.as_ref()?.last_used.as_ref()?.0;
        Some(Machine { names: BTreeSet::from([name]), since: Some(used), ..Machine::default() })
    }));
    Known {
        bootstrapper: format!("system:serviceaccount:{}:{}", leading.namespace(), operate::workloads::BOOTSTRAPPER),
        machines,
        nodes: world.nodes.all().iter().map(|node| node.name.clone()).collect(),
        pending: world.requests.all().iter().filter(|request| !is_decided(request)).count(),
    }
}

fn machine(machine: &api::machine::Machine) -> Machine {
    let status = machine.status.clone().unwrap_or_default();
    let named = |address: &&k8s_openapi::api::core::v1::NodeAddress| {
        ["InternalDNS", "Hostname"].contains(&address.type_.as_str())
    };
    Machine {
        names: status.addresses.iter().filter(named).map(|address| address.address.clone()).collect(),
        addresses: status.addresses.iter().map(|address| address.address.clone()).collect(),
        node: status.node_ref.and_then(|node| node.name),
        since: machine.creation_timestamp().map(|time| time.0),
    }
}
