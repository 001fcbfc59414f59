//! MachineSets: up, down, adoption and release.

use api::annotations;
use api::machine::Machine;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use testkit::{Kind, wait_for, wait_for_all};

use crate::on_both;
use crate::stage::{Stage, machine, names};

on_both!(
    a_node_without_a_machine_keeps_its_name,
    a_set_tells_the_autoscaler_what_a_machine_of_it_offers,
    the_older_spelling_of_a_provider_spec_is_as_good,
    a_set_gets_its_machines_and_loses_those_it_no_longer_wants,
    a_machine_of_the_right_labels_is_adopted_and_one_that_lost_them_is_let_go,
    a_set_that_cannot_be_acted_on_says_so_and_stops_nothing_else,
);

async fn a_set_gets_its_machines_and_loses_those_it_no_longer_wants(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let _controllers = stage.control();
    stage.create_set("worker", 3).await;
    stage.available("worker", 3).await;
    let machines = stage.machines.list(&ListParams::default()).await.unwrap().items;
    for machine in &machines {
        let machine = stage.running(&machine.name_any()).await;
        let status = machine.status.unwrap();
        assert_eq!(status.node_ref.unwrap().name, machine.metadata.name);
        assert!(machine.spec.provider_id.unwrap().starts_with("fake:///"));
        assert_eq!(machine.metadata.labels.unwrap()["machine.openshift.io/zone"], "z1");
    }
    let selector = stage.sets.get_scale("worker").await.unwrap().status.unwrap().selector.unwrap();
    assert!(selector.contains("machine.openshift.io/cluster-api-machineset=worker"), "{selector}");

    // The one that a person marked goes first.
    let marked = machines[1].name_any();
    stage.patch_machine(&marked, json!({"metadata": {"annotations": {annotations::DELETE_MACHINE: "yes"}}})).await;
    stage.scale("worker", 2).await;
    stage.machine_gone(&marked).await;
    stage.available("worker", 2).await;
    assert!(!stage.instances().contains(&marked));
    assert!(stage.nodes.get_opt(&marked).await.unwrap().is_none(), "its node goes with it");

    stage.scale("worker", 0).await;
    wait_for_all(&stage.machines, "no machines", <[Machine]>::is_empty).await;
    stage.available("worker", 0).await;
    assert_eq!(stage.instances(), Vec::<String>::new());
    assert_eq!(stage.account.lock().unwrap().creations, 3);
}

async fn a_machine_of_the_right_labels_is_adopted_and_one_that_lost_them_is_let_go(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    stage.account.lock().unwrap().add("fake:///100");
    let labels = json!({"machine.openshift.io/cluster-api-machineset": "worker"});
    stage.create_machine("old", json!({"metadata": {"labels": labels}, "spec": {"providerID": "fake:///100"}})).await;
    let set = stage.create_set("worker", 1).await;
    let _controllers = stage.control();
    let adopted = stage
        .machine_is("old", "adopted", |machine| {
            machine.owner_references().iter().any(|it| it.uid == set.uid().unwrap())
        })
        .await;
    assert_eq!(adopted.owner_references()[0].controller, Some(true));
    stage.machine_is("old", "provisioned", |it| crate::stage::phase(it) == Some("Provisioned")).await;
    assert_eq!(stage.account.lock().unwrap().creations, 0, "the machine that was there is enough");

    stage
        .patch_machine("old", json!({"metadata": {"labels": {"machine.openshift.io/cluster-api-machineset": null}}}))
        .await;
    stage.available("worker", 1).await;
    let old = stage.machine_is("old", "released", |machine| machine.owner_references().is_empty()).await;
    assert!(old.metadata.deletion_timestamp.is_none());
    assert!(stage.account.lock().unwrap().has("fake:///100"));
    assert_eq!(stage.account.lock().unwrap().creations, 1);
}

async fn a_set_that_cannot_be_acted_on_says_so_and_stops_nothing_else(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let _controllers = stage.control();
    let mut broken = crate::stage::set("broken", 1);
    broken.spec.template.as_mut().unwrap().metadata = None;
    stage.sets.create(&PostParams::default(), &broken).await.unwrap();
    let invalid =
        machine("invalid", json!({"metadata": {"labels": {"machine.openshift.io/cluster-api-cluster": null}}}));
    stage.machines.create(&PostParams::default(), &invalid).await.unwrap();
    stage.create_set("worker", 1).await;
    stage.available("worker", 1).await;
    wait_for(&stage.sets, "broken", "a word about the selector", |set| {
        let message = set.and_then(|set| set.status.as_ref()?.error_message.as_deref());
        message.is_some_and(|message| message.contains("`selector` does not match template `labels`"))
    })
    .await;
    stage.says("invalid", "Valid", "False", "missing machine.openshift.io/cluster-api-cluster label").await;
    stage.event("FailedValidate", "missing machine.openshift.io/cluster-api-cluster label").await;
    // A Machine that is wrong can still go.
    stage.delete_machine("invalid").await;
    stage.machine_gone("invalid").await;
    let left = stage.machines.list(&ListParams::default()).await.unwrap().items;
    assert!(names(&left).iter().all(|name| name.starts_with("worker-")), "{:?}", names(&left));
}

/// A machine went between the registration of its node and their link. Its node must not be taken for the next machine's.
async fn a_node_without_a_machine_keeps_its_name(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let first = stage.control();
    stage.create_set("worker", 1).await;
    stage.available("worker", 1).await;
    let old = stage.machines.list(&ListParams::default()).await.unwrap().items[0].name_any();
    first.kill().await;
    stage.patch_machine(&old, json!({"metadata": {"finalizers": null}})).await;
    stage.delete_machine(&old).await;
    stage.machine_gone(&old).await;
    assert!(stage.nodes.get_opt(&old).await.unwrap().is_some());
    let _second = stage.control();
    wait_for_all(&stage.machines, "another machine", |machines| machines.len() == 1).await;
    assert_ne!(stage.machines.list(&ListParams::default()).await.unwrap().items[0].name_any(), old);
}

async fn a_set_tells_the_autoscaler_what_a_machine_of_it_offers(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let _controllers = stage.control();
    stage.create_set("worker", 0).await;
    for (cpus, memory) in [(4, 8192), (8, 16384)] {
        let provider = json!({"value": {"cpus": cpus, "memory": memory}});
        let patch = json!({"spec": {"template": {"spec": {"providerSpec": provider}}}});
        stage.sets.patch("worker", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        wait_for(&stage.sets, "worker", &format!("{cpus} CPUs in its annotations"), |set| {
            let Some(set) = set else { return false };
            let says = |key: &str, number: i32| set.annotations().get(key) == Some(&number.to_string());
            says("machine.openshift.io/vCPU", cpus) && says("machine.openshift.io/memoryMb", memory)
        })
        .await;
    }
    let unknown = Patch::Merge(json!({"spec": {"template": {"spec": {"providerSpec": {"value": {"cpus": null}}}}}}));
    stage.sets.patch("worker", &PatchParams::default(), &unknown).await.unwrap();
    stage.event("FailedUpdate", "Failed to set autoscaling from zero annotations, instance type unknown").await;
}

/// Files of 2019 say `providerConfig`.
async fn the_older_spelling_of_a_provider_spec_is_as_good(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let _controllers = stage.control();
    let mut set = crate::stage::set("worker", 1);
    let spec = set.spec.template.as_mut().unwrap().spec.as_mut().unwrap();
    spec.provider_config = spec.provider_spec.take();
    stage.sets.create(&PostParams::default(), &set).await.unwrap();
    stage.available("worker", 1).await;
    let machine = stage.machines.list(&ListParams::default()).await.unwrap().items.remove(0);
    assert_eq!(machine.spec.provider_spec.unwrap().value.unwrap(), json!({"size": 1}));
    // The same in today's words asks for the same machine, and something else for another.
    let says = |matches: &'static str| {
        move |machine: &Machine| {
            machine.annotations().get("machinist.dev/matches-template").is_some_and(|it| it == matches)
        }
    };
    let name = machine.metadata.name.clone().unwrap();
    for (template, matches) in [
        (json!({"providerConfig": null, "providerSpec": {"value": {"size": 1}}}), "true"),
        (json!({"providerSpec": null, "providerConfig": {"value": {"size": 2}}}), "false"),
    ] {
        let patch = Patch::Merge(json!({"spec": {"template": {"spec": template}}}));
        let set = stage.sets.patch("worker", &PatchParams::default(), &patch).await.unwrap();
        wait_for(&stage.sets, "worker", "the change to be seen", |seen| {
            let status = seen.and_then(|seen| seen.status.as_ref());
            status.is_some_and(|status| status.observed_generation >= set.metadata.generation)
        })
        .await;
        stage.machine_is(&name, matches, says(matches)).await;
    }
}
