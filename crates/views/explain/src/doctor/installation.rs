//! What goes wrong with the installation itself: its operators, its daemon's pods, certificates that nobody approves, and
//! mirrors and policies that are not in force.

use std::collections::{BTreeMap, BTreeSet};

use super::{AWAY, Finding, Severity};
use crate::snapshot::{DaemonFacts, OperatorFacts, Refused, RequestFacts, Snapshot};
use crate::{Input, Move, ago};

/// Names that one command lists at most.
const LISTED: usize = 20;

pub(super) fn look(snapshot: &Snapshot, findings: &mut Vec<Finding>) {
    for daemon in &snapshot.daemons {
        roll_out(daemon, findings);
        silent_pods(snapshot, daemon, findings);
        missing_pods(snapshot, daemon, findings);
    }
    requests(snapshot, findings);
    findings.extend(snapshot.refused.iter().map(refused));
    // An operator sums up what is wrong, and needs a moment to notice that it is not so any more: it is told where nothing
    // else was found that would explain it.
    if !findings.iter().any(|finding| finding.severity == Severity::Problem) {
        let is_long = |it: &&OperatorFacts| it.since.is_none_or(|since| snapshot.now.duration_since(since) > AWAY);
        findings.extend(snapshot.operators.iter().filter(is_long).map(operator));
    }
}

fn operator(operator: &OperatorFacts) -> Finding {
    let OperatorFacts { name, what, since: _, message } = operator;
    Finding {
        id: "operator-not-well",
        severity: Severity::Problem,
        subject: format!("clusteroperator/{name}"),
        problem: format!("ClusterOperator {name} is {what}: {message}"),
        effect: "changes are perhaps accepted and do not reach nodes or machines".to_owned(),
        moves: vec![
            Move::new("see all its conditions", format!("kubectl describe clusteroperator {name}")),
            Move::new("read the operator's log", log(name)),
        ],
        fix: None,
    }
}

fn log(operator: &str) -> String {
    let (namespace, deployment) = match operator {
        "machine-api" => (api::names::MACHINE_API_NAMESPACE, "machine-api-operator"),
        _ => (api::names::NAMESPACE, "machine-config-operator"),
    };
    format!("kubectl -n {namespace} logs deploy/{deployment}")
}

fn roll_out(daemon: &DaemonFacts, findings: &mut Vec<Finding>) {
    let DaemonFacts { name, namespace, wanted, newest, pods: _ } = daemon;
    if newest >= wanted {
        return;
    }
    findings.push(Finding {
        id: "daemon-not-rolled-out",
        severity: Severity::Warning,
        subject: format!("daemonset/{name}"),
        problem: format!("the newest {name} runs on {newest} of {wanted} nodes"),
        effect: "the others run an older daemon, or none".to_owned(),
        moves: vec![Move::new("see how far it is", format!("kubectl -n {namespace} rollout status daemonset/{name}"))],
        fix: None,
    });
}

fn silent_pods(snapshot: &Snapshot, daemon: &DaemonFacts, findings: &mut Vec<Finding>) {
    for pod in &daemon.pods {
        let node = snapshot.nodes.get(&pod.node);
        let is_long = pod.since.is_none_or(|since| snapshot.now.duration_since(since) > AWAY);
        let Some(why) = pod.unready.as_ref().filter(|_| is_long && node.is_some_and(|it| it.ready && !it.rebooting))
        else {
            continue;
        };
        let (namespace, name) = (&daemon.namespace, &pod.name);
        findings.push(Finding {
            id: "daemon-not-running",
            severity: Severity::Problem,
            subject: format!("node/{}", pod.node),
            problem: format!("the daemon of node {} does not run: pod {name} is not ready: {why}", pod.node),
            effect: "the node takes no change of its config".to_owned(),
            moves: vec![
                Move::new("see why", format!("kubectl -n {namespace} describe pod {name}")),
                Move::new("read its log", format!("kubectl -n {namespace} logs {name}")),
            ],
            fix: None,
        });
    }
}

/// Nodes that the DaemonSet has left out. Where it has a pod for every node that it wants, the others are none of its.
fn missing_pods(snapshot: &Snapshot, daemon: &DaemonFacts, findings: &mut Vec<Finding>) {
    let placed: BTreeSet<&str> = daemon.pods.iter().map(|pod| pod.node.as_str()).collect();
    let wanted = usize::try_from(daemon.wanted).unwrap_or(0);
    if placed.len() >= wanted || snapshot.unread.why(Input::Nodes).is_some() {
        return;
    }
    for node in snapshot.nodes.values().filter(|node| node.ready && !node.is_windows && !node.rebooting) {
        let is_new = node.ready_since.is_some_and(|since| snapshot.now.duration_since(since) <= AWAY);
        if placed.contains(node.name.as_str()) || is_new {
            continue;
        }
        let DaemonFacts { name, namespace, .. } = daemon;
        findings.push(Finding {
            id: "daemon-not-running",
            severity: Severity::Problem,
            subject: format!("node/{}", node.name),
            problem: format!("node {} has no pod of DaemonSet {name}", node.name),
            effect: "the node takes no change of its config".to_owned(),
            moves: vec![Move::new("see why", format!("kubectl -n {namespace} describe daemonset {name}"))],
            fix: None,
        });
    }
}

/// One finding for everybody who asks: a kubelet that gets no answer asks again and again.
fn requests(snapshot: &Snapshot, findings: &mut Vec<Finding>) {
    let mut askers: BTreeMap<&str, Vec<&RequestFacts>> = BTreeMap::new();
    let is_old = |request: &&RequestFacts| request.since.is_none_or(|since| snapshot.now.duration_since(since) > AWAY);
    for request in snapshot.requests.iter().filter(is_old) {
        askers.entry(&request.user).or_default().push(request);
    }
    for (user, requests) in askers {
        let lasts = requests.iter().filter_map(|request| request.since).min();
        let lasts = lasts.map(|since| format!(" for {}", ago(since, snapshot.now))).unwrap_or_default();
        let names: Vec<&str> = requests.iter().map(|request| request.name.as_str()).take(LISTED).collect();
        let names = names.join(" ");
        let what = match requests.len() {
            1 => format!("certificate request {names} of {user} waits"),
            count => format!("{count} certificate requests of {user} wait"),
        };
        findings.push(Finding {
            id: "certificate-not-approved",
            severity: Severity::Warning,
            subject: format!("csr/{}", requests[0].name),
            problem: format!("{what}{lasts} for approval"),
            effect: "a new node cannot join without it, and logs and exec of one that has joined stop".to_owned(),
            moves: vec![
                Move::new("see what is asked for, and why it was left to you", format!("kubectl describe csr {names}")),
                Move::new("approve it, if the machine is yours", format!("kubectl certificate approve {names}")),
            ],
            fix: None,
        });
    }
}

fn refused(refused: &Refused) -> Finding {
    let Refused { kind, namespace, name, why } = refused;
    let within = namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    Finding {
        id: "not-in-force",
        severity: Severity::Problem,
        subject: format!("{kind}/{name}"),
        problem: format!("{kind} {name} is not in force: {why}"),
        effect: "nodes pull and verify images as they did before it".to_owned(),
        moves: vec![Move::new("mend it", format!("kubectl{within} edit {kind} {name}"))],
        fix: None,
    }
}
