//! Which parameters a launch request carries.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

/// What a spec adds to the request of a plain one.
#[track_caller]
fn check(added: Value, expected: Expect) {
    let mut spec = json!({"instanceType": "m5.large", "subnet": {"id": "subnet-1"}});
    for (key, value) in added.as_object().expect("fields") {
        spec[key] = value.clone();
    }
    let lines = request(spec, &resolved(), IpFamily::Ipv4).expect("a good spec");
    let plain = json!({"instanceType": "m5.large", "subnet": {"id": "subnet-1"}});
    let plain = request(plain, &resolved(), IpFamily::Ipv4).expect("a good spec");
    let new: Vec<_> = lines.into_iter().filter(|line| !plain.contains(line)).collect();
    expected.assert_eq(&new.join("\n"));
}

fn resolved() -> Resolved {
    Resolved {
        image: "ami-1".to_owned(),
        root_device: "/dev/xvda".to_owned(),
        security_groups: vec!["sg-1".to_owned(), "sg-2".to_owned()],
        subnet: "subnet-1".to_owned(),
        ..Resolved::default()
    }
}

fn request(spec: Value, resolved: &Resolved, ip_family: IpFamily) -> Result<Vec<String>, Error> {
    let spec: AwsSpec = serde_json::from_value(spec).expect("a spec");
    let tags = [("Name".to_owned(), "m-1".to_owned())];
    let launch = Launch { spec: &spec, resolved, tags: &tags, ip_family, user_data: Some("e30="), token: "t-1" };
    Ok(launch.params()?.lines())
}

#[test]
fn a_plain_spec_asks_for_one_instance_with_its_token_and_tags() {
    let spec =
        json!({"instanceType": "m5.large", "subnet": {"id": "subnet-1"}, "placement": {"availabilityZone": "a"}});
    let lines = request(spec, &resolved(), IpFamily::Ipv4).expect("a good spec");
    expect![[r#"
        ImageId=ami-1
        InstanceType=m5.large
        MinCount=1
        MaxCount=1
        ClientToken=t-1
        UserData=e30=
        TagSpecification.1.ResourceType=instance
        TagSpecification.1.Tag.1.Key=Name
        TagSpecification.1.Tag.1.Value=m-1
        TagSpecification.2.ResourceType=volume
        TagSpecification.2.Tag.1.Key=Name
        TagSpecification.2.Tag.1.Value=m-1
        NetworkInterface.1.DeviceIndex=0
        NetworkInterface.1.SubnetId=subnet-1
        NetworkInterface.1.DeleteOnTermination=true
        NetworkInterface.1.SecurityGroupId.1=sg-1
        NetworkInterface.1.SecurityGroupId.2=sg-2"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn names_of_keys_and_profiles_are_passed_on() {
    check(
        json!({"keyName": "k", "iamInstanceProfile": {"id": "worker"}}),
        expect![[r#"
            KeyName=k
            IamInstanceProfile.Name=worker"#]],
    );
}

#[test]
fn the_zone_is_said_only_where_the_subnet_does_not() {
    check(
        json!({"placement": {"availabilityZone": "us-east-1a"}, "subnet": {"filters": []}}),
        expect!["Placement.AvailabilityZone=us-east-1a"],
    );
}

#[test]
fn placement_groups_partitions_and_tenancy_are_said() {
    check(
        json!({"placementGroupName": "g", "placementGroupPartition": 3, "placement": {"tenancy": "dedicated"}}),
        expect![[r#"
            Placement.GroupName=g
            Placement.PartitionNumber=3
            Placement.Tenancy=dedicated"#]],
    );
}

#[test]
fn hosts_keep_the_group_and_the_zone_beside_them() {
    let host = json!({"affinity": "DedicatedHost", "dedicatedHost": {"id": "h-01234567"}});
    let placement = json!({"availabilityZone": "z", "tenancy": "host", "host": host});
    check(
        json!({"placement": placement, "placementGroupName": "g", "subnet": {}}),
        expect![[r#"
            Placement.AvailabilityZone=z
            Placement.GroupName=g
            Placement.Tenancy=host
            Placement.Affinity=host
            Placement.HostId=h-01234567"#]],
    );
    check(
        json!({"placement": {"tenancy": "host", "host": {"affinity": "AnyAvailable"}}}),
        expect![[r#"
            Placement.Tenancy=host
            Placement.Affinity=default"#]],
    );
}

#[test]
fn an_allocated_host_is_used() {
    let host = json!({"affinity": "DedicatedHost", "dedicatedHost": {"allocationStrategy": "Dynamic"}});
    let spec = json!({"instanceType": "m5.large", "placement": {"tenancy": "host", "host": host}});
    let resolved = Resolved { host: Some("h-1".to_owned()), ..resolved() };
    let lines = request(spec, &resolved, IpFamily::Ipv4).expect("a good spec");
    assert!(lines.contains(&"Placement.HostId=h-1".to_owned()), "{lines:?}");
}

#[test]
fn spot_instances_end_when_they_are_interrupted() {
    check(
        json!({"spotMarketOptions": {"maxPrice": "0.5"}}),
        expect![[r#"
            InstanceMarketOptions.MarketType=spot
            InstanceMarketOptions.SpotOptions.SpotInstanceType=one-time
            InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior=terminate
            InstanceMarketOptions.SpotOptions.MaxPrice=0.5"#]],
    );
    check(
        json!({"marketType": "Spot"}),
        expect![[r#"
            InstanceMarketOptions.MarketType=spot
            InstanceMarketOptions.SpotOptions.SpotInstanceType=one-time
            InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior=terminate"#]],
    );
}

#[test]
fn capacity_blocks_and_reservations_are_named() {
    check(
        json!({"marketType": "CapacityBlock", "capacityReservationId": "cr-0123456789abcdef0"}),
        expect![[r#"
            InstanceMarketOptions.MarketType=capacity-block
            CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId=cr-0123456789abcdef0"#]],
    );
    check(
        json!({"marketType": "OnDemand", "capacityReservationId": "cr-0123456789abcdef0"}),
        expect![
            "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId=cr-0123456789abcdef0"
        ],
    );
}

#[test]
fn metadata_and_processors_are_set() {
    check(
        json!({
            "metadataServiceOptions": {"authentication": "Required"},
            "cpuOptions": {"confidentialCompute": "AMDEncryptedVirtualizationNestedPaging"},
        }),
        expect![[r#"
            MetadataOptions.HttpTokens=required
            CpuOptions.AmdSevSnp=enabled"#]],
    );
}

#[test]
fn interfaces_have_types_and_public_addresses() {
    check(
        json!({"networkInterfaceType": "EFA", "publicIp": false, "deviceIndex": 1}),
        expect![[r#"
            NetworkInterface.1.DeviceIndex=1
            NetworkInterface.1.AssociatePublicIpAddress=false
            NetworkInterface.1.InterfaceType=efa"#]],
    );
    let wavelength = Resolved { carrier: true, ..resolved() };
    let lines = request(json!({"publicIp": true}), &wavelength, IpFamily::Ipv4).expect("a good spec");
    assert!(lines.contains(&"NetworkInterface.1.AssociateCarrierIpAddress=true".to_owned()), "{lines:?}");
}

#[test]
fn clusters_with_two_families_of_addresses_ask_for_both() {
    let four = request(json!({}), &resolved(), IpFamily::DualStackIpv4Primary).expect("a good spec");
    let six = request(json!({}), &resolved(), IpFamily::DualStackIpv6Primary).expect("a good spec");
    for line in ["MetadataOptions.HttpProtocolIpv6=enabled", "PrivateDnsNameOptions.HostnameType=resource-name"] {
        assert!(four.contains(&line.to_owned()) && six.contains(&line.to_owned()), "{line}");
    }
    let primary = "NetworkInterface.1.PrimaryIpv6=true".to_owned();
    assert!(!four.contains(&primary) && six.contains(&primary));
}

#[test]
fn words_that_nobody_knows_are_refused() {
    let refused = |spec: Value| request(spec, &resolved(), IpFamily::Ipv4).expect_err("refused").kind;
    assert_eq!(refused(json!({"networkInterfaceType": "XYZ"})), ErrorKind::InvalidSpec);
    let host = json!({"tenancy": "host", "host": {}});
    assert_eq!(refused(json!({"placement": host})), ErrorKind::InvalidSpec);
}

#[test]
fn disks_are_encrypted_and_sized_as_asked_and_go_with_their_instance() {
    let root = json!({"ebs": {
        "encrypted": true, "kmsKey": {"id": "", "arn": "arn:aws:kms:us-east-1:1:key/k"}, "volumeSize": 120,
        "volumeType": "gp3", "iops": 3000, "throughputMib": 250, "deleteOnTermination": false,
    }});
    let data = json!({"deviceName": "/dev/sdb", "ebs": {"volumeType": "gp2", "iops": 100, "kmsKey": {"id": "k-1"}}});
    let gone = json!({"deviceName": "/dev/sdc", "noDevice": ""});
    let store = json!({"deviceName": "/dev/sdd", "virtualName": "ephemeral0"});
    check(
        json!({"blockDevices": [root, {"deviceName": "/dev/ignored"}, data, gone, store]}),
        expect![[r#"
            BlockDeviceMapping.1.DeviceName=/dev/xvda
            BlockDeviceMapping.1.Ebs.DeleteOnTermination=true
            BlockDeviceMapping.1.Ebs.VolumeSize=120
            BlockDeviceMapping.1.Ebs.VolumeType=gp3
            BlockDeviceMapping.1.Ebs.Encrypted=true
            BlockDeviceMapping.1.Ebs.KmsKeyId=arn:aws:kms:us-east-1:1:key/k
            BlockDeviceMapping.1.Ebs.Iops=3000
            BlockDeviceMapping.1.Ebs.Throughput=250
            BlockDeviceMapping.2.DeviceName=/dev/sdb
            BlockDeviceMapping.2.Ebs.DeleteOnTermination=true
            BlockDeviceMapping.2.Ebs.VolumeType=gp2
            BlockDeviceMapping.2.Ebs.KmsKeyId=k-1
            BlockDeviceMapping.3.DeviceName=/dev/sdc
            BlockDeviceMapping.3.NoDevice=
            BlockDeviceMapping.4.DeviceName=/dev/sdd
            BlockDeviceMapping.4.VirtualName=ephemeral0"#]],
    );
}

#[test]
fn two_root_disks_are_refused() {
    let error = request(json!({"blockDevices": [{"ebs": {}}, {"ebs": {}}]}), &resolved(), IpFamily::Ipv4);
    let error = error.expect_err("refused");
    assert_eq!(error.kind, ErrorKind::InvalidSpec);
    assert!(error.message.contains("providerSpec.blockDevices[1].deviceName"), "{error}");
}
