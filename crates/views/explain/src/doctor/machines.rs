//! What goes wrong with Machines: instances claimed twice, machines that failed or never joined, sets that get no capacity,
//! health checks that are held back or disagree.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Severity};
use crate::machine::{contest, is_starved, joining_moves, never_joined};
use crate::snapshot::{HealthCheckFacts, MachineFacts, Snapshot};
use crate::{Move, ago};

pub(super) fn look(snapshot: &Snapshot, findings: &mut Vec<Finding>) {
    contested(snapshot, findings);
    for machine in snapshot.machines.values() {
        if machine.phase == api::machine::phase::FAILED && machine.deleting_since.is_none() {
            findings.push(failed(machine));
        } else if never_joined(snapshot, machine) {
            findings.push(lost(snapshot, machine));
        }
    }
    starved(snapshot, findings);
    braked(snapshot, findings);
    disagreeing(snapshot, findings);
}

/// One finding for each instance that several Machines name.
fn contested(snapshot: &Snapshot, findings: &mut Vec<Finding>) {
    let mut told = BTreeSet::new();
    for machine in snapshot.machines.values() {
        let Some(contest) = contest(snapshot, machine) else { continue };
        if !told.insert(contest.provider_id) {
            continue;
        }
        findings.push(Finding {
            id: "machine-contested",
            severity: Severity::Problem,
            subject: format!("machine/{}", contest.copy().map_or(&machine.name, |copy| &copy.name)),
            problem: format!("machines {} both name instance {}", contest.names(), contest.provider_id),
            effect: "the provider is called for neither until one of them lets go".to_owned(),
            moves: contest.moves(),
            fix: None,
        });
    }
}

fn failed(machine: &MachineFacts) -> Finding {
    let MachineFacts { name, namespace, .. } = machine;
    let effect = match &machine.set {
        Some(set) => format!("it still counts as a replica of MachineSet {set}, so nothing replaces it"),
        None => "it does not recover by itself".to_owned(),
    };
    Finding {
        id: "machine-failed",
        severity: Severity::Problem,
        subject: format!("machine/{name}"),
        problem: format!(
            "machine {name} has failed: {}",
            machine.error.as_deref().unwrap_or("its controller gave no reason")
        ),
        effect,
        moves: vec![Move::new("delete it", format!("kubectl -n {namespace} delete machine {name}"))],
        fix: None,
    }
}

fn lost(snapshot: &Snapshot, machine: &MachineFacts) -> Finding {
    let age = machine.created.map(|created| ago(created, snapshot.now)).unwrap_or_default();
    let stopped = machine.not_joined.as_ref().map(|trouble| format!(": {}", trouble.message)).unwrap_or_default();
    Finding {
        id: "machine-never-joined",
        severity: Severity::Problem,
        subject: format!("machine/{}", machine.name),
        problem: format!("machine {} was made {age} ago and has not become a node{stopped}", machine.name),
        effect: "its instance costs money and does no work".to_owned(),
        moves: joining_moves(machine),
        fix: None,
    }
}

/// One finding for each set whose machines the provider has no room for.
fn starved(snapshot: &Snapshot, findings: &mut Vec<Finding>) {
    let mut sets: BTreeMap<(&str, &str), Vec<&MachineFacts>> = BTreeMap::new();
    for machine in snapshot.machines.values().filter(|machine| is_starved(machine)) {
        if let Some(set) = &machine.set {
            sets.entry((&machine.namespace, set)).or_default().push(machine);
        }
    }
    for ((namespace, set), machines) in sets {
        let said = machines.first().and_then(|machine| machine.not_created.as_ref()).map(|it| it.message.as_str());
        let (count, word) = (machines.len(), if machines.len() == 1 { "machine" } else { "machines" });
        findings.push(Finding {
            id: "machineset-starved",
            severity: Severity::Problem,
            subject: format!("machineset/{set}"),
            problem: format!("MachineSet {set} gets no instance for {count} {word}: {}", said.unwrap_or_default()),
            effect: "the provider is asked again and again; the set stays smaller than it should be".to_owned(),
            moves: vec![
                Move::new(
                    "make machines of another type or in another place",
                    format!("kubectl -n {namespace} edit machineset {set}"),
                ),
                Move::new("see the other sets", format!("kubectl -n {namespace} get machinesets")),
            ],
            fix: None,
        });
    }
}

/// Checks that see unhealthy machines and replace none of them.
fn braked(snapshot: &Snapshot, findings: &mut Vec<Finding>) {
    for check in &snapshot.health_checks {
        let (Some(held), HealthCheckFacts { name, namespace, .. }) = (&check.held, check) else { continue };
        findings.push(Finding {
            id: "health-check-held",
            severity: Severity::Problem,
            subject: format!("machinehealthcheck/{name}"),
            problem: format!("MachineHealthCheck {name} replaces no machine: {}", held.message),
            effect: "unhealthy machines stay as they are until the check may act again".to_owned(),
            moves: vec![
                Move::new("see which nodes are unhealthy", "kubectl get nodes"),
                Move::new(
                    "see how many it may replace at once",
                    format!("kubectl -n {namespace} describe machinehealthcheck {name}"),
                ),
            ],
            fix: None,
        });
    }
}

/// Two checks that choose one machine by the same condition and do not agree about it.
fn disagreeing(snapshot: &Snapshot, findings: &mut Vec<Finding>) {
    for (index, one) in snapshot.health_checks.iter().enumerate() {
        for other in &snapshot.health_checks[index + 1..] {
            let both = snapshot.machines.values().find(|machine| one.chooses(machine) && other.chooses(machine));
            let (Some(machine), Some(difference)) = (both, difference(one, other)) else { continue };
            let HealthCheckFacts { name, namespace, .. } = other;
            findings.push(Finding {
                id: "health-checks-disagree",
                severity: Severity::Warning,
                subject: format!("machinehealthcheck/{name}"),
                problem: format!(
                    "MachineHealthChecks {} and {name} both choose machine {} and disagree: {difference}",
                    one.name, machine.name
                ),
                effect: "each acts on its own, so the shorter time and the larger allowance decide".to_owned(),
                moves: vec![
                    Move::new("compare them", format!("kubectl -n {namespace} get machinehealthcheck -o yaml")),
                    Move::new(
                        "leave each machine to one of them",
                        format!("kubectl -n {namespace} edit machinehealthcheck {name}"),
                    ),
                ],
                fix: None,
            });
        }
    }
}

/// What two checks disagree on. Those that look for different conditions complete each other.
fn difference(one: &HealthCheckFacts, other: &HealthCheckFacts) -> Option<String> {
    let pairs = one.symptoms.iter().flat_map(|mine| other.symptoms.iter().map(move |theirs| (mine, theirs)));
    let mut shared =
        pairs.filter(|(mine, theirs)| mine.type_ == theirs.type_ && mine.status == theirs.status).peekable();
    shared.peek()?;
    if let Some((mine, theirs)) = shared.find(|(mine, theirs)| mine.timeout != theirs.timeout) {
        return Some(format!("{}={} for {} and for {}", mine.type_, mine.status, mine.timeout, theirs.timeout));
    }
    let said = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
    let fields = [
        ("maxUnhealthy", &one.max_unhealthy, &other.max_unhealthy),
        ("nodeStartupTimeout", &one.startup_timeout, &other.startup_timeout),
        ("remediationTemplate", &one.remediation_template, &other.remediation_template),
    ];
    let field = fields.into_iter().find(|(_, mine, theirs)| mine != theirs)?;
    Some(format!("{} {} and {}", field.0, said(field.1), said(field.2)))
}
