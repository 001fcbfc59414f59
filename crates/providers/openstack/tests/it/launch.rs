//! What is asked of the cloud for a machine.

use std::sync::Arc;

use axum::http::Method;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machine::provider::{Power, PowerWish, Provider, Request, State};
use openstack::{OpenStack, Settings};
use serde_json::{Value, json};

use crate::world::{USER_DATA, World, application_credential, secrets, spec};

fn id(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

#[tokio::test]
async fn a_server_gets_its_port_its_mark_and_its_user_data() {
    let world = World::start().await;
    let more = json!({"availabilityZone": "east", "keyName": "mine", "configDrive": true, "tags": ["team"],
        "serverMetadata": {"Name": "worker"}});
    let request = world.machine("m-1", &spec(more));
    let instance = world.run(&request).await;
    let server = world.asked()["server"].clone();
    assert_eq!(
        server["metadata"],
        json!({"Name": "worker", "machinist.dev:cluster": "c1", "machinist.dev:machine": "m-1",
        "machinist.dev:namespace": "openshift-machine-api", "machinist.dev:uid": "uid-m-1"})
    );
    assert_eq!(server["tags"], json!(["machinist-cluster-c1", "machinist-uid-uid-m-1", "team"]));
    assert_eq!(server["user_data"], STANDARD.encode(USER_DATA));
    assert_eq!((&server["flavorRef"], &server["imageRef"]), (&json!("2"), &json!(id(1))));
    assert_eq!((&server["availability_zone"], &server["key_name"]), (&json!("east"), &json!("mine")));
    assert_eq!(server["config_drive"], true);
    let port = world.fake.project.lock().ports[0].clone();
    assert_eq!(port["name"], "m-1-0");
    assert_eq!(port["description"], "[machinist.dev uid-m-1 c1 openshift-machine-api m-1]");
    assert_eq!(port["tags"], json!(["team", "machinist-cluster-c1", "machinist-uid-uid-m-1"]));
    assert_eq!(port["security_groups"], json!([id(5)]));
    assert_eq!(port["allowed_address_pairs"], json!([{"ip_address": "10.0.0.5"}]));
    assert_eq!((&port["network_id"], &port["fixed_ips"][0]["subnet_id"]), (&json!(id(2)), &json!(id(3))));
    assert!(instance.provider_id.as_deref().unwrap().starts_with("openstack:///"));
    assert_eq!((instance.region.as_deref(), instance.zone.as_deref()), (Some("one"), Some("east")));
    assert_eq!(instance.instance_type.as_deref(), Some("m1.large"));
    assert_eq!(instance.addresses[0].address, port["fixed_ips"][0]["ip_address"].as_str().unwrap());
    world.delete(&request).await;
    world.assert_empty("after deletion");
}

#[tokio::test]
async fn things_are_found_by_name_by_tag_and_by_id() {
    let cases = [
        json!({"networks": [{"uuid": id(2)}]}),
        json!({"networks": [{"filter": {"name": "nodes"}}]}),
        json!({"networks": [{"filter": {"tagsAny": "other,of=nodes"}, "subnets": [{"uuid": id(3)}]}]}),
        json!({"networks": [{"filter": {"id": id(2)}, "subnets": [{"filter": {"cidr": "10.0.0.0/24", "ipVersion": 4}}]}]}),
        json!({"networks": [{"filter": {"notTags": "x"}}], "securityGroups": [{"filter": {"tags": "of=nodes"}}]}),
        json!({"networks": [], "ports": [{"networkID": id(2), "fixedIPs": [{"subnetID": id(3), "ipAddress": "10.0.0.99"}]}]}),
        json!({"networks": null, "securityGroups": [{"uuid": id(5)}], "image": id(1), "flavor": "2"}),
    ];
    for more in cases {
        let world = World::start().await;
        let request = world.machine("m-1", &spec(more.clone()));
        world.run(&request).await;
        let port = world.fake.project.lock().ports[0].clone();
        assert_eq!((&port["network_id"], &port["security_groups"]), (&json!(id(2)), &json!([id(5)])), "{more}");
        world.delete(&request).await;
        world.assert_empty("after deletion");
    }
}

#[tokio::test]
async fn trunks_stand_on_ports_and_go_with_them() {
    let world = World::start().await;
    let request = world.machine(
        "m-1",
        &spec(json!({"trunk": true, "ports": [
        {"networkID": id(2), "nameSuffix": "plain", "trunk": false}]})),
    );
    world.run(&request).await;
    {
        let project = world.fake.project.lock();
        assert_eq!((project.ports.len(), project.trunks.len()), (2, 1));
        assert_eq!(project.trunks[0]["name"], "m-1-0");
        assert_eq!(project.trunks[0]["tags"], json!(["machinist-cluster-c1", "machinist-uid-uid-m-1"]));
    }
    world.delete(&request).await;
    world.assert_empty("after deletion");
}

#[tokio::test]
async fn a_cloud_without_trunks_is_told_from_one_with_them_before_anything_is_made() {
    let world = World::start().await;
    world.fake.project.lock().has_trunks = false;
    let error = world.create(&world.machine("m-1", &spec(json!({"trunk": true})))).await.unwrap_err();
    assert!(error.is_final() && error.message.contains("providerSpec.trunk"), "{error}");
    world.assert_empty("after the refusal");
    let request = world.machine("m-2", &spec(json!({})));
    world.run(&request).await;
    world.delete(&request).await;
    world.assert_empty("after deletion");
}

#[tokio::test]
async fn a_machine_boots_from_a_volume_that_is_made_first() {
    let world = World::start().await;
    let more = json!({
        "rootVolume": {"diskSize": 30, "volumeType": "fast", "availabilityZone": "z"},
        "additionalBlockDevices": [{"name": "etcd", "sizeGiB": 10, "storage": {"type": "Volume"}},
            {"name": "tmp", "sizeGiB": 5, "storage": {"type": "Local"}}],
    });
    let request = world.machine("m-1", &spec(more));
    let first = world.create(&request).await.unwrap();
    assert_eq!((first.provider_id, first.state), (None, State::Pending), "the volumes are being made");
    assert!(world.look(&request).await.is_empty());
    world.run(&request).await;
    let volumes = world.fake.project.lock().volumes.clone();
    let told: Vec<_> = volumes.iter().map(|it| (it["name"].as_str().unwrap(), it["size"].as_u64().unwrap())).collect();
    assert_eq!(told, [("m-1-root", 30), ("m-1-etcd", 10)]);
    assert_eq!((&volumes[0]["imageRef"], &volumes[0]["volume_type"]), (&json!(id(1)), &json!("fast")));
    assert_eq!(volumes[0]["metadata"]["machinist.dev:uid"], "uid-m-1");
    let server = world.asked()["server"].clone();
    assert!(server["imageRef"].is_null());
    let devices: Vec<_> = server["block_device_mapping_v2"].as_array().unwrap().iter().map(Value::to_string).collect();
    assert_eq!(devices.len(), 3);
    assert!(devices[0].contains(r#""boot_index":0"#) && devices[2].contains(r#""tag":"tmp""#), "{devices:?}");
    world.delete(&request).await;
    world.assert_empty("after deletion");
}

#[tokio::test]
async fn server_groups_are_made_once_and_must_be_the_one_that_is_meant() {
    let world = World::start().await;
    let with = |more: Value| spec(more);
    let requests: Vec<_> =
        (0..3).map(|n| world.machine(&format!("m-{n}"), &with(json!({"serverGroupName": "spread"})))).collect();
    for result in futures::future::join_all(requests.iter().map(|request| world.create(request))).await {
        result.unwrap();
    }
    assert_eq!(world.fake.project.lock().groups.len(), 1);
    let group = world.fake.project.lock().groups[0].clone();
    assert_eq!(group["policies"], json!(["soft-anti-affinity"]));
    let hints = world
        .fake
        .project
        .lock()
        .servers
        .iter()
        .map(|it| it["asked"]["os:scheduler_hints"]["group"].clone())
        .collect::<Vec<_>>();
    assert!(hints.iter().all(|hint| *hint == group["id"]), "{hints:?}");
    let wrong = with(json!({"serverGroupName": "spread", "serverGroupID": id(99)}));
    let error = world.create(&world.machine("m-9", &wrong)).await.unwrap_err();
    assert!(error.is_final() && error.message.contains("serverGroupName"), "{error}");
    let twin = json!({"id": id(98), "name": "spread", "policies": []});
    world.fake.project.lock().groups.push(twin);
    let error = world.create(&world.machine("m-9", &with(json!({"serverGroupName": "spread"})))).await.unwrap_err();
    assert!(error.message.contains("several match"), "{error}");
}

#[tokio::test]
async fn a_floating_address_is_given_once_the_server_runs_and_is_never_taken_from_another() {
    let world = World::start().await;
    let request = world.machine("m-1", &spec(json!({"floatingIP": "203.0.113.7"})));
    let instance = world.run(&request).await;
    let updated = world.provider.update(&request, &instance).await.unwrap();
    assert!(updated.addresses.iter().any(|it| it.type_ == "ExternalIP" && it.address == "203.0.113.7"), "{updated:?}");
    let before = world.fake.count();
    world.provider.update(&request, &updated).await.unwrap();
    assert_eq!(world.fake.count(), before, "nothing is asked when nothing differs");
    let second = world.machine("m-2", &spec(json!({"floatingIP": "203.0.113.7"})));
    let instance = world.run(&second).await;
    let error = world.provider.update(&second, &instance).await.unwrap_err();
    assert!(error.message.contains("take it away there first"), "{error}");
    let third = world.machine("m-3", &spec(json!({"floatingIP": "203.0.113.8"})));
    let instance = world.run(&third).await;
    let error = world.provider.update(&third, &instance).await.unwrap_err();
    assert!(error.message.contains("providerSpec.floatingIP"), "{error}");
}

#[tokio::test]
async fn application_credentials_log_in_and_credentials_are_rotated_without_a_restart() {
    let world = World::start().await;
    let request = world.machine("m-1", &spec(json!({})));
    let wrong = Request { secrets: Arc::new(secrets("clouds: {openstack: {}}", None)), ..request.clone() };
    assert!(world.looked(&wrong).await.is_err());
    let rotated = Request { secrets: Arc::new(secrets(&application_credential(&world.fake.url), None)), ..request };
    world.run(&rotated).await;
}

#[tokio::test]
async fn power_is_switched() {
    let world = World::start().await;
    let request = world.machine("m-1", &spec(json!({})));
    world.run(&request).await;
    for (wish, power) in [
        (PowerWish::Off, Power::Off),
        (PowerWish::Off, Power::Off),
        (PowerWish::On, Power::On),
        (PowerWish::Cycle, Power::On),
    ] {
        world.provider.switch_power(&request, wish).await.unwrap();
        assert_eq!(world.look(&request).await[0].power, power);
    }
}

#[tokio::test]
async fn flavors_tell_what_an_empty_set_would_offer() {
    let world = World::start().await;
    let offer = |flavor: &str| {
        let request = world.machine("m-1", &spec(json!({"flavor": flavor})));
        let provider = &world.provider;
        async move { provider.capacity(&request).await.unwrap().map(|it| (it.cpus, it.memory_mib)) }
    };
    assert_eq!(offer("m1.large").await, Some((4, 8192)));
    assert_eq!(offer("none").await, None);
}

#[tokio::test]
async fn provider_ids_carry_the_region_where_the_cloud_controller_manager_s_do() {
    let world = World::start().await;
    let regional = OpenStack::new(Settings { regional: true, ..Settings::default() });
    let request = world.machine("m-1", &spec(json!({})));
    let made = regional.create(&request, request.intent.as_ref().unwrap()).await.unwrap();
    assert!(made.provider_id.as_deref().unwrap().starts_with("openstack://one/"), "{made:?}");
    let known = Request { provider_id: made.provider_id.clone(), ..request };
    assert_eq!(world.look(&known).await[0].provider_id, made.provider_id, "it stays as it is");
}

#[tokio::test]
async fn every_request_for_servers_names_its_microversion() {
    let world = World::start().await;
    world.fake.project.lock().microversion = 51;
    let error = world.create(&world.machine("m-1", &spec(json!({})))).await.unwrap_err();
    assert!(error.message.contains("older than Pike"), "{error}");
    assert!(world.fake.calls(&Method::POST, "/servers").is_empty());
}
