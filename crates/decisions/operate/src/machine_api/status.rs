//! How the Machine API's operator reads: the status of `ClusterOperator/machine-api`, in upstream's words.

use api::config::{ClusterOperatorCondition, ClusterOperatorRelatedObject, ClusterOperatorStatus, OperandVersion};
use api::names::{MACHINE_API_CLUSTER_OPERATOR, status};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{CONTROLLERS, OPERATOR};
use crate::status::{condition, headline, named, timed};
use crate::trouble::Workload;

/// What the status is made from.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub now: Timestamp,
    pub namespace: String,
    pub version: String,
    pub present: ClusterOperatorStatus,
    pub state: State,
    /// Each names its object and the fix.
    pub troubles: Vec<String>,
}

/// What the operator is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The controllers are deployed; absent while their Deployment was not seen yet.
    Deploys(Option<Workload>),
    /// Nothing is to be deployed, for this reason.
    NoOp(String),
    /// What is to be deployed is not known.
    Unknown,
}

pub fn plan(snapshot: &Snapshot) -> ClusterOperatorStatus {
    let Snapshot { now, version, present, state, .. } = snapshot;
    let mut troubles = snapshot.troubles.clone();
    if let State::Deploys(Some(workload)) = state
        && let Some(why) = workload.stuck.as_ref().filter(|_| !workload.is_ready())
    {
        troubles.push(format!("{}: {why}", workload.describe()));
    }
    let is_done = troubles.is_empty() && waiting_for(state).is_none();
    let operand = OperandVersion { name: "operator".to_owned(), version: version.clone() };
    let versions = if is_done { vec![operand] } else { present.versions.clone() };
    let conditions = vec![
        available(snapshot, is_done),
        progressing(snapshot, is_done),
        degraded(snapshot, &troubles),
        condition("Upgradeable", true, "AsExpected", ""),
    ];
    let message = headline(&conditions).or_else(|| no_op(state));
    ClusterOperatorStatus {
        extension: Some(message.map_or_else(|| json!({}), |message| json!({"message": message}))),
        conditions: conditions.into_iter().map(|condition| timed(condition, present, *now)).collect(),
        related_objects: related(&snapshot.namespace),
        versions,
    }
}

/// The object that the status belongs to.
pub fn object() -> Value {
    named(MACHINE_API_CLUSTER_OPERATOR)
}

/// What has to happen before this version counts as deployed.
fn waiting_for(state: &State) -> Option<String> {
    match state {
        State::NoOp(_) => None,
        State::Deploys(Some(workload)) if workload.is_ready() => None,
        State::Deploys(Some(workload)) => Some(workload.describe()),
        State::Deploys(None) => Some(format!("deployment {CONTROLLERS} is being made")),
        State::Unknown => Some("it is not known yet what to deploy".to_owned()),
    }
}

fn no_op(state: &State) -> Option<String> {
    match state {
        State::NoOp(why) => Some(format!("Cluster Machine API Operator is in NoOp mode: {why}")),
        State::Deploys(_) | State::Unknown => None,
    }
}

/// Once available it stays so: whatever is wrong with the controllers, machines that run go on.
fn available(snapshot: &Snapshot, is_done: bool) -> ClusterOperatorCondition {
    let was = snapshot.present.conditions.iter().any(|one| one.type_ == "Available" && one.status == status::TRUE);
    if !is_done && !was {
        return condition("Available", false, "Initializing", "Operator is initializing");
    }
    let available = format!("Cluster Machine API Operator is available at operator: {}", reported(snapshot, is_done));
    condition("Available", true, "AsExpected", no_op(&snapshot.state).unwrap_or(available))
}

fn reported(snapshot: &Snapshot, is_done: bool) -> &str {
    let old = snapshot.present.versions.iter().find(|one| one.name == "operator").map(|one| one.version.as_str());
    if is_done { &snapshot.version } else { old.unwrap_or(&snapshot.version) }
}

/// Whether another version than this one was reported last, or none.
fn is_new(snapshot: &Snapshot) -> bool {
    !snapshot.present.versions.iter().any(|one| one.name == "operator" && one.version == snapshot.version)
}

fn progressing(snapshot: &Snapshot, is_done: bool) -> ClusterOperatorCondition {
    match waiting_for(&snapshot.state) {
        Some(what) if is_new(snapshot) => {
            let text = format!("Progressing towards operator: {}: {what}", snapshot.version);
            condition("Progressing", true, "SyncingResources", text)
        }
        // Without this nobody would see that the controllers are replaced after an edit.
        Some(what) => condition("Progressing", true, "SyncingResources", what),
        None if is_new(snapshot) && !is_done => {
            let text = format!("Progressing towards operator: {}", snapshot.version);
            condition("Progressing", true, "SyncingResources", text)
        }
        None => condition("Progressing", false, "AsExpected", ""),
    }
}

fn degraded(snapshot: &Snapshot, troubles: &[String]) -> ClusterOperatorCondition {
    if troubles.is_empty() {
        return condition("Degraded", false, "AsExpected", "");
    }
    let (version, all) = (&snapshot.version, troubles.join("; "));
    let text = if is_new(snapshot) {
        format!("Failed when progressing towards operator: {version} because {all}")
    } else {
        format!("Failed to resync for operator: {version} because {all}")
    };
    condition("Degraded", true, "SyncingFailed", text)
}

/// What to look at when something is wrong; `must-gather` and its kin collect it.
fn related(namespace: &str) -> Vec<ClusterOperatorRelatedObject> {
    let object = |group: &str, resource: &str, name: &str, of: Option<&str>| ClusterOperatorRelatedObject {
        group: group.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        namespace: of.map(str::to_owned),
    };
    let rbac = "rbac.authorization.k8s.io";
    let mut all = vec![object("", "namespaces", namespace, None)];
    for resource in ["machines", "machinesets", "machinehealthchecks"] {
        all.push(object(api::machine::GROUP, resource, "", Some(namespace)));
    }
    all.push(object(rbac, "roles", "", Some(namespace)));
    all.extend([OPERATOR, CONTROLLERS].map(|name| object(rbac, "clusterroles", name, None)));
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::needless_pass_by_value)]

    use expect_test::{Expect, expect};

    use super::*;
    use crate::objects::Step;

    fn workload(ready: i64) -> Workload {
        let status = json!({"observedGeneration": 1, "updatedReplicas": 1, "readyReplicas": ready});
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": status, "spec": {"replicas": 1},
            "metadata": {"name": CONTROLLERS, "namespace": "ns", "generation": 1}});
        Workload::from_object(Step::MachineApi, &object)
    }

    fn snapshot(state: State) -> Snapshot {
        Snapshot {
            now: Timestamp::UNIX_EPOCH,
            namespace: "ns".into(),
            version: "2".into(),
            present: ClusterOperatorStatus::default(),
            state,
            troubles: Vec::new(),
        }
    }

    #[track_caller]
    fn check(snapshot: &Snapshot, expected: Expect) -> ClusterOperatorStatus {
        let status = plan(snapshot);
        let version = status.versions.first().map(|one| one.version.clone()).unwrap_or_default();
        let word = |one: &ClusterOperatorCondition| format!("{}={}", one.type_, one.status);
        let words: Vec<String> = status.conditions.iter().map(word).collect();
        let message = status.extension.as_ref().and_then(|map| map["message"].as_str()).unwrap_or_default();
        expected.assert_eq(&format!("{version:?} {} {message}", words.join(" ")));
        status
    }

    #[test]
    fn it_is_available_when_the_controllers_run_and_stays_so_while_they_are_replaced() {
        let mut seen = snapshot(State::Deploys(Some(workload(0))));
        seen.present = check(
            &seen,
            expect!["\"\" Available=False Progressing=True Degraded=False Upgradeable=True Operator is initializing"],
        );
        seen.state = State::Deploys(Some(workload(1)));
        seen.present = check(&seen, expect!["\"2\" Available=True Progressing=False Degraded=False Upgradeable=True "]);
        let text = seen.present.conditions[0].message.as_deref();
        assert_eq!(text, Some("Cluster Machine API Operator is available at operator: 2"));
        seen.state = State::Deploys(Some(workload(0)));
        check(
            &seen,
            expect![
                "\"2\" Available=True Progressing=True Degraded=False Upgradeable=True deployment machine-api-controllers is not ready. status: (replicas: 1, updated: 1, ready: 0, unavailable: 0)"
            ],
        );
    }

    #[test]
    fn a_new_version_is_told_when_it_is_deployed_and_not_before() {
        let mut seen = snapshot(State::Deploys(Some(workload(1))));
        seen.present = plan(&seen);
        seen.version = "3".into();
        seen.state = State::Deploys(None);
        check(
            &seen,
            expect![
                "\"2\" Available=True Progressing=True Degraded=False Upgradeable=True Progressing towards operator: 3: deployment machine-api-controllers is being made"
            ],
        );
    }

    #[test]
    fn a_platform_without_machines_is_well_and_says_why_nothing_runs() {
        check(
            &snapshot(State::NoOp("the platform has no machines to manage".into())),
            expect![
                "\"2\" Available=True Progressing=False Degraded=False Upgradeable=True Cluster Machine API Operator is in NoOp mode: the platform has no machines to manage"
            ],
        );
    }

    #[test]
    fn what_is_wrong_is_told_at_once_and_takes_nothing_away() {
        let mut seen = snapshot(State::Deploys(Some(workload(1))));
        seen.present = plan(&seen);
        seen.troubles = vec!["no image".into()];
        check(
            &seen,
            expect![
                "\"2\" Available=True Progressing=False Degraded=True Upgradeable=True Failed to resync for operator: 2 because no image"
            ],
        );
        seen.present = ClusterOperatorStatus::default();
        seen.state = State::Unknown;
        check(
            &seen,
            expect![
                "\"\" Available=False Progressing=True Degraded=True Upgradeable=True Failed when progressing towards operator: 2 because no image"
            ],
        );
    }
}
