//! What goes with a machine, and what stays.

use machine::provider::Provider;
use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn volumes_of_the_cluster_are_detached_before_the_machine_is_deleted() {
    let Some(world) = World::start("volumes").await else { return };
    let request = world.machine("m", &world.spec());
    world.create(&request).await.unwrap();
    let vm = world.vm("volumes-m").await;
    // A volume as a storage driver attaches it: a file outside the machine's folder, here in one that is there already.
    let disk = "<spec><deviceChange xsi:type=\"VirtualDeviceConfigSpec\"><operation>add</operation>\
                <fileOperation>create</fileOperation><device xsi:type=\"VirtualDisk\"><key>-1</key>\
                <backing xsi:type=\"VirtualDiskFlatVer2BackingInfo\"><fileName>[LocalDS_0] DC0_H0_VM0/pvc-1.vmdk</fileName>\
                <diskMode>persistent</diskMode></backing><controllerKey>202</controllerKey><unitNumber>9</unitNumber>\
                <capacityInKB>1024</capacityInKB></device></deviceChange></spec>";
    let controller = world.controller(&vm).await;
    world.ask("ReconfigVM_Task", ("VirtualMachine", &vm), &disk.replace("202", &controller)).await;
    let mut attached = String::new();
    for _ in 0..500 {
        attached = world.property(&vm, "config.hardware.device").await;
        if attached.contains("pvc-1.vmdk") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(attached.contains("DC0_H0_VM0/pvc-1.vmdk"), "{attached}");
    assert!(world.edge.has_file("LocalDS_0", "DC0_H0_VM0/pvc-1.vmdk").await);

    world.edge.forget_calls();
    world.delete(&request).await;
    let calls: Vec<String> = world.edge.arrived().into_iter().map(|call| call.method).collect();
    let at = |name: &str| calls.iter().position(|call| call == name).unwrap_or_else(|| panic!("no {name}: {calls:?}"));
    assert!(at("PowerOffVM_Task") < at("ReconfigVM_Task") && at("ReconfigVM_Task") < at("Destroy_Task"), "{calls:?}");
    assert!(!world.has_vm("volumes-m").await);
    assert!(world.edge.has_file("LocalDS_0", "DC0_H0_VM0/pvc-1.vmdk").await, "the volume is gone with the machine");
}

#[tokio::test]
async fn data_disks_of_the_machine_go_with_it() {
    let Some(world) = World::start("data").await else { return };
    let disks = json!([{"name": "data", "sizeGiB": 1}]);
    let request = world.machine("m", &world.spec_with("dataDisks", disks));
    world.create(&request).await.unwrap();
    let devices = world.property(&world.vm("data-m").await, "config.hardware.device").await;
    let files: Vec<&str> = devices.split("<fileName>").skip(1).map(|rest| rest.split('<').next().unwrap()).collect();
    assert!(files.iter().filter(|file| file.ends_with(".vmdk")).all(|file| file.contains("data-m/")), "{files:?}");
    world.edge.forget_calls();
    world.delete(&request).await;
    assert_eq!(world.edge.count("ReconfigVM_Task"), 0, "nothing was to be detached");
}

#[tokio::test]
async fn a_machine_of_the_same_name_that_is_not_the_machines_is_left_alone() {
    let Some(world) = World::start("same").await else { return };
    world.copy_by_hand("same-m").await;
    let request = world.machine("m", &world.spec());
    assert!(world.look(&request).await.is_empty(), "a name is no proof");
    let error = world.create(&request).await.unwrap_err();
    assert!(error.message.contains("another virtual machine same-m"), "{error}");
    world.provider.delete(&request).await.unwrap();
    assert!(world.has_vm("same-m").await);
}
