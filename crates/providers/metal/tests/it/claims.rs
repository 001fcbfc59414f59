//! Which host a machine gets, and what happens to it.

use std::sync::atomic::Ordering;

use machine::provider::{ErrorKind, Power, PowerWish, Provider, Request, State};
use metal::Metal;
use serde_json::json;

use crate::world::{World, spec};

#[tokio::test]
async fn a_host_is_claimed_with_image_user_data_and_consumer_in_one_write() {
    let world = World::start(1).await;
    world.works.store(false, Ordering::SeqCst);
    let request = world.machine("m-1", &spec(json!({})));
    let instance = world.create(&request).await.unwrap();
    assert_eq!(instance.state, State::Pending);
    let host = world.host("host-0").await;
    let uid = host["metadata"]["uid"].as_str().unwrap();
    assert_eq!(
        instance.provider_id.as_deref(),
        Some(format!("baremetalhost:///openshift-machine-api/host-0/{uid}").as_str())
    );
    assert_eq!(instance.annotations["metal3.io/BareMetalHost"], "openshift-machine-api/host-0");
    assert_eq!(
        host["spec"]["consumerRef"],
        json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "name": "m-1",
        "namespace": "openshift-machine-api", "uid": "uid-m-1"})
    );
    assert_eq!(
        host["spec"]["image"],
        json!({"url": "http://images/base.qcow2", "checksum": "http://images/base.qcow2.sha256"})
    );
    assert_eq!(host["spec"]["userData"], json!({"name": "worker-user-data", "namespace": "openshift-machine-api"}));
    assert_eq!(host["spec"]["online"], true);
    assert_eq!(host["spec"]["bmc"]["address"], "redfish://bmc", "the rest is the owner's");
    world.works.store(true, Ordering::SeqCst);
    let seen = world.until(&request, |instance| instance.state == State::Running).await;
    let told: Vec<_> = seen.addresses.iter().map(|it| format!("{} {}", it.type_, it.address)).collect();
    assert_eq!(told, ["InternalIP 192.0.2.1", "Hostname host-0", "InternalDNS host-0"]);
    world.delete(&request).await;
    let host = world.host("host-0").await;
    assert_eq!(host["spec"], json!({"online": false, "bmc": {"address": "redfish://bmc", "credentialsName": "bmc"}}));
    assert!(host["metadata"]["annotations"].is_null(), "{host}");
}

#[tokio::test]
async fn selectors_choose_and_a_machine_without_a_host_says_why() {
    let world = World::start(3).await;
    let on = |number: &str| {
        spec(json!({"hostSelector": {"matchExpressions": [{"key": "number", "operator": "in", "values": [number]}]}}))
    };
    let first = world.machine("m-1", &on("2"));
    world.run(&first).await;
    assert_eq!(world.taken().await, ["host-2"]);
    let second = world.machine("m-2", &on("2"));
    let error = world.create(&second).await.unwrap_err();
    assert_eq!(
        (error.kind, error.message.as_str()),
        (ErrorKind::NoCapacity, "none of 1 matching BareMetalHosts is free; add one, or scale down")
    );
    let error = world.create(&world.machine("m-3", &on("9"))).await.unwrap_err();
    assert_eq!(error.message, "providerSpec.hostSelector: none of 3 BareMetalHosts matches; label one");
    // The one that waits is gone at once, and the other one's host becomes free.
    world.delete(&second).await;
    world.delete(&first).await;
    world.run(&second).await;
}

#[tokio::test]
async fn hosts_that_are_not_free_are_left_alone() {
    let world = World::start(6).await;
    world.works.store(false, Ordering::SeqCst);
    world.patch("host-0", json!({"spec": {"externallyProvisioned": true}})).await;
    world.patch("host-1", json!({"metadata": {"annotations": {"baremetalhost.metal3.io/paused": ""}}})).await;
    world.set_status("host-2", json!({"errorMessage": "no power", "errorType": "power management error"})).await;
    world.set_status("host-3", json!({"provisioning": {"state": "inspecting"}})).await;
    world
        .patch(
            "host-4",
            json!({"spec": {"consumerRef": {"kind": "Other", "name": "m-1", "namespace": "openshift-machine-api"}}}),
        )
        .await;
    world.create(&world.machine("m-1", &spec(json!({})))).await.unwrap();
    assert_eq!(world.taken().await, ["host-4", "host-5"]);
    let error = world.create(&world.machine("m-2", &spec(json!({})))).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NoCapacity, "{error}");
}

#[tokio::test]
async fn many_machines_at_once_get_a_host_each() {
    let world = World::start(8).await;
    let requests: Vec<_> = (0..8).map(|number| world.machine(&format!("m-{number}"), &spec(json!({})))).collect();
    let other = Metal::new(world.client.clone());
    // Two processes believe that they lead.
    let twice = requests.iter().flat_map(|request| {
        let intent = request.intent.as_ref().unwrap();
        [world.provider.create(request, intent), other.create(request, intent)]
    });
    let mut ids: Vec<_> = Vec::new();
    for made in futures::future::join_all(twice).await {
        // Whoever loses every race tries again.
        ids.extend(made.ok().and_then(|made| made.provider_id));
    }
    ids.sort();
    ids.dedup();
    assert!(ids.len() <= 8);
    for request in &requests {
        world.create(request).await.unwrap();
        assert_eq!(world.look(request).await.len(), 1, "one host for {}", request.mark.machine);
    }
    assert_eq!(world.taken().await.len(), 8);
}

#[tokio::test]
async fn a_host_that_upstream_gave_away_is_taken_over_and_given_back() {
    let world = World::start(2).await;
    let consumer = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "name": "m-1", "namespace": "openshift-machine-api"});
    let spec_of = json!({"consumerRef": consumer, "image": {"url": "http://i", "checksum": "c"}, "online": true});
    world.patch("host-1", json!({"spec": spec_of})).await;
    let request = world.machine("m-1", &spec(json!({})));
    let instance = world.create(&request).await.unwrap();
    assert!(instance.provider_id.unwrap().contains("/host-1/"));
    world.delete(&request).await;
    assert!(world.taken().await.is_empty());
    // A Machine of the same name that was made later has another uid.
    world.run(&request).await;
    let mut later = world.machine("m-1", &spec(json!({})));
    later.mark.uid = "uid-later".to_owned();
    assert!(world.look(&later).await.is_empty());
    world.delete(&later).await;
    assert_eq!(world.taken().await.len(), 1);
}

#[tokio::test]
async fn a_host_that_others_provisioned_keeps_its_system() {
    let world = World::start(1).await;
    let consumer = json!({"kind": "Machine", "name": "m-1", "namespace": "openshift-machine-api"});
    world.patch("host-0", json!({"spec": {"externallyProvisioned": true, "online": true, "consumerRef": consumer, "image": {"url": "http://old"}}})).await;
    world.set_status("host-0", json!({"provisioning": {"state": "externally provisioned"}, "poweredOn": true})).await;
    let request = world.machine("m-1", &spec(json!({})));
    world.until(&request, |instance| instance.state == State::Running).await;
    world.delete(&request).await;
    let host = world.host("host-0").await;
    assert_eq!((&host["spec"]["image"]["url"], &host["spec"]["online"]), (&json!("http://old"), &json!(false)));
}

#[tokio::test]
async fn a_host_that_cannot_be_provisioned_is_given_back() {
    let world = World::start(1).await;
    world.works.store(false, Ordering::SeqCst);
    let request = world.machine("m-1", &spec(json!({})));
    world.create(&request).await.unwrap();
    let trouble = |count: u32| json!({"errorType": "provisioning error", "errorMessage": "image not found", "errorCount": count, "provisioning": {"state": "provisioning"}});
    world.set_status("host-0", trouble(1)).await;
    assert_eq!(world.look(&request).await[0].state, State::Pending, "Metal3 tries again");
    world.set_status("host-0", trouble(3)).await;
    let State::Failed(error) = world.look(&request).await[0].state.clone() else { panic!("it failed") };
    assert!(error.message.contains("image not found"), "{error}");
    world.works.store(true, Ordering::SeqCst);
    world.delete(&request).await;
}

#[tokio::test]
async fn power_is_switched_and_orphans_are_given_back() {
    let world = World::start(1).await;
    let request = world.machine("m-1", &spec(json!({})));
    world.run(&request).await;
    world.provider.switch_power(&request, PowerWish::Off).await.unwrap();
    world.until(&request, |instance| instance.power == Power::Off && instance.state == State::Stopped).await;
    world.provider.switch_power(&request, PowerWish::On).await.unwrap();
    world.until(&request, |instance| instance.state == State::Running).await;
    world.provider.switch_power(&request, PowerWish::Cycle).await.unwrap();
    assert_eq!(
        world.host("host-0").await["metadata"]["annotations"]["reboot.metal3.io/machinist"],
        r#"{"mode":"hard"}"#
    );
    let listed = world.provider.marked(&world.search()).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert!(listed[0].mark == request.mark && listed[0].created.is_some(), "{listed:?}");
}

#[tokio::test]
async fn the_smallest_host_that_matches_tells_what_an_empty_set_would_offer() {
    let world = World::start(3).await;
    let offer = world.provider.capacity(&world.machine("m", &spec(json!({})))).await.unwrap().unwrap();
    assert_eq!((offer.cpus, offer.memory_mib), (8, 16384));
    let one = spec(json!({"hostSelector": {"matchLabels": {"number": "2"}}}));
    assert_eq!(world.provider.capacity(&world.machine("m", &one)).await.unwrap().unwrap().cpus, 10);
    let none = spec(json!({"hostSelector": {"matchLabels": {"number": "9"}}}));
    assert_eq!(world.provider.capacity(&world.machine("m", &none)).await.unwrap(), None);
}

#[tokio::test]
async fn a_cluster_without_metal3_is_told_from_one_without_hosts() {
    let world = World::start(0).await;
    let request = world.machine("m-1", &spec(json!({})));
    let error = world.create(&request).await.unwrap_err();
    assert_eq!(
        (error.kind, error.message.as_str()),
        (ErrorKind::NoCapacity, "namespace openshift-machine-api has no BareMetalHost; add one")
    );
    let mut elsewhere = world.machine("m-1", &spec(json!({})));
    elsewhere.spec = json!({}).into();
    let error = world.create(&Request { intent: request.intent.clone(), ..elsewhere }).await.unwrap_err();
    assert!(error.is_final() && error.message.contains("providerSpec.image.url"), "{error}");
}
