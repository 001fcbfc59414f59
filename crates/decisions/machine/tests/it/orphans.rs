//! What belongs to no Machine any more.

use expect_test::{Expect, expect};
use jiff::SignedDuration;
use machine::orphans::{Machines, Next, Snapshot, plan};
use machine::provider::{Mark, Marked};

use crate::make::now;

/// Something that carries the mark of a Machine's uid, so many minutes old.
fn marked(uid: &str, minutes: Option<i64>) -> Marked {
    let [cluster, namespace, machine] = ["c", "ns", "m"].map(str::to_owned);
    Marked {
        mark: Mark { cluster, namespace, machine, uid: uid.to_owned() },
        kind: "instance".to_owned(),
        id: format!("i-{uid}"),
        provider_id: Some(format!("x:///{uid}")),
        created: minutes.map(|minutes| now() - SignedDuration::from_mins(minutes)),
    }
}

fn snapshot(marked: Vec<Marked>) -> Snapshot {
    let machines = Machines { uids: ["known".to_owned()].into(), provider_ids: ["x:///restored".to_owned()].into() };
    Snapshot { cluster: "c".to_owned(), marked, machines: Some(machines), now: now() }
}

#[track_caller]
fn check(snapshot: &Snapshot, expected: Expect) {
    let plan = plan(snapshot);
    let removed: Vec<_> = plan.remove.iter().map(|it| it.id.as_str()).collect();
    let next = match plan.next {
        Next::OnChange(waiting) => format!("{waiting}"),
        Next::After(delay, waiting) => format!("after {delay:?}: {waiting}"),
    };
    expected.assert_eq(&format!("{} | {next}", removed.join(", ")));
}

#[test]
fn a_creation_that_landed_after_its_machine_was_gone_is_removed_after_a_grace_period() {
    check(
        &snapshot(vec![marked("known", Some(600)), marked("late", Some(10))]),
        expect![" | after 50m 1s: 1 things in the cloud belong to no machine and are not old enough"],
    );
    check(
        &snapshot(vec![marked("known", Some(600)), marked("late", Some(61))]),
        expect!["i-late | after 1m: what belongs to no machine is being removed"],
    );
}

#[test]
fn what_a_machine_may_claim_or_nobody_can_judge_is_left_alone() {
    let settled = expect![" | everything in the cloud belongs to a machine"];
    check(&snapshot(vec![marked("known", Some(600)), marked("restored", Some(600)), marked("", Some(600))]), settled);
    check(
        &snapshot(vec![marked("ageless", None)]),
        expect![" | 1 things in the cloud belong to no machine and are not old enough"],
    );
    let mut foreign = marked("late", Some(600));
    foreign.mark.cluster = "other".to_owned();
    check(&snapshot(vec![foreign]), expect![" | everything in the cloud belongs to a machine"]);
    let unknown = Snapshot { machines: None, ..snapshot(vec![marked("late", Some(600))]) };
    check(&unknown, expect![" | machines could not be listed"]);
}

/// A port or volume of the Machine of this uid: it has no provider id.
fn child(uid: &str, kind: &str) -> Marked {
    let id = format!("{kind}-{uid}");
    Marked { kind: kind.to_owned(), id, provider_id: None, ..marked(uid, Some(600)) }
}

#[test]
fn children_of_an_instance_that_a_restored_machine_names_belong_to_it() {
    let of_restored = vec![child("restored", "port"), marked("restored", Some(600)), child("restored", "volume")];
    check(&snapshot(of_restored), expect![" | everything in the cloud belongs to a machine"]);
    check(
        &snapshot(vec![child("late", "port"), marked("restored", Some(600))]),
        expect!["port-late | after 1m: what belongs to no machine is being removed"],
    );
}
