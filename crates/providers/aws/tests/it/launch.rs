//! What AWS has after a launch.

use machine::provider::{Deletion, Power, PowerWish, Provider, State};
use serde_json::json;

use crate::world::{USER_DATA, World, id_of, only};

#[tokio::test]
async fn an_instance_has_its_tags_user_data_identity_and_addresses() {
    let Some(world) = World::start("plain").await else { return };
    let mut spec =
        world.spec_with("tags", json!([{"name": "team", "value": "red"}, {"name": "team", "value": "blue"}]));
    spec["iamInstanceProfile"] = json!(null);
    let request = world.machine("one", &spec);
    let made = world.create(&request).await.unwrap();
    let seen = world.look(&request).await.pop().unwrap();
    assert_eq!(seen.provider_id, Some(format!("aws:///us-east-1a/{}", id_of(&made))));
    assert_eq!((&seen.state, seen.power, seen.interruptible), (&State::Running, Power::On, false));
    assert_eq!(seen.region.as_deref(), Some("us-east-1"));
    assert_eq!(seen.instance_type.as_deref(), Some("m5.large"));
    assert!(
        seen.addresses.iter().any(|address| address.type_ == "InternalIP" && address.address.starts_with("10.0.1."))
    );
    assert!(seen.addresses.iter().any(|address| address.type_ == "Hostname"));
    let described = world.described(&made).await;
    for (key, value) in [
        ("team", "red"),
        ("Name", "plain-one"),
        ("kubernetes.io/cluster/plain-cluster", "owned"),
        ("machinist.dev/machine", "openshift-machine-api/plain-one"),
        ("machinist.dev/uid", "uid-plain-one"),
    ] {
        assert!(described.contains(&format!("<key>{key}</key><value>{value}</value>")), "{key}: {described}");
    }
    let fields = [("InstanceId", id_of(&made)), ("Attribute", "userData")];
    let attribute = only(&world.ask("DescribeInstanceAttribute", &fields).await, "value");
    use base64::Engine as _;
    let decoded = base64::engine::general_purpose::STANDARD.decode(attribute).unwrap();
    assert_eq!(String::from_utf8(decoded).unwrap(), USER_DATA);
}

#[tokio::test]
async fn filters_find_an_image_and_all_security_groups() {
    let Some(world) = World::start("filters").await else { return };
    let mut images = Vec::new();
    for name in ["filters-os-1", "filters-os-2"] {
        images.push(world.made("RegisterImage", &[("Name", name)], "imageId").await);
    }
    let extra = world.security_group("filters-extra").await;
    let mut spec = world.spec();
    spec["ami"] = json!({"filters": [{"name": "name", "values": ["filters-os-*"]}]});
    spec["securityGroups"] = json!([
        {"filters": [{"name": "tag:Name", "values": ["filters-*"]}]},
        {"arn": format!("arn:aws:ec2:us-east-1:1:security-group/{extra}")},
    ]);
    let made = world.create(&world.machine("one", &spec)).await.unwrap();
    let run = world.edge.arrived("RunInstances").pop().unwrap();
    assert!(images.iter().any(|image| run.field("ImageId") == Some(image)), "{images:?}");
    assert!(run.field("NetworkInterface.1.SecurityGroupId.2").is_some());
    assert_eq!(run.field("NetworkInterface.1.SecurityGroupId.3"), None, "each group once");
    let described = world.described(&made).await;
    assert!(described.contains(&extra), "{described}");
}

#[tokio::test]
async fn disks_are_encrypted_and_named_after_the_image_s_root() {
    let Some(world) = World::start("disks").await else { return };
    let devices = json!([
        {"ebs": {"volumeSize": 33, "volumeType": "gp3", "encrypted": true, "iops": 3000, "throughputMib": 150}},
        {"deviceName": "/dev/sdz", "ebs": {"volumeSize": 7, "volumeType": "gp2"}},
    ]);
    let made = world.create(&world.machine("one", &world.spec_with("blockDevices", devices))).await.unwrap();
    let root = only(&world.ask("DescribeImages", &[("ImageId.1", &world.image)]).await, "rootDeviceName");
    let fields = [("Filter.1.Name", "attachment.instance-id"), ("Filter.1.Value.1", id_of(&made))];
    let volumes = world.ask("DescribeVolumes", &fields).await;
    assert!(volumes.contains("<size>33</size>") && volumes.contains("<size>7</size>"), "{volumes}");
    assert!(volumes.contains("<encrypted>true</encrypted>"), "{volumes}");
    assert!(volumes.contains(&format!("<device>{root}</device>")), "{volumes}");
    assert!(volumes.contains("<key>machinist.dev/uid</key>"), "volumes carry the mark: {volumes}");
}

#[tokio::test]
async fn spot_instances_say_that_they_may_be_interrupted() {
    let Some(world) = World::start("spot").await else { return };
    let request = world.machine("one", &world.spec_with("spotMarketOptions", json!({})));
    world.create(&request).await.unwrap();
    assert!(world.look(&request).await[0].interruptible);
}

#[tokio::test]
async fn power_can_be_switched() {
    let Some(world) = World::start("power").await else { return };
    let request = world.machine("one", &world.spec());
    world.create(&request).await.unwrap();
    world.provider.switch_power(&request, PowerWish::Off).await.unwrap();
    let off = world.look(&request).await.pop().unwrap();
    assert_eq!((off.state, off.power), (State::Stopped, Power::Off));
    world.provider.switch_power(&request, PowerWish::On).await.unwrap();
    assert_eq!(world.look(&request).await[0].state, State::Running);
    world.provider.switch_power(&request, PowerWish::Cycle).await.unwrap();
    assert_eq!(world.look(&request).await[0].state, State::Running);
}

#[tokio::test]
async fn the_catalogue_says_what_an_instance_type_offers_and_is_asked_once() {
    let Some(world) = World::start("catalogue").await else { return };
    let large = world.machine("one", &world.spec());
    let capacity = world.provider.capacity(&large).await.unwrap().unwrap();
    assert_eq!((capacity.cpus, capacity.memory_mib, capacity.gpus), (2, 8192, Some(0)));
    world.provider.capacity(&large).await.unwrap();
    assert_eq!(world.edge.arrived("DescribeInstanceTypes").len(), 1);
    let unknown = world.machine("two", &world.spec_with("instanceType", json!("m99.huge")));
    assert_eq!(world.provider.capacity(&unknown).await.unwrap(), None);
}

#[tokio::test]
async fn a_volume_that_an_instance_left_is_found_and_removed() {
    let Some(world) = World::start("leftover").await else { return };
    let request = world.machine("one", &world.spec());
    let fields = [
        ("AvailabilityZone", "us-east-1a"),
        ("Size", "5"),
        ("TagSpecification.1.ResourceType", "volume"),
        ("TagSpecification.1.Tag.1.Key", "kubernetes.io/cluster/leftover-cluster"),
        ("TagSpecification.1.Tag.1.Value", "owned"),
        ("TagSpecification.1.Tag.2.Key", "machinist.dev/machine"),
        ("TagSpecification.1.Tag.2.Value", "openshift-machine-api/leftover-one"),
        ("TagSpecification.1.Tag.3.Key", "machinist.dev/uid"),
        ("TagSpecification.1.Tag.3.Value", "uid-leftover-one"),
    ];
    let volume = world.made("CreateVolume", &fields, "volumeId").await;
    let search = machine::provider::Search {
        cluster: request.mark.cluster.clone(),
        place: request.intent.as_ref().unwrap().place.clone().into(),
        secrets: request.secrets.clone(),
    };
    let marked = world.provider.marked(&search).await.unwrap();
    assert_eq!(marked.len(), 1);
    assert_eq!((marked[0].kind.as_str(), &marked[0].id, &marked[0].mark), ("volume", &volume, &request.mark));
    world.provider.remove(&search, &marked[0]).await.unwrap();
    assert!(world.provider.marked(&search).await.unwrap().is_empty());
    assert_eq!(world.provider.remove(&search, &marked[0]).await.unwrap(), Deletion::Gone, "again does no harm");
}
