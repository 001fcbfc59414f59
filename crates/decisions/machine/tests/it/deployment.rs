//! Deployments of machine sets.

use api::machine::{MachineDeployment, MachineSet};
use expect_test::{Expect, expect};
use jiff::SignedDuration;
use machine::deployment::{Action, Next, Snapshot, conditions, plan, rollback};
use machine::provider::{Architecture, Capacity};
use machine::{capacity, template};
use serde_json::{Value, json};

use crate::make::{merge, now, object};

fn deployment(over: Value) -> MachineDeployment {
    let mut value = json!({
        "metadata": {"name": "d", "namespace": "ns", "uid": "uid-d", "generation": 4},
        "spec": {
            "replicas": 10,
            "selector": {"matchLabels": {"app": "d"}},
            "strategy": {"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"providerSpec": {"value": {"image": "new"}}}},
        },
    });
    merge(&mut value, over);
    object(value)
}

/// A set of the deployment with so many machines wanted and available, made at a minute.
fn set(image: &str, minute: u32, replicas: i32, available: i32) -> MachineSet {
    let owner =
        json!([{"apiVersion": "v1", "kind": "MachineDeployment", "name": "d", "uid": "uid-d", "controller": true}]);
    object(json!({
        "metadata": {
            "name": format!("d-{image}"), "namespace": "ns", "uid": format!("uid-{image}"), "labels": {"app": "d"}, "generation": 1,
            "ownerReferences": owner, "creationTimestamp": format!("2026-03-01T10:{minute:02}:00Z"),
            "annotations": {"machinedeployment.clusters.k8s.io/revision": minute.to_string()},
        },
        "spec": {
            "replicas": replicas,
            "template": {
                "metadata": {"labels": {"app": "d", "machine-template-hash": "x"}},
                "spec": {"providerSpec": {"value": {"image": image}}},
            },
        },
        "status": {"observedGeneration": 1, "replicas": replicas, "readyReplicas": available, "availableReplicas": available},
    }))
}

#[track_caller]
fn check(deployment: MachineDeployment, sets: Vec<MachineSet>, expected: Expect) {
    let plan = plan(&Snapshot { deployment, sets, now: now() });
    let actions: Vec<_> = plan
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::Create(set) => Some(format!("create with {}", set.spec.replicas.unwrap())),
            Action::Update { name, change, .. } => change.replicas.map(|replicas| format!("{name} to {replicas}")),
            Action::Delete { name, .. } => Some(format!("delete {name}")),
            Action::Adopt { name, .. } => Some(format!("adopt {name}")),
            Action::Annotate(_) => None,
        })
        .collect();
    expected.assert_eq(&format!("{} | {}", actions.join(", "), plan.next.waiting()));
}

#[test]
fn a_new_template_starts_within_surge_and_availability() {
    check(
        deployment(json!({})),
        vec![set("old", 1, 10, 10)],
        expect!["create with 3, d-old to 8 | 0 of 10 machines are updated, 10 available"],
    );
    check(
        deployment(json!({})),
        vec![set("old", 1, 8, 8), set("new", 2, 3, 0)],
        expect!["d-new to 5 | 3 of 10 machines are updated, 8 available"],
    );
    check(
        deployment(json!({})),
        vec![set("old", 1, 8, 8), set("new", 2, 5, 5)],
        expect!["d-old to 3 | 5 of 10 machines are updated, 13 available"],
    );
    check(
        deployment(json!({})),
        vec![set("old", 1, 0, 0), set("new", 2, 10, 10)],
        expect![" | all machines are of the template and available"],
    );
}

#[test]
fn machines_that_do_not_serve_go_first_and_cost_nothing() {
    check(
        deployment(json!({})),
        vec![set("older", 1, 3, 0), set("old", 2, 8, 8), set("new", 3, 2, 2)],
        expect!["d-older to 0, d-old to 6 | 2 of 10 machines are updated, 10 available"],
    );
}

#[test]
fn percentages_round_up_for_surge_and_down_for_availability() {
    let percent =
        json!({"spec": {"replicas": 5, "strategy": {"rollingUpdate": {"maxSurge": "30%", "maxUnavailable": "30%"}}}});
    check(
        deployment(percent),
        vec![set("old", 1, 5, 5)],
        expect!["create with 2, d-old to 4 | 0 of 5 machines are updated, 5 available"],
    );
    let nothing =
        json!({"spec": {"replicas": 5, "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "1%"}}}});
    check(
        deployment(nothing),
        vec![set("old", 1, 5, 5)],
        expect!["create with 0, d-old to 4 | 0 of 5 machines are updated, 5 available"],
    );
}

#[test]
fn a_stale_count_takes_no_more_than_is_allowed() {
    // The old set was told to shrink to 3 and still reports 8.
    let mut old = set("old", 1, 3, 8);
    old.status.as_mut().unwrap().replicas = Some(8);
    check(
        deployment(json!({})),
        vec![old, set("new", 2, 5, 5)],
        expect!["d-new to 10 | 5 of 10 machines are updated, 8 available"],
    );
}

#[test]
fn on_delete_moves_only_what_somebody_deleted() {
    let on_delete = json!({"metadata": {"annotations": {"machinist.dev/update-strategy": "OnDelete"}}});
    check(
        deployment(on_delete.clone()),
        vec![set("old", 1, 10, 10)],
        expect!["create with 0 | 10 machines of an older template stay until they are deleted"],
    );
    // One of the ten was deleted.
    let mut old = set("old", 1, 10, 9);
    old.status.as_mut().unwrap().replicas = Some(9);
    check(
        deployment(on_delete.clone()),
        vec![old.clone(), set("new", 2, 0, 0)],
        expect!["d-new to 1, d-old to 9 | 9 machines of an older template stay until they are deleted"],
    );
    // A status of an earlier spec says nothing about the machines of today.
    old.metadata.generation = Some(2);
    check(
        deployment(on_delete),
        vec![old, set("new", 2, 0, 0)],
        expect![" | 10 machines of an older template stay until they are deleted"],
    );
}

#[test]
fn a_paused_deployment_scales_in_proportion_and_makes_no_set() {
    let paused = |replicas: i32| deployment(json!({"spec": {"paused": true, "replicas": replicas}}));
    check(paused(4), vec![set("old", 1, 10, 10)], expect!["d-old to 4 | the deployment is paused"]);
    let sized = |image: &str, minute, replicas| {
        let mut set = set(image, minute, replicas, replicas);
        let key = "machinedeployment.clusters.k8s.io/max-replicas".to_owned();
        set.metadata.annotations.as_mut().unwrap().insert(key, "13".to_owned());
        set
    };
    check(
        paused(20),
        vec![sized("old", 1, 8), sized("new", 2, 5)],
        expect!["d-new to 9, d-old to 14 | the deployment is paused"],
    );
    check(
        paused(10),
        vec![set("old", 1, 2, 2), set("new", 2, 10, 10)],
        expect!["d-old to 0 | the deployment is paused"],
    );
}

#[test]
fn history_beyond_its_limit_goes_when_all_is_done() {
    let sets = vec![set("a", 1, 0, 0), set("b", 2, 0, 0), set("c", 3, 0, 0), set("new", 4, 10, 10)];
    check(
        deployment(json!({})),
        sets,
        expect!["delete d-a, delete d-b | all machines are of the template and available"],
    );
}

#[test]
fn a_set_is_found_by_its_template_although_admission_filled_it_in() {
    let mut defaulted = set("new", 2, 10, 10);
    let hash = template::hash(&deployment(json!({})).spec.template);
    defaulted.metadata.annotations.as_mut().unwrap().insert("machinist.dev/template-hash".to_owned(), hash);
    let template = defaulted.spec.template.as_mut().unwrap().spec.as_mut().unwrap();
    template.provider_spec.as_mut().unwrap().value.as_mut().unwrap()["filledIn"] = json!(true);
    check(deployment(json!({})), vec![defaulted], expect![" | all machines are of the template and available"]);
}

#[test]
fn a_deployment_and_the_announced_capacity_of_its_set_come_to_rest() {
    let labels = "capacity.cluster-autoscaler.kubernetes.io/labels";
    let annotated =
        deployment(json!({"metadata": {"annotations": {labels: "zone=a", "machine.openshift.io/vCPU": "2"}}}));
    let offered = Capacity { cpus: 4, memory_mib: 8, architecture: Some(Architecture::Arm64), ..Capacity::default() };
    let made = plan(&Snapshot { deployment: annotated.clone(), sets: Vec::new(), now: now() });
    let Action::Create(set) = &made.actions[0] else { panic!("nothing was made: {made:?}") };
    let mut set = (**set).clone();
    assert_eq!(set.metadata.annotations.as_ref().unwrap()[labels], "zone=a");
    set.metadata.uid = Some("uid-new".to_owned());
    for round in 0..4 {
        let announced = capacity::plan(&capacity::Snapshot { set: &set, capacity: Ok(Some(offered.clone())) });
        let written = announced.annotations.len();
        set.metadata.annotations.as_mut().unwrap().extend(announced.annotations);
        let sets = vec![set.clone()];
        for action in plan(&Snapshot { deployment: annotated.clone(), sets, now: now() }).actions {
            if let Action::Update { change, .. } = action {
                assert!(!change.annotations.contains_key(labels), "round {round}: {change:?}");
                assert!(!change.annotations.contains_key("machine.openshift.io/vCPU"), "round {round}: {change:?}");
            }
        }
        assert_eq!(written == 0, round > 0, "round {round}");
    }
}

#[test]
fn a_name_that_is_taken_is_avoided() {
    let first = plan(&Snapshot { deployment: deployment(json!({})), sets: Vec::new(), now: now() });
    let Action::Create(made) = &first.actions[0] else { panic!("nothing was made: {first:?}") };
    let mut foreign = set("old", 1, 1, 1);
    foreign.metadata.name.clone_from(&made.metadata.name);
    foreign.metadata.labels = None;
    let second = plan(&Snapshot { deployment: deployment(json!({})), sets: vec![foreign], now: now() });
    let Action::Create(other) = &second.actions[0] else { panic!("nothing was made: {second:?}") };
    assert_ne!(other.metadata.name, made.metadata.name);
}

#[test]
fn revisions_count_up_and_a_rollback_remembers_where_it_was() {
    // The template of revision 1 is the present one again.
    let sets = vec![set("new", 1, 0, 0), set("old", 2, 10, 10)];
    let plan = plan(&Snapshot { deployment: deployment(json!({})), sets, now: now() });
    let change = plan.actions.iter().find_map(|action| match action {
        Action::Update { name, change, .. } if name == "d-new" => Some(change),
        _ => None,
    });
    let annotation =
        |key: &str| change.unwrap().annotations[&format!("machinedeployment.clusters.k8s.io/{key}")].clone();
    assert_eq!(annotation("revision").as_deref(), Some("3"));
    assert_eq!(annotation("revision-history").as_deref(), Some("1"));
    assert_eq!(annotation("max-replicas").as_deref(), Some("13"));
}

#[test]
fn a_rollback_gives_the_template_as_a_person_wrote_it() {
    let sets = vec![set("a", 1, 0, 0), set("b", 2, 0, 0), set("new", 3, 10, 10)];
    let back = |to| rollback(&deployment(json!({})), &sets, to).map_err(|error| error.to_string());
    let image = |template: api::machine::MachineTemplateSpec| {
        template.spec.unwrap().provider_spec.unwrap().value.unwrap()["image"].clone()
    };
    assert_eq!(back(None).map(image), Ok(json!("b")));
    assert_eq!(back(Some(1)).map(image), Ok(json!("a")));
    assert!(!back(None).unwrap().metadata.unwrap().labels.contains_key("machine-template-hash"));
    expect![[r#"unable to find revision 9 of MachineDeployment "d"; there are [1, 2]"#]]
        .assert_eq(&back(Some(9)).unwrap_err());
}

#[test]
fn nonsense_is_refused_with_its_field() {
    check(
        deployment(json!({"spec": {"selector": {"matchLabels": null}}})),
        Vec::new(),
        expect![[r#" | spec.selector: empty selector is not valid for MachineDeployment "d""#]],
    );
    check(
        deployment(json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": "many"}}}})),
        Vec::new(),
        expect![[r#" | spec.strategy.rollingUpdate.maxSurge: "many" is neither a number nor a percentage"#]],
    );
    check(
        deployment(json!({"spec": {"strategy": {"type": "Recreate"}}})),
        Vec::new(),
        expect![" | unexpected deployment strategy type: Recreate: spec.strategy.type must be RollingUpdate"],
    );
    check(
        deployment(json!({"spec": {"template": {"metadata": {"labels": {"app": "other"}}}}})),
        Vec::new(),
        expect![[
            r#" | failed validation on MachineDeployment "d" label selector, cannot match any machines: spec.template.metadata.labels lacks its labels"#
        ]],
    );
}

#[test]
fn absurd_sizes_do_no_harm() {
    let huge = json!({"spec": {"replicas": i32::MAX, "strategy": {"rollingUpdate": {"maxSurge": i32::MAX, "maxUnavailable": "100%"}}}});
    for paused in [false, true] {
        let mut over = huge.clone();
        merge(&mut over, json!({"spec": {"paused": paused}}));
        let sets = vec![set("old", 1, i32::MAX, i32::MAX), set("new", 2, i32::MAX, 0)];
        plan(&Snapshot { deployment: deployment(over.clone()), sets, now: now() });
        let mut least = set("old", 1, i32::MIN, i32::MIN);
        least.status.as_mut().unwrap().replicas = Some(i32::MIN);
        let last = json!({"machinedeployment.clusters.k8s.io/revision": i64::MAX.to_string()});
        least.metadata.annotations = serde_json::from_value(last).unwrap();
        plan(&Snapshot { deployment: deployment(over), sets: vec![least, set("new", 2, i32::MIN, 0)], now: now() });
    }
}

/// The deployment after its plan was carried out, and when it is looked at again by time alone.
fn carried_out(mut deployment: MachineDeployment, sets: &[MachineSet], later: i64) -> (MachineDeployment, Option<i64>) {
    let now = now() + SignedDuration::from_secs(later);
    let plan = plan(&Snapshot { deployment: deployment.clone(), sets: sets.to_vec(), now });
    for action in plan.actions {
        if let Action::Annotate(annotations) = action {
            deployment.metadata.annotations.get_or_insert_default().extend(annotations);
        }
    }
    deployment.status = Some(plan.status);
    let again = match plan.next {
        Next::OnChange(_) => None,
        Next::After(delay, _) => Some(delay.as_secs()),
    };
    (deployment, again)
}

fn told(deployment: &MachineDeployment) -> String {
    let all = conditions::of(deployment);
    let words: Vec<_> = all.iter().map(|it| format!("{}={} {}", it.type_, it.status, it.reason)).collect();
    words.join(", ")
}

#[test]
fn a_rollout_that_does_not_get_on_says_so_after_its_deadline_and_one_that_does_begins_it_anew() {
    let deadline = json!({"spec": {"progressDeadlineSeconds": 100}});
    let stuck = [set("old", 1, 8, 8), set("new", 2, 5, 1)];
    let (web, again) = carried_out(deployment(deadline), &stuck, 0);
    assert_eq!(told(&web), "Available=True MinimumReplicasAvailable, Progressing=True MachineSetUpdated");
    assert_eq!(again, Some(100));
    let (web, again) = carried_out(web, &stuck, 60);
    assert_eq!(again, Some(40), "nothing has moved");
    let (web, again) = carried_out(web, &stuck, 100);
    assert_eq!(told(&web), "Available=True MinimumReplicasAvailable, Progressing=False ProgressDeadlineExceeded");
    assert_eq!(again, None);
    let (web, again) = carried_out(web, &[set("old", 1, 8, 8), set("new", 2, 5, 2)], 110);
    assert_eq!(told(&web), "Available=True MinimumReplicasAvailable, Progressing=True MachineSetUpdated");
    assert_eq!(again, Some(100));
    let (web, again) = carried_out(web, &[set("old", 1, 0, 0), set("new", 2, 10, 10)], 120);
    assert_eq!(told(&web), "Available=True MinimumReplicasAvailable, Progressing=True NewMachineSetAvailable");
    assert_eq!(again, None);
    let (web, _) = carried_out(web, &[set("old", 1, 0, 0), set("new", 2, 10, 7)], 130);
    assert!(told(&web).starts_with("Available=False MinimumReplicasUnavailable"), "{}", told(&web));
    let settled = plan(&Snapshot {
        deployment: web,
        sets: vec![set("old", 1, 0, 0), set("new", 2, 10, 7)],
        now: now() + SignedDuration::from_secs(131),
    });
    assert!(!settled.actions.iter().any(|action| matches!(action, Action::Annotate(_))), "it is written once");
}

#[test]
fn a_deployment_that_cannot_be_acted_on_says_why_in_its_conditions() {
    let wrong = json!({"spec": {"strategy": {"type": "Recreate"}}});
    let (web, _) = carried_out(deployment(wrong), &[], 0);
    assert_eq!(told(&web), "Progressing=False InvalidSpec");
    assert!(conditions::of(&web)[0].message.contains("spec.strategy.type must be RollingUpdate"));
    assert!(plan(&Snapshot { deployment: web, sets: Vec::new(), now: now() }).actions.is_empty());
}

#[test]
fn machines_of_a_deployments_older_set_do_not_match_its_template() {
    let machine = |image: &str| -> api::machine::Machine {
        object(json!({
            "metadata": {"name": "m", "labels": {"app": "d"}, "ownerReferences":
                [{"apiVersion": "v1", "kind": "MachineSet", "name": "s", "uid": format!("uid-{image}"), "controller": true}]},
            "spec": {"providerSpec": {"value": {"image": image}}},
        }))
    };
    let matches = |image: &str, deployment: Option<&MachineDeployment>| {
        let snapshot = machine::set::Snapshot::from_objects(&set(image, 1, 1, 1), &[machine(image)], |_| None, now());
        snapshot.with_deployment(deployment).members[0].matches_template
    };
    let web = deployment(json!({}));
    assert!(matches("new", Some(&web)));
    assert!(!matches("old", Some(&web)));
    assert!(matches("old", None), "the set is on its own");
}
