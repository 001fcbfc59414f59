//! Registries with faults: a policy that is in force stays in force, and the object at fault is told.

use std::collections::BTreeSet;

use api::annotations;
use api::config::{ClusterImagePolicy, ImagePolicy};
use serde_json::{Value, json};
use typed::registries::plan::{Snapshot, plan};
use typed::registries::{POLICY, REGISTRIES};
use typed::templates::Runtime;

use crate::registries::{NAME, file, image, mirror_set, snapshot, step};

fn settled(mut world: Snapshot) -> Snapshot {
    step(&mut world);
    assert!(plan(&world).is_empty(), "nothing is left to do");
    world
}

fn never(name: &str, source: &str, mirrors: &[&str]) -> api::config::ImageDigestMirrorSet {
    let mut set: api::config::ImageDigestMirrorSet = mirror_set(name, source, mirrors);
    set.spec.image_digest_mirrors[0].mirror_source_policy = Some("NeverContactSource".to_owned());
    set
}

fn files(world: &Snapshot) -> [Option<String>; 2] {
    [REGISTRIES, POLICY].map(|path| file(world, path))
}

#[test]
fn a_mirror_set_that_comes_later_gives_way_to_one_in_force() {
    let mut world = snapshot();
    world.digest_mirrors.push(never("zzz", "quay.io", &["mirror.local"]));
    let mut world = settled(world);
    let before = files(&world);
    world.digest_mirrors.push(mirror_set("aaa", "quay.io", &["other.local"]));
    let told = step(&mut world);
    assert_eq!(files(&world), before);
    assert!(told.len() == 1 && told[0].starts_with("ImageDigestMirrorSet aaa: "), "{told:?}");
    assert!(plan(&world).is_empty(), "it is told once");
}

#[test]
fn an_image_that_stops_fitting_keeps_its_lists_in_force() {
    let mut world = snapshot();
    world.digest_mirrors.push(mirror_set("m", "*.example.com", &["mirror.local"]));
    world.image = Some(image(&json!({"allowedRegistries": ["quay.io", "mirror.local"]})));
    let mut world = settled(world);
    let before = files(&world);
    world.image = Some(image(&json!({"blockedRegistries": ["a.example.com:5000"]})));
    let told = step(&mut world);
    assert_eq!(files(&world), before);
    assert!(told.len() == 1 && told[0].starts_with("Image cluster: "), "{told:?}");
    assert!(plan(&world).is_empty(), "it is told once");
    world.image = Some(image(&json!({"blockedRegistries": ["b.io"]})));
    step(&mut world);
    assert!(file(&world, REGISTRIES).unwrap().contains("b.io"));
    assert!(plan(&world).is_empty());
}

#[test]
fn of_two_that_do_not_fit_and_are_new_the_stricter_kind_stands() {
    let mut world = snapshot();
    world.digest_mirrors.push(mirror_set("m", "*.example.com", &["mirror.local"]));
    world.image = Some(image(&json!({"blockedRegistries": ["a.example.com:5000"]})));
    let told = step(&mut world);
    assert!(file(&world, REGISTRIES).unwrap().contains("a.example.com"));
    assert!(told[0].starts_with("ImageDigestMirrorSet m: "), "{told:?}");
}

#[test]
fn a_release_image_that_cannot_be_read_is_told_and_stops_nobody() {
    let mut world = snapshot();
    world.digest_mirrors.push(mirror_set("m", "quay.io", &["mirror.local"]));
    world.image = Some(image(&json!({"blockedRegistries": ["bad.io"]})));
    let mut world = settled(world);
    let before = files(&world);
    world.release_image = Some("myregistry/release:1".to_owned());
    let told = step(&mut world);
    assert_eq!(files(&world), before);
    assert!(told.len() == 1 && told[0].starts_with("ControllerConfig machine-config-controller: "), "{told:?}");
    assert!(plan(&world).is_empty(), "it is told once");
}

#[test]
fn templates_that_cannot_be_read_leave_everything_in_force() {
    let mut world = snapshot();
    world.defaults.insert("worker".to_owned(), Ok((String::new(), json!({"default": [{"type": "reject"}]}))));
    world.digest_mirrors.push(mirror_set("m", "quay.io", &["mirror.local"]));
    world.image = Some(image(&json!({"blockedRegistries": ["bad.io"]})));
    let world = settled(world);
    let bad: [Result<(String, Value), String>; 4] = [
        Err("its head is wrong".to_owned()),
        Ok(("[[registry".to_owned(), json!({}))),
        Ok((String::new(), json!([]))),
        Ok((String::new(), json!({"transports": 5}))),
    ];
    for bad in bad {
        let mut world = world.clone();
        let before = files(&world);
        world.defaults.insert("worker".to_owned(), bad.clone());
        let told = step(&mut world);
        assert_eq!(files(&world), before, "{bad:?}");
        assert_eq!(told.len(), 1, "{bad:?}: {told:?}");
        assert!(plan(&world).is_empty(), "{bad:?} is told once");
        world.image = None;
        world.digest_mirrors.clear();
        step(&mut world);
        assert!(world.machine_configs.is_empty(), "{bad:?}: nothing is asked for any more");
    }
}

fn policy<T: serde::de::DeserializeOwned>(namespace: Option<&str>, name: &str, scope: &str, identity: &str) -> T {
    let policy = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "Policy", "metadata": {"name": name, "namespace": namespace},
        "spec": {"scopes": [scope], "policy": {
            "rootOfTrust": {"policyType": "PublicKey", "publicKey": {"keyData": "a2V5"}},
            "signedIdentity": {"matchPolicy": identity},
        }},
    });
    serde_json::from_value(policy).unwrap()
}

#[test]
fn a_policy_that_stops_fitting_stays_in_force_and_says_so() {
    let mut world = snapshot();
    world.cluster_policies.push(policy(None, "p", "quay.io", "MatchRepository"));
    let mut world = settled(world);
    let before = files(&world);
    world.cluster_policies[0] = policy::<ClusterImagePolicy>(None, "p", "quay.io", "Nonsense");
    let found = plan(&world);
    assert!(found.updates[0].status.as_ref().unwrap()["conditions"][0]["reason"] == "InvalidPolicy");
    step(&mut world);
    assert_eq!(files(&world), before);
}

#[test]
fn thousands_of_bad_policies_of_tenants_stop_nobody() {
    let mut world = snapshot();
    for number in 0..2000 {
        let namespace = format!("tenant-{number}");
        world.policies.push(policy::<ImagePolicy>(Some(&namespace), "p", "a.io", "Nonsense"));
    }
    world.policies.push(policy::<ImagePolicy>(Some("good"), "p", "a.io", "MatchRepository"));
    world.digest_mirrors.push(mirror_set("m", "quay.io", &["mirror.local"]));
    for number in 0..100 {
        world.digest_mirrors.push(mirror_set(&format!("bad-{number}"), "https://quay.io", &["mirror.local"]));
    }
    let told = step(&mut world);
    assert!(told.len() < 30, "{}", told.len());
    let live = world.machine_configs.iter().find(|it| it.metadata.name.as_deref() == Some(NAME)).unwrap();
    let notes: usize = live.metadata.annotations.iter().flatten().map(|(_, value)| value.len()).sum();
    assert!(notes < 16 << 10, "{notes}");
    assert!(file(&world, "/etc/crio/policies/good.json").is_some());
    assert_eq!(step(&mut world), [""; 0], "it is told once");
}

#[test]
fn conditions_of_others_survive_ours() {
    let mut world = snapshot();
    let mut one: ImagePolicy = policy(Some("a"), "p", "a.io", "Nonsense");
    one.status = serde_json::from_value(json!({"conditions": [
        {"type": "Theirs", "status": "True", "reason": "Mine", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ]}))
    .unwrap();
    world.policies.push(one);
    let status = plan(&world).updates[0].status.clone().unwrap();
    let types: Vec<&str> =
        status["conditions"].as_array().unwrap().iter().filter_map(|it| it["type"].as_str()).collect();
    assert_eq!(types, ["Theirs", "Pending"]);
}

#[test]
fn what_is_ours_is_known_also_without_its_origin() {
    let mut world = snapshot();
    world.digest_mirrors.push(mirror_set("m", "quay.io", &["mirror.local"]));
    let mut world = settled(world);
    let before = world.machine_configs.clone();
    world.machine_configs[0].metadata.annotations.as_mut().unwrap().remove(annotations::GENERATED_FROM);
    world.machine_configs[0].spec.config = Some(json!({"ignition": {"version": "3.5.0"}}));
    step(&mut world);
    assert_eq!(world.machine_configs, before);
}

#[test]
fn a_machine_config_of_a_user_in_our_place_is_told_once() {
    let mut world = snapshot();
    world.digest_mirrors.push(mirror_set("m", "quay.io", &["mirror.local"]));
    let theirs = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": NAME}, "spec": {"config": {"ignition": {"version": "3.5.0"}}}});
    world.machine_configs.push(serde_json::from_value(theirs).unwrap());
    let told = step(&mut world);
    assert!(told.len() == 1 && told[0].contains("exists and was not generated"), "{told:?}");
    assert!(plan(&world).is_empty(), "it is told once");
    world.machine_configs[0].metadata.annotations = None;
    world.digest_mirrors.clear();
    assert!(plan(&world).is_empty(), "it takes nothing away any more");
}

#[test]
fn what_containerd_lacks_is_told_on_the_object_that_asks_for_it() {
    let mut world = snapshot();
    world.runtimes.insert("worker".to_owned(), BTreeSet::from([Runtime::Containerd { major: 2 }]));
    world.digest_mirrors.push(mirror_set("m", "quay.io/org", &["mirror.local"]));
    let told = step(&mut world);
    assert_eq!(
        told,
        ["ImageDigestMirrorSet m: containerd has no settings for \"quay.io/org\", only for whole registries"]
    );
}

#[test]
fn entries_that_would_break_a_file_on_the_node_are_refused_by_name() {
    let lists = ["insecureRegistries", "blockedRegistries", "allowedRegistries", "containerRuntimeSearchRegistries"];
    for entry in ["https://r.io", "..", "r.io/", "_default", "r.io/../x", "r io", "r.io\n", "[::1"] {
        for list in lists {
            for runtime in [Runtime::Crio, Runtime::Containerd { major: 2 }] {
                let mut world = snapshot();
                world.default_runtime = runtime;
                world.image = Some(image(&json!({list: ["r.io", entry]})));
                let told = step(&mut world);
                assert!(told.iter().any(|it| it.contains(&format!("{entry:?}"))), "{list} {entry:?}: {told:?}");
                assert!(file(&world, REGISTRIES).is_none() && file(&world, POLICY).is_none(), "{list} {entry:?}");
            }
        }
        let mut world = snapshot();
        world.cluster_policies.push(policy(None, "p", entry, "MatchRepository"));
        let status = plan(&world).updates.first().and_then(|update| update.status.clone()).unwrap_or_default();
        assert_eq!(status["conditions"][0]["reason"], "InvalidPolicy", "{entry:?}");
    }
    for entry in ["r.io", "R.io:5000/a/b", "*.r.io", "localhost", "r.io/a:latest", "[fd00::1]:5000"] {
        let mut world = snapshot();
        world.image = Some(image(&json!({"allowedRegistries": [entry]})));
        assert_eq!(step(&mut world), [""; 0], "{entry:?}");
    }
}

#[test]
fn policies_of_tenants_have_room_of_their_own_and_newcomers_wait() {
    let mut world = snapshot();
    // A policy of the cluster that every namespace's file has to repeat.
    for number in 0..50 {
        world.cluster_policies.push(policy(None, &format!("c{number}"), &format!("c{number}.io"), "MatchRepository"));
    }
    for number in 0..400 {
        let mut one: ImagePolicy = policy(Some(&format!("n{number:03}")), "p", "a.io", "MatchRepository");
        let age = format!("2026-01-01T{:02}:{:02}:00Z", 23 - number / 60, 59 - number % 60);
        one.metadata.creation_timestamp = serde_json::from_value(json!(age)).unwrap();
        world.policies.push(one);
    }
    let refused: Vec<String> = plan(&world).updates.into_iter().filter_map(|it| it.object.namespace).collect();
    step(&mut world);
    let live = &world.machine_configs[0];
    let size = serde_json::to_string(live).unwrap().len();
    assert!(size < 1 << 20, "{size}");
    assert!(refused.contains(&"n000".to_owned()), "the youngest waits");
    assert!(!refused.contains(&"n399".to_owned()) && file(&world, "/etc/crio/policies/n399.json").is_some());
    assert_eq!(refused.len() + files_of_namespaces(&world), 400);
}

fn files_of_namespaces(world: &Snapshot) -> usize {
    let config = world.machine_configs[0].spec.config.clone().unwrap();
    let files = config["storage"]["files"].as_array().cloned().unwrap_or_default();
    files.iter().filter(|file| file["path"].as_str().unwrap().starts_with("/etc/crio/policies/")).count()
}
