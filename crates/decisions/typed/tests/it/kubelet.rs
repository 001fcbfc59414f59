//! KubeletConfigs on their whole way: from the object to the generated MachineConfig and the condition.

use api::annotations;
use expect_test::expect;
use serde_json::json;

use crate::world::{World, feature_gate, pool};

const FIRST: &str = "99-worker-generated-kubelet";
const SECOND: &str = "99-worker-generated-kubelet-1";

#[test]
fn one_reconcile_makes_the_machine_config_and_success() {
    let mut world = World::new(&["master", "worker"]);
    let sysctls = json!(["net.sctp.a", "net.sctp.b"]);
    world.add("custom-kubelet", "worker", json!({"kubeletConfig": {"allowedUnsafeSysctls": sysctls}}));
    assert!(world.step());
    assert!(!world.step(), "nothing is left to do");
    assert_eq!(world.names(), [FIRST]);
    assert_eq!(world.field(FIRST, "allowedUnsafeSysctls"), sysctls);
    assert_eq!(world.field(FIRST, "maxPods"), 250, "the template's word stands where the user has none");
    assert_eq!(world.says("custom-kubelet"), "Success: Success");
    let metadata = &world.config("custom-kubelet").metadata;
    assert_eq!(metadata.finalizers.as_deref(), Some(&[FIRST.to_owned()][..]));
    assert_eq!(metadata.annotations.as_ref().unwrap()[annotations::MC_NAME_SUFFIX], "");
}

#[test]
fn other_annotations_of_a_kubelet_config_are_left_alone() {
    let mut world = World::new(&["worker"]);
    world.add("a", "worker", json!({}));
    world.config("a").metadata.annotations.get_or_insert_default().insert("mine".into(), "yes".into());
    world.settle();
    let notes = world.config("a").metadata.annotations.clone().unwrap();
    assert_eq!((notes["mine"].as_str(), notes[annotations::MC_NAME_SUFFIX].as_str()), ("yes", ""));
}

#[test]
fn several_on_one_pool_merge_in_the_order_of_their_names() {
    let mut world = World::new(&["worker"]);
    world.add("z-first", "worker", json!({"kubeletConfig": {"maxPods": 100, "podsPerCore": 10}, "logLevel": 4}));
    world.add("a-second", "worker", json!({"kubeletConfig": {"maxPods": 50, "registryPullQPS": 0}}));
    world.settle();
    assert_eq!(world.names(), [FIRST, SECOND]);
    assert_eq!(world.field(SECOND, "maxPods"), 100, "z comes after a, whichever was created first");
    assert_eq!(world.field(SECOND, "podsPerCore"), 10);
    assert_eq!(world.field(SECOND, "registryPullQPS"), 0);
    assert!(world.file(SECOND, typed::kubelet::LOGGING).unwrap().contains("KUBELET_LOG_LEVEL=4"));
    assert_eq!(world.field(FIRST, "registryPullQPS"), json!(null), "the first one knows nothing of those after it");
    let notes = world.machine_config(SECOND).unwrap().metadata.annotations.clone().unwrap();
    expect![[r#"{"maxPods":{"from":"z-first","overrode":["a-second"]},"podsPerCore":"z-first","registryPullQPS":"a-second","spec.logLevel":"z-first"}"#]]
        .assert_eq(&notes[annotations::FIELD_PROVENANCE]);
}

#[test]
fn a_bad_one_is_told_and_stops_nobody_else() {
    let mut world = World::new(&["worker"]);
    world.add("a-good", "worker", json!({"kubeletConfig": {"maxPods": 100}}));
    world.add("b-bad", "worker", json!({"kubeletConfig": {"maxPod": 100}}));
    world.add("c-range", "worker", json!({"kubeletConfig": {"maxPods": -5}}));
    world.add("d-good", "worker", json!({"kubeletConfig": {"podsPerCore": 3}}));
    world.settle();
    assert_eq!(world.says("a-good"), "Success: Success");
    assert_eq!(world.says("d-good"), "Success: Success");
    expect!["Failure: Error: KubeletConfig could not be unmarshalled: spec.kubeletConfig.maxPod is not a field of KubeletConfiguration (did you mean maxPods?)"]
        .assert_eq(&world.says("b-bad"));
    expect!["Failure: Error: KubeletConfiguration: maxPods must be at least 0, for example 250, but is -5"]
        .assert_eq(&world.says("c-range"));
    let last = *world.names().last().unwrap();
    let last = last.to_owned();
    assert_eq!((world.field(&last, "maxPods"), world.field(&last, "podsPerCore")), (json!(100), json!(3)));
}

#[test]
fn what_was_accepted_last_stays_in_force_while_an_edit_is_refused() {
    let mut world = World::new(&["worker"]);
    world.add("a", "worker", json!({"kubeletConfig": {"maxPods": 100}}));
    world.settle();
    let before = world.machine_config(FIRST).cloned();
    world.edit("a", json!({"maxPods": "many"}));
    world.settle();
    assert_eq!(world.machine_config(FIRST).cloned(), before, "no node moves");
    assert!(world.says("a").contains("spec.kubeletConfig.maxPods must be a whole number"), "{}", world.says("a"));
    world.edit("a", json!({"maxPods": 60}));
    world.settle();
    assert_eq!((world.field(FIRST, "maxPods"), world.says("a")), (json!(60), "Success: Success".to_owned()));
}

#[test]
fn settings_that_only_fit_together_are_accepted_together() {
    let mut world = World::new(&["worker"]);
    world.add("a", "worker", json!({"kubeletConfig": {"shutdownGracePeriodCriticalPods": "20s"}}));
    world.settle();
    assert!(
        world.says("a").contains("shutdownGracePeriodCriticalPods (20s) must not be longer"),
        "{}",
        world.says("a")
    );
    world.add("b", "worker", json!({"kubeletConfig": {"shutdownGracePeriod": "1m"}}));
    world.settle();
    assert_eq!((world.says("a"), world.says("b")), ("Success: Success".to_owned(), "Success: Success".to_owned()));
}

#[test]
fn a_selector_that_is_empty_or_matches_nothing_says_so() {
    let mut world = World::new(&["worker"]);
    world.add("none", "worker", json!({"machineConfigPoolSelector": null}));
    world.add("empty", "worker", json!({"machineConfigPoolSelector": {}}));
    world.add("far", "infra", json!({}));
    world.add(
        "broken",
        "worker",
        json!({"machineConfigPoolSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}),
    );
    world.settle();
    for name in ["none", "empty"] {
        assert!(world.says(name).contains("absent or empty, which selects no pool"), "{}", world.says(name));
    }
    assert!(world.says("far").contains("no pool has the labels"), "{}", world.says("far"));
    assert!(world.says("broken").contains("invalid label selector"), "{}", world.says("broken"));
    assert!(world.names().is_empty());
}

#[test]
fn the_eleventh_on_a_pool_is_refused_and_the_others_go_on() {
    let mut world = World::new(&["worker"]);
    for number in 0..11 {
        world.add(&format!("k{number:02}"), "worker", json!({"kubeletConfig": {"maxPods": 100 + number}}));
    }
    world.settle();
    expect!["Failure: Error: could not get kubelet config key: max number of supported kubelet config (10) has been reached. Please delete old kubelet configs before retrying"]
        .assert_eq(&world.says("k10"));
    assert_eq!(world.names().len(), 10);
    assert_eq!(world.field("99-worker-generated-kubelet-9", "maxPods"), 109);
    // A place becomes free and is given to the one that waits.
    world.config("k03").metadata.deletion_timestamp = world.config("k03").metadata.creation_timestamp.clone();
    world.settle();
    assert_eq!(world.says("k10"), "Success: Success");
    assert_eq!(
        world.config("k10").metadata.finalizers.as_deref(),
        Some(&["99-worker-generated-kubelet-3".to_owned()][..])
    );
}

#[test]
fn two_with_one_suffix_are_told_apart() {
    let mut world = World::new(&["worker"]);
    for name in ["a", "b"] {
        world.add(name, "worker", json!({"kubeletConfig": {"maxPods": 10}}));
        let notes = world.config(name).metadata.annotations.get_or_insert_default();
        notes.insert(annotations::MC_NAME_SUFFIX.to_owned(), "4".to_owned());
    }
    world.add("c", "worker", json!({}));
    world
        .config("c")
        .metadata
        .annotations
        .get_or_insert_default()
        .insert(annotations::MC_NAME_SUFFIX.into(), "x".into());
    world.settle();
    assert_eq!(world.says("a"), "Success: Success");
    assert!(world.says("b").contains("which KubeletConfig a has on pool \"worker\" already"), "{}", world.says("b"));
    assert!(world.says("c").contains("error converting x to int"), "{}", world.says("c"));
}

#[test]
fn a_deleted_one_takes_its_machine_config_along_and_leaves_foreign_finalizers() {
    let mut world = World::new(&["worker"]);
    world.add("a", "worker", json!({"kubeletConfig": {"maxPods": 10}}));
    world.add("b", "worker", json!({"kubeletConfig": {"podsPerCore": 5}}));
    world.settle();
    let config = world.config("a");
    config.metadata.deletion_timestamp = config.metadata.creation_timestamp.clone();
    config.metadata.finalizers.as_mut().unwrap().push("example.com/mine".to_owned());
    world.settle();
    assert_eq!(world.names(), [SECOND]);
    assert_eq!(world.field(SECOND, "maxPods"), 250, "its settings are gone from the others too");
    assert_eq!(world.config("a").metadata.finalizers.as_deref(), Some(&["example.com/mine".to_owned()][..]));
}

#[test]
fn machine_configs_of_a_pool_that_is_gone_are_deleted() {
    let mut world = World::new(&["worker", "infra"]);
    world.add("a", "infra", json!({"kubeletConfig": {"maxPods": 10}}));
    world.settle();
    assert_eq!(world.names(), ["99-infra-generated-kubelet"]);
    world.snapshot.pools.pop();
    world.settle();
    assert!(world.names().is_empty());
    assert!(world.says("a").contains("no pool has the labels"), "{}", world.says("a"));
    assert_eq!(world.config("a").metadata.finalizers.as_deref(), Some(&[][..]));
}

#[test]
fn a_pool_that_does_not_take_what_is_generated_for_it_says_so() {
    let mut world = World::new(&["worker"]);
    let mut gpu = pool("gpu");
    gpu.spec.machine_config_selector =
        serde_json::from_value(json!({"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}})).unwrap();
    world.snapshot.pools.push(gpu);
    world.add("a", "gpu", json!({"kubeletConfig": {"maxPods": 50}}));
    world.settle();
    assert_eq!(
        world.says("a"),
        "Failure: Error: it reaches no node of pool gpu, because spec.machineConfigSelector of MachineConfigPool gpu does not take MachineConfigs with label machineconfiguration.openshift.io/role: gpu; add gpu to the values that the selector takes for this label"
    );
    let selector = pool("gpu").spec.machine_config_selector;
    world.snapshot.pools.last_mut().unwrap().spec.machine_config_selector = selector;
    world.settle();
    assert_eq!(world.says("a"), "Success: Success");
    assert_eq!(world.field("99-gpu-generated-kubelet", "maxPods"), 50);
}

#[test]
fn a_pool_that_gets_it_through_the_workers_is_not_missed() {
    let mut world = World::new(&["worker"]);
    let mut infra = pool("infra");
    infra.spec.machine_config_selector =
        serde_json::from_value(json!({"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}})).unwrap();
    world.snapshot.pools.push(infra);
    world.add("both", "worker", json!({"kubeletConfig": {"maxPods": 50}}));
    let selector = json!({"matchExpressions": [{"key": "pool", "operator": "In", "values": ["worker", "infra"]}]});
    for pool in &mut world.snapshot.pools {
        let name = pool.metadata.name.clone().unwrap();
        pool.metadata.labels.get_or_insert_default().insert("pool".to_owned(), name);
    }
    let config = world.snapshot.kubelet_configs.last_mut().unwrap();
    config.spec.machine_config_pool_selector = serde_json::from_value(selector).unwrap();
    world.settle();
    assert_eq!(world.says("both"), "Success: Success");
}

#[test]
fn custom_pools_inherit_what_workers_have() {
    let mut world = World::new(&["worker", "infra"]);
    world.snapshot.node = serde_json::from_value(
        json!({"apiVersion": "config.openshift.io/v1", "kind": "Node", "metadata": {"name": "cluster"},
            "spec": {"workerLatencyProfile": "MediumUpdateAverageReaction"}}),
    )
    .unwrap();
    world.snapshot.feature_gate = Some(feature_gate(&[("SomeGate", true)]));
    world.add("workers", "worker", json!({"kubeletConfig": {"maxPods": 111}}));
    world.add("infra", "infra", json!({"kubeletConfig": {"podsPerCore": 4}}));
    world.settle();
    let name = "99-infra-generated-kubelet";
    assert_eq!(world.field(name, "maxPods"), 111);
    assert_eq!(world.field(name, "podsPerCore"), 4);
    assert_eq!(world.field(name, "nodeStatusUpdateFrequency"), "20s");
    assert_eq!(world.field(name, "featureGates"), json!({"SomeGate": true}));
    let generated: Vec<_> = world.names().into_iter().map(str::to_owned).collect();
    assert_eq!(
        generated,
        ["97-worker-generated-kubelet", "98-worker-generated-kubelet", "99-infra-generated-kubelet", FIRST],
        "the pool selects the workers' 97 and 98, so it has none of its own"
    );
    world.edit("workers", json!({"maxPods": 77}));
    world.settle();
    assert_eq!(world.field(name, "maxPods"), 77);
}

#[test]
fn a_pool_of_its_own_role_alone_starts_from_the_template() {
    let mut world = World::new(&["worker"]);
    let mut edge = pool("edge");
    edge.spec.machine_config_selector =
        serde_json::from_value(json!({"matchLabels": {"machineconfiguration.openshift.io/role": "edge"}})).unwrap();
    world.snapshot.pools.push(edge);
    world.snapshot.feature_gate = Some(feature_gate(&[("SomeGate", false)]));
    world.add("workers", "worker", json!({"kubeletConfig": {"maxPods": 111}}));
    world.add("edge", "edge", json!({"kubeletConfig": {"podsPerCore": 4}}));
    world.settle();
    assert_eq!(world.field("99-edge-generated-kubelet", "maxPods"), 250);
    assert_eq!(world.field("98-edge-generated-kubelet", "featureGates"), json!({"SomeGate": false}));
}

#[test]
fn static_pods_stay_on_the_control_plane() {
    let mut world = World::new(&["master", "worker"]);
    let all = json!({"matchExpressions": [{"key": "pool", "operator": "Exists"}]});
    world.add("off", "worker", json!({"machineConfigPoolSelector": all, "kubeletConfig": {"staticPodPath": ""}}));
    world.settle();
    assert!(
        world.says("off").contains("not allowed to be set for control plane pool \"master\""),
        "{}",
        world.says("off")
    );
    assert!(world.names().is_empty(), "it is refused as a whole");
}

#[test]
fn an_edit_of_a_generated_machine_config_is_put_back_and_told() {
    let mut world = World::new(&["worker"]);
    world.add("a", "worker", json!({"kubeletConfig": {"maxPods": 10}}));
    world.settle();
    let before = world.machine_config(FIRST).cloned();
    world.snapshot.machine_configs[0].spec.kernel_arguments = vec!["debug".to_owned()];
    world.settle();
    assert_eq!(world.machine_config(FIRST).cloned(), before);
    assert_eq!(
        world.events,
        [
            "GeneratedConfigRestored: MachineConfig 99-worker-generated-kubelet was changed by somebody and put back; change KubeletConfig a instead"
        ]
    );
}

#[test]
fn a_machine_config_that_a_user_wrote_under_our_name_is_left_alone() {
    let mut world = World::new(&["worker"]);
    let theirs = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": FIRST}, "spec": {"kernelArguments": ["mine"]}});
    world.snapshot.machine_configs.push(serde_json::from_value(theirs).unwrap());
    world.add("a", "worker", json!({"kubeletConfig": {"maxPods": 10}}));
    world.settle();
    assert_eq!(world.machine_config(FIRST).unwrap().spec.kernel_arguments, ["mine"]);
    assert!(world.says("a").contains("exists and was not generated"), "{}", world.says("a"));
}

#[test]
fn a_template_that_does_not_render_is_told_on_every_kubelet_config_and_moves_nothing() {
    let mut world = World::new(&["worker"]);
    world.add("a", "worker", json!({"kubeletConfig": {"maxPods": 10}}));
    world.settle();
    let before = world.machine_config(FIRST).cloned();
    world.snapshot.bases.insert("worker".to_owned(), Err("template common/00/a: its head is wrong".to_owned()));
    world.settle();
    assert_eq!(world.machine_config(FIRST).cloned(), before);
    expect!["Failure: Error: could not get original kubelet config: template common/00/a: its head is wrong"]
        .assert_eq(&world.says("a"));
}

#[test]
fn fields_that_the_kubelets_of_a_pool_do_not_know_are_refused() {
    let mut world = World::new(&["worker"]);
    world.snapshot.minors.insert("worker".to_owned(), 31);
    world.add("a", "worker", json!({"kubeletConfig": {"crashLoopBackOff": {"maxContainerRestartPeriod": "1m"}}}));
    world.settle();
    expect![[r#"Failure: Error: KubeletConfiguration: crashLoopBackOff is known to kubelets from 1.32 on, but a node of pool "worker" runs 1.31"#]]
        .assert_eq(&world.says("a"));
}

#[test]
fn latency_does_not_jump_over_its_middle() {
    let node = |profile: &str| {
        serde_json::from_value(json!({"apiVersion": "config.openshift.io/v1", "kind": "Node",
            "metadata": {"name": "cluster", "generation": 1}, "spec": {"workerLatencyProfile": profile}}))
        .unwrap()
    };
    let mut world = World::new(&["worker"]);
    world.snapshot.node = Some(node("Default"));
    world.settle();
    let name = "97-worker-generated-kubelet";
    assert_eq!(world.field(name, "nodeStatusUpdateFrequency"), "10s");
    assert_eq!(world.machine_config(name).unwrap().spec.kernel_arguments.len(), 2);
    world.snapshot.node = Some(node("LowUpdateSlowReaction"));
    world.settle();
    assert_eq!(world.field(name, "nodeStatusUpdateFrequency"), "10s");
    assert!(world.events[0].starts_with("ActionProhibited: "), "{:?}", world.events);
    for profile in ["MediumUpdateAverageReaction", "LowUpdateSlowReaction"] {
        world.snapshot.node = Some(node(profile));
        world.settle();
    }
    assert_eq!(world.field(name, "nodeStatusUpdateFrequency"), "1m0s");
}

#[test]
fn a_hundred_on_twenty_pools_settle_with_one_write_for_each_part_of_an_object() {
    let pools: Vec<String> = (0..19).map(|number| format!("pool-{number}")).chain(["worker".to_owned()]).collect();
    let mut world = World::new(&pools.iter().map(String::as_str).collect::<Vec<_>>());
    for number in 0..100 {
        let fields = json!({"kubeletConfig": {"maxPods": 100 + number}, "logLevel": number % 10});
        world.add(&format!("k-{number:03}"), &pools[number % 20], fields);
    }
    assert!(world.step() && !world.step(), "one reconcile is enough");
    assert_eq!(world.names().len(), 100);
    let writes = world.writes.clone();
    assert_eq!((writes.configs, writes.deletions, writes.metadata, writes.status), (100, 0, 100, 100));
    // One after another they cost the same: nobody's MachineConfig is written again when another one comes.
    let mut slow = World::new(&["worker", "master"]);
    for number in 0..16 {
        slow.add(&format!("k-{number:03}"), ["worker", "master"][number % 2], json!({"logLevel": number % 10}));
        slow.settle();
    }
    assert_eq!((slow.writes.configs, slow.writes.deletions), (16, 0));
    assert_eq!((slow.writes.metadata, slow.writes.status), (16, 16));
}

#[test]
fn what_was_accepted_last_is_part_of_later_merges_too() {
    let mut world = World::new(&["worker"]);
    world.add("a", "worker", json!({"kubeletConfig": {"maxPods": 100}}));
    world.add("b", "worker", json!({"kubeletConfig": {"podsPerCore": 5}}));
    world.settle();
    world.edit("a", json!({"maxPods": "many"}));
    world.edit("b", json!({"podsPerCore": 6}));
    world.settle();
    assert_eq!((world.field(SECOND, "maxPods"), world.field(SECOND, "podsPerCore")), (json!(100), json!(6)));
}

/// A cluster whose KubeletConfigs another controller has applied, each replacing those before it.
fn taken_over() -> World {
    let mut world = World::new(&["worker"]);
    world.add("a", "worker", json!({"kubeletConfig": {"maxPods": 100}}));
    world.add("b", "worker", json!({"kubeletConfig": {"podsPerCore": 5}}));
    world.settle();
    for config in &mut world.snapshot.machine_configs {
        let notes = config.metadata.annotations.as_mut().unwrap();
        notes.retain(|key, _| !key.starts_with("machinist.dev/"));
        notes.insert(annotations::GENERATED_BY_CONTROLLER_VERSION.to_owned(), "abcdef".to_owned());
        config.spec.extensions = vec!["usbguard".to_owned()];
    }
    world.writes = crate::world::Writes::default();
    world
}

#[test]
fn a_cluster_taken_over_is_kept_as_it_is() {
    let mut world = taken_over();
    world.settle();
    assert_eq!(world.writes, crate::world::Writes::default(), "no object is written and no node moves");
    assert_eq!(world.plan().kept, [FIRST, SECOND]);
    // One without an owner of today is kept too, and an edit of it is taken back.
    let mut features = world.machine_config(FIRST).unwrap().clone();
    features.metadata.name = Some("98-worker-generated-kubelet".to_owned());
    features.metadata.owner_references = None;
    world.snapshot.machine_configs.push(features.clone());
    world.settle();
    assert_eq!(world.plan().kept, ["98-worker-generated-kubelet", FIRST, SECOND]);
    world.snapshot.machine_configs.last_mut().unwrap().spec.kernel_type = Some("realtime".to_owned());
    world.settle();
    assert_eq!(world.machine_config("98-worker-generated-kubelet"), Some(&features));
    assert!(world.events[0].contains("`machinist adopt` makes it ours"), "{:?}", world.events);
}

#[test]
fn on_a_cluster_taken_over_what_a_refused_edit_leaves_in_force_is_put_back_too() {
    let mut world = taken_over();
    world.settle();
    world.edit("b", json!({"podsPerCore": "many"}));
    world.settle();
    assert!(world.says("b").starts_with("Failure: "), "{}", world.says("b"));
    let before = world.sorted();
    let place =
        world.snapshot.machine_configs.iter().position(|it| it.metadata.name.as_deref() == Some(SECOND)).unwrap();
    world.snapshot.machine_configs[place].spec.kernel_arguments = vec!["debug".to_owned()];
    world.settle();
    assert_eq!(world.sorted(), before);
    assert!(world.events.iter().any(|it| it.contains("`machinist adopt` makes it ours")), "{:?}", world.events);
}

#[test]
fn on_a_cluster_taken_over_only_what_is_new_or_edited_merges() {
    let mut world = taken_over();
    let before = world.machine_config(SECOND).cloned();
    world.add("c", "worker", json!({"kubeletConfig": {"registryPullQPS": 7}}));
    world.settle();
    let third = "99-worker-generated-kubelet-2";
    assert_eq!(world.machine_config(SECOND).cloned(), before, "what is there stays");
    assert_eq!(world.field(third, "registryPullQPS"), 7);
    assert_eq!(world.field(third, "podsPerCore"), 5, "b was in force");
    assert_eq!(world.field(third, "maxPods"), 250, "a was not, because b replaced it");
    world.edit("a", json!({"maxPods": 90}));
    world.settle();
    assert_eq!(world.field(third, "maxPods"), 90);
    assert_eq!(world.field(third, "podsPerCore"), 5);
}

#[test]
fn where_the_kubelet_is_not_ours_the_settings_are_a_dropin() {
    let mut world = World::new(&["worker"]);
    world.snapshot.profile = typed::templates::Profile::Kubeadm;
    world.snapshot.bases.clear();
    world.snapshot.minors.insert("worker".to_owned(), 33);
    let fields = json!({"maxPods": 50, "systemReserved": {"memory": "2Gi"},
        "shutdownGracePeriod": "30s", "shutdownGracePeriodCriticalPods": "5s"});
    world.add("a", "worker", json!({"kubeletConfig": fields, "logLevel": 3}));
    world.settle();
    assert_eq!(world.says("a"), "Success: Success");
    expect![[r#"
        apiVersion: kubelet.config.k8s.io/v1beta1
        kind: KubeletConfiguration
        logging:
          verbosity: 3
        maxPods: 50
        shutdownGracePeriod: 30s
        shutdownGracePeriodCriticalPods: 5s
        systemReserved:
          memory: 2Gi
    "#]]
    .assert_eq(&world.file(FIRST, "/etc/kubernetes/kubelet.conf.d/99-machinist-kubelet.conf").unwrap());
    assert!(world.file(FIRST, "/etc/systemd/system/kubelet.service.d/20-machinist-config-dir.conf").is_some());
    world.snapshot.minors.insert("worker".to_owned(), 28);
    world.edit("a", json!({"maxPods": 51}));
    world.settle();
    assert!(world.says("a").contains("kubelets read drop-ins from 1.30 on"), "{}", world.says("a"));
}

#[test]
fn hosts_of_which_nothing_is_known_get_no_kubelet_settings_and_it_is_said() {
    let mut world = World::new(&["worker"]);
    world.snapshot.profile = typed::templates::Profile::None;
    world.add("a", "worker", json!({"kubeletConfig": {"maxPods": 50}}));
    world.settle();
    assert!(world.names().is_empty());
    assert!(world.says("a").contains("set spec.profile of ClusterSettings cluster"), "{}", world.says("a"));
}
