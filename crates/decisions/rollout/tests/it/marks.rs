//! Labels and taints that follow from where a node belongs.

use expect_test::{Expect, expect};
use rollout::{Membership, NodeFacts, Pools, marks};
use serde_json::{Value, json};

use crate::world::{NEW, node, pool};

fn pools() -> Pools {
    let infra = json!({"nodeSelector": {
        "matchLabels": {"node-role.kubernetes.io/infra": ""},
        "matchExpressions": [
            {"key": "rack", "operator": "In", "values": ["r1"]},
            {"key": "disk", "operator": "Exists"},
            {"key": "zone", "operator": "In", "values": ["a", "b"]},
        ],
    }});
    let arbiter = json!({"nodeSelector": {"matchLabels": {"node-role.kubernetes.io/arbiter": ""}}});
    let hidden = json!({"nodeSelector": {"matchLabels": {"node-role.kubernetes.io/control-plane": "", "rack": "r9"}}});
    Pools::from_objects(&[
        pool("worker", json!({})),
        pool("infra", infra),
        pool("master", json!({})),
        pool("arbiter", arbiter),
        pool("hidden", hidden),
    ])
}

#[track_caller]
fn check(facts: &NodeFacts, schedulable: Option<bool>, expected: Expect) {
    let answer = marks(facts, &pools(), schedulable).map_or_else(
        || "nothing".to_owned(),
        |mut marks| {
            if let Some(birth) = marks.birth.take() {
                birth.believe(&mut marks);
            }
            let taints = marks.taints.map(|all| all.into_iter().map(|taint| taint.key).collect::<Vec<_>>());
            format!("labels {:?}, annotations {:?}, taints {taints:?}", marks.labels, marks.annotations.keys())
        },
    );
    expected.assert_eq(&answer);
}

fn born(config: &str, more: Value) -> NodeFacts {
    let mut metadata = json!({"annotations": {"machineconfiguration.openshift.io/firstPivotConfig": config}});
    if let (Some(metadata), Value::Object(more)) = (metadata["annotations"].as_object_mut(), more) {
        metadata.extend(more);
    }
    node("n1", NEW, json!({ "metadata": metadata }))
}

#[test]
fn a_node_born_into_a_custom_pool_gets_its_labels_before_it_belongs_anywhere() {
    let facts = born("rendered-infra-0a1b", json!({}));
    check(
        &facts,
        None,
        expect![[
            r#"labels {"disk": Some(""), "node-role.kubernetes.io/infra": Some(""), "rack": Some("r1")}, annotations ["machineconfiguration.openshift.io/customPoolLabelsApplied"], taints None"#
        ]],
    );
    assert_eq!(pools().of(&facts), Membership::Unmanaged, "worker's config must not come first");
}

#[test]
fn nobody_is_born_into_the_control_plane_by_saying_so() {
    for pool in ["master", "arbiter", "hidden"] {
        let facts = born(&format!("rendered-{pool}-0a1b"), json!({}));
        check(&facts, None, expect!["nothing"]);
        assert_eq!(pools().of(&facts).primary(), Some("worker"), "{pool}");
    }
}

#[test]
fn a_node_that_is_not_believed_gets_no_label_and_belongs_nowhere_until_a_person_decides() {
    let facts = born("rendered-infra-0a1b", json!({}));
    let mut marks = marks(&facts, &pools(), None).unwrap();
    let birth = marks.birth.take().unwrap();
    assert_eq!(birth.pool, "infra");
    assert!(!marks.is_needed(), "nothing is written before it is judged");
    assert_eq!(pools().of(&facts), Membership::Unmanaged);
    let decided = json!({"machineconfiguration.openshift.io/customPoolLabelsApplied": "no"});
    let facts = born("rendered-infra-0a1b", decided);
    check(&facts, None, expect!["nothing"]);
    assert_eq!(pools().of(&facts).primary(), Some("worker"));
}

#[test]
fn labels_are_given_once_and_only_for_custom_pools_that_exist() {
    check(&born("rendered-worker-0a1b", json!({})), None, expect!["nothing"]);
    check(&born("rendered-gone-0a1b", json!({})), None, expect!["nothing"]);
    check(&born("nonsense", json!({})), None, expect!["nothing"]);
    let applied = json!({"machineconfiguration.openshift.io/customPoolLabelsApplied": ""});
    let facts = born("rendered-infra-0a1b", applied);
    check(&facts, None, expect!["nothing"]);
    assert_eq!(pools().of(&facts).primary(), Some("worker"), "a person may take the labels away again");
}

#[test]
fn the_scheduler_decides_who_may_run_on_the_control_plane() {
    let labels = json!({"node-role.kubernetes.io/master": ""});
    let master = node("m", NEW, json!({"metadata": {"labels": labels}}));
    check(
        &master,
        None,
        expect![[r#"labels {"node-role.kubernetes.io/control-plane": Some("")}, annotations [], taints None"#]],
    );
    let labels = json!({"node-role.kubernetes.io/control-plane": ""});
    let taints = json!([{"key": "node-role.kubernetes.io/master", "effect": "NoSchedule"}, {"key": "own", "effect": "NoSchedule"}]);
    let both = node("m", NEW, json!({"metadata": {"labels": labels}, "spec": {"taints": taints}}));
    check(&both, Some(true), expect![[r#"labels {}, annotations [], taints Some(["own"])"#]]);
    check(
        &both,
        Some(false),
        expect![[r#"labels {"node-role.kubernetes.io/worker": None}, annotations [], taints None"#]],
    );
    let bare = node("m", NEW, json!({"metadata": {"labels": labels}}));
    check(
        &bare,
        Some(false),
        expect![[
            r#"labels {"node-role.kubernetes.io/worker": None}, annotations [], taints Some(["node-role.kubernetes.io/master"])"#
        ]],
    );
    check(&node("w", NEW, json!({})), Some(false), expect!["nothing"]);
}
