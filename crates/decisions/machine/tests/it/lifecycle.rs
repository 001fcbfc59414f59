//! One Machine: what vectors do not cover.

use api::machine::Machine;
use expect_test::{Expect, expect};
use jiff::SignedDuration;
use machine::lifecycle::{
    Action, Answer, Call, Joining, LinkedNode, Next, Record, Snapshot, Waiting, pause, plan, request_spec, token,
};
use machine::provider::{Deletion, ErrorKind, Instance, State};
use serde_json::{Value, json};

use crate::make::{ago, error, machine, node, now};

fn snapshot(machine: Machine) -> Snapshot {
    let node = LinkedNode::of(&machine, None);
    Snapshot { sighting: Some(Ok(Vec::new())), ..Snapshot::from_objects(&machine, [], node, now()) }
}

/// A Machine for which the provider was asked so many times, last so long ago.
fn tried(tries: u32, since: SignedDuration, over: Value) -> Machine {
    let record = json!({
        "token": token("uid-m", 1), "attempt": 1, "recorded": ago(since), "tries": tries, "lastTry": ago(since),
    });
    let mut value = json!({"metadata": {"annotations": {"machinist.dev/instance-intent": record.to_string()}}});
    crate::make::merge(&mut value, over);
    machine(value)
}

fn refused(reason: &str) -> Value {
    json!({"status": {"conditions": [{"type": "InstanceCreated", "status": "False", "reason": reason, "message": "no"}]}})
}

#[track_caller]
fn check(snapshot: Snapshot, expected: Expect) {
    let plan = plan(&snapshot);
    let actions: Vec<_> = plan
        .actions
        .iter()
        .map(|action| match action {
            Action::RecordIntent(record) => format!("record attempt {} try {}", record.intent.attempt, record.tries),
            Action::Event { reason, .. } => format!("event {reason}"),
            other => format!("{other:?}"),
        })
        .collect();
    let next = match plan.next {
        Next::Ask(Call::Create(intent)) => format!("create under {}", &intent.token[..8]),
        Next::Ask(Call::Update(_)) => "update".to_owned(),
        Next::Ask(call) => format!("{call:?}").to_lowercase(),
        Next::OnChange(waiting) => format!("wait: {waiting}"),
        Next::After(delay, waiting) => format!("after {delay:?}: {waiting}"),
    };
    expected.assert_eq(&format!("{} | {next}", actions.join(", ")));
}

#[test]
fn intent_is_recorded_before_the_provider_is_asked() {
    check(snapshot(machine(json!({}))), expect!["record attempt 1 try 1 | create under 5d567402"]);
}

#[test]
fn a_repeated_creation_has_the_same_token() {
    check(
        snapshot(tried(1, SignedDuration::from_hours(1), json!({}))),
        expect!["record attempt 1 try 2 | create under 5d567402"],
    );
}

#[test]
fn a_record_that_was_copied_from_another_machine_is_not_ours() {
    let copy = tried(7, SignedDuration::ZERO, json!({"metadata": {"uid": "uid-copy"}}));
    assert_eq!(Record::of(&copy), None);
    check(snapshot(copy), expect!["record attempt 1 try 1 | create under 131da114"]);
}

#[test]
fn an_unreadable_record_is_made_again() {
    let broken = machine(json!({"metadata": {"annotations": {"machinist.dev/instance-intent": "{"}}}));
    check(snapshot(broken), expect!["record attempt 1 try 1 | create under 5d567402"]);
}

#[test]
fn an_empty_answer_proves_nothing_until_the_provider_has_settled() {
    let young = || tried(1, SignedDuration::from_secs(5), json!({}));
    let waits = |machine| Snapshot { settling: SignedDuration::from_secs(20), ..snapshot(machine) };
    check(waits(young()), expect![" | after 15s: the instance was just asked for and may not be visible yet"]);
    let known = tried(1, SignedDuration::from_secs(5), json!({"spec": {"providerID": "x:///1"}}));
    check(waits(known), expect![" | after 15s: the instance was just asked for and may not be visible yet"]);
    let deleting = json!({
        "metadata": {"deletionTimestamp": ago(SignedDuration::ZERO)},
        "status": {"phase": "Deleting", "conditions": [{"type": "Drained", "status": "True"}]},
    });
    let leaving = Snapshot {
        answer: Some(Answer::Deleted(Ok(Deletion::Gone))),
        ..waits(tried(1, SignedDuration::from_secs(5), deleting))
    };
    check(leaving, expect![" | after 2m 15s: the instance was just asked for and may not be visible yet"]);
}

#[test]
fn a_machine_whose_node_is_ready_does_not_fail_because_the_cloud_shows_no_instance() {
    let linked = || {
        machine(json!({
            "spec": {"providerID": "x:///1"},
            "status": {"phase": "Running", "nodeRef": {"name": "n", "uid": "uid-n"}},
        }))
    };
    let with = |node: LinkedNode| Snapshot { node, ..snapshot(linked()) };
    let of = |status: &str| {
        let node = node(json!({"status": {"conditions": [{"type": "Ready", "status": status}]}}));
        LinkedNode::of(&linked(), Some(&node))
    };
    for known in [of("True"), LinkedNode::Unknown] {
        let waits = with(known);
        let status = plan(&waits).status;
        assert_eq!(status.phase.as_deref(), Some("Running"));
        assert!(status.conditions.iter().any(|it| it.reason.as_deref() == Some("InstanceMissing")));
        check(
            waits,
            expect![" | after 30s: the provider shows no instance, and the machine's node is not known to be down"],
        );
    }
    for gone in [of("Unknown"), of("False"), LinkedNode::Missing] {
        assert_eq!(plan(&with(gone)).status.phase.as_deref(), Some("Failed"));
    }
}

#[test]
fn a_machine_whose_creation_was_never_answered_stays_until_no_call_can_be_under_way() {
    let leaving = |since, over: Value| {
        let mut value = json!({
            "metadata": {"deletionTimestamp": ago(SignedDuration::ZERO)},
            "status": {"conditions": [{"type": "Drained", "status": "True"}]},
        });
        crate::make::merge(&mut value, over);
        Snapshot { answer: Some(Answer::Deleted(Ok(Deletion::Gone))), ..snapshot(tried(1, since, value)) }
    };
    let recently = SignedDuration::from_secs(30);
    check(
        leaving(recently, json!({})),
        expect![" | after 1m 30s: the instance was just asked for and may not be visible yet"],
    );
    let gone = || expect!["RemoveFinalizer | wait: others still hold finalizers"];
    check(leaving(SignedDuration::from_mins(3), json!({})), gone());
    check(leaving(recently, json!({"spec": {"providerID": "x:///1"}})), gone());
}

#[test]
fn what_the_provider_said_before_a_standstill_does_not_let_a_machine_go() {
    let leaving = |over: Snapshot| {
        let deleted = json!({
            "metadata": {"deletionTimestamp": ago(SignedDuration::from_mins(9))},
            "status": {"conditions": [{"type": "Drained", "status": "True"}]},
        });
        let machine = tried(1, SignedDuration::from_mins(8), deleted);
        Snapshot {
            machine,
            answer: Some(Answer::Deleted(Ok(Deletion::Gone))),
            settling: SignedDuration::from_mins(1),
            ..over
        }
    };
    let minutes = |minutes| Some(now() - SignedDuration::from_mins(minutes));
    let nothing = || Snapshot { sighting: None, ..snapshot(machine(json!({}))) };
    // A creation of eight minutes ago may have ended two minutes later, and have shown another minute later.
    check(leaving(Snapshot { asked: minutes(7), ..nothing() }), expect![" | look"]);
    check(
        leaving(Snapshot { asked: minutes(4), ..nothing() }),
        expect!["RemoveFinalizer | wait: others still hold finalizers"],
    );
    let seen = |instances| Snapshot { sighting: Some(Ok(instances)), ..nothing() };
    check(
        leaving(Snapshot { asked: minutes(6), ..seen(Vec::new()) }),
        expect![" | after 1m: the instance was just asked for and may not be visible yet"],
    );
    let landed = leaving(Snapshot { asked: minutes(1), ..seen(vec![Instance::default()]) });
    assert!(!plan(&landed).actions.contains(&Action::RemoveFinalizer), "it landed after the deletion");
}

#[test]
fn a_clock_that_was_ahead_does_not_stop_a_machine() {
    let ahead = SignedDuration::from_hours(-1);
    let asked = Snapshot { settling: SignedDuration::from_secs(20), ..snapshot(tried(1, ahead, json!({}))) };
    let plan = plan(&asked);
    let [Action::RecordIntent(record)] = plan.actions.as_slice() else { panic!("{plan:?}") };
    assert_eq!(record.last_try, now(), "pauses would count from a time that has not come");
    assert_eq!(record.intent.token, token("uid-m", 1), "it is the same attempt");
    let little = SignedDuration::from_secs(-20);
    let asked = Snapshot { settling: SignedDuration::from_secs(20), ..snapshot(tried(1, little, json!({}))) };
    check(asked, expect![" | after 20s: the instance was just asked for and may not be visible yet"]);
    check(snapshot(tried(1, little, refused("NoCapacity"))), expect![" | after 30s: the provider answered: no"]);
}

#[test]
fn a_clock_that_was_behind_makes_no_answer_older_than_this_process_has_seen_the_record() {
    let behind = SignedDuration::from_hours(1);
    let known = |seconds| Snapshot {
        settling: SignedDuration::from_secs(20),
        known: Some(SignedDuration::from_secs(seconds)),
        ..snapshot(tried(1, behind, json!({"spec": {"providerID": "x:///1"}})))
    };
    check(known(5), expect![" | after 15s: the instance was just asked for and may not be visible yet"]);
    // The answer is older than the record.
    let asked = Some(now() - SignedDuration::from_secs(10));
    check(
        Snapshot { asked, ..known(25) },
        expect![" | after 5s: the instance was just asked for and may not be visible yet"],
    );
    assert_eq!(plan(&known(25)).next, Next::OnChange(Waiting::Failed));
}

#[test]
fn a_sighting_from_before_the_creation_or_the_deletion_is_asked_for_again() {
    let created = json!({"spec": {"providerID": "x:///1"}});
    let before = Some(now() - SignedDuration::from_secs(2));
    let asked = |seen| Snapshot { seen, ..snapshot(tried(1, SignedDuration::from_secs(1), created.clone())) };
    check(asked(before), expect![" | look"]);
    assert_eq!(plan(&asked(None)).status.phase.as_deref(), Some("Failed"));
    let deleting = json!({
        "metadata": {"deletionTimestamp": ago(SignedDuration::ZERO)},
        "status": {"conditions": [{"type": "Drained", "status": "True"}]},
    });
    let leaving = Snapshot {
        answer: Some(Answer::Deleted(Ok(Deletion::Requested))),
        seen: before,
        ..snapshot(tried(1, SignedDuration::from_hours(1), deleting))
    };
    check(leaving, expect![" | look"]);
}

#[test]
fn a_cloud_that_asks_for_years_is_asked_again_in_minutes() {
    let patient = ErrorKind::Throttled { retry_after: Some(SignedDuration::from_hours(300_000)) };
    let asked = Snapshot {
        answer: Some(Answer::Created(Err(error(patient)))),
        ..snapshot(tried(1, SignedDuration::ZERO, json!({})))
    };
    check(asked, expect![" | after 10m: the provider answered: the cloud says no"]);
}

#[test]
fn pauses_grow_with_the_tries_and_outlast_events() {
    for (tries, expected) in [
        (1, expect![" | after 20s: the provider answered: no"]),
        (3, expect![" | after 1m 50s: the provider answered: no"]),
        (30, expect![" | after 9m 50s: the provider answered: no"]),
    ] {
        check(snapshot(tried(tries, SignedDuration::from_secs(10), refused("NoCapacity"))), expected);
    }
    assert!(pause("Throttled", 1) < pause("NoCapacity", 1));
}

#[test]
fn a_refusal_is_told_by_its_kind() {
    let asked = Snapshot {
        answer: Some(Answer::Created(Err(error(ErrorKind::Credentials)))),
        ..snapshot(tried(1, SignedDuration::ZERO, json!({})))
    };
    let plan = plan(&asked);
    let told = plan.status.conditions.iter().find(|it| it.type_ == "InstanceCreated").unwrap();
    assert_eq!((told.reason.as_deref(), told.message.as_deref()), (Some("Credentials"), Some("the cloud says no")));
    check(asked, expect![" | after 20s: the provider answered: the cloud says no"]);
}

#[test]
fn a_condition_does_not_move_when_only_the_request_id_does() {
    let look = |id: &str, machine: Machine| Snapshot {
        sighting: Some(Err(error(ErrorKind::Unreachable).with_request_id(id))),
        ..snapshot(machine)
    };
    let first = plan(&look("one", machine(json!({})))).status;
    let mut seen = machine(json!({}));
    seen.status = Some(first.clone());
    assert_eq!(plan(&look("two", seen)).status, first);
}

#[test]
fn an_instance_that_the_cloud_gave_up_on_is_removed_before_another_attempt() {
    let failed = Instance { state: State::Failed(error(ErrorKind::NoCapacity)), ..Instance::default() };
    let seen = Snapshot { sighting: Some(Ok(vec![failed])), ..snapshot(tried(1, SignedDuration::ZERO, json!({}))) };
    check(seen, expect!["record attempt 2 try 1 | delete"]);
}

#[test]
fn facts_of_the_instance_reach_the_machine() {
    let instance = Instance {
        provider_id: Some("x:///1".to_owned()),
        state: State::Running,
        state_word: "running".to_owned(),
        region: Some("r".to_owned()),
        interruptible: true,
        ..Instance::default()
    };
    let answered = Snapshot {
        sighting: Some(Ok(vec![instance.clone()])),
        answer: Some(Answer::Updated(Ok(instance))),
        ..snapshot(machine(json!({})))
    };
    check(
        answered.clone(),
        expect![[
            r#"Amend(Amendment { provider_id: Some("x:///1"), labels: {"machine.openshift.io/interruptible-instance": "", "machine.openshift.io/region": "r"}, annotations: {"machine.openshift.io/instance-state": "running"}, node_labels: {"machine.openshift.io/interruptible-instance": ""} }) | after 30s: the instance has no node yet"#
        ]],
    );
    assert_eq!(plan(&answered).status.phase.as_deref(), Some("Provisioned"));
    // An empty provider ID is none, and the trouble of an earlier attempt is over.
    let mut emptied = answered;
    emptied.machine.spec.provider_id = Some(String::new());
    let trouble = json!([{"type": "InstanceDeleted", "status": "False", "reason": "Other"}]);
    emptied.machine.status.as_mut().unwrap().conditions = serde_json::from_value(trouble).unwrap();
    let plan = plan(&emptied);
    assert!(matches!(&plan.actions[..], [Action::Amend(it)] if it.provider_id.as_deref() == Some("x:///1")));
    assert!(!plan.status.conditions.iter().any(|it| it.type_ == "InstanceDeleted"));
}

#[test]
fn a_machine_that_does_not_join_says_where_it_stopped_until_it_has_joined() {
    let instance = Instance { provider_id: Some("x:///1".to_owned()), state: State::Running, ..Instance::default() };
    let answered = |machine: Machine, node| Snapshot {
        answer: Some(Answer::Updated(Ok(instance.clone()))),
        joining: Some(Joining::CertificatePending("csr-7".to_owned())),
        ..Snapshot::from_objects(&machine, [], node, now())
    };
    let stuck = plan(&answered(machine(json!({})), LinkedNode::Unlinked)).status;
    let told = stuck.conditions.iter().find(|it| it.type_ == "NodeJoined").unwrap();
    expect!["certificate signing request csr-7 waits for approval"].assert_eq(told.message.as_deref().unwrap());
    let mut joined = machine(json!({}));
    joined.status = Some(stuck);
    let node = LinkedNode::Present { name: "n".to_owned(), uid: "u".to_owned(), ready: true, undrained: false };
    let status = plan(&answered(joined, node)).status;
    assert!(!status.conditions.iter().any(|it| it.type_ == "NodeJoined"));
    assert_eq!(status.phase.as_deref(), Some("Running"));
}

#[test]
fn what_a_booting_machine_says_is_cut_and_loses_its_credential() {
    let words = format!("GET https://mcs:22623/config/worker?token=secret\nfailed {}", "x".repeat(10_000));
    let answered = Snapshot {
        answer: Some(Answer::Updated(Ok(Instance { provider_id: Some("x:///1".to_owned()), ..Instance::default() }))),
        joining: Some(Joining::IgnitionFailed(words)),
        ..snapshot(machine(json!({})))
    };
    let told = plan(&answered).status.conditions.into_iter().find(|it| it.type_ == "NodeJoined").unwrap();
    let message = told.message.unwrap();
    assert!(
        message.starts_with("the first boot failed: GET https://mcs:22623/config/worker?… failed xxx"),
        "{message}"
    );
    assert!(message.chars().count() < 600 && !message.contains("secret"));
}

#[test]
fn a_zone_that_is_no_label_is_left_out() {
    let labelled = |zone: &str| {
        let instance = Instance {
            provider_id: Some("x:///1".to_owned()),
            zone: Some(zone.to_owned()),
            region: Some("r".to_owned()),
            ..Instance::default()
        };
        let answered = Snapshot { answer: Some(Answer::Updated(Ok(instance))), ..snapshot(machine(json!({}))) };
        let Some(Action::Amend(amendment)) = plan(&answered).actions.pop() else { panic!("nothing is written") };
        amendment.labels.into_values().collect::<Vec<_>>()
    };
    assert_eq!(labelled("z-1"), ["r", "z-1"]);
    for refused in ["rack 1", "-z", "z_", &"z".repeat(64)] {
        assert_eq!(labelled(refused), ["r"], "{refused}");
    }
}

#[test]
fn several_instances_of_one_machine_are_told_and_none_is_touched() {
    let instance =
        |id: &str| Instance { provider_id: Some(id.to_owned()), state: State::Running, ..Instance::default() };
    let both = vec![instance("x:///1"), instance("x:///2")];
    let answered = Snapshot {
        answer: Some(Answer::Updated(Ok(both[1].clone()))),
        sighting: Some(Ok(both)),
        ..snapshot(machine(json!({"spec": {"providerID": "x:///2"}})))
    };
    let first = plan(&answered).status;
    let told = first.conditions.iter().find(|it| it.type_ == "InstanceUnique").unwrap();
    expect!["2 instances carry this machine's mark: x:///1, x:///2"].assert_eq(told.message.as_deref().unwrap());
    // The next look writes nothing, in whatever order the provider lists them.
    let mut again = answered.clone();
    again.machine.status = Some(first.clone());
    again.now = now() + SignedDuration::from_secs(10);
    again.sighting.iter_mut().flatten().for_each(|both| both.reverse());
    assert_eq!(plan(&again).status, first);
    // It ends with its cause.
    again.sighting = again.sighting.map(|both| both.map(|both| both[..1].to_vec()));
    assert!(!plan(&again).status.conditions.iter().any(|it| it.type_ == "InstanceUnique"));
}

#[test]
fn a_claim_that_has_ended_is_no_longer_told_even_while_the_provider_does_not_answer() {
    let told = json!([{"type": "InstanceUnique", "status": "False", "reason": "ProviderIDClaimedTwice"}]);
    let freed = machine(json!({"spec": {"providerID": "x:///1"}, "status": {"phase": "Running", "conditions": told}}));
    let unseen = Snapshot { sighting: Some(Err(error(ErrorKind::Unreachable))), ..snapshot(freed) };
    assert!(!plan(&unseen).status.conditions.iter().any(|it| it.type_ == "InstanceUnique"));
}

#[test]
fn two_machines_with_one_provider_id_both_say_so_and_nobody_is_called() {
    let one = machine(json!({"spec": {"providerID": "x:///1"}, "status": {"phase": "Running"}}));
    let other = machine(json!({"metadata": {"name": "copy", "uid": "uid-copy"}, "spec": {"providerID": "x:///1"}}));
    for (mine, theirs) in [(&one, &other), (&other, &one)] {
        let contested = Snapshot::from_objects(mine, [mine, theirs], LinkedNode::Unlinked, now());
        let plan = plan(&contested);
        assert!(plan.actions.is_empty() && matches!(plan.next, Next::OnChange(_)), "{:?}", plan.next);
        assert!(plan.status.conditions.iter().any(|it| it.reason.as_deref() == Some("ProviderIDClaimedTwice")));
    }
}

#[test]
fn of_two_claimants_that_both_go_the_older_removes_the_instance() {
    let gone = |name: &str, created: &str| {
        machine(json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"), "creationTimestamp": created, "deletionTimestamp": ago(SignedDuration::ZERO)},
            "spec": {"providerID": "x:///1"},
            "status": {"conditions": [{"type": "Drained", "status": "True"}]},
        }))
    };
    let (old, young) = (gone("old", "2026-01-01T00:00:00Z"), gone("young", "2026-02-01T00:00:00Z"));
    let of = |mine: &Machine, theirs: &Machine| Snapshot::from_objects(mine, [theirs], LinkedNode::Missing, now());
    check(of(&young, &old), expect!["event InstanceKept, RemoveFinalizer | wait: others still hold finalizers"]);
    check(of(&old, &young), expect![" | wait: its instance is also claimed by ns/young"]);
    // Once the younger is gone, nobody contests any more.
    check(Snapshot::from_objects(&old, [], LinkedNode::Missing, now()), expect![" | delete"]);
}

#[test]
fn of_two_claimants_of_the_same_second_the_one_that_asked_for_the_instance_keeps_it() {
    let gone = |name: &str, uid: &str, notes: Value| {
        machine(json!({
            "metadata": {
                "name": name, "uid": uid, "annotations": notes, "creationTimestamp": "2026-01-01T00:00:00Z",
                "deletionTimestamp": ago(SignedDuration::ZERO),
            },
            "spec": {"providerID": "x:///1"},
            "status": {"conditions": [{"type": "Drained", "status": "True"}]},
        }))
    };
    let record = json!({
        "token": token("uid-z", 1), "attempt": 1, "recorded": now(), "tries": 1, "lastTry": now(),
    });
    let notes = json!({"machinist.dev/instance-intent": record.to_string()});
    let maker = gone("maker", "uid-z", notes.clone());
    assert!(Record::of(&maker).is_some(), "{record}");
    // A copy takes the annotation along, which names the maker's token.
    let copy = gone("copy", "uid-a", notes);
    let of = |mine: &Machine, theirs: &Machine| Snapshot::from_objects(mine, [theirs], LinkedNode::Missing, now());
    check(of(&copy, &maker), expect!["event InstanceKept, RemoveFinalizer | wait: others still hold finalizers"]);
    check(of(&maker, &copy), expect![" | wait: its instance is also claimed by ns/copy"]);
}

#[test]
fn a_claimant_that_has_let_go_does_not_block_the_other() {
    let mut gone = machine(json!({
        "metadata": {"name": "copy", "uid": "uid-copy", "deletionTimestamp": ago(SignedDuration::ZERO)},
        "spec": {"providerID": "x:///1"},
    }));
    gone.metadata.finalizers = Some(vec!["somebody.example/else".to_owned()]);
    let kept = machine(json!({"spec": {"providerID": "x:///1"}, "status": {"phase": "Running"}}));
    check(Snapshot::from_objects(&kept, [&gone], LinkedNode::Missing, now()), expect![" | look"]);
}

#[test]
fn a_machine_with_an_instance_gets_its_finalizer_back_although_it_is_invalid() {
    let bare = |over: Value| {
        let mut machine = machine(over);
        machine.metadata.finalizers = None;
        machine.metadata.labels = None;
        snapshot(machine)
    };
    check(
        bare(json!({"spec": {"providerID": "x:///1"}})),
        expect!["AddFinalizer | wait: a change of ours is on its way"],
    );
    assert!(matches!(plan(&bare(json!({}))).next, Next::OnChange(Waiting::Invalid(_))));
}

#[test]
fn a_machine_without_label_and_spec_can_be_deleted() {
    let bare = |over: Value| {
        let mut value = json!({
            "metadata": {"labels": {"machine.openshift.io/cluster-api-cluster": null}, "deletionTimestamp": ago(SignedDuration::ZERO)},
            "spec": {"providerSpec": null},
            "status": {"phase": "Deleting", "conditions": [{"type": "Drained", "status": "True"}]},
        });
        crate::make::merge(&mut value, over);
        Snapshot { sighting: None, ..snapshot(machine(value)) }
    };
    check(bare(json!({})), expect!["RemoveFinalizer | wait: others still hold finalizers"]);
    // Anything that hints at an instance has the provider asked.
    check(bare(json!({"spec": {"providerID": "x:///1"}})), expect![" | delete"]);
}

#[test]
fn a_node_that_registered_anew_under_the_same_name_is_not_deleted() {
    let machine = machine(json!({
        "metadata": {"deletionTimestamp": ago(SignedDuration::ZERO)},
        "status": {"nodeRef": {"name": "n", "uid": "uid-old"}, "conditions": [{"type": "Drained", "status": "True"}]},
    }));
    let node = node(json!({}));
    let linked = LinkedNode::of(&machine, Some(&node));
    assert_eq!(linked, LinkedNode::Missing);
    let gone = Snapshot {
        answer: Some(Answer::Deleted(Ok(Deletion::Gone))),
        ..Snapshot::from_objects(&machine, [], linked, now())
    };
    check(gone.clone(), expect!["RemoveFinalizer | wait: others still hold finalizers"]);
    // When nodes cannot be listed, nothing is decided.
    check(Snapshot { node: LinkedNode::Unknown, ..gone }, expect![" | after 30s: nodes could not be listed"]);
}

#[test]
fn a_machine_that_was_refused_once_for_its_spec_has_no_instance_to_wait_for() {
    let leaving = |tries, over: Value| {
        let mut value = json!({
            "metadata": {"deletionTimestamp": ago(SignedDuration::ZERO)},
            "status": {"conditions": [
                {"type": "Drained", "status": "True"},
                {"type": "InstanceCreated", "status": "False", "reason": "InvalidSpec", "message": "no"},
            ]},
        });
        crate::make::merge(&mut value, over);
        Snapshot {
            answer: Some(Answer::Deleted(Err(error(ErrorKind::InvalidSpec)))),
            sighting: Some(Err(error(ErrorKind::InvalidSpec))),
            ..snapshot(tried(tries, SignedDuration::from_hours(1), value))
        }
    };
    check(leaving(1, json!({})), expect!["RemoveFinalizer | wait: others still hold finalizers"]);
    // An earlier try may have made something before the spec was edited.
    check(leaving(2, json!({})), expect![" | after 5s: the provider answered: the cloud says no"]);
    check(
        leaving(1, json!({"spec": {"providerID": "x:///1"}})),
        expect![" | after 5s: the provider answered: the cloud says no"],
    );
}

#[test]
fn a_deletion_that_was_refused_is_told_while_the_instance_is_there() {
    let leaving = machine(json!({
        "metadata": {"deletionTimestamp": ago(SignedDuration::ZERO)},
        "status": {"conditions": [{"type": "Drained", "status": "True"}]},
    }));
    let refused = Snapshot {
        answer: Some(Answer::Deleted(Err(error(ErrorKind::InvalidSpec)))),
        sighting: Some(Ok(vec![Instance::default()])),
        ..snapshot(leaving)
    };
    let told = plan(&refused).status.conditions.into_iter().find(|it| it.type_ == "InstanceDeleted");
    assert_eq!(told.unwrap().reason.as_deref(), Some("InvalidSpec"));
    check(refused, expect![" | after 5s: the provider answered: the cloud says no"]);
}

#[test]
fn calls_go_to_the_place_in_which_the_instance_was_made() {
    let placed = |over: Value| {
        let record = json!({
            "token": token("uid-m", 1), "attempt": 1, "recorded": ago(SignedDuration::ZERO), "lastTry": ago(SignedDuration::ZERO),
            "place": {"placement": {"region": "r1"}, "loadBalancers": ["old"], "credentialsSecret": {"name": "old"}},
        });
        let mut value = json!({
            "metadata": {"annotations": {"machinist.dev/instance-intent": record.to_string()}},
            "spec": {"providerSpec": {"value": {"kind": "X", "placement": {"region": "r2", "zone": "z"}}}},
        });
        crate::make::merge(&mut value, over);
        machine(value)
    };
    let spec = |machine: &Machine| request_spec(machine).unwrap();
    assert_eq!(spec(&placed(json!({})))["placement"], json!({"region": "r1", "zone": "z"}));
    assert_eq!(spec(&placed(json!({})))["loadBalancers"], json!(["old"]), "the spec lacks them");
    // What the instance belongs to and how it is reached may change; where it is may not.
    let edited = json!({"loadBalancers": ["new"], "credentialsSecret": {"name": "new"}});
    let member = placed(json!({"spec": {"providerSpec": {"value": edited}}}));
    assert_eq!(spec(&member)["loadBalancers"], json!(["new"]));
    assert_eq!(spec(&member)["credentialsSecret"], json!({"name": "new"}));
    let place = json!({
        "placement": {"region": "r1"}, "loadBalancers": ["old"], "credentialsSecret": {"name": "old"},
    });
    assert_eq!(spec(&placed(refused("InvalidSpec"))), place, "the spec cannot be read");
    let mut lost = placed(json!({}));
    lost.spec.provider_spec = None;
    assert_eq!(spec(&lost), place, "the spec is lost");
}

#[test]
fn an_instance_stays_where_it_was_made_and_the_machine_says_so() {
    let told = |place: Value, draft: Value| {
        let record = json!({
            "token": token("uid-m", 1), "attempt": 1, "recorded": ago(SignedDuration::ZERO),
            "lastTry": ago(SignedDuration::ZERO), "place": place,
        });
        let known =
            machine(json!({"metadata": {"annotations": {"machinist.dev/instance-intent": record.to_string()}}}));
        let instance = Instance { provider_id: Some("x:///1".to_owned()), ..Instance::default() };
        let mut seen = Snapshot { answer: Some(Answer::Updated(Ok(instance))), ..snapshot(known) };
        seen.draft.place = draft;
        plan(&seen).status.conditions.iter().any(|it| it.reason.as_deref() == Some("PlaceChanged"))
    };
    let at =
        |region: &str, secret: &str| json!({"placement": {"region": region}, "credentialsSecret": {"name": secret}});
    assert!(told(at("r1", "s"), at("r2", "s")));
    assert!(!told(at("r1", "s"), at("r1", "renamed")));
    assert!(!told(at("r1", "s"), Value::Null), "a spec that cannot be read names no other place");
}

#[test]
fn another_attempt_remembers_the_names_and_the_place_of_the_one_before() {
    let record = json!({
        "token": token("uid-m", 1), "attempt": 1, "recorded": ago(SignedDuration::ZERO), "lastTry": ago(SignedDuration::ZERO),
        "children": {"nic": "m-nic", "disk": "m-disk"}, "place": {"region": "r1"},
    });
    let known = machine(json!({"metadata": {"annotations": {"machinist.dev/instance-intent": record.to_string()}}}));
    let failed = Instance { state: State::Failed(error(ErrorKind::NoCapacity)), ..Instance::default() };
    let mut seen = Snapshot { sighting: Some(Ok(vec![failed])), ..snapshot(known) };
    seen.draft.children = [("nic".to_owned(), "other-nic".to_owned())].into();
    seen.draft.place = json!({"region": "r2"});
    let Some(Action::RecordIntent(record)) = plan(&seen).actions.pop() else { panic!("nothing was recorded") };
    expect![[r#"{"disk": "m-disk", "nic": "other-nic", "nic@1": "m-nic"} {"region":"r1"}"#]]
        .assert_eq(&format!("{:?} {}", record.intent.children, record.intent.place));
}

#[test]
fn a_refused_deletion_of_a_machine_with_credentials_gone_does_not_hang_for_ever() {
    let leaving = machine(json!({
        "metadata": {"deletionTimestamp": ago(SignedDuration::ZERO)},
        "status": {"conditions": [{"type": "Drained", "status": "True"}]},
    }));
    let refused = Snapshot {
        answer: Some(Answer::Deleted(Err(error(ErrorKind::InvalidSpec)))),
        sighting: Some(Err(error(ErrorKind::InvalidSpec))),
        ..snapshot(leaving)
    };
    check(refused, expect!["RemoveFinalizer | wait: others still hold finalizers"]);
}
