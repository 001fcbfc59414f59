//! Mirrors, registries and signature policies on their whole way.

use std::collections::{BTreeMap, BTreeSet};

use expect_test::{Expect, expect};
use jiff::Timestamp;
use serde_json::{Value, json};
use typed::plan::Plan;
use typed::registries::plan::{Snapshot, plan};
use typed::runtime::main_file::MainFile;
use typed::templates::{Profile, Runtime};

use crate::world::{pool, readable};

pub(crate) const NAME: &str = "99-worker-generated-registries";

pub(crate) fn snapshot() -> Snapshot {
    let mut worker = pool("worker");
    worker.metadata.labels.get_or_insert_default().insert(api::labels::MCO_BUILT_IN.to_owned(), String::new());
    Snapshot {
        now: Timestamp::UNIX_EPOCH,
        version: "v1".to_owned(),
        profile: Profile::OpenShift,
        pools: vec![worker, pool("infra")],
        machine_configs: Vec::new(),
        image: None,
        content_policies: Vec::new(),
        digest_mirrors: Vec::new(),
        tag_mirrors: Vec::new(),
        cluster_policies: Vec::new(),
        policies: Vec::new(),
        release_image: None,
        defaults: BTreeMap::new(),
        runtimes: BTreeMap::new(),
        default_runtime: Runtime::Crio,
        main_files: BTreeMap::new(),
        originals: BTreeMap::new(),
        inputs: BTreeMap::new(),
        adopt: BTreeSet::new(),
    }
}

pub(crate) fn mirror_set<T: serde::de::DeserializeOwned>(name: &str, source: &str, mirrors: &[&str]) -> T {
    let set = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSet", "metadata": {"name": name},
        "spec": {"imageDigestMirrors": [{"source": source, "mirrors": mirrors}]},
    });
    serde_json::from_value(set).unwrap()
}

pub(crate) fn image(sources: &Value) -> api::config::Image {
    let image = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "Image", "metadata": {"name": "cluster", "uid": "u"},
        "spec": {"registrySources": sources},
    });
    serde_json::from_value(image).unwrap()
}

/// Carries a plan out and returns what it told.
pub(crate) fn step(snapshot: &mut Snapshot) -> Vec<String> {
    let Plan { apply, delete, events, inputs, originals, .. } = plan(snapshot);
    for config in apply {
        readable(&config);
        snapshot.machine_configs.retain(|live| live.metadata.name != config.metadata.name);
        snapshot.machine_configs.push(config);
    }
    snapshot.machine_configs.retain(|live| !delete.contains(live.metadata.name.as_ref().unwrap()));
    snapshot.inputs.extend(inputs);
    snapshot.originals.extend(originals.into_iter().map(|(name, kept)| (name, kept.original)));
    events.into_iter().map(|event| format!("{} {}: {}", event.about.kind, event.about.name, event.message)).collect()
}

pub(crate) fn file(snapshot: &Snapshot, path: &str) -> Option<String> {
    let config = snapshot.machine_configs.iter().find(|it| it.metadata.name.as_deref() == Some(NAME))?;
    let files = config.spec.config.as_ref()?["storage"]["files"].as_array().cloned().unwrap_or_default();
    let source = files.iter().find(|file| file["path"] == path)?["contents"]["source"].as_str()?.to_owned();
    String::from_utf8(ignition::data_url::decode(&source).ok()?).ok()
}

#[track_caller]
fn check_conf(snapshot: &Snapshot, expected: Expect) {
    expected.assert_eq(&file(snapshot, typed::registries::REGISTRIES).unwrap_or_default());
}

#[test]
fn a_mirror_set_becomes_registries_conf_in_one_reconcile() {
    let mut world = snapshot();
    world.digest_mirrors.push(mirror_set("m", "quay.io/org", &["mirror.local:8443/org"]));
    assert_eq!(step(&mut world), [""; 0]);
    check_conf(
        &world,
        expect![[r#"
        [[registry]]
        location = "quay.io/org"

        [[registry.mirror]]
        location = "mirror.local:8443/org"
        pull-from-mirror = "digest-only"
    "#]],
    );
    assert!(plan(&world).is_empty(), "nothing is left to do");
    assert_eq!(world.machine_configs.len(), 1, "custom pools get the workers'");
}

#[test]
fn an_object_that_cannot_be_applied_is_left_out_and_told_once() {
    let mut world = snapshot();
    world.digest_mirrors.push(mirror_set("bad", "https://quay.io", &["mirror.local"]));
    world.digest_mirrors.push(mirror_set("good", "quay.io", &["mirror.local"]));
    world.image = Some(image(&json!({"blockedRegistries": ["*"]})));
    expect![[r#"
        [
            "Image cluster: invalid entry for blocked registries \"*\"; write a host, a repository or a wildcard such as *.example.com",
            "ImageDigestMirrorSet bad: could not update registries config with new changes: invalid format for source \"https://quay.io\" in ImageDigestMirrorSet bad; for example quay.io/org or *.example.com",
        ]
    "#]]
    .assert_debug_eq(&step(&mut world));
    check_conf(
        &world,
        expect![[r#"
        [[registry]]
        location = "quay.io"

        [[registry.mirror]]
        location = "mirror.local"
        pull-from-mirror = "digest-only"
    "#]],
    );
    assert!(plan(&world).is_empty(), "what was told is not told again");
}

#[test]
fn blocking_the_clusters_own_images_is_left_out_and_told() {
    let mut world = snapshot();
    world.release_image = Some("quay.io/release/image:1".to_owned());
    world.image = Some(image(&json!({"blockedRegistries": ["quay.io", "docker.io"]})));
    expect![[r#"
        [
            "Image cluster: error adding [\"quay.io\"] to blocked registries, cannot block the repository being used by the payload",
        ]
    "#]]
    .assert_debug_eq(&step(&mut world));
    check_conf(
        &world,
        expect![[r#"
        [[registry]]
        location = "docker.io"
        blocked = true
    "#]],
    );
}

#[test]
fn policies_say_what_became_of_them() {
    let policy = |namespace: Option<&str>, scope: &str, identity: &str| {
        json!({
            "apiVersion": "config.openshift.io/v1", "kind": "Policy",
            "metadata": {"name": "p", "namespace": namespace},
            "spec": {"scopes": [scope], "policy": {
                "rootOfTrust": {"policyType": "PublicKey", "publicKey": {"keyData": "a2V5"}},
                "signedIdentity": {"matchPolicy": identity},
            }},
        })
    };
    let mut world = snapshot();
    world.cluster_policies.push(serde_json::from_value(policy(None, "quay.io", "MatchRepository")).unwrap());
    world.policies.push(serde_json::from_value(policy(Some("a"), "quay.io/x", "MatchRepository")).unwrap());
    world.policies.push(serde_json::from_value(policy(Some("b"), "a.io", "Nonsense")).unwrap());
    let updates = plan(&world).updates.into_iter().map(|update| {
        let condition = update.status.unwrap()["conditions"][0].clone();
        format!("{:?} {} {}", update.object.namespace, condition["reason"], condition["message"])
    });
    expect![[r#"
        [
            "Some(\"a\") \"ConflictScopes\" \"has conflicting scope(s) [\\\"quay.io/x\\\"] that equal to or nest inside existing clusterimagepolicy, only policy from clusterimagepolicy scope(s) will be applied\"",
            "Some(\"b\") \"InvalidPolicy\" \"ImagePolicy b/p: unknown signedIdentity match policy: Nonsense\"",
        ]
    "#]]
    .assert_debug_eq(&updates.collect::<Vec<_>>());
}

#[test]
fn containerd_gets_host_files_and_what_it_cannot_do_is_told() {
    let mut world = snapshot();
    world.profile = Profile::Kubeadm;
    assert_eq!(step(&mut world), [""; 0]);
    assert!(world.machine_configs.is_empty(), "hosts that are not ours get nothing that nobody asked for");
    world.default_runtime = Runtime::Containerd { major: 2 };
    world.main_files = reads_hosts();
    world.digest_mirrors.push(mirror_set("m", "docker.io", &["mirror.local"]));
    world.digest_mirrors.push(mirror_set("n", "quay.io/org", &["mirror.local"]));
    assert_eq!(
        step(&mut world),
        ["ImageDigestMirrorSet n: containerd has no settings for \"quay.io/org\", only for whole registries"]
    );
    let hosts = file(&world, "/etc/containerd/certs.d/docker.io/hosts.toml").unwrap();
    assert!(hosts.contains("[host.\"https://mirror.local\"]"), "{hosts}");
    world.digest_mirrors.clear();
    step(&mut world);
    assert!(world.machine_configs.is_empty(), "with the mirror set its MachineConfig goes");
}

/// What is known of a containerd that reads what is generated for it.
fn reads_hosts() -> BTreeMap<String, MainFile> {
    let text =
        "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = \"/etc/containerd/certs.d\"\n";
    BTreeMap::from([("worker".to_owned(), MainFile::parse("MachineConfig 50-worker", text))])
}

#[test]
fn mirrors_that_containerd_is_not_known_to_read_are_written_and_not_claimed() {
    let mut world = snapshot();
    world.profile = Profile::Kubeadm;
    world.default_runtime = Runtime::Containerd { major: 2 };
    world.digest_mirrors.push(mirror_set("m", "docker.io", &["mirror.local"]));
    let told = step(&mut world);
    assert!(
        told[0].starts_with(
            "ImageDigestMirrorSet m: containerd of pool \"worker\" is not known to read /etc/containerd/certs.d: write"
        ),
        "{told:?}"
    );
    assert_eq!(step(&mut world), [""; 0], "it is told once");
    assert!(file(&world, "/etc/containerd/certs.d/docker.io/hosts.toml").is_some());
    world.main_files = reads_hosts();
    assert_eq!(step(&mut world), [""; 0]);
}

#[test]
fn on_k3s_mirror_sets_are_told_where_they_belong() {
    let mut world = snapshot();
    world.profile = Profile::K3s;
    world.default_runtime = Runtime::Containerd { major: 2 };
    world.digest_mirrors.push(mirror_set("m", "docker.io", &["mirror.local"]));
    let told = step(&mut world);
    assert!(told[0].starts_with("ImageDigestMirrorSet m: k3s takes registries from"), "{told:?}");
    assert_eq!(step(&mut world), [""; 0], "it is told once");
}

#[test]
fn a_cluster_taken_over_is_kept_until_its_mirrors_change() {
    let mut world = snapshot();
    world.digest_mirrors.push(mirror_set("m", "quay.io", &["mirror.local"]));
    step(&mut world);
    let notes = world.machine_configs[0].metadata.annotations.as_mut().unwrap();
    notes.retain(|key, _| !key.starts_with("machinist.dev/"));
    let theirs = world.machine_configs.clone();
    for _ in 0..2 {
        step(&mut world);
        assert_eq!(world.machine_configs, theirs);
    }
    world.digest_mirrors.push(mirror_set("n", "docker.io", &["mirror.local"]));
    step(&mut world);
    assert!(file(&world, typed::registries::REGISTRIES).unwrap().contains("docker.io"));
}

#[test]
fn mirror_sets_that_contradict_one_another_still_make_an_order() {
    let mut world = snapshot();
    world.digest_mirrors.push(mirror_set("m", "quay.io", &["a.local", "b.local"]));
    world.digest_mirrors.push(mirror_set("n", "quay.io", &["b.local", "a.local"]));
    let told = step(&mut world);
    assert!(told.iter().any(|told| told.contains("contradict one another")), "{told:?}");
    assert!(file(&world, typed::registries::REGISTRIES).unwrap().contains("a.local"));
}

#[test]
fn a_pool_between_two_versions_of_containerd_gets_each_file_once() {
    let mut world = snapshot();
    let both = BTreeSet::from([Runtime::Containerd { major: 1 }, Runtime::Containerd { major: 2 }]);
    world.runtimes.insert("worker".to_owned(), both);
    world.digest_mirrors.push(mirror_set("m", "docker.io", &["mirror.local"]));
    step(&mut world);
    assert!(file(&world, "/etc/containerd/certs.d/docker.io/hosts.toml").is_some());
}
