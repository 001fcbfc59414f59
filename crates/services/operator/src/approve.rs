//! Approves the certificate requests that the rules allow, and says why it leaves the others.
//!
//! Nothing is approved while nodes, Machines or tokens cannot be read: a node that merely was not seen could be taken over.

use std::collections::BTreeSet;
use std::time::Duration;

use api::known::Unread;
use cluster::events::Severity;
use cluster::{Outcome, Problem, problem, write};
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use operate::requests::{Known, Left, Machine, Request, SERVING, decide, pending};
use serde_json::json;

use crate::context::{Leading, MANAGER, Source, Work};
use crate::gather;

/// When a request is looked at again that waits for others to be decided about or to grow old.
const CROWD: Duration = Duration::from_secs(60);

/// One request; without a name, all that are open, because a machine became known.
pub(crate) async fn look(leading: &Leading, name: &str) -> Outcome {
    if name.is_empty() {
        for request in leading.world.requests.all().iter().filter(|request| !is_decided(request)) {
            leading.queue.add(Work::Approve(request.name_any()));
        }
        return Outcome::Done;
    }
    let Some(request) = leading.world.requests.named(name) else { return Outcome::Done };
    let read = read(&request);
    let known = match known(leading, read.signer == SERVING).await {
        Ok(known) => known,
        Err(unread) => {
            leading.unread(Source::Requests, Some(unread));
            return Outcome::Retry;
        }
    };
    leading.unread(Source::Requests, None);
    match decide(&read, &known) {
        Ok(node) => approve(leading, &request, &node).await,
        Err(Left::Decided | Left::OtherSigner(_)) => Outcome::Done,
        Err(reason) => {
            tracing::info!(request = name, %reason, "a certificate request is left to a person");
            let message = format!("not approved: {reason}; `kubectl certificate approve {name}` does it by hand");
            tell(leading, &request, Severity::Warning, "RequestNotApproved", &message);
            match reason {
                Left::TooMany { .. } => Outcome::Again(CROWD),
                _ => Outcome::Done,
            }
        }
    }
}

fn tell(leading: &Leading, about: &CertificateSigningRequest, severity: Severity, reason: &str, message: &str) {
    let (name, uid) = (about.name_any(), about.uid());
    leading.events.publish::<CertificateSigningRequest>(&name, uid.as_deref(), severity, reason, message);
}

async fn approve(leading: &Leading, request: &CertificateSigningRequest, node: &str) -> Outcome {
    let api: Api<CertificateSigningRequest> = Api::all(leading.client.clone());
    let message = format!("machinist knows node {node} or its machine");
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
            tell(leading, request, Severity::Normal, "RequestApproved", &message);
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

/// Machines are known by their objects, and by tokens that were made for one machine and were used. What the cluster itself
/// has is read only for certificates that could be for it.
async fn known(leading: &Leading, is_serving: bool) -> Result<Known, Unread> {
    let world = &leading.world;
    let now = Timestamp::now();
    let machines = world.machines.reading();
    let machines = machines.fresh_or_none("machines", now)?.map(|all| all.into_inner().clone()).unwrap_or_default();
    let mut machines: Vec<Machine> =
        machines.iter().filter(|one| one.metadata.deletion_timestamp.is_none()).map(|one| machine(one)).collect();
    machines.extend(world.tokens.fresh("bootstraptokens")?.iter().filter_map(|token| {
        let name = token.spec.machine.clone()?;
        let used: Timestamp = token.status.as_ref()?.last_used.as_ref()?.0;
        Some(Machine { names: BTreeSet::from([name]), since: Some(used), by_token: true, ..Machine::default() })
    }));
    let bootstrapper = format!("system:serviceaccount:{}:{}", leading.namespace(), operate::workloads::BOOTSTRAPPER);
    let requests = world.requests.fresh("certificatesigningrequests")?;
    let open = requests.iter().filter(|request| !is_decided(request));
    let nodes = world.nodes.fresh("nodes")?;
    Ok(Known {
        pending: pending(open.map(|request| read(request)), &bootstrapper, leading.now()),
        bootstrapper,
        machines,
        nodes: nodes.iter().map(|node| (node.name.clone(), node.addresses.iter().cloned().collect())).collect(),
        reserved: if is_serving { gather::gather(leading).await?.reserved() } else { BTreeSet::new() },
    })
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
        by_token: false,
    }
}
