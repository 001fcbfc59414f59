//! Which pods go, in which order, and what stands in their way.

use std::collections::{BTreeMap, BTreeSet};

use api::known::Reading;
use drain::eviction::{Cause, Options, Ours, Refusal, Work};
use drain::pod::{DisruptionBudget, PodFacts};
use expect_test::{Expect, expect};
use jiff::SignedDuration;
use serde_json::json;

use crate::world::{at, budget, owned, pod, refused};

/// What there is to do where the DaemonSet `shop/agent` exists.
fn work(
    pods: &[PodFacts],
    budgets: &[DisruptionBudget],
    refusals: &BTreeMap<String, Refusal>,
    options: &Options,
) -> Work {
    let pods = Reading::known(pods.to_vec(), at(0));
    let daemon_sets = Reading::known(BTreeSet::from(["shop/agent".to_owned()]), at(0));
    let pods = pods.fresh("pods", at(0)).unwrap().map(Vec::as_slice);
    drain::work(pods, budgets, refusals, daemon_sets.fresh("daemonsets", at(0)).unwrap(), options, at(0))
}

fn plain(pods: &[PodFacts]) -> Work {
    work(pods, &[], &BTreeMap::new(), &Options::default())
}

#[track_caller]
fn check(work: &Work, expected: Expect) {
    let evict: Vec<_> = work.evict.iter().map(|pod| pod.name.as_str()).collect();
    let blocked: Vec<_> = work.blocked.iter().map(ToString::to_string).collect();
    let retry = work.retry_at.map(|time| time.duration_since(at(0)).as_secs());
    let Work { queued, terminating, .. } = work;
    expected.assert_eq(&format!(
        "evict {evict:?} queued {queued} terminating {terminating:?} retry {retry:?} blocked {blocked:#?}"
    ));
}

#[test]
fn static_daemon_and_finished_pods_stay_and_all_others_go() {
    let pods = [
        pod("mirror", json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}})),
        owned("agent", "DaemonSet"),
        pod("job", json!({"status": {"phase": "Succeeded"}})),
        pod("crashed", json!({"status": {"phase": "Failed"}})),
        pod("unmanaged", json!({})),
        pod("scratch", json!({"spec": {"containers": [], "volumes": [{"name": "v", "emptyDir": {}}]}})),
        owned("web", "ReplicaSet"),
    ];
    check(
        &plain(&pods),
        expect![[r#"evict ["unmanaged", "scratch", "web"] queued 0 terminating [] retry None blocked []"#]],
    );
}

#[test]
fn a_pod_of_a_daemon_set_that_is_gone_goes_too() {
    let pods = [owned("agent", "DaemonSet"), owned("orphan", "DaemonSet")];
    check(&plain(&pods), expect![[r#"evict ["orphan"] queued 0 terminating [] retry None blocked []"#]]);
}

#[test]
fn a_refusal_of_a_time_to_come_does_not_keep_a_pod_waiting_until_then() {
    let refusals = BTreeMap::from([("uid-db".to_owned(), refused(86_400))]);
    let work = work(&[pod("db", json!({}))], &[budget("db", 0)], &refusals, &Options::default());
    assert_eq!((work.evict.len(), work.retry_at), (1, None));
}

#[test]
fn sixteen_go_at_once_and_the_rest_queues() {
    let pods: Vec<_> = (0..20).map(|n| pod(&format!("p{n}"), json!({}))).collect();
    let work = plain(&pods);
    assert_eq!((work.evict.len(), work.queued), (16, 4));
}

#[test]
fn a_pod_that_stops_is_waited_for_but_not_evicted_again() {
    let slow = pod("slow", json!({"metadata": {"deletionTimestamp": at(-100).to_string()}}));
    check(
        &plain(std::slice::from_ref(&slow)),
        expect![[r#"evict [] queued 0 terminating ["shop/slow"] retry None blocked []"#]],
    );
    let options = Options { skip_terminating_after: Some(SignedDuration::from_secs(60)), ..Options::default() };
    let work = work(&[slow], &[], &BTreeMap::new(), &options);
    assert!(work.is_done(), "a node that is gone is not waited for");
}

fn with_budget(budgets: &[DisruptionBudget], since: i64) -> Work {
    let refusals = BTreeMap::from([("uid-db".to_owned(), refused(since))]);
    work(&[owned("db", "StatefulSet")], budgets, &refusals, &Options::default())
}

#[test]
fn a_block_names_the_pod_its_budget_and_its_owner() {
    check(
        &with_budget(&[budget("db", 0), budget("other", 0)], -2),
        expect![[r#"
            evict [] queued 0 terminating [] retry Some(58) blocked [
                "error when evicting pods/\"db\" -n \"shop\" (will retry after 5s): Cannot evict pod as it would violate the pod's disruption budget. The disruption budget keep-db needs 1 healthy pods and has 1 currently (disruption budget shop/keep-db, controlled by StatefulSet/db)",
            ]"#]],
    );
}

#[test]
fn a_budget_that_has_something_to_give_again_ends_the_wait() {
    let work = with_budget(&[budget("db", 1)], -2);
    assert_eq!(work.evict.len(), 1);
}

#[test]
fn a_budget_that_is_gone_ends_the_wait() {
    assert_eq!(with_budget(&[], -2).evict.len(), 0, "it is not asked at every look when budgets cannot be seen");
    assert_eq!(with_budget(&[], -5).evict.len(), 1);
}

#[test]
fn without_any_event_a_refused_eviction_is_tried_again_after_a_minute() {
    assert_eq!(with_budget(&[budget("db", 0)], -59).evict.len(), 0);
    assert_eq!(with_budget(&[budget("db", 0)], -60).evict.len(), 1);
}

#[test]
fn answers_of_the_api_server_are_told_apart() {
    let answer = |code, message: &str| Cause::of_answer(code, message, &[]);
    assert_eq!(answer(201, ""), None);
    assert_eq!(answer(404, "pods \"x\" not found"), None);
    assert_eq!(answer(403, "namespace shop is being terminated"), Some(Cause::NamespaceTerminating));
    assert!(matches!(answer(403, "forbidden: no rights"), Some(Cause::Failed { .. })));
    let several = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    assert!(matches!(answer(500, several), Some(Cause::SeveralBudgets { .. })));
}

fn controller() -> PodFacts {
    let app = json!({"k8s-app": "machine-config-controller"});
    pod("controller", json!({"metadata": {"namespace": "machinery", "labels": app}}))
}

fn with_ours(pods: &[PodFacts], may_leave: bool) -> Work {
    with_nodes(pods, Reading::known(may_leave, at(0)))
}

fn with_nodes(pods: &[PodFacts], may_leave: Reading<bool>) -> Work {
    let ours = Ours { namespace: "machinery".into(), apps: vec!["machine-config-controller".into()], may_leave };
    let options = Options { ours: Some(ours), ..Options::default() };
    work(pods, &[], &BTreeMap::new(), &options)
}

#[test]
fn who_drains_leaves_last() {
    let web = owned("web", "ReplicaSet");
    let first = with_ours(&[controller(), web.clone()], true);
    assert_eq!(names(&first), ["shop/web"]);
    let stopping = PodFacts { terminating: Some(at(0)), ..web };
    let second = with_ours(&[controller(), stopping], true);
    assert!(names(&second).is_empty() && !second.is_done());
    let last = with_ours(&[controller()], true);
    assert_eq!(names(&last), ["machinery/controller"]);
}

#[test]
fn who_drains_stays_where_no_other_node_takes_it() {
    assert!(with_ours(&[controller()], false).is_done());
    let other = pod("controller", json!({"metadata": {"labels": {"k8s-app": "machine-config-controller"}}}));
    assert_eq!(
        names(&with_ours(&[other], false)),
        ["shop/controller"],
        "the label alone, in another namespace, is not ours"
    );
}

#[test]
fn who_drains_neither_leaves_nor_is_left_behind_while_the_nodes_are_not_known() {
    let long_ago = Reading::known(true, at(-121));
    for may_leave in [long_ago, Reading::known(false, at(-121)), Reading::Unknown("503".to_owned())] {
        let work = with_nodes(&[controller()], may_leave);
        assert!(names(&work).is_empty() && !work.is_done());
    }
}

fn names(work: &Work) -> Vec<String> {
    work.evict.iter().map(PodFacts::full_name).collect()
}
