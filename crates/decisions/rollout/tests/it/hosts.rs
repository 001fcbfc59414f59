//! Hosts that cannot take a target: nobody is asked for what it is known to refuse.

use rollout::{About, Next, REFUSED, Waiting};
use serde_json::json;

use super::world::*;

const WHY: &str = "kernel arguments cannot be changed on a host with neither bootc nor rpm-ostree";

/// Three workers, of which some say how their hosts update their operating systems.
fn snapshot(words: [&str; 3]) -> rollout::Snapshot {
    let node = |(index, word): (usize, &str)| {
        let annotations = if word.is_empty() { vec![] } else { vec![("machinist.dev/os-updates", word)] };
        node_object(&format!("worker-{index}"), OLD, annotated(&annotations))
    };
    let nodes: Vec<_> = words.into_iter().enumerate().map(node).collect();
    let pool = pool("worker", json!({"maxUnavailable": 3}));
    let pools = [pool.clone()];
    let settings = rollout::Settings { settle: jiff::SignedDuration::ZERO, ..rollout::Settings::default() };
    let objects = rollout::Objects::new(&pool, &pools, &nodes);
    let mut snapshot = rollout::Snapshot::from_objects(objects, settings, at(0));
    snapshot.observe_hosts(|current, word| (current == OLD && word == "none").then(|| WHY.to_owned()));
    snapshot
}

fn targets(plan: &rollout::Plan) -> Vec<&str> {
    let targets = plan.actions.iter().filter_map(|action| match action {
        rollout::Action::Target(target) => Some(target.node.as_str()),
        _ => None,
    });
    targets.collect()
}

fn condition<'a>(plan: &'a rollout::Plan, type_: &str) -> (&'a str, &'a str, &'a str) {
    let found = plan.status.conditions.iter().find(|condition| condition.type_ == type_).unwrap();
    (&found.status, &found.reason, &found.message)
}

#[test]
fn a_target_that_no_host_can_take_is_given_to_nobody_and_the_pool_says_so_once() {
    let mut snapshot = snapshot(["none", "none", "none"]);
    let plan = rollout::plan(&snapshot);
    assert_eq!(targets(&plan), [""; 0]);
    assert_eq!(plan.next, Next::OnChange(Waiting::Unfit { nodes: 3, why: WHY.to_owned() }));
    let message = format!("no node of the pool can take MachineConfig {NEW}, and none is asked to: {WHY}");
    assert_eq!(condition(&plan, "Degraded"), ("True", REFUSED, message.as_str()));
    let told = plan.events.iter().filter(|event| event.reason == REFUSED && event.about == About::Pool);
    assert_eq!(told.map(|event| &event.message).collect::<Vec<_>>(), [&message]);
    snapshot.pool.status = plan.status.clone();
    let again = rollout::plan(&snapshot);
    assert!(!again.events.iter().any(|event| event.reason == REFUSED), "it was said");
}

#[test]
fn where_some_hosts_can_those_go_and_the_others_are_named() {
    let plan = rollout::plan(&snapshot(["none", "rpm-ostree", "none"]));
    assert_eq!(targets(&plan), ["worker-1"]);
    assert_eq!(condition(&plan, "Degraded").0, "False");
    let (_, _, message) = condition(&plan, "Updating");
    let named = format!("cannot take it: worker-0 ({WHY}), worker-2 ({WHY})");
    assert!(message.contains(&named), "{message}");
}

#[test]
fn a_node_that_fails_at_an_older_target_gets_the_newest_although_its_host_may_refuse_it() {
    let failing = annotated(&[
        ("machinist.dev/os-updates", "none"),
        ("machineconfiguration.openshift.io/desiredConfig", "rendered-worker-broken"),
        ("machineconfiguration.openshift.io/state", "Degraded"),
    ]);
    let nodes = [node_object("worker-0", OLD, failing)];
    let pool = pool("worker", json!({"maxUnavailable": 1}));
    let pools = [pool.clone()];
    let settings = rollout::Settings { settle: jiff::SignedDuration::ZERO, ..rollout::Settings::default() };
    let mut snapshot = rollout::Snapshot::from_objects(rollout::Objects::new(&pool, &pools, &nodes), settings, at(0));
    snapshot.observe_hosts(|_, word| (word == "none").then(|| WHY.to_owned()));
    let first = rollout::plan(&snapshot);
    let is_about_it = |action: &rollout::Action| !matches!(action, rollout::Action::Fence { .. });
    assert!(first.actions.iter().any(is_about_it), "{:?} {:?}", first.actions, first.next);
    assert!(!matches!(first.next, Next::OnChange(Waiting::Unfit { .. })), "{:?}", first.next);
}

#[test]
fn a_daemon_that_says_nothing_of_its_host_is_asked_by_trying() {
    assert_eq!(targets(&rollout::plan(&snapshot(["", "", ""]))), ["worker-0", "worker-1", "worker-2"]);
}

#[test]
fn a_target_that_asks_for_less_frees_the_nodes_again() {
    let mut snapshot = snapshot(["none", "none", "none"]);
    snapshot.observe_hosts(|_, _| None);
    assert_eq!(targets(&rollout::plan(&snapshot)), ["worker-0", "worker-1", "worker-2"]);
}
