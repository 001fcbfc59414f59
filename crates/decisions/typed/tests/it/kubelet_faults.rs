//! KubeletConfigs, templates and pools with faults: what was in force stays in force, and the fault is told.

use serde_json::json;

use crate::world::World;

#[test]
fn amounts_reserved_for_the_system_are_checked_before_a_node_sees_them() {
    for profile in [typed::templates::Profile::OpenShift, typed::templates::Profile::Kubeadm] {
        for amount in ["lots", "-1Gi", "1Gi\"; true; \"", "1Gi\nA=b", "$(reboot)"] {
            let mut world = World::new(&["worker"]);
            world.snapshot.profile = profile;
            for resource in ["memory", "cpu", "ephemeral-storage"] {
                let fields = json!({"systemReserved": {resource: amount}});
                world.add(resource, "worker", json!({"kubeletConfig": fields}));
            }
            world.settle();
            for resource in ["memory", "cpu", "ephemeral-storage"] {
                let said = world.says(resource);
                assert!(said.starts_with("Failure: "), "{amount:?}: {said}");
                assert!(said.contains(&format!("systemReserved[{resource}]")), "{amount:?}: {said}");
            }
            assert!(world.names().is_empty(), "{amount:?}: {:?}", world.names());
        }
    }
}

#[test]
fn nothing_that_a_shell_would_read_comes_from_the_sizing_file() {
    use typed::templates::{Config, Profile, Templates};
    let rendered = Templates::builtin(Profile::OpenShift).render(&crate::templates::parameters("worker")).unwrap();
    let units = &rendered[&Config::Base].units;
    let unit = units.iter().find(|unit| unit.name == "kubelet-auto-node-size.service").unwrap();
    let contents = unit.contents.as_deref().unwrap();
    assert!(!contents.contains("bash -c") && !contents.contains("${"), "{contents}");
}
