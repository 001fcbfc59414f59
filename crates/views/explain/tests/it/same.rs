//! What is said rests on the snapshot that the controller plans from: membership, policies, leader, requests of people.

use explain::decided::{decide, plan_of};
use explain::{Drains, State};
use rollout::Action;

use super::*;

/// The world as the planners see it, with a selector that its nodes match.
fn decided(mut world: World) -> World {
    decide(&mut world.0, &Drains::default(), now());
    world
}

fn selecting(world: World) -> World {
    world.pool(|pool| pool["spec"]["nodeSelector"] = json!({"matchLabels": {"node-role.kubernetes.io/worker": ""}}))
}

impl World {
    fn labelled(mut self) -> Self {
        for node in &mut self.0.nodes {
            let labels = [("node-role.kubernetes.io/worker".to_owned(), String::new())];
            node.metadata.labels = Some(BTreeMap::from(labels));
        }
        self
    }
}

#[test]
fn a_node_that_was_made_for_a_custom_pool_is_not_told_to_belong_to_another_one() {
    let born = [("machineconfiguration.openshift.io/firstPivotConfig", "rendered-infra-a")];
    let mut world = selecting(World::new()).node("a", "a", "a", "Done", &born).labelled();
    let infra = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "metadata": {"name": "infra"},
        "spec": {"nodeSelector": {"matchLabels": {"node-role.kubernetes.io/infra": ""}}},
    });
    world.0.pools.push(serde_json::from_value(infra).unwrap());
    let world = decided(world);
    assert_eq!(world.0.members["a"], Member::Born("infra".to_owned()));
    let it = explain::node(&world.snapshot(), "a").unwrap();
    assert_eq!(it.state, State::Waiting, "{it:?}");
    assert_eq!(it.summary, "it was made for pool infra, and does not have that pool's labels yet");
    assert_eq!(
        it.waiting_for,
        ["the controller to set the labels of pool infra, once something shows that it was let in for it"]
    );
    assert_eq!(it.moves[0].command, "kubectl get events --field-selector involvedObject.name=a");
    assert_eq!(explain::doctor(&world.snapshot()), []);
}

#[test]
fn a_target_settles_for_as_long_as_the_policy_of_the_pool_says() {
    let mut world = selecting(World::new())
        .node("a", "a", "a", "Done", &[])
        .labelled()
        .ledger(&json!({"target": {"config": "rendered-worker-b", "since": ago(4)}}));
    let policy = json!({"apiVersion": "machinist.dev/v1alpha1", "kind": "PoolPolicy", "metadata": {"name": "worker"},
        "spec": {"settle": "10m"}});
    world.0.pool_policies.push(serde_json::from_value(policy).unwrap());
    let it = explain::pool(&decided(world).snapshot(), "worker").unwrap();
    assert_eq!(it.waiting_for, ["its target to stay the same for 6m more"]);
    assert_eq!(it.moves[0].command, "kubectl patch poolpolicy worker --type merge -p '{\"spec\":{\"settle\":\"0s\"}}'");
}

#[test]
fn hosts_that_cannot_take_a_target_are_told_by_what_their_daemons_say() {
    let word = [("machinist.dev/os-updates", "none")];
    let mut world =
        selecting(World::new()).node("a", "a", "a", "Done", &word).node("b", "a", "a", "Done", &[]).labelled();
    let why = "kernel arguments cannot be changed on a host with neither bootc nor rpm-ostree".to_owned();
    let refusals = BTreeMap::from([(("rendered-worker-a".to_owned(), "none".to_owned()), why.clone())]);
    world.0.refusals.insert("worker".to_owned(), refusals);
    let world = decided(world);
    assert_eq!(world.0.unfit, BTreeMap::from([("a".to_owned(), why)]));
}

#[test]
fn a_config_that_a_person_has_set_is_judged_by_whether_it_exists() {
    let wrote = |manager: &str, path: &str, minutes: i64| {
        let fields = match path {
            "" => json!({"f:spec": {"f:configuration": {}}}),
            annotation => json!({"f:metadata": {"f:annotations": {format!("f:{annotation}"): {}}}}),
        };
        json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "time": ago(minutes), "fieldsType": "FieldsV1",
            "fieldsV1": fields})
    };
    let requested = |config: &str| {
        let mut world = selecting(World::new()).pool(|pool| {
            pool["metadata"]["managedFields"] = json!([wrote("machinist-render", "", 30)]);
        });
        world = world.node("a", "b", config, "Done", &[]).labelled();
        world = world.ledger(&json!({"target": {"config": "rendered-worker-b", "since": ago(30)}}));
        let by = wrote("kubectl-edit", "machineconfiguration.openshift.io/desiredConfig", 1);
        world.0.nodes[0].metadata.managed_fields = serde_json::from_value(json!([by])).unwrap();
        plan_of(&world.0, &world.0.pools[0], now()).actions
    };
    let is_held =
        |actions: Vec<Action>| actions.iter().any(|action| matches!(action, Action::Hold { value: Some(_), .. }));
    assert!(is_held(requested("a")), "rendered-worker-a exists, so the request is obeyed");
    assert!(!is_held(requested("nowhere")), "what does not exist is put back");
}

#[test]
fn what_frees_a_drain_follows_from_the_budgets_and_has_the_number() {
    let drain = [("machineconfiguration.openshift.io/desiredDrain", "drain-rendered-worker-b")];
    let commands = |owner: &str, budgets: &[(&str, Value)]| {
        let mut world = selecting(World::new()).node("a", "a", "b", "Working", &drain).labelled();
        world = world.ledger(&json!({"claims": [{"node": "a", "config": "rendered-worker-b"}]}));
        let owners =
            json!([{"apiVersion": "apps/v1", "kind": owner, "name": "web-5d9", "uid": "u", "controller": true}]);
        let pod = json!({"metadata": {"name": "web-5d9-x", "namespace": "shop", "labels": {"app": "web"}, "ownerReferences": owners},
            "spec": {"nodeName": "a", "containers": []}, "status": {"phase": "Running"}});
        let budget = |(name, spec): &(&str, Value)| {
            let mut spec = spec.clone();
            spec["selector"] = json!({"matchLabels": {"app": "web"}});
            let status = json!({"expectedPods": 3, "currentHealthy": 3, "desiredHealthy": 3, "disruptionsAllowed": 0});
            serde_json::from_value(
                json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec, "status": status}),
            )
            .unwrap()
        };
        let drains = Drains {
            pods: vec![serde_json::from_value(pod).unwrap()],
            budgets: budgets.iter().map(budget).collect(),
            daemon_sets: Reading::known(Default::default(), now()),
        };
        decide(&mut world.0, &drains, now());
        let it = explain::node(&world.snapshot(), "a").unwrap();
        it.moves.into_iter().map(|step| step.command).next().unwrap()
    };
    let all = || json!({"minAvailable": 3});
    assert_eq!(commands("ReplicaSet", &[("web", all())]), "kubectl -n shop scale deploy/web --replicas=4");
    assert_eq!(commands("StatefulSet", &[("web", all())]), "kubectl -n shop scale statefulset/web-5d9 --replicas=4");
    assert_eq!(commands("Job", &[("web", all())]), "kubectl -n shop describe pdb web", "a Job is not scaled");
    let never =
        "kubectl -n shop patch pdb web --type merge -p '{\"spec\":{\"minAvailable\":null,\"maxUnavailable\":1}}'";
    for spec in [json!({"maxUnavailable": 0}), json!({"maxUnavailable": "0%"}), json!({"minAvailable": "100%"})] {
        assert_eq!(commands("ReplicaSet", &[("web", spec)]), never);
    }
    assert_eq!(commands("ReplicaSet", &[("web", all()), ("team", all())]), "kubectl -n shop delete pdb team");
}
