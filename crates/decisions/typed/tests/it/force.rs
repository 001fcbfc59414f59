//! Whatever comes, edits or breaks: what is in force stays in force, and every world settles.

use std::collections::BTreeMap;

use api::annotations;
use proptest::prelude::*;
use serde_json::{Value, json};
use typed::registries::POLICY;
use typed::registries::plan::plan;

use crate::registries::{file, image, mirror_set, snapshot, step};
use crate::world::{World, feature_gate};

#[derive(Clone, Debug)]
enum Change {
    Add { pool: usize, fields: Value },
    Edit { which: usize, fields: Value },
    Annotate { which: usize, suffix: &'static str },
    BreakTemplates,
    MendTemplates,
    ForgetProfile,
    KnowProfile,
}

const POOLS: [&str; 3] = ["worker", "infra", "zeta"];

/// Settings of which many do not fit with one another, and some with nothing.
fn fields() -> impl Strategy<Value = Value> {
    let all = vec![
        json!({"maxPods": 10}),
        json!({"maxPods": -1}),
        json!({"maxPod": 1}),
        json!({"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 40}),
        json!({"imageGCLowThresholdPercent": 75}),
        json!({"shutdownGracePeriodCriticalPods": "20s"}),
        json!({"shutdownGracePeriod": "1m"}),
        json!({"systemReserved": {"memory": "8Gi"}}),
        json!({"systemReserved": {"memory": "lots"}}),
        json!({"systemReservedCgroup": "/a"}),
        json!({"systemCgroups": "/b"}),
    ];
    prop::sample::select(all)
}

fn change() -> impl Strategy<Value = Change> {
    let suffix = prop::sample::select(vec!["", "1", "2", "x", "+1", "10"]);
    prop_oneof![
        4 => (0..=POOLS.len(), fields()).prop_map(|(pool, fields)| Change::Add { pool, fields }),
        4 => (0..8_usize, fields()).prop_map(|(which, fields)| Change::Edit { which, fields }),
        1 => (0..8_usize, suffix).prop_map(|(which, suffix)| Change::Annotate { which, suffix }),
        1 => Just(Change::BreakTemplates),
        1 => Just(Change::MendTemplates),
        1 => Just(Change::ForgetProfile),
        1 => Just(Change::KnowProfile),
    ]
}

fn make(world: &mut World, change: &Change) {
    let count = world.snapshot.kubelet_configs.len();
    let name = |which: usize| format!("k{}", (which * 7) % count.max(1));
    match change {
        Change::Add { pool, fields } => {
            let selector = match POOLS.get(*pool) {
                Some(pool) => json!({"matchLabels": {"pool": pool}}),
                None => json!({"matchExpressions": [{"key": "pool", "operator": "Exists"}]}),
            };
            let spec = json!({"kubeletConfig": fields, "machineConfigPoolSelector": selector});
            world.add(&format!("k{count}"), "worker", spec);
        }
        Change::Edit { which, fields } if count > 0 => world.edit(&name(*which), fields.clone()),
        Change::Annotate { which, suffix } if count > 0 => {
            let notes = world.config(&name(*which)).metadata.annotations.get_or_insert_default();
            notes.insert(annotations::MC_NAME_SUFFIX.to_owned(), (*suffix).to_owned());
        }
        Change::Edit { .. } | Change::Annotate { .. } => {}
        Change::BreakTemplates => {
            world.snapshot.bases.insert("worker".to_owned(), Err("its head is wrong".to_owned()));
        }
        Change::MendTemplates => world.snapshot.bases = crate::world::bases(),
        Change::ForgetProfile => world.snapshot.profile = typed::templates::Profile::None,
        Change::KnowProfile => world.snapshot.profile = typed::templates::Profile::OpenShift,
    }
}

/// How many MachineConfigs each KubeletConfig has on each pool.
fn owned(world: &World) -> BTreeMap<(String, String), usize> {
    let mut owned = BTreeMap::new();
    for config in &world.snapshot.machine_configs {
        let role = config.metadata.labels.as_ref().unwrap()[api::labels::ROLE].clone();
        for owner in config.metadata.owner_references.iter().flatten() {
            *owned.entry((owner.name.clone(), role.clone())).or_default() += 1;
        }
    }
    owned
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_kubelet_config_that_is_in_force_never_loses_its_place(changes in prop::collection::vec(change(), 1..14)) {
        let mut world = World::new(&POOLS);
        world.snapshot.feature_gate = Some(feature_gate(&[("SomeGate", true)]));
        world.settle();
        let mut before = owned(&world);
        for change in &changes {
            make(&mut world, change);
            world.settle();
            let after = owned(&world);
            for place in before.keys() {
                prop_assert_eq!(after.get(place), Some(&1), "{:?} lost its place by {:?}", place, change);
            }
            prop_assert!(world.machine_config("98-worker-generated-kubelet").is_some(), "{:?}", change);
            before = after;
        }
    }

    #[test]
    fn a_list_of_registries_that_is_in_force_stays_in_force(
        steps in prop::collection::vec((0..9_usize, 0..4_usize), 1..12)
    ) {
        let mut world = snapshot();
        world.image = Some(image(&json!({"blockedRegistries": ["bad.io", "a.example.com"]})));
        step(&mut world);
        // The cluster's own image may lift a block; nothing else may.
        let mut was_blocked = true;
        for (what, which) in &steps {
            let name = format!("m{which}");
            let set = match what {
                0 => Some(mirror_set(&name, "quay.io", &["mirror.local"])),
                1 => Some(mirror_set(&name, "*.example.com", &["mirror.local"])),
                2 => Some(mirror_set(&name, "https://quay.io", &["mirror.local"])),
                3 => {
                    let mut set: api::config::ImageDigestMirrorSet = mirror_set(&name, "quay.io", &["other.local"]);
                    set.spec.image_digest_mirrors[0].mirror_source_policy = Some("NeverContactSource".to_owned());
                    Some(set)
                }
                _ => None,
            };
            match (what, set) {
                (_, Some(set)) => {
                    world.digest_mirrors.retain(|known| known.metadata.name.as_deref() != Some(&name));
                    world.digest_mirrors.push(set);
                }
                (4, _) => world.digest_mirrors.retain(|known| known.metadata.name.as_deref() != Some(&name)),
                (5, _) => world.release_image = Some(["quay.io/a/b:1", "nonsense", "bad.io/a:1", ""][*which].to_owned()),
                (6, _) => { world.defaults.insert("worker".to_owned(), Err("its head is wrong".to_owned())); }
                (7, _) => { world.defaults.clear(); }
                _ => {
                    let lists = [json!({"blockedRegistries": ["bad.io", "https://x"]}),
                        json!({"blockedRegistries": ["bad.io"]}),
                        json!({"blockedRegistries": ["bad.io"], "allowedRegistries": ["quay.io"]}),
                        json!({"blockedRegistries": ["bad.io", "a.example.com"]})];
                    world.image = Some(image(&lists[*which]));
                }
            }
            let release_is_bad = world.release_image.as_deref() == Some("bad.io/a:1");
            for _ in 0..2 {
                step(&mut world);
            }
            prop_assert!(plan(&world).is_empty(), "it settles: {:?}", plan(&world));
            let policy = file(&world, POLICY).unwrap_or_default();
            let is_blocked = policy.contains("bad.io");
            prop_assert!(is_blocked || !was_blocked || release_is_bad, "{:?}: {}", (what, which), policy);
            was_blocked = is_blocked;
        }
    }
}
