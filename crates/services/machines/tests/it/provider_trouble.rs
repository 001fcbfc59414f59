//! What a provider refuses is said on the Machine, and what may work later is tried again.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams, PostParams};
use machine::provider::ErrorKind;
use serde_json::json;
use testkit::Kind;

use crate::cloud::Hang;
use crate::on_both;
use crate::stage::{NAMESPACE, Stage, phase};

on_both!(
    what_a_provider_refuses_is_a_condition_and_an_event,
    an_instance_that_vanished_fails_its_machine,
    the_instance_is_waited_for_until_the_cloud_no_longer_shows_it,
    what_goes_wrong_again_is_told_again,
    a_region_that_never_answers_a_lookup_holds_up_no_other,
    a_region_that_never_answers_a_creation_holds_up_no_other,
);

async fn what_goes_wrong_again_is_told_again(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let _controllers = stage.control();
    stage.create_machine("a", json!({})).await;
    stage.running("a").await;
    let events: Api<k8s_openapi::api::events::v1::Event> = Api::all(stage.client.clone());
    for time in 1..=2 {
        stage.account.lock().unwrap().refuses_updates = true;
        stage.patch_machine("a", json!({"metadata": {"labels": {"time": time.to_string()}}})).await;
        stage.says("a", "InstanceUpdated", "False", "not now").await;
        // The same news within minutes is counted on the first event.
        testkit::wait_for_all(&events, &format!("to be told {time} times"), |events| {
            let told = events.iter().filter(|event| event.reason.as_deref() == Some("FailedUpdate"));
            let counts = told.filter(|event| event.note.as_deref() == Some("not now"));
            counts.map(|event| event.series.as_ref().map_or(1, |series| series.count)).sum::<i32>() == time
        })
        .await;
        stage.account.lock().unwrap().refuses_updates = false;
        stage.patch_machine("a", json!({"metadata": {"labels": {"time": format!("{time}-over")}}})).await;
        stage.machine_is("a", "well", |machine| crate::stage::condition(machine, "InstanceUpdated").is_none()).await;
    }
}

async fn a_region_that_never_answers_a_lookup_holds_up_no_other(kind: Kind) {
    a_region_hangs(kind, Hang::Look).await;
}

async fn a_region_that_never_answers_a_creation_holds_up_no_other(kind: Kind) {
    a_region_hangs(kind, Hang::Create).await;
}

async fn a_region_hangs(kind: Kind, hang: Hang) {
    let Some(stage) = Stage::start(kind).await else { return };
    let controllers = stage.control();
    stage.create_machine("old", json!({"spec": {"providerSpec": {"value": {"region": "b"}}}})).await;
    stage.running("old").await;
    stage.account.lock().unwrap().hangs = Some(hang);
    // More machines than there are workers.
    let mut set = crate::stage::set("worker", 300);
    let spec = set.spec.template.as_mut().unwrap().spec.as_mut().unwrap();
    spec.provider_spec.as_mut().unwrap().value = Some(json!({"region": "b"}));
    stage.sets.create(&PostParams::default(), &set).await.unwrap();
    testkit::wait_for_all(&stage.machines, "all machines to have their finalizer", |machines| {
        machines.len() == 301 && machines.iter().all(|machine| machine.metadata.finalizers.is_some())
    })
    .await;
    stage.create_machine("a", json!({})).await;
    stage.running("a").await;
    // A drain needs no cloud.
    stage.delete_machine("old").await;
    stage.says("old", "Drained", "True", "").await;
    drop(controllers);
}

async fn what_a_provider_refuses_is_a_condition_and_an_event(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let _controllers = stage.control();
    stage.create_machine("broken", json!({"spec": {"providerSpec": {"value": {"broken": true}}}})).await;
    let failed = stage.machine_is("broken", "failed", |machine| phase(machine) == Some("Failed")).await;
    let status = failed.status.unwrap();
    assert_eq!(status.error_reason.as_deref(), Some("InvalidConfiguration"));
    assert_eq!(status.error_message.as_deref(), Some("providerSpec.broken: no such machine"));
    stage.event("FailedCreate", "providerSpec.broken: no such machine").await;

    // Throttled calls are repeated after seconds.
    stage.account.lock().unwrap().refusals.push_back(ErrorKind::Throttled { retry_after: None });
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "user-data"},
        "stringData": {"userData": "the words"}});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let spec = json!({"providerSpec": {"value": {"userDataSecret": {"name": "user-data"}}}});
    stage.create_machine("slow", json!({"spec": spec})).await;
    stage.says("slow", "InstanceCreated", "False", "Throttled: not now").await;
    let running = stage.running("slow").await;
    assert_eq!(crate::stage::condition(&running, "InstanceCreated"), None);
    assert_eq!(stage.account.lock().unwrap().user_data.as_deref(), Some("the words"));

    // Without capacity a set makes one machine and no more.
    stage.account.lock().unwrap().refuses = Some(ErrorKind::NoCapacity);
    let before = stage.machines.list(&ListParams::default()).await.unwrap().items.len();
    stage.create_set("worker", 1).await;
    let is_starved = |machine: &api::machine::Machine| {
        crate::stage::condition(machine, "InstanceCreated").is_some_and(|(_, text)| text.starts_with("NoCapacity"))
    };
    testkit::wait_for_all(&stage.machines, "a starved machine", |all| all.iter().any(is_starved)).await;
    stage.scale("worker", 5).await;
    testkit::wait_for(&stage.sets, "worker", "the new size to be seen", |set| {
        let set = set.and_then(|set| Some((set.metadata.generation, set.status.as_ref()?)));
        set.is_some_and(|(generation, status)| status.observed_generation == generation && status.replicas == Some(1))
    })
    .await;
    assert_eq!(stage.machines.list(&ListParams::default()).await.unwrap().items.len(), before + 1);
}

async fn an_instance_that_vanished_fails_its_machine(kind: Kind) {
    let Some(mut stage) = Stage::start(kind).await else { return };
    stage.settings.resync = Duration::from_millis(200);
    let _controllers = stage.control();
    stage.create_machine("a", json!({})).await;
    stage.create_machine("b", json!({})).await;
    stage.running("a").await;
    stage.running("b").await;
    // A node that still reports would contradict the cloud.
    crate::stage::set_ready(&stage.nodes, "a", "False").await;
    stage.account.lock().unwrap().entries.retain(|entry| entry.mark.machine != "a");
    let failed = stage.machine_is("a", "failed", |machine| phase(machine) == Some("Failed")).await;
    assert_eq!(failed.status.unwrap().error_message.as_deref(), Some("can't find created instance"));
    assert_eq!(phase(&stage.machines.get("b").await.unwrap()), Some("Running"));
    assert_eq!(stage.account.lock().unwrap().creations, 2, "it is not made again under the same machine");
}

async fn the_instance_is_waited_for_until_the_cloud_no_longer_shows_it(kind: Kind) {
    let Some(stage) = Stage::start(kind).await else { return };
    let _controllers = stage.control();
    stage.account.lock().unwrap().lingers = true;
    stage.create_machine("a", json!({})).await;
    stage.running("a").await;
    stage.delete_machine("a").await;
    stage.machine_gone("a").await;
    assert_eq!(stage.instances(), Vec::<String>::new());
}
