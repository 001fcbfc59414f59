//! What an instance is made with, and what comes of creations that Google accepts and cannot carry out.

use machine::provider::{Deletion, ErrorKind, Intent, Provider, Request, State};
use serde_json::json;

use crate::world::{USER_DATA, World};

#[tokio::test]
async fn an_instance_has_what_the_spec_says() {
    let Some(world) = World::start("whole").await else { return };
    let mut spec = world.spec();
    spec["machineType"] = json!("n2d-standard-4");
    spec["disks"][0]["encryptionKey"] = json!({"kmsKey": {"name": "k", "keyRing": "r", "location": "global"}});
    spec["disks"].as_array_mut().unwrap().push(json!({"sizeGb": 64, "type": "pd-ssd"}));
    spec["networkInterfaces"][0]["publicIP"] = json!(true);
    spec["labels"] = json!({"team": "red"});
    spec["gcpMetadata"] = json!([{"key": "serial-port-enable", "value": "true"}]);
    spec["onHostMaintenance"] = json!("Terminate");
    spec["restartPolicy"] = json!("Never");
    spec["provisioningModel"] = json!("Spot");
    spec["confidentialCompute"] = json!("Enabled");
    spec["shieldedInstanceConfig"] = json!({"secureBoot": "Enabled", "virtualizedTrustedPlatformModule": "Enabled"});
    spec["resourceManagerTags"] = json!([{"parentID": "123", "key": "k", "value": "v"}]);
    let request = world.machine("m", &spec);
    world.create(&request).await.unwrap();
    let made = world.fake.instance("whole-m");
    assert_eq!(made["metadata"]["items"][1], json!({"key": "user-data", "value": USER_DATA}));
    assert_eq!(
        made["scheduling"],
        json!({"provisioningModel": "SPOT", "instanceTerminationAction": "DELETE",
        "onHostMaintenance": "TERMINATE", "automaticRestart": false})
    );
    assert_eq!(made["confidentialInstanceConfig"], json!({"enableConfidentialCompute": true}));
    assert_eq!(made["shieldedInstanceConfig"], json!({"enableSecureBoot": true, "enableVtpm": true}));
    assert_eq!(
        made["disks"][0]["diskEncryptionKey"]["kmsKeyName"],
        json!("projects/project-1/locations/global/keyRings/r/cryptoKeys/k")
    );
    assert_eq!(made["disks"][1]["initializeParams"]["labels"], json!({}), "a disk that stays carries no mark");
    assert_eq!(made["labels"]["team"], json!("red"));
    assert_eq!(made["params"]["resourceManagerTags"], json!({"123/k": "v"}));
    assert!(world.fake.faults().is_empty(), "{:?}", world.fake.faults());
}

#[tokio::test]
async fn a_stock_out_is_read_in_the_recorded_operation() {
    let Some(world) = World::start("stock").await else { return };
    let request = world.machine("m", &world.spec());
    world.fake.exhaust("ZONE_RESOURCE_POOL_EXHAUSTED");
    let pending = world.create(&request).await.unwrap();
    assert_eq!((pending.state.clone(), pending.provider_id), (State::Pending, None));
    let recorded = Request { provider_status: pending.provider_status, ..request.clone() };
    assert_eq!(world.look(&recorded).await[0].state, State::Pending, "the operation still runs");
    let seen = world.look(&recorded).await.remove(0);
    let State::Failed(error) = &seen.state else { panic!("{seen:?}") };
    assert_eq!(error.kind, ErrorKind::NoCapacity);
    assert!(error.message.contains("ZONE_RESOURCE_POOL_EXHAUSTED: words of Google"), "{error}");
    assert_eq!(error.request_id.as_deref(), Some("operation-0"));
    assert_eq!(world.provider.delete(&recorded).await.unwrap(), Deletion::Gone);
    // The next attempt has another token, and the old operation is not its own.
    let intent = Intent { attempt: 2, token: "token-2".to_owned(), ..request.intent.clone().unwrap() };
    let next = Request { intent: Some(intent), ..recorded };
    assert!(world.look(&next).await.is_empty());
    world.create(&next).await.unwrap();
    world.look(&next).await;
    assert!(world.look(&next).await[0].provider_id.is_some());
}

#[tokio::test]
async fn a_stock_out_after_the_instance_was_shown_is_read_in_the_recorded_operation() {
    let Some(world) = World::start("vanish").await else { return };
    let request = world.machine("m", &world.spec());
    world.fake.let_vanish("ZONE_RESOURCE_POOL_EXHAUSTED");
    let made = world.create(&request).await.unwrap();
    let recorded = Request { provider_status: made.provider_status.clone(), ..request.clone() };
    let shown = world.look(&recorded).await.remove(0);
    for seen in [&made, &shown] {
        assert_eq!((seen.state_word.as_str(), &seen.provider_id), ("PROVISIONING", &None), "it may vanish yet");
        assert!(seen.addresses.is_empty(), "an address says that there was an instance");
    }
    assert_eq!(shown.provider_status, made.provider_status, "the operation stays recorded");
    let recorded = Request { provider_status: shown.provider_status, ..recorded };
    assert_eq!(world.look(&recorded).await[0].state, State::Pending, "the operation still runs");
    let seen = world.look(&recorded).await.remove(0);
    let State::Failed(error) = &seen.state else { panic!("{seen:?}") };
    assert_eq!(error.kind, ErrorKind::NoCapacity, "{error}");
    assert_eq!(world.provider.delete(&recorded).await.unwrap(), Deletion::Gone);
    // A process that died before it could record the operation asks with the same token, and is told the same.
    let again = world.create(&request).await.unwrap();
    assert!(matches!(&again.state, State::Failed(error) if error.kind == ErrorKind::NoCapacity), "{again:?}");
    assert!(world.fake.left().is_empty() && world.fake.faults().is_empty(), "{:?}", world.fake.faults());
}

#[tokio::test]
async fn an_instance_that_its_machine_knows_keeps_its_identity_while_it_stops() {
    let Some(world) = World::start("known").await else { return };
    let request = world.machine("m", &world.spec());
    world.create(&request).await.unwrap();
    world.look(&request).await;
    let seen = world.look(&request).await.remove(0);
    let known = Request { provider_id: seen.provider_id.clone(), provider_status: seen.provider_status, ..request };
    world.provider.delete(&known).await.unwrap();
    let stopping = world.look(&known).await.remove(0);
    assert_eq!((stopping.state_word.as_str(), &stopping.provider_id), ("STOPPING", &seen.provider_id));
}

#[tokio::test]
async fn an_answer_that_is_lost_makes_no_second_instance() {
    let Some(world) = World::start("lost").await else { return };
    let request = world.machine("m", &world.spec());
    world.fake.lose("compute.instances.insert");
    assert_eq!(world.create(&request).await.unwrap().state_word, "PROVISIONING");
    assert_eq!(world.look(&request).await.len(), 1);
    world.delete(&request).await;
    assert!(world.fake.left().is_empty());
}

#[tokio::test]
async fn refusals_have_their_kind_and_throttling_rests_the_account() {
    let Some(world) = World::start("refused").await else { return };
    for (number, (status, reason, kind)) in [
        (403, "quotaExceeded", ErrorKind::Quota),
        (403, "forbidden", ErrorKind::Credentials),
        (400, "invalid", ErrorKind::InvalidSpec),
    ]
    .into_iter()
    .enumerate()
    {
        world.fake.plan("compute.instances.insert", status, reason);
        let error = world.create(&world.machine(&number.to_string(), &world.spec())).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
    }
    let request = world.machine("m", &world.spec());
    world.fake.plan("compute.instances.list", 403, "rateLimitExceeded");
    let answer = world.provider.instances(std::slice::from_ref(&request)).await.pop().unwrap();
    assert!(answer.unwrap_err().retry_after().is_some());
    let calls = world.fake.count();
    assert!(world.create(&request).await.is_err());
    assert_eq!(world.fake.count(), calls, "the account rests");
    assert_eq!(world.fake.issuers().len(), 1);
}

#[tokio::test]
async fn a_target_pool_that_is_gone_keeps_no_master_from_going() {
    let Some(world) = World::start("nopool").await else { return };
    let request = world.machine("m", &world.spec_with("targetPools", json!(["gone", "api"])));
    let request = Request { control_plane: true, ..request };
    world.create(&request).await.unwrap();
    world.look(&request).await;
    let seen = world.look(&request).await.remove(0);
    world.provider.update(&request, &seen).await.unwrap();
    world.fake.remove_pool("gone");
    let error = world.provider.update(&request, &seen).await.unwrap_err();
    assert!(error.message.contains("target pool gone") && !error.is_final(), "{error}");
    world.delete(&request).await;
    assert!(world.fake.pool("api").is_empty() && world.fake.left().is_empty());
}

#[tokio::test]
async fn masters_are_in_their_target_pools_while_they_run() {
    let Some(world) = World::start("pools").await else { return };
    let request = world.machine("m", &world.spec_with("targetPools", json!(["api"])));
    let request = Request { control_plane: true, ..request };
    world.create(&request).await.unwrap();
    world.look(&request).await;
    let seen = world.look(&request).await.remove(0);
    assert_eq!(seen.state, State::Running);
    world.provider.update(&request, &seen).await.unwrap();
    world.provider.update(&request, &seen).await.unwrap();
    assert_eq!(world.fake.pool("api").len(), 1);
    assert_eq!(world.fake.calls("compute.targetPools.addInstance").len(), 1);
    world.delete(&request).await;
    assert!(world.fake.pool("api").is_empty());
    assert!(world.fake.faults().is_empty(), "{:?}", world.fake.faults());
}
