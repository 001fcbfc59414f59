//! Specs as users write them, defaulted, checked and named.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

fn spec(more: Value) -> Value {
    let mut spec = json!({
        "apiVersion": "machine.openshift.io/v1alpha1", "kind": "OpenstackProviderSpec",
        "flavor": "m1.large", "image": "rhcos",
        "networks": [{"filter": {}, "subnets": [{"filter": {"name": "c1-nodes", "tags": "openshiftClusterID=c1"}}]}],
        "securityGroups": [{"filter": {}, "name": "c1-worker"}],
    });
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
        spec.extend(more);
    }
    SpecRules::default(&Rules, &spec, &Surroundings::default()).unwrap()
}

#[track_caller]
fn check(more: Value, expected: Expect) {
    let Verdict { problems, warnings } = Rules.validate(&spec(more), &Surroundings::default());
    let lines: Vec<_> = problems.iter().map(ToString::to_string).chain(warnings).collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn what_the_installer_writes_is_good_in_old_and_new_groups() {
    check(json!({}), expect![""]);
    check(json!({"apiVersion": "openstackproviderconfig.openshift.io/v1alpha1"}), expect![""]);
    let written = json!({
        "cloudName": "openstack", "cloudsSecret": {"name": "openstack-cloud-credentials", "namespace": "openshift-machine-api"},
        "trunk": true, "tags": ["openshiftClusterID=c1"], "serverMetadata": {"Name": "c1-worker", "openshiftClusterID": "c1"},
        "serverGroupName": "c1-worker", "availabilityZone": "nova", "configDrive": true, "keyName": "mine",
        "rootVolume": {"diskSize": 100, "volumeType": "fast", "availabilityZone": "nova"},
        "additionalBlockDevices": [{"name": "etcd", "sizeGiB": 10, "storage": {"type": "Local"}}],
        "ports": [{"networkID": "n", "nameSuffix": "sriov", "vnicType": "direct", "profile": {"capabilities": "switchdev"},
            "fixedIPs": [{"subnetID": "s", "ipAddress": "10.0.0.7"}], "portSecurity": false, "trunk": false,
            "macAddress": "fa:16:3e:00:00:01", "tags": ["a"]}],
    });
    check(written, expect![""]);
}

#[test]
fn what_is_missing_is_named_with_an_example() {
    check(
        json!({"flavor": "", "image": null, "networks": [{}, {"subnets": [{}]}], "securityGroups": [{}],
            "ports": [{"fixedIPs": [{}], "allowedAddressPairs": [{}]}], "rootVolume": {"diskSize": -1},
            "additionalBlockDevices": [{}, {"name": "root", "sizeGiB": 1, "storage": {"type": "Local", "volume": {}}}]}),
        expect![[r#"
            providerSpec.flavor: Required value: name a flavor, such as m1.large
            providerSpec.image: Required value: name an image by its name or id
            providerSpec.rootVolume.diskSize: Invalid value: -1: must be a number of GiB, such as 100
            providerSpec.additionalBlockDevices[0].name: Required value: name the device, such as etcd
            providerSpec.additionalBlockDevices[0].sizeGiB: Invalid value: 0: must be a number of GiB, at least 1
            providerSpec.additionalBlockDevices[0].storage.type: Required value: write Volume or Local
            providerSpec.additionalBlockDevices[1].name: Invalid value: "root": is the name of the volume to boot from
            providerSpec.additionalBlockDevices[1].storage.volume: Forbidden: a device of type Local is no volume
            providerSpec.networks[0]: Required value: name a network by uuid or filter, or name subnets
            providerSpec.networks[1].subnets[0]: Required value: name a subnet by uuid or filter
            providerSpec.ports[0].networkID: Required value: write the id of the port's network
            providerSpec.ports[0].fixedIPs[0].subnetID: Required value: write the id of a subnet of the port's network
            providerSpec.ports[0].allowedAddressPairs[0].ipAddress: Required value: write an address or a range, such as 10.0.0.0/24
            providerSpec.securityGroups[0]: Required value: name a security group by uuid, name or filter"#]],
    );
}

#[test]
fn what_the_cloud_would_refuse_is_refused() {
    check(
        json!({"tags": ["a/b", "x,y", ""], "serverMetadata": {"a/b": "", "machinist.dev:uid": "x"},
            "floatingIP": "here", "serverGroupID": "my group",
            "ports": [{"networkID": "n", "macAddress": "none", "fixedIPs": [{"subnetID": "s", "ipAddress": "x"}],
                "portSecurity": false, "securityGroups": ["g"], "allowedAddressPairs": [{"ipAddress": "10.0.0.1"}],
                "hostID": "h", "nameSuffix": "0"}],
            "additionalBlockDevices": [{"name": "a", "sizeGiB": 1, "storage": {"type": "Floppy"}},
                {"name": "a", "sizeGiB": 1, "storage": {"type": "Volume"}}]}),
        expect![[r#"
            providerSpec.additionalBlockDevices[0].storage.type: Unsupported value: "Floppy": supported values: "Local", "Volume"
            providerSpec.additionalBlockDevices[1].name: Invalid value: "a": another device has this name
            providerSpec.ports[0].macAddress: Invalid value: "none": must look like fa:16:3e:00:00:01
            providerSpec.ports[0].fixedIPs[0].ipAddress: Invalid value: "x": must be an address, such as 10.0.0.7
            providerSpec.ports[0].securityGroups: Forbidden: needs portSecurity, which is false
            providerSpec.ports[0].allowedAddressPairs: Forbidden: needs portSecurity, which is false
            providerSpec.ports[0].hostID: Forbidden: the cloud chooses the host of a port; use availabilityZone
            providerSpec.ports: Invalid value: "0": two ports would have this name; numbers are those of ports without a suffix
            providerSpec.floatingIP: Invalid value: "here": must be an address, such as 203.0.113.7
            providerSpec.tags[0]: Invalid value: "a/b": must have 1 to 60 letters, none of them a comma or a slash
            providerSpec.tags[1]: Invalid value: "x,y": must have 1 to 60 letters, none of them a comma or a slash
            providerSpec.tags[2]: Invalid value: "": must have 1 to 60 letters, none of them a comma or a slash
            providerSpec.serverMetadata.a/b: Invalid value: "a/b": a key has up to 255 letters, digits, spaces and the signs - _ : .
            providerSpec.serverMetadata.machinist.dev:uid: Forbidden: keys that begin with machinist.dev: say whose a server is
            providerSpec.serverGroupID: Invalid value: "my group": must be the id of a server group; its name goes into serverGroupName"#]],
    );
}

#[test]
fn what_is_not_used_is_said_by_name() {
    check(
        json!({"sshUserName": "core", "primarySubnet": "s", "flavour": "m1",
            "networks": [{"uuid": "n", "fixedIp": "10.0.0.1", "filter": {"name": "x", "limit": 1, "shared": true},
                "subnets": [{"uuid": "s", "portSecurity": true, "filter": {"networkId": "n", "sortKey": "k"}}]}],
            "ports": [{"networkID": "n", "projectID": "p", "description": "d".repeat(101)}],
            "rootVolume": {"sourceUUID": "i", "sourceType": "image"}}),
        expect![[r#"
            providerSpec.flavour: unknown field, which is ignored; did you mean flavor?
            providerSpec.rootVolume: is not used without diskSize: the machine boots from a disk of its flavor
            providerSpec.rootVolume.sourceUUID: is not used, because image is set
            providerSpec.rootVolume.sourceType: is not used
            providerSpec.networks[0].filter: is not used, because uuid is set
            providerSpec.networks[0].filter.shared: is not used
            providerSpec.networks[0].filter.limit: is not used
            providerSpec.networks[0].fixedIp: is not used: write ports with fixedIPs
            providerSpec.networks[0].subnets[0].portSecurity: is not used: write it on the network
            providerSpec.networks[0].subnets[0].filter.networkId: is not used: write uuid on the network
            providerSpec.networks[0].subnets[0].filter.sortKey: is not used
            providerSpec.ports[0].description: is cut to 100 letters: the rest says whose the port is
            providerSpec.ports[0].projectID: is not used: ports are made in the project of the credentials
            providerSpec.sshUserName: is not used
            providerSpec.primarySubnet: is not used: the first of networks is the primary one"#]],
    );
}

#[test]
fn a_floating_address_in_a_set_is_doubted() {
    let surroundings = Surroundings { template: true, ..Surroundings::default() };
    let verdict = Rules.validate(&spec(json!({"floatingIP": "203.0.113.7"})), &surroundings);
    assert_eq!(verdict.warnings, ["providerSpec.floatingIP: only one machine of the set can have it"]);
}

#[test]
fn ports_and_volumes_are_named_as_upstream_names_them() {
    let names = |more: Value| {
        let read = read::read::<OpenStackSpec>(&spec(more)).unwrap();
        children(&read.spec, "m").into_iter().map(|(key, name)| format!("{key}={name}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(json!({})), "port-0=m-0");
    assert_eq!(names(json!({"networks": null})), "port-0=m-0");
    let more = json!({
        "networks": [{"uuid": "n", "subnets": [{"uuid": "a"}, {"uuid": "b"}]}, {"subnets": [{"uuid": "a"}, {"uuid": "b"}]}],
        "ports": [{"networkID": "n", "nameSuffix": "fast"}, {"networkID": "n"}],
        "rootVolume": {"diskSize": 10},
        "additionalBlockDevices": [{"name": "etcd", "storage": {"type": "Volume"}}, {"name": "tmp", "storage": {"type": "Local"}}],
    });
    let expected = "port-0=m-0 port-1=m-1 port-2=m-2 port-3=m-fast port-4=m-4 volume-etcd=m-etcd volume-root=m-root";
    assert_eq!(names(more), expected);
}

#[test]
fn the_place_of_a_machine_is_enough_to_log_in() {
    let place = Rules.place(&spec(json!({"cloudsSecret": {"name": "keys", "namespace": "ns"}})));
    assert_eq!(place, json!({"cloudName": "openstack", "cloudsSecret": {"name": "keys", "namespace": "ns"}}));
    assert_eq!(Rules.place(&place), place);
    let needs = Rules.secrets(&place);
    assert_eq!(needs.len(), 1);
    assert_eq!((needs[0].name.as_str(), needs[0].namespace.as_deref()), ("keys", Some("ns")));
    assert_eq!(needs[0].field, "providerSpec.cloudsSecret.name");
}
