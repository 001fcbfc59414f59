//! What a machine is made with.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machine::provider::{ErrorKind, Power, PowerWish, Provider, Request, State};
use serde_json::json;

use crate::world::{USER_DATA, World};

#[tokio::test]
async fn a_machine_is_a_clone_of_the_template_with_what_the_spec_says() {
    let Some(world) = World::start("clone").await else { return };
    let mut spec = world.spec();
    spec["dataDisks"] = json!([{"name": "data", "sizeGiB": 3, "provisioningMode": "Thin"}]);
    spec["network"]["devices"] = json!([{"networkName": "DC0_DVPG0"}, {"networkName": "VM Network"}]);
    let request = world.machine("m", &spec);
    let made = world.create(&request).await.unwrap();
    assert_eq!((made.state.clone(), made.power, made.state_word.as_str()), (State::Running, Power::On, "poweredOn"));
    assert_eq!((made.region.as_deref(), made.zone.as_deref()), (Some("east"), Some("east-1")));

    let vm = world.vm("clone-m").await;
    let config = world.property(&vm, "config").await;
    let uuid = made.provider_id.as_deref().unwrap().strip_prefix("vsphere://").unwrap();
    assert!(config.contains(&format!("<uuid>{uuid}</uuid>")), "{config}");
    assert!(config.contains("<numCPU>4</numCPU>") && config.contains("<memoryMB>8192</memoryMB>"), "{config}");
    assert!(config.contains("<capacityInKB>125829120</capacityInKB>"), "the first disk has 120 GiB");
    assert!(config.contains("<capacityInKB>3145728</capacityInKB>"), "the second has 3 GiB");
    assert_eq!(config.matches("\"VirtualVmxnet3\"").count(), 2, "{config}");
    assert!(!config.contains("\"VirtualE1000\""), "the template's card is gone");
    assert!(config.contains(&STANDARD.encode(USER_DATA)), "{config}");
    assert!(
        config
            .contains("cluster=clone-cluster;namespace=openshift-machine-api;name=clone-m;uid=uid-clone-m;stage=made")
    );
    let clone = world.edge.arrived().into_iter().find(|call| call.method == "CloneVM_Task").unwrap().body;
    assert!(
        clone.contains("moveAllDiskBackingsAndConsolidate") && clone.contains("<powerOn>false</powerOn>"),
        "{clone}"
    );

    world.delete(&request).await;
    assert!(!world.has_vm("clone-m").await && world.marked().await.is_empty());
}

#[tokio::test]
async fn a_linked_clone_grows_from_a_snapshot() {
    let Some(world) = World::start("linked").await else { return };
    for (name, snapshot) in [("current", ""), ("named", "ready")] {
        let mut spec = world.spec_with("cloneMode", json!("linkedClone"));
        spec["snapshot"] = json!(snapshot);
        world.edge.forget_calls();
        assert_eq!(world.create(&world.machine(name, &spec)).await.unwrap().state, State::Running);
        let clone = world.edge.arrived().into_iter().find(|call| call.method == "CloneVM_Task").unwrap().body;
        assert!(clone.contains("createNewChildDiskBacking") && clone.contains("<snapshot type="), "{clone}");
    }
    let mut spec = world.spec_with("cloneMode", json!("linkedClone"));
    spec["snapshot"] = json!("none");
    let error = world.create(&world.machine("none", &spec)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
}

#[tokio::test]
async fn static_addresses_are_arguments_of_the_first_boot() {
    let Some(world) = World::start("static").await else { return };
    let device = json!({"networkName": "VM Network", "gateway": "192.0.2.1", "ipAddrs": ["192.0.2.10/24"],
        "nameservers": ["192.0.2.53"]});
    let request = world.machine("m", &world.spec_with("network", json!({"devices": [device]})));
    world.create(&request).await.unwrap();
    let config = world.property(&world.vm("static-m").await, "config.extraConfig").await;
    let expected = "ip=192.0.2.10::192.0.2.1:255.255.255.0:::none nameserver=192.0.2.53";
    assert!(config.contains("guestinfo.afterburn.initrd.network-kargs") && config.contains(expected), "{config}");
}

#[tokio::test]
async fn a_machine_joins_its_group_before_it_is_switched_on() {
    let Some(world) = World::start("group").await else { return };
    let request = world.machine("m", &world.spec_in("vmGroup", "group"));
    world.create(&request).await.unwrap();
    let calls: Vec<String> = world.edge.arrived().into_iter().map(|call| call.method).collect();
    let at = |name: &str| calls.iter().position(|call| call == name).unwrap_or_else(|| panic!("no {name}: {calls:?}"));
    assert!(at("ReconfigureComputeResource_Task") < at("PowerOnVM_Task"));
    let vm = world.vm("group-m").await;
    let groups =
        world.edge.arrived().into_iter().find(|call| call.method == "ReconfigureComputeResource_Task").unwrap();
    assert!(groups.body.contains(&format!(">{vm}<")));
    let missing = world.machine("n", &world.spec_in("vmGroup", "nobody"));
    assert_eq!(world.create(&missing).await.unwrap_err().kind, ErrorKind::NotFound);
    world.delete(&missing).await;
    assert_eq!(world.marked().await, ["group-m"]);
}

#[tokio::test]
async fn power_is_switched_and_a_machine_that_is_off_is_still_there() {
    let Some(world) = World::start("power").await else { return };
    let request = world.machine("m", &world.spec());
    world.create(&request).await.unwrap();
    for (wish, state) in [(PowerWish::Off, State::Stopped), (PowerWish::On, State::Running)] {
        world.provider.switch_power(&request, wish).await.unwrap();
        assert_eq!(world.look(&request).await.into_iter().map(|it| it.state).collect::<Vec<_>>(), [state]);
    }
}

#[tokio::test]
async fn addresses_are_those_of_the_guest() {
    let Some(world) = World::start("guest").await else { return };
    let request = world.machine("m", &world.spec());
    world.create(&request).await.unwrap();
    let vm = world.vm("guest-m").await;
    let option = "<spec><extraConfig xsi:type=\"OptionValue\"><key>SET.guest.ipAddress</key>\
                  <value xsi:type=\"xsd:string\">10.0.0.42</value></extraConfig></spec>";
    world.ask("ReconfigVM_Task", ("VirtualMachine", &vm), option).await;
    let seen = world.look_until(&request, |instance| !instance.addresses.is_empty()).await;
    let shown: Vec<_> = seen.addresses.iter().map(|it| format!("{} {}", it.type_, it.address)).collect();
    assert_eq!(shown, ["InternalIP 10.0.0.42", "Hostname guest-m", "InternalDNS guest-m"]);
}

#[tokio::test]
async fn a_template_may_be_named_by_its_path_and_a_folder_left_out() {
    let Some(world) = World::start("paths").await else { return };
    let mut spec = world.spec_in("folder", "");
    spec["template"] = json!("/DC0/vm/template");
    spec["workspace"]["resourcePool"] = json!("DC0_C1/Resources");
    let request = world.machine("m", &spec);
    let made = world.create(&request).await.unwrap();
    assert_eq!((made.state, made.zone), (State::Running, None), "that cluster is in no failure domain");
    let moved = Request { spec: Arc::new(world.spec()), ..request.clone() };
    assert_eq!(world.look(&moved).await.len(), 1, "a machine is found wherever in the datacenter it is");
    world.delete(&request).await;
}
