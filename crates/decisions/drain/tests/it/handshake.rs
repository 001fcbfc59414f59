//! The protocol with the daemon.

use std::collections::{BTreeMap, BTreeSet};

use api::known::Reading;
use drain::PodFacts;
use drain::handshake::{Plan, Snapshot, plan};
use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::json;

use crate::world::{at, budget, owned, pod, refused};

fn asked(value: &str) -> Snapshot {
    Snapshot {
        node: "n1".into(),
        resource_version: "7".into(),
        desired_drain: Some(value.into()),
        pods: seen([]),
        listed_for: Some("7".into()),
        daemon_sets: Reading::known(BTreeSet::from(["shop/agent".to_owned()]), at(0)),
        withheld: Reading::known(None, at(0)),
        now: at(0),
        ..Snapshot::default()
    }
}

fn seen(pods: impl Into<Vec<PodFacts>>) -> Reading<Vec<PodFacts>> {
    Reading::known(pods.into(), at(0))
}

/// A drain that is under way: cordoned by us, with one pod left.
fn under_way() -> Snapshot {
    Snapshot {
        unschedulable: true,
        cordoned_by: Some("machinist".into()),
        started: Some(at(-30)),
        pods: seen([owned("web", "ReplicaSet")]),
        ..asked("drain-a")
    }
}

#[track_caller]
fn check(snapshot: &Snapshot, expected: Expect) {
    let Plan { actions, next, .. } = plan(snapshot);
    let actions: Vec<_> = actions
        .iter()
        .map(|action| match action {
            drain::Action::Evict(pod) => format!("Evict({})", pod.full_name()),
            other => format!("{other:?}"),
        })
        .collect();
    expected.assert_eq(&format!("{} then {next:?}", actions.join(", ")));
}

#[test]
fn nothing_happens_without_a_request_or_after_it_was_met() {
    check(&Snapshot::default(), expect![" then OnChange(Request)"]);
    check(
        &Snapshot { last_applied_drain: Some("drain-a".into()), ..asked("drain-a") },
        expect![" then OnChange(Request)"],
    );
}

#[test]
fn a_node_is_cordoned_before_any_pod_goes() {
    let schedulable = Snapshot { pods: seen([owned("web", "ReplicaSet")]), ..asked("drain-a") };
    check(
        &schedulable,
        expect![[r#"Cordon { owner: "machinist", started: 2027-01-15T08:00:00Z } then OnChange(Node)"#]],
    );
    check(&under_way(), expect!["Evict(shop/web) then OnChange(Evictions)"]);
}

#[test]
fn a_node_without_a_place_is_not_touched_and_what_has_begun_goes_on() {
    let withheld = Reading::known(Some("node n1 has no place".to_owned()), at(0));
    let waiting = Snapshot { pods: seen([owned("web", "ReplicaSet")]), withheld: withheld.clone(), ..asked("drain-a") };
    check(&waiting, expect![[r#" then OnChange(Place("node n1 has no place"))"#]]);
    check(&Snapshot { withheld: withheld.clone(), ..under_way() }, expect!["Evict(shop/web) then OnChange(Evictions)"]);
    let uncordon =
        Snapshot { unschedulable: true, cordoned_by: Some("machinist".into()), withheld, ..asked("uncordon-a") };
    check(
        &uncordon,
        expect![[r#"Confirm { value: "uncordon-a", uncordon: true, forget_owner: true } then OnChange(Node)"#]],
    );
}

#[test]
fn an_empty_node_is_confirmed() {
    let empty = Snapshot { pods: seen([owned("agent", "DaemonSet")]), ..under_way() };
    check(
        &empty,
        expect![[r#"Confirm { value: "drain-a", uncordon: false, forget_owner: false } then OnChange(Node)"#]],
    );
}

#[test]
fn a_drain_is_confirmed_only_on_pods_that_were_listed_after_the_node_was_read() {
    let empty = Snapshot { pods: seen([owned("agent", "DaemonSet")]), ..under_way() };
    let recordoned = Snapshot { listed_for: Some("6".into()), ..empty.clone() };
    check(&recordoned, expect![" then OnChange(List)"]);
    check(&Snapshot { listed_for: None, ..empty }, expect![" then OnChange(List)"]);
    let busy = Snapshot { listed_for: Some("6".into()), ..under_way() };
    check(&busy, expect!["Evict(shop/web) then OnChange(Evictions)"]);
}

#[test]
fn nothing_is_evicted_or_confirmed_on_what_could_not_be_read() {
    let agents = Snapshot { pods: seen([owned("agent", "DaemonSet"), owned("web", "ReplicaSet")]), ..under_way() };
    let failed = Snapshot { daemon_sets: Reading::Unknown("the API answered 503".into()), ..agents.clone() };
    let waits = expect![[r#" then After(5s, Unread(Unread { what: "daemonsets", why: "the API answered 503" }))"#]];
    check(&failed, waits);
    assert_eq!(plan(&failed).obstacle().as_deref(), Some("cannot read daemonsets: the API answered 503"));
    check(
        &Snapshot { now: at(121), ..agents },
        expect![[
            r#" then After(5s, Unread(Unread { what: "pods", why: "the API was last heard at 2027-01-15T08:00Z" }))"#
        ]],
    );
    let new = Snapshot { withheld: Reading::Unknown("the API answered 503".into()), ..asked("drain-a") };
    check(&new, expect![[r#" then After(5s, Unread(Unread { what: "poolledgers", why: "the API answered 503" }))"#]]);
    let unseen = Snapshot { pods: Reading::default(), ..under_way() };
    check(&unseen, expect![[r#" then After(5s, Unread(Unread { what: "pods", why: "nothing was read yet" }))"#]]);
}

#[test]
fn a_pod_whose_daemon_set_is_missing_in_an_older_list_is_not_taken_for_an_orphan() {
    let born = |seconds| PodFacts { created: Some(at(seconds)), ..owned("new", "DaemonSet") };
    let drains = |pod: PodFacts| Snapshot { pods: seen([pod, owned("web", "ReplicaSet")]), ..under_way() };
    check(
        &drains(born(-5)),
        expect![[
            r#" then After(5s, Unread(Unread { what: "daemonsets", why: "pod shop/new is newer than what was read" }))"#
        ]],
    );
    check(&drains(born(-60)), expect!["Evict(shop/new), Evict(shop/web) then OnChange(Evictions)"]);
    let known =
        Snapshot { daemon_sets: Reading::known(BTreeSet::from(["shop/new".to_owned()]), at(0)), ..drains(born(-5)) };
    check(&known, expect!["Evict(shop/web) then OnChange(Evictions)"]);
}

#[test]
fn a_node_is_cordoned_and_released_without_a_look_at_its_pods() {
    let blind = |snapshot| Snapshot { pods: Reading::default(), daemon_sets: Reading::default(), ..snapshot };
    check(
        &blind(asked("drain-a")),
        expect![[r#"Cordon { owner: "machinist", started: 2027-01-15T08:00:00Z } then OnChange(Node)"#]],
    );
    check(
        &blind(Snapshot { desired_drain: Some("uncordon-a".into()), ..under_way() }),
        expect![[r#"Confirm { value: "uncordon-a", uncordon: true, forget_owner: true } then OnChange(Node)"#]],
    );
}

#[test]
fn the_cordon_of_a_person_outlives_the_drain() {
    let found = Snapshot { unschedulable: true, ..asked("drain-a") };
    check(&found, expect![[r#"Adopt { owner: "person", started: 2027-01-15T08:00:00Z } then OnChange(Node)"#]]);
    let over = Snapshot {
        unschedulable: true,
        cordoned_by: Some("person".into()),
        last_applied_drain: Some("drain-a".into()),
        ..asked("uncordon-a")
    };
    check(
        &over,
        expect![[r#"Confirm { value: "uncordon-a", uncordon: false, forget_owner: true } then OnChange(Node)"#]],
    );
}

#[test]
fn our_own_cordon_is_removed() {
    let over = Snapshot { last_applied_drain: Some("drain-a".into()), pods: seen([]), ..under_way() };
    let over = Snapshot { desired_drain: Some("uncordon-a".into()), ..over };
    check(
        &over,
        expect![[r#"Confirm { value: "uncordon-a", uncordon: true, forget_owner: true } then OnChange(Node)"#]],
    );
}

#[test]
fn the_cordon_of_another_controller_mid_drain_is_taken_over() {
    let swapped = Snapshot { unschedulable: true, last_applied_drain: Some("drain-a".into()), ..asked("uncordon-a") };
    check(
        &swapped,
        expect![[r#"Confirm { value: "uncordon-a", uncordon: true, forget_owner: true } then OnChange(Node)"#]],
    );
}

#[test]
fn a_daemon_that_changes_its_mind_does_not_leave_our_cordon_behind() {
    let undecided = Snapshot { last_applied_drain: Some("uncordon-a".into()), pods: seen([]), ..under_way() };
    let undecided = Snapshot { desired_drain: Some("uncordon-a".into()), ..undecided };
    check(
        &undecided,
        expect![[r#"Confirm { value: "uncordon-a", uncordon: true, forget_owner: true } then OnChange(Node)"#]],
    );
}

#[test]
fn a_daemon_that_changes_its_mind_does_not_leave_a_drain_that_has_begun_behind() {
    let undecided = Snapshot { cordoned_by: Some("person".into()), pods: seen([]), ..under_way() };
    let undecided = Snapshot {
        desired_drain: Some("uncordon-a".into()),
        last_applied_drain: Some("uncordon-a".into()),
        ..undecided
    };
    check(
        &undecided,
        expect![[r#"Confirm { value: "uncordon-a", uncordon: false, forget_owner: true } then OnChange(Node)"#]],
    );
    let over = Snapshot { started: None, cordoned_by: None, ..undecided };
    check(&over, expect![" then OnChange(Request)"]);
}

#[test]
fn once_somebody_else_has_uncordoned_a_node_the_next_cordon_is_not_ours() {
    let undone = Snapshot { unschedulable: false, last_applied_drain: Some("drain-a".into()), ..under_way() };
    check(&undone, expect![[r#"Disown { owner: Some("person") } then OnChange(Node)"#]]);
    let noted = Snapshot { cordoned_by: Some("person".into()), ..undone.clone() };
    check(&noted, expect![" then OnChange(Request)"]);
    let over =
        Snapshot { desired_drain: Some("uncordon-a".into()), last_applied_drain: Some("uncordon-a".into()), ..undone };
    check(&over, expect!["Disown { owner: None } then OnChange(Node)"]);
}

#[test]
fn a_change_without_a_drain_leaves_a_cordon_alone() {
    let held = Snapshot { unschedulable: true, last_applied_drain: Some("uncordon-z".into()), ..asked("uncordon-a") };
    check(
        &held,
        expect![[r#"Confirm { value: "uncordon-a", uncordon: false, forget_owner: true } then OnChange(Node)"#]],
    );
}

#[test]
fn the_next_drain_without_an_uncordon_in_between_keeps_the_owner() {
    let next = Snapshot { started: None, last_applied_drain: Some("drain-a".into()), ..under_way() };
    let next = Snapshot { desired_drain: Some("drain-b".into()), ..next };
    check(&next, expect![[r#"Adopt { owner: "machinist", started: 2027-01-15T08:00:00Z } then OnChange(Node)"#]]);
}

#[test]
fn someone_who_uncordons_in_the_middle_is_overruled() {
    let undone = Snapshot { unschedulable: false, ..under_way() };
    let plan = plan(&undone);
    expect![[r#"
        External actor has unexpectedly uncordoned node n1, cordoning again...
        node n1: initiating cordon (currently schedulable: true)
        node n1: initiating drain"#]]
    .assert_eq(&plan.log.join("\n"));
}

fn blocked(since: i64) -> Snapshot {
    Snapshot {
        started: Some(at(since)),
        pods: seen([owned("db", "StatefulSet")]),
        budgets: vec![budget("db", 0)],
        refusals: BTreeMap::from([("uid-db".to_owned(), refused(-1))]),
        ..under_way()
    }
}

#[test]
fn a_block_is_told_at_once() {
    let plan = plan(&blocked(-1));
    let told: Vec<_> = plan.events.iter().map(|event| format!("{}: {}", event.reason, event.message)).collect();
    expect![[r#"DrainBlocked: Drain of node n1 is blocked: error when evicting pods/"db" -n "shop" (will retry after 5s): Cannot evict pod as it would violate the pod's disruption budget. The disruption budget keep-db needs 1 healthy pods and has 1 currently (disruption budget shop/keep-db, controlled by StatefulSet/db)"#]]
    .assert_eq(&told.join("\n"));
    let drained = plan.conditions.iter().find(|condition| condition.type_ == "Drained").unwrap();
    assert!(drained.message.starts_with("Error: Node Drain has not succeeded. Error is: error when evicting"));
    assert!(
        drained
            .message
            .ends_with("The drain will not be complete until desired drainer drain-a matches current drainer ")
    );
    check(&blocked(-1), expect![" then After(59s, Blocked(1))"]);
}

#[test]
fn a_hundred_blocked_pods_fit_into_a_condition() {
    let message = "Cannot evict pod as it would violate the pod's disruption budget. ".repeat(100);
    let refusal = drain::Refusal { at: at(-1), cause: drain::eviction::Cause::Budget { message } };
    let pods: Vec<_> = (0..100).map(|number| owned(&format!("db-{number}"), "StatefulSet")).collect();
    let refusals = pods.iter().map(|pod| (pod.uid.clone(), refusal.clone())).collect();
    let plan = plan(&Snapshot { pods: seen(pods), refusals, ..under_way() });
    let longest = plan.conditions.iter().map(|condition| condition.message.len()).max().unwrap();
    assert!(longest < 8_192, "{longest} bytes");
    assert!(plan.events[0].message.contains(" and 95 more"), "{}", plan.events[0].message);
}

#[test]
fn long_drains_are_failing_after_ten_minutes_and_an_alarm_after_an_hour() {
    let reasons = |since| plan(&blocked(since)).events.iter().map(|event| event.reason).collect::<Vec<_>>();
    assert_eq!(reasons(-601), ["DrainThresholdExceeded"]);
    assert_eq!(reasons(-3601), ["DrainFailed", "DrainThresholdExceeded"]);
    assert!(plan(&blocked(-3601)).alarm && !plan(&blocked(-3600)).alarm);
    assert!(plan(&blocked(-3601)).log[0].contains("node n1: drain exceeded timeout: 1h0m0s. Will continue to retry."));
}

#[test]
fn a_request_that_no_daemon_makes_is_named() {
    check(
        &asked("explode-a"),
        expect![[r#" then OnChange(Misunderstood("node n1: non-recognized drain verb detected explode"))"#]],
    );
}

proptest! {
    #[test]
    fn any_annotation_gives_a_plan_and_no_request_is_met_twice(
        desired in proptest::option::of(".{0,12}|drain-[a-c]|uncordon-[a-c]"),
        applied in proptest::option::of(".{0,12}|drain-[a-c]|uncordon-[a-c]"),
        cordoned_by in proptest::option::of("machinist|person|.{0,6}"),
        unschedulable: bool, started: bool, pods in 0usize..3,
    ) {
        let snapshot = Snapshot {
            node: "n1".into(), desired_drain: desired.clone(), last_applied_drain: applied.clone(), cordoned_by, unschedulable,
            started: started.then(|| at(-5)), pods: seen((0..pods).map(|n| pod(&format!("p{n}"), json!({}))).collect::<Vec<_>>()), now: at(0),
            ..Snapshot::default()
        };
        let plan = plan(&snapshot);
        let is_met = desired == applied && snapshot.cordoned_by.is_none() && !started;
        prop_assert!(!is_met || plan.actions.is_empty());
    }
}
