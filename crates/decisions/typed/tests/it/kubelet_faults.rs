//! KubeletConfigs, templates and pools with faults: what was in force stays in force, and the fault is told.

use api::annotations;
use serde_json::json;

use crate::world::{World, feature_gate, pool};

const FIRST: &str = "99-worker-generated-kubelet";

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
fn a_value_that_would_stop_a_kubelet_reaches_no_dropin() {
    let bad = [
        ("memoryThrottlingFactor", json!({"memoryThrottlingFactor": 7})),
        ("address", json!({"address": "foo"})),
        ("healthzBindAddress", json!({"healthzBindAddress": "foo"})),
        ("cpuCFSQuotaPeriod", json!({"cpuCFSQuotaPeriod": "2s"})),
        ("enforceNodeAllocatable[0]", json!({"enforceNodeAllocatable": ["everything"]})),
        ("containerLogMonitorInterval", json!({"containerLogMonitorInterval": "1s"})),
        ("podLogsDir", json!({"podLogsDir": "logs"})),
        ("runOnce", json!({"runOnce": true})),
        ("userNamespaces.idsPerPod", json!({"userNamespaces": {"idsPerPod": 7}})),
        ("imageGCLowThresholdPercent", json!({"imageGCLowThresholdPercent": 90, "imageGCHighThresholdPercent": 60})),
        // The kubelet's own low threshold is above this.
        ("imageGCLowThresholdPercent", json!({"imageGCHighThresholdPercent": 70})),
        ("shutdownGracePeriodCriticalPods", json!({"shutdownGracePeriodCriticalPods": "5s"})),
    ];
    for (folder, profile) in [
        ("/etc/kubernetes/kubelet.conf.d", typed::templates::Profile::Kubeadm),
        ("/var/lib/rancher/k3s/agent/etc/kubelet.conf.d", typed::templates::Profile::K3s),
    ] {
        let mut world = World::new(&["worker"]);
        world.snapshot.profile = profile;
        world.add("good", "worker", json!({"kubeletConfig": {"maxPods": 50}}));
        world.settle();
        for (index, (field, fields)) in bad.iter().enumerate() {
            let name = format!("bad-{index}");
            world.add(&name, "worker", json!({"kubeletConfig": fields}));
            world.settle();
            let said = world.says(&name);
            assert!(said.starts_with("Failure: ") && said.contains(field), "{profile}: {fields}: {said}");
            world.snapshot.kubelet_configs.pop();
        }
        assert_eq!(world.says("good"), "Success: Success");
        let dropin = world.file(FIRST, &format!("{folder}/99-machinist-kubelet.conf")).unwrap();
        assert!(dropin.ends_with("kind: KubeletConfiguration\nmaxPods: 50\n"), "{dropin}");
    }
}

#[test]
fn gates_and_latency_alone_make_a_kubelet_of_kubeadm_read_its_dropins() {
    let unit = "/etc/systemd/system/kubelet.service.d/20-machinist-config-dir.conf";
    let mut world = World::new(&["master", "worker", "infra"]);
    world.snapshot.profile = typed::templates::Profile::Kubeadm;
    world.snapshot.minors.insert("worker".to_owned(), 33);
    world.snapshot.node = Some(node("MediumUpdateAverageReaction"));
    world.settle();
    assert_eq!(world.names(), ["97-worker-generated-kubelet"]);
    let latency =
        world.file("97-worker-generated-kubelet", "/etc/kubernetes/kubelet.conf.d/97-machinist.conf").unwrap();
    assert!(latency.contains("nodeStatusUpdateFrequency: 20s"), "{latency}");
    let contents = world.file("97-worker-generated-kubelet", unit).unwrap();
    assert!(contents.contains("--config-dir=/etc/kubernetes/kubelet.conf.d"), "{contents}");
    world.snapshot.feature_gate = Some(feature_gate(&[("MemoryQoS", true)]));
    world.settle();
    for name in ["98-master-generated-kubelet", "98-worker-generated-kubelet"] {
        assert_eq!(world.file(name, unit).as_ref(), Some(&contents), "{name}");
    }
    assert!(world.events.is_empty(), "{:?}", world.events);
}

/// What an object of the cluster carries about what it does not do.
fn ignored(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> &str {
    let notes = metadata.annotations.as_ref();
    notes.and_then(|notes| notes.get(annotations::IGNORED)).map_or("", String::as_str)
}

#[test]
fn kubelets_that_read_no_dropins_get_no_gates_and_no_latency_and_it_is_told() {
    let mut world = World::new(&["worker", "infra"]);
    world.snapshot.profile = typed::templates::Profile::Kubeadm;
    world.snapshot.minors.extend([("worker".to_owned(), 33), ("infra".to_owned(), 29)]);
    world.snapshot.node = Some(node("MediumUpdateAverageReaction"));
    world.snapshot.feature_gate = Some(feature_gate(&[("MemoryQoS", true)]));
    world.settle();
    assert!(world.names().is_empty(), "{:?}", world.names());
    for metadata in
        [&world.snapshot.node.clone().unwrap().metadata, &world.snapshot.feature_gate.clone().unwrap().metadata]
    {
        let said = ignored(metadata);
        assert!(said.contains("kubelets read drop-ins from 1.30 on, but a node of pool \"infra\" runs 1.29"), "{said}");
    }
    assert_eq!(world.events.len(), 2, "{:?}", world.events);
    world.snapshot.minors.insert("infra".to_owned(), 30);
    world.settle();
    let before = world.sorted();
    assert_eq!(world.names(), ["97-worker-generated-kubelet", "98-worker-generated-kubelet"]);
    assert_eq!(ignored(&world.snapshot.node.clone().unwrap().metadata), "");
    // An old node that joins takes nothing from those that are there.
    world.snapshot.minors.insert("infra".to_owned(), 29);
    world.settle();
    assert_eq!(world.sorted(), before);
}

#[test]
fn a_gate_that_stops_a_kubelet_is_left_out_for_its_pool_and_told() {
    for profile in [typed::templates::Profile::OpenShift, typed::templates::Profile::Kubeadm] {
        let mut world = World::new(&["master", "worker", "infra"]);
        world.snapshot.profile = profile;
        let runs = [("master", 36), ("worker", 36), ("infra", 31)];
        world.snapshot.strict = runs.map(|(pool, minor)| (pool.to_owned(), [minor].into())).into();
        world.snapshot.feature_gate =
            Some(feature_gate(&[("MemoryQoS", true), ("MemoryQos", true), ("SystemdWatchdog", true)]));
        world.settle();
        let path = match profile {
            typed::templates::Profile::OpenShift => typed::kubelet::CONFIGURATION,
            _ => "/etc/kubernetes/kubelet.conf.d/98-machinist.conf",
        };
        let gates = |pool: &str| {
            let text = world.file(&format!("98-{pool}-generated-kubelet"), path).unwrap();
            serde_saphyr::from_str::<serde_json::Value>(&text).unwrap()["featureGates"].clone()
        };
        assert_eq!(gates("master"), json!({"MemoryQoS": true, "SystemdWatchdog": true}));
        assert_eq!(gates("worker"), json!({"MemoryQoS": true}), "pool infra reads what workers have");
        let object = world.snapshot.feature_gate.clone().unwrap();
        expect_test::expect!["gate MemoryQos is left out for pool master: kubelets of 1.36 know no such gate (did you mean MemoryQoS?); gate MemoryQos is left out for pool worker: kubelets of 1.31 know no such gate (did you mean MemoryQoS?); gate SystemdWatchdog is left out for pool worker: kubelets know it from 1.32 on, and some are of 1.31"].assert_eq(ignored(&object.metadata));
        assert_eq!(world.events.len(), 1, "{:?}", world.events);
        world.snapshot.feature_gate = Some(feature_gate(&[("MemoryQoS", true)]));
        world.settle();
        assert_eq!(ignored(&world.snapshot.feature_gate.clone().unwrap().metadata), "");
    }
}

#[test]
fn a_set_of_features_that_nothing_here_knows_says_so() {
    for set in ["TechPreviewNoUpgrade", "DevPreviewNoUpgrade"] {
        let mut world = World::new(&["worker"]);
        let mut object = feature_gate(&[]);
        object.spec.feature_set = Some(set.to_owned());
        object.spec.custom_no_upgrade = None;
        world.snapshot.feature_gate = Some(object.clone());
        world.settle();
        let said = world.snapshot.feature_gate.clone().unwrap();
        let said = ignored(&said.metadata);
        assert!(said.starts_with(&format!("spec.featureSet {set} turns no gate on or off")), "{said}");
        // OpenShift's operator says what is in it.
        object.status =
            serde_json::from_value(json!({"featureGates": [{"version": "4.20", "enabled": [{"name": "MemoryQoS"}]}]}))
                .unwrap();
        world.snapshot.feature_gate = Some(object);
        world.settle();
        assert_eq!(ignored(&world.snapshot.feature_gate.clone().unwrap().metadata), "");
    }
}

fn api_server(ciphers: &[&str]) -> api::config::ApiServer {
    let custom = json!({"ciphers": ciphers, "minTLSVersion": "VersionTLS12"});
    let object = json!({"apiVersion": "config.openshift.io/v1", "kind": "APIServer", "metadata": {"name": "cluster"},
        "spec": {"tlsSecurityProfile": {"type": "Custom", "custom": custom}}});
    serde_json::from_value(object).unwrap()
}

#[test]
fn a_tls_profile_of_the_cluster_says_what_of_it_reaches_no_kubelet() {
    let (known, unknown) = ("ECDHE-ECDSA-AES128-GCM-SHA256", "NO-SUCH-CIPHER");
    let openshift = typed::templates::Profile::OpenShift;
    for (profile, ciphers, expected) in [
        (openshift, &[known][..], ""),
        (openshift, &[known, unknown], "which are left out: NO-SUCH-CIPHER"),
        (openshift, &[unknown], "so hosts keep what they have: NO-SUCH-CIPHER"),
        (typed::templates::Profile::Kubeadm, &[known], "set spec.tlsSecurityProfile of a KubeletConfig"),
        (typed::templates::Profile::K3s, &[known], "set spec.tlsSecurityProfile of a KubeletConfig"),
        (typed::templates::Profile::None, &[known], "set spec.profile of ClusterSettings cluster"),
    ] {
        let mut world = World::new(&["worker"]);
        world.snapshot.profile = profile;
        world.snapshot.api_server = Some(api_server(ciphers));
        world.settle();
        let object = world.snapshot.api_server.clone().unwrap();
        let said = ignored(&object.metadata);
        assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{profile} {ciphers:?}: {said}");
    }
}

#[test]
fn gates_and_latency_on_hosts_of_which_nothing_is_known_say_that_they_reach_no_kubelet() {
    let mut world = World::new(&["worker"]);
    world.snapshot.profile = typed::templates::Profile::None;
    world.snapshot.node = Some(node("LowUpdateSlowReaction"));
    world.snapshot.feature_gate = Some(feature_gate(&[("MemoryQoS", true)]));
    world.settle();
    let gates = world.snapshot.feature_gate.clone().unwrap();
    let node = world.snapshot.node.clone().unwrap();
    for metadata in [&gates.metadata, &node.metadata] {
        assert!(ignored(metadata).contains("set spec.profile of ClusterSettings cluster"), "{}", ignored(metadata));
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

fn node(profile: &str) -> api::config::Node {
    let node = json!({"apiVersion": "config.openshift.io/v1", "kind": "Node",
        "metadata": {"name": "cluster", "generation": 1}, "spec": {"workerLatencyProfile": profile}});
    serde_json::from_value(node).unwrap()
}

#[test]
fn a_template_that_does_not_render_leaves_gates_and_latency_in_force() {
    let mut world = World::new(&["master", "worker"]);
    world.snapshot.node = Some(node("MediumUpdateAverageReaction"));
    world.snapshot.feature_gate = Some(feature_gate(&[("SomeGate", true)]));
    world.add("a", "worker", json!({"kubeletConfig": {"maxPods": 10}}));
    world.settle();
    let before = world.sorted();
    assert_eq!(before.len(), 5);
    for role in ["master", "worker"] {
        world.snapshot.bases.insert(role.to_owned(), Err("its head is wrong".to_owned()));
    }
    world.settle();
    assert_eq!(world.sorted(), before);
    // Hosts of which nothing is known any more, because a node that just came says nothing yet.
    world.snapshot.profile = typed::templates::Profile::None;
    world.settle();
    assert_eq!(world.sorted(), before);
    world.snapshot.pools.pop();
    world.settle();
    assert_eq!(world.names(), ["97-master-generated-kubelet", "98-master-generated-kubelet"], "a pool that goes");
}

/// A pool that selects its own MachineConfigs only.
fn lone(name: &str) -> api::machineconfiguration::MachineConfigPool {
    let mut pool = pool(name);
    pool.spec.machine_config_selector =
        serde_json::from_value(json!({"matchLabels": {"machineconfiguration.openshift.io/role": name}})).unwrap();
    pool
}

#[test]
fn what_a_pool_accepted_stays_there_when_another_pool_accepts_more() {
    let mut world = World::new(&["worker"]);
    world.snapshot.pools.push(lone("zeta"));
    let both = json!({"matchExpressions": [{"key": "pool", "operator": "Exists"}]});
    world.add("k", "worker", json!({"machineConfigPoolSelector": both, "kubeletConfig": {"maxPods": 77}}));
    let thresholds = json!({"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 40});
    world.add("a", "zeta", json!({"kubeletConfig": thresholds}));
    world.settle();
    world.edit("k", json!({"maxPods": 78, "imageGCLowThresholdPercent": 75}));
    world.settle();
    assert_eq!(world.field(FIRST, "maxPods"), 78);
    assert_eq!(world.field("99-zeta-generated-kubelet", "maxPods"), 77);
    assert_eq!(world.field("99-zeta-generated-kubelet-1", "imageGCHighThresholdPercent"), 50);
    assert!(world.says("k").contains("pool \"zeta\": "), "{}", world.says("k"));
}

#[test]
fn one_that_comes_later_gives_way_to_what_is_in_force() {
    let mut world = World::new(&["worker"]);
    world.add("k", "worker", json!({"kubeletConfig": {"imageGCLowThresholdPercent": 75}}));
    world.settle();
    let before = world.machine_config(FIRST).cloned();
    let thresholds = json!({"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 40});
    world.add("a", "worker", json!({"kubeletConfig": thresholds}));
    world.settle();
    assert_eq!(world.machine_config(FIRST).cloned(), before);
    assert_eq!(world.says("k"), "Success: Success");
    assert!(world.says("a").contains("imageGC"), "{}", world.says("a"));
    assert_eq!(world.names(), [FIRST]);
}

fn annotate(world: &mut World, name: &str, suffix: &str) {
    let notes = world.config(name).metadata.annotations.get_or_insert_default();
    notes.insert(annotations::MC_NAME_SUFFIX.to_owned(), suffix.to_owned());
}

#[test]
fn a_suffix_that_cannot_be_does_not_take_the_machine_config_away() {
    for bad in ["", "x", "+2", "007", "4294967295", "10", "-1"] {
        let mut world = World::new(&["worker"]);
        world.add("a", "worker", json!({"kubeletConfig": {"maxPods": 10}}));
        world.add("b", "worker", json!({"kubeletConfig": {"podsPerCore": 5}}));
        world.settle();
        let before = world.sorted();
        annotate(&mut world, "b", bad);
        world.settle();
        assert_eq!(world.sorted(), before, "{bad:?}");
        assert!(world.says("b").contains("annotation"), "{bad:?}: {}", world.says("b"));
        world.add("c", "worker", json!({"kubeletConfig": {"maxPods": 20}}));
        world.settle();
        assert_eq!(world.names().len(), 3, "{bad:?}");
        assert_eq!(world.field("99-worker-generated-kubelet-1", "podsPerCore"), 5, "{bad:?}");
        annotate(&mut world, "b", "1");
        world.settle();
        assert_eq!(world.says("b"), "Success: Success", "{bad:?}");
    }
}

#[test]
fn whoever_has_a_machine_config_keeps_its_suffix_against_an_older_one() {
    let mut world = World::new(&["worker"]);
    world.add("a", "worker", json!({"kubeletConfig": {"maxPods": 10}}));
    world.add("b", "worker", json!({"kubeletConfig": {"podsPerCore": 5}}));
    world.settle();
    let before = world.sorted();
    annotate(&mut world, "a", "1");
    world.settle();
    assert_eq!(world.sorted(), before);
    assert!(world.says("a").contains("KubeletConfig b has on pool"), "{}", world.says("a"));
    assert_eq!(world.says("b"), "Success: Success");
}

const SIZING: &str = typed::kubelet::SIZING;

#[test]
fn custom_pools_inherit_sizes_too() {
    let mut world = World::new(&["worker", "infra"]);
    world.add("workers", "worker", json!({"kubeletConfig": {"systemReserved": {"memory": "8Gi"}}, "logLevel": 4}));
    world.add("infra", "infra", json!({"kubeletConfig": {"systemReserved": {"cpu": "1"}}}));
    world.settle();
    let sizing = world.file("99-infra-generated-kubelet", SIZING).unwrap();
    assert!(sizing.contains("SYSTEM_RESERVED_MEMORY=8Gi\nSYSTEM_RESERVED_CPU=1\n"), "{sizing}");
}

#[test]
fn a_switch_does_not_forget_amounts_that_another_one_set() {
    let mut world = World::new(&["worker"]);
    world.add("a", "worker", json!({"kubeletConfig": {"systemReserved": {"memory": "8Gi"}}}));
    world.add("b", "worker", json!({"autoSizingReserved": false}));
    world.settle();
    let sizing = world.file("99-worker-generated-kubelet-1", SIZING).unwrap();
    assert!(sizing.contains("NODE_SIZING_ENABLED=false\nSYSTEM_RESERVED_MEMORY=8Gi\n"), "{sizing}");
    world.add("c", "worker", json!({"autoSizingReserved": true}));
    world.settle();
    let sizing = world.file("99-worker-generated-kubelet-2", SIZING).unwrap();
    assert!(sizing.contains("NODE_SIZING_ENABLED=true\nSYSTEM_RESERVED_MEMORY=1Gi\n"), "{sizing}");
}

#[test]
fn pools_that_inherit_must_know_the_fields_too() {
    let mut world = World::new(&["worker", "infra"]);
    world.snapshot.minors = [("worker".to_owned(), 33), ("infra".to_owned(), 31)].into();
    world.add("a", "worker", json!({"kubeletConfig": {"crashLoopBackOff": {"maxContainerRestartPeriod": "1m"}}}));
    world.settle();
    assert!(world.says("a").contains("a node of pool \"infra\" runs 1.31"), "{}", world.says("a"));
    assert!(world.names().is_empty());
}

#[test]
fn templates_with_gates_that_are_no_map_are_told_and_leave_everything_in_force() {
    let mut world = World::new(&["worker"]);
    world.snapshot.feature_gate = Some(feature_gate(&[("SomeGate", true)]));
    world.add("a", "worker", json!({"kubeletConfig": {"maxPods": 10}}));
    world.settle();
    let before = world.sorted();
    for bad in [json!("x"), json!(5), json!([1])] {
        let base = world.snapshot.bases.get_mut("worker").unwrap().as_mut().unwrap();
        base.insert("featureGates".to_owned(), bad);
        world.settle();
        assert_eq!(world.sorted(), before);
        assert!(world.says("a").contains("featureGates"), "{}", world.says("a"));
    }
}

#[test]
fn conditions_of_others_on_the_node_config_survive_ours() {
    let mut world = World::new(&["worker"]);
    world.snapshot.node = Some(node("Default"));
    world.settle();
    let mut asked = node("LowUpdateSlowReaction");
    asked.status = serde_json::from_value(json!({"conditions": [
        {"type": "Theirs", "status": "True", "reason": "Mine", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ]}))
    .unwrap();
    world.snapshot.node = Some(asked);
    world.settle();
    let conditions = world.snapshot.node.clone().unwrap().status.unwrap().conditions;
    assert_eq!(conditions.iter().map(|it| it.type_.as_str()).collect::<Vec<_>>(), ["Theirs", "Accepted"]);
}

#[test]
fn latency_does_not_jump_on_a_cluster_that_was_taken_over() {
    let mut world = World::new(&["worker"]);
    world.snapshot.node = Some(node("LowUpdateSlowReaction"));
    world.settle();
    let name = "97-worker-generated-kubelet";
    for config in &mut world.snapshot.machine_configs {
        config.metadata.annotations.as_mut().unwrap().retain(|key, _| !key.starts_with("machinist.dev/"));
    }
    world.settle();
    world.snapshot.node = Some(node("Default"));
    world.settle();
    assert_eq!(world.field(name, "nodeStatusUpdateFrequency"), "1m0s");
    assert!(world.events[0].starts_with("ActionProhibited: "), "{:?}", world.events);
}

#[test]
fn a_machine_config_of_a_user_in_the_place_of_gates_or_latency_is_told_once() {
    let mut world = World::new(&["worker"]);
    world.snapshot.node = Some(node("Default"));
    world.snapshot.feature_gate = Some(feature_gate(&[("SomeGate", true)]));
    for name in ["97-worker-generated-kubelet", "98-worker-generated-kubelet"] {
        let theirs = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": {"name": name}, "spec": {"config": {"ignition": {"version": "3.5.0"}}}});
        world.snapshot.machine_configs.push(serde_json::from_value(theirs).unwrap());
    }
    world.settle();
    assert_eq!(world.events.len(), 2, "{:?}", world.events);
    assert!(world.events.iter().all(|it| it.contains("exists and was not generated")), "{:?}", world.events);
}

#[test]
fn pools_may_have_names_like_ours() {
    let mut world = World::new(&["worker", "x-generated-kubelet"]);
    let other = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": "99-x-generated-kubelet-generated-containerruntime",
            "annotations": {annotations::GENERATED_FROM: "ContainerRuntimeConfig a"}},
        "spec": {"config": {"ignition": {"version": "3.5.0"}}}});
    world.snapshot.machine_configs.push(serde_json::from_value(other).unwrap());
    world.add("a", "x-generated-kubelet", json!({"kubeletConfig": {"maxPods": 10}}));
    world.settle();
    assert_eq!(
        world.names(),
        ["99-x-generated-kubelet-generated-containerruntime", "99-x-generated-kubelet-generated-kubelet"]
    );
}

#[test]
fn an_edit_that_cannot_be_put_back_yet_is_told() {
    let mut world = World::new(&["worker"]);
    world.add("a", "worker", json!({"kubeletConfig": {"maxPods": 10}}));
    world.settle();
    let base = world.snapshot.bases.insert("worker".to_owned(), Err("its head is wrong".to_owned())).unwrap();
    world.snapshot.machine_configs[0].spec.kernel_arguments = vec!["debug".to_owned()];
    world.settle();
    assert!(world.says("a").contains("99-worker-generated-kubelet was changed by somebody"), "{}", world.says("a"));
    world.snapshot.bases.insert("worker".to_owned(), base);
    world.settle();
    assert!(world.machine_config(FIRST).unwrap().spec.kernel_arguments.is_empty());
}

#[test]
fn ciphers_that_no_kubelet_knows_are_refused_when_none_is_left() {
    let mut world = World::new(&["worker"]);
    let profile = |ciphers: &[&str]| json!({"tlsSecurityProfile": {"type": "Custom", "custom": {"ciphers": ciphers, "minTLSVersion": "VersionTLS12"}}});
    world.add("a", "worker", profile(&["NO-SUCH-CIPHER", "NOR-THIS"]));
    world.add("b", "worker", profile(&["NO-SUCH-CIPHER", "ECDHE-ECDSA-AES128-GCM-SHA256"]));
    world.settle();
    assert!(world.says("a").contains("NO-SUCH-CIPHER, NOR-THIS"), "{}", world.says("a"));
    assert_eq!(world.says("b"), "Success: Success");
}

#[test]
fn a_share_is_a_number() {
    let mut world = World::new(&["worker"]);
    let reclaim = json!({"evictionMinimumReclaim": {"memory.available": "inf%"}});
    world.add("a", "worker", json!({"kubeletConfig": reclaim}));
    world.settle();
    assert!(world.says("a").contains("evictionMinimumReclaim[memory.available]"), "{}", world.says("a"));
}

#[test]
fn what_we_generated_is_put_back_also_without_any_of_our_notes() {
    let mut world = World::new(&["worker"]);
    world.add("a", "worker", json!({"kubeletConfig": {"maxPods": 10}}));
    world.settle();
    let before = world.sorted();
    world.snapshot.machine_configs[0].metadata.annotations = None;
    world.snapshot.machine_configs[0].spec.config = Some(json!({"ignition": {"version": "3.5.0"}}));
    world.settle();
    assert_eq!(world.sorted(), before);
    assert_eq!(world.says("a"), "Success: Success");
}
