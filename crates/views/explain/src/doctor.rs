//! Looks for every failure we know of, says what it means, and what repairs it.
//!
//! A repair is a value: whoever asked carries it out, after a person agreed. Only what cannot lose anything is offered.

mod installation;
mod machines;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::node::{is_mismatch, is_missing_config, nobody_works};
use crate::pool::render_problem;
use crate::snapshot::{Member, NodeFacts, PoolFacts, Snapshot};
use crate::{Input, Move, ago};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// A short name of the failure, for programs.
    pub id: &'static str,
    pub severity: Severity,
    /// What it is about, as `kind/name`.
    pub subject: String,
    /// What is wrong, in one sentence.
    pub problem: String,
    /// What comes of it.
    pub effect: String,
    /// What a person can do.
    pub moves: Vec<Move>,
    /// What we can do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Severity {
    /// Something is stopped or lost until somebody acts.
    Problem,
    /// It will become one.
    Warning,
}

/// A repair and what it is called when somebody is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fix {
    /// Completes "Shall I …?"
    pub what: String,
    pub repair: Repair,
}

/// One write that repairs something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Repair {
    /// Make a rendered config again from its archive.
    RestoreConfig { name: String },
    /// Set an annotation of a node.
    AnnotateNode { node: String, key: &'static str, value: String },
    /// Set `spec.paused` of a pool to false.
    Unpause { pool: String },
    /// Take a finalizer off a KubeletConfig or ContainerRuntimeConfig.
    RemoveFinalizers { kind: &'static str, name: String, finalizers: Vec<String> },
    /// Scale a Deployment to one.
    Scale { namespace: String, deployment: String },
    /// Delete a pod, so that its DaemonSet makes it anew.
    RestartPod { namespace: String, pod: String },
    /// Go back to the last config that every node had.
    Rollback { pool: String },
}

/// Certificates are renewed weeks before their end; one that has less than this left was forgotten.
const EXPIRES_SOON: SignedDuration = SignedDuration::from_hours(7 * 24);
/// A pause that lasts longer than this was probably forgotten.
const LONG_PAUSE: SignedDuration = SignedDuration::from_hours(24);
/// Kubelets report every few seconds, and a restart of one is over by then.
const AWAY: SignedDuration = SignedDuration::from_mins(1);
/// A deletion that is still waiting after this long waits for somebody who is not there.
const DELETING: SignedDuration = SignedDuration::from_secs(10);

/// Everything that is wrong, the worst first.
pub fn doctor(snapshot: &Snapshot) -> Vec<Finding> {
    let mut findings = Vec::new();
    workloads(snapshot, &mut findings);
    for pool in snapshot.pools.values() {
        lost_config(snapshot, pool, &mut findings);
        degraded_pool(snapshot, pool, &mut findings);
        paused_pool(snapshot, pool, &mut findings);
    }
    for node in snapshot.nodes.values() {
        one_node(snapshot, node, &mut findings);
    }
    machines::look(snapshot, &mut findings);
    generators(snapshot, &mut findings);
    certificates(snapshot, &mut findings);
    installation::look(snapshot, &mut findings);
    findings.sort_by_key(|finding| finding.severity);
    findings
}

fn lost_config(snapshot: &Snapshot, pool: &PoolFacts, findings: &mut Vec<Finding>) {
    let mut users: std::collections::BTreeMap<&str, Vec<String>> = std::collections::BTreeMap::new();
    for config in [Some(&pool.target), pool.last_good.as_ref()].into_iter().flatten().filter(|name| !name.is_empty()) {
        users.entry(config).or_default();
    }
    for node in snapshot.nodes_of(&pool.name) {
        for config in [&node.current, &node.desired].into_iter().flatten() {
            let list = users.entry(config).or_default();
            if !list.contains(&node.name) {
                list.push(node.name.clone());
            }
        }
    }
    for (config, nodes) in users.into_iter().filter(|(config, _)| snapshot.is_gone(config)) {
        let used = match nodes.len() {
            0 => format!("pool {} refers to it", pool.name),
            _ => format!("pool {} and the nodes {} refer to it", pool.name, nodes.join(", ")),
        };
        let can = snapshot.archived.contains(config);
        findings.push(Finding {
            id: "rendered-config-deleted",
            severity: Severity::Problem,
            subject: format!("machineconfig/{config}"),
            problem: format!("the rendered config {config} was deleted while in use: {used}"),
            effect: "nodes that have to read it become Degraded, and no new machine can join the pool".to_owned(),
            moves: if can { Vec::new() } else { lost_moves(snapshot, pool, config) },
            fix: can.then(|| Fix {
                what: format!("make {config} again from its archive"),
                repair: Repair::RestoreConfig { name: config.to_owned() },
            }),
        });
    }
}

/// Ways out where a lost config cannot be made again from an archive.
fn lost_moves(snapshot: &Snapshot, pool: &PoolFacts, config: &str) -> Vec<Move> {
    let shall = |node: &&NodeFacts| node.desired.as_deref().or(node.current.as_deref()) == Some(config);
    let nodes: Vec<&str> = snapshot.nodes_of(&pool.name).filter(shall).map(|node| node.name.as_str()).collect();
    crate::node::bring_back(snapshot, pool, config, &nodes)
}

fn degraded_pool(snapshot: &Snapshot, pool: &PoolFacts, findings: &mut Vec<Finding>) {
    let name = &pool.name;
    if let Some(problem) = render_problem(pool) {
        findings.push(Finding {
            id: "pool-cannot-render",
            severity: Severity::Problem,
            subject: format!("machineconfigpool/{name}"),
            problem,
            effect: "the pool keeps its last config; later changes do not reach its nodes".to_owned(),
            moves: crate::pool::take_away(pool).into_iter().chain(crate::pool::see_fragments(pool)).collect(),
            fix: None,
        });
    }
    if let Some(problem) = crate::pool::refused(pool) {
        findings.push(Finding {
            id: "pool-refused-by-hosts",
            severity: Severity::Problem,
            subject: format!("machineconfigpool/{name}"),
            problem,
            effect: "no node of the pool gets this change or a later one that has it too".to_owned(),
            moves: crate::pool::way_out(pool),
            fix: None,
        });
    }
    let members = snapshot.nodes_of(name).filter(|node| node.is_degraded() && !is_mismatch(node));
    let failed: Vec<_> = members.filter(|node| !is_missing_config(snapshot, node)).collect();
    let reverted = pool.held.first();
    if failed.is_empty() && reverted.is_none() {
        return;
    }
    let good = pool.last_good.as_deref().filter(|good| *good != pool.target && snapshot.archived.contains(*good));
    let problem = match (failed.first(), reverted) {
        (Some(node), _) => format!(
            "pool {name} is stuck after a change to {}: node {} says: {}",
            pool.target,
            node.name,
            node.reason.as_deref().unwrap_or("no reason given")
        ),
        (None, Some(held)) => format!(
            "pool {name} is stuck: node {} tried {} and went back{}",
            held.node,
            held.config,
            held.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default()
        ),
        (None, None) => return,
    };
    findings.push(Finding {
        id: "pool-stuck-after-change",
        severity: Severity::Problem,
        subject: format!("machineconfigpool/{name}"),
        problem,
        effect: "no further node gets the change, and the failed ones hold places of the budget".to_owned(),
        moves: stuck_moves(pool, failed.first().copied()),
        fix: good.map(|good| Fix {
            what: format!("roll pool {name} back to {good}"),
            repair: Repair::Rollback { pool: name.clone() },
        }),
    });
}

fn stuck_moves(pool: &PoolFacts, failed: Option<&NodeFacts>) -> Vec<Move> {
    let before = pool.last_good.as_ref().or_else(|| failed?.current.as_ref()).filter(|before| **before != pool.target);
    let see = before.map(|before| Move::new("see what changed", format!("machinist diff {before} {}", pool.target)));
    see.into_iter().chain(crate::pool::take_away(pool)).chain(crate::node::roll_back(pool)).collect()
}

fn paused_pool(snapshot: &Snapshot, pool: &PoolFacts, findings: &mut Vec<Finding>) {
    if !pool.paused {
        return;
    }
    let name = &pool.name;
    let since = pool.pause.as_ref().and_then(|pause| pause.since);
    let by = pool.pause.as_ref().map(ToString::to_string).unwrap_or_default();
    let lasts = since.map(|since| format!(" for {}", ago(since, snapshot.now))).unwrap_or_default();
    let is_long = since.is_some_and(|since| snapshot.now.duration_since(since) > LONG_PAUSE);
    let waits = snapshot.nodes_of(name).filter(|node| node.desired.as_deref() != Some(&pool.target)).count();
    if !is_long && waits == 0 {
        return;
    }
    findings.push(Finding {
        id: "pool-paused",
        severity: Severity::Warning,
        subject: format!("machineconfigpool/{name}"),
        problem: match snapshot.unread.why(Input::Nodes) {
            Some(why) => {
                format!("pool {name} has been paused{lasts}{by}; how many of its nodes wait is not known: {why}")
            }
            None => format!("pool {name} has been paused{lasts}{by}; {waits} of its nodes wait for {}", pool.target),
        },
        effect: "its nodes get no change of their config; certificates reach them all the same".to_owned(),
        moves: vec![crate::pool::unpause(name)],
        fix: Some(Fix { what: format!("unpause pool {name}"), repair: Repair::Unpause { pool: name.clone() } }),
    });
}

fn one_node(snapshot: &Snapshot, node: &NodeFacts, findings: &mut Vec<Finding>) {
    let pool = match &node.member {
        Member::Pool(pool) => snapshot.pools.get(pool),
        Member::Contested(_) | Member::Unmanaged | Member::Born(_) if node.is_windows => return,
        // The controller labels it within moments, and whether that runs is looked at by itself.
        Member::Born(_) => return,
        // Where pools were not read, no node is known to follow none.
        Member::Contested(_) | Member::Unmanaged if snapshot.unread.why(Input::Pools).is_some() => return,
        Member::Contested(_) | Member::Unmanaged => return findings.extend(homeless(snapshot, node)),
    };
    let Some(pool) = pool else { return };
    if !node.blockers.is_empty() && node.is_draining {
        findings.push(held_drain(snapshot, node));
    }
    if is_mismatch(node) {
        findings.push(mismatch(node));
    }
    if let Some(hold) = &node.hold
        && node.current.as_deref() != Some(&pool.target)
    {
        findings.push(kept_back(node, pool, hold));
    }
    if nobody_works(snapshot, node, pool) && !is_missing_config(snapshot, node) {
        findings.push(idle(node));
    } else if let Some(since) = node.ready_since
        && !node.ready
        && !node.rebooting
        && snapshot.now.duration_since(since) > AWAY
    {
        findings.push(away(snapshot, node, since));
    }
}

fn homeless(snapshot: &Snapshot, node: &NodeFacts) -> Option<Finding> {
    let explanation = crate::node(snapshot, &node.name)?;
    let contested = matches!(node.member, Member::Contested(_));
    Some(Finding {
        id: if contested { "node-in-two-pools" } else { "node-in-no-pool" },
        severity: if contested { Severity::Problem } else { Severity::Warning },
        subject: format!("node/{}", node.name),
        problem: format!("node {}: {}", node.name, explanation.summary),
        effect: "it gets no config, no certificate and no update".to_owned(),
        moves: explanation.moves,
        fix: None,
    })
}

fn held_drain(snapshot: &Snapshot, node: &NodeFacts) -> Finding {
    let lasts = node.drain_started.map(|since| format!(" for {}", ago(since, snapshot.now))).unwrap_or_default();
    let pods: Vec<_> = node.blockers.iter().map(ToString::to_string).collect();
    let mut moves: Vec<Move> = Vec::new();
    for step in node.blockers.iter().flat_map(crate::Blocker::moves) {
        if !moves.contains(&step) {
            moves.push(step);
        }
    }
    Finding {
        id: "drain-held-by-budget",
        severity: Severity::Problem,
        subject: format!("node/{}", node.name),
        problem: format!("the drain of node {} is held{lasts}: {}", node.name, pods.join("; ")),
        effect: "the node keeps its place of the budget, and the rollout waits behind it".to_owned(),
        moves,
        fix: None,
    }
}

fn mismatch(node: &NodeFacts) -> Finding {
    let target = node.desired.clone().or_else(|| node.current.clone()).unwrap_or_default();
    Finding {
        id: "content-mismatch",
        severity: Severity::Problem,
        subject: format!("node/{}", node.name),
        problem: format!(
            "node {} is not what it says it is: {}",
            node.name,
            node.reason.as_deref().unwrap_or_default()
        ),
        effect: "the node stays Degraded and takes no update, so that the hand-made change is not lost unseen"
            .to_owned(),
        moves: vec![crate::node::blame(node)],
        fix: Some(Fix {
            what: format!("write the files of {target} anew on node {}", node.name),
            repair: Repair::AnnotateNode { node: node.name.clone(), key: api::annotations::FORCE, value: target },
        }),
    }
}

/// A hold is somebody's wish, so nothing is offered but the command that ends it.
fn kept_back(node: &NodeFacts, pool: &PoolFacts, hold: &str) -> Finding {
    let (name, runs) = (&node.name, node.current.as_deref().unwrap_or("no config"));
    let why = if hold.is_empty() { String::new() } else { format!(": {hold}") };
    Finding {
        id: "node-held",
        severity: Severity::Warning,
        subject: format!("node/{name}"),
        problem: format!("a person holds node {name} on {runs}{why}"),
        effect: format!("it does not get {}, and its pool counts it as not updated", pool.target),
        moves: vec![crate::node::let_go(name)],
        fix: None,
    }
}

fn away(snapshot: &Snapshot, node: &NodeFacts, since: Timestamp) -> Finding {
    let (name, lasts) = (&node.name, ago(since, snapshot.now));
    let machine = snapshot.machines.values().find(|machine| machine.node.as_deref() == Some(name));
    let check = machine.and_then(|machine| snapshot.health_checks.iter().find(|check| check.chooses(machine)));
    let unread = [Input::Machines, Input::HealthChecks].into_iter().find_map(|input| snapshot.unread.why(input));
    let effect = match (machine, check) {
        (_, Some(check)) => format!("MachineHealthCheck {} replaces its machine when its timeout is over", check.name),
        (_, None) if unread.is_some() => {
            format!("whether anything replaces it is not known: {}", unread.unwrap_or_default())
        }
        (Some(_), None) => "no MachineHealthCheck chooses its machine, so nothing replaces it".to_owned(),
        (None, None) => "no Machine stands for it, so nothing replaces it".to_owned(),
    };
    let mut moves = vec![
        Move::new("see what the kubelet last said", format!("kubectl describe node {name}")),
        Move::new("look at the kubelet, on the node", "systemctl status kubelet"),
    ];
    moves
        .extend(machine.map(|machine| Move::new("see its machine", format!("machinist why machine {}", machine.name))));
    Finding {
        id: "node-not-ready",
        severity: Severity::Problem,
        subject: format!("node/{name}"),
        problem: format!("node {name} has not been Ready for {lasts}"),
        effect,
        moves,
        fix: None,
    }
}

fn idle(node: &NodeFacts) -> Finding {
    let target = node.desired.as_deref().unwrap_or_default();
    let who = if node.ready { "its daemon does not answer" } else { "the machine is NotReady" };
    let repair = node.daemon_pod.as_ref().filter(|_| node.ready).map(|pod| Fix {
        what: format!("restart pod {pod}, the daemon of node {}", node.name),
        repair: Repair::RestartPod { namespace: api::names::NAMESPACE.to_owned(), pod: pod.clone() },
    });
    Finding {
        id: "nobody-is-working",
        severity: Severity::Problem,
        subject: format!("node/{}", node.name),
        problem: format!(
            "node {} shall reach {target} from {}, and nobody is working on it: {who}",
            node.name,
            node.current.as_deref().unwrap_or("nothing")
        ),
        effect: "the node keeps its place of the budget, and the rollout waits behind it".to_owned(),
        moves: vec![
            Move::new("see the machine", format!("kubectl describe node {}", node.name)),
            Move::new("look at the daemon, on the node", "systemctl status machinistd"),
        ],
        fix: repair,
    }
}

fn generators(snapshot: &Snapshot, findings: &mut Vec<Finding>) {
    for generator in &snapshot.generators {
        let (kind, name) = (generator.kind, &generator.name);
        if let Some(since) = generator.deleting_since
            && snapshot.now.duration_since(since) > DELETING
            && !generator.dangling.is_empty()
        {
            findings.push(Finding {
                id: "dangling-finalizer",
                severity: Severity::Problem,
                subject: format!("{kind}/{name}"),
                problem: format!(
                    "{kind} {name} has been going away for {}: its finalizers {} stand for MachineConfigs that do not exist",
                    ago(since, snapshot.now),
                    generator.dangling.join(", ")
                ),
                effect: "it never goes, and another of the same name cannot be made".to_owned(),
                moves: vec![],
                fix: Some(Fix {
                    what: format!("take the finalizers {} off {kind} {name}", generator.dangling.join(", ")),
                    repair: Repair::RemoveFinalizers { kind, name: name.clone(), finalizers: generator.dangling.clone() },
                }),
            });
        } else if let Some(failure) = &generator.failure {
            findings.push(Finding {
                id: "generator-failed",
                severity: Severity::Problem,
                subject: format!("{kind}/{name}"),
                problem: format!("{kind} {name} is not in force: {failure}"),
                effect: "nodes keep the settings they had".to_owned(),
                moves: vec![Move::new("mend it", format!("kubectl edit {kind} {name}"))],
                fix: None,
            });
        }
    }
}

fn workloads(snapshot: &Snapshot, findings: &mut Vec<Finding>) {
    for workload in &snapshot.workloads {
        let crate::Workload { namespace, name, replicas, available, unscheduled: _ } = workload;
        if *replicas == 0 {
            findings.push(Finding {
                id: "scaled-to-zero",
                severity: Severity::Problem,
                subject: format!("deployment/{name}"),
                problem: format!("deployment {name} in {namespace} is scaled to 0, so nobody does its work"),
                effect: "changes are accepted and nothing happens".to_owned(),
                moves: vec![Move::new("start it", format!("kubectl -n {namespace} scale deploy/{name} --replicas=1"))],
                fix: Some(Fix {
                    what: format!("scale deployment {name} to 1"),
                    repair: Repair::Scale { namespace: namespace.clone(), deployment: name.clone() },
                }),
            });
        } else if *available == 0 {
            findings.push(Finding {
                id: "not-running",
                severity: Severity::Problem,
                subject: format!("deployment/{name}"),
                problem: format!("no pod of deployment {name} in {namespace} is available"),
                effect: "changes are accepted and nothing happens".to_owned(),
                moves: vec![Move::new("see why", format!("kubectl -n {namespace} describe deploy {name}"))],
                fix: None,
            });
        }
    }
}

fn certificates(snapshot: &Snapshot, findings: &mut Vec<Finding>) {
    for certificate in &snapshot.certificates {
        let left = certificate.not_after.duration_since(snapshot.now);
        if left >= EXPIRES_SOON {
            continue;
        }
        let ended = left.is_negative() || left.is_zero();
        let (verb, subject) = (if ended { "ended" } else { "ends" }, &certificate.subject);
        findings.push(Finding {
            id: "certificate-expired",
            severity: if ended { Severity::Problem } else { Severity::Warning },
            subject: format!("certificate/{}", certificate.bundle),
            problem: format!("certificate {subject} of {} {verb} {}", certificate.bundle, at(certificate.not_after)),
            effect: "what trusts it stops talking: logs and exec first, then nodes drop out".to_owned(),
            moves: vec![
                Move::new(
                    "see whether the operator runs, which renews its own",
                    format!("kubectl -n {} get deploy machine-config-operator", api::names::NAMESPACE),
                ),
                Move::new("approve what nodes ask for", "kubectl get csr"),
            ],
            fix: None,
        });
    }
}

/// A time to the minute; nobody needs its nanoseconds.
fn at(time: Timestamp) -> String {
    let text = time.to_string();
    format!("on {} at {} UTC", text.get(..10).unwrap_or(&text), text.get(11..16).unwrap_or_default())
}
