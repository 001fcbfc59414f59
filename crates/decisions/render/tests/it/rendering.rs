//! What a pool's config is made of.

use std::sync::LazyLock;

use expect_test::expect;
use proptest::prelude::*;
use serde_json::json;

use crate::mutate::inputs;
use crate::world::{config, file, files, fragment, infra, object, pool, render, settings, worker};

#[test]
fn a_pool_gets_what_its_selector_accepts() {
    let all = [
        file("50-worker", "/etc/w", "w"),
        fragment("50-infra", "infra", json!({"kernelArguments": ["infra"]})),
        fragment("50-master", "master", json!({"kernelArguments": ["master"]})),
    ];
    let names = |pool| {
        let rendered = render(&pool, &all).unwrap();
        rendered.provenance.fragments.into_iter().map(|fragment| fragment.name).collect::<Vec<_>>()
    };
    assert_eq!(names(worker()), ["50-worker"]);
    assert_eq!(names(infra()), ["50-worker", "50-infra"]);
}

#[test]
fn what_is_for_the_pool_beats_what_is_for_every_worker_whatever_the_names() {
    let contents = |name, role, text| {
        let file = json!({"path": "/etc/x", "contents": {"source": format!("data:,{text}")}});
        fragment(name, role, json!({"config": {"ignition": {"version": "3.2.0"}, "storage": {"files": [file]}}}))
    };
    let all = [contents("50-infra", "infra", "infra"), contents("99-worker", "worker", "worker")];
    let rendered = render(&infra(), &all).unwrap();
    assert_eq!(files(&rendered)[0]["contents"]["source"], "data:,infra");
}

#[test]
fn every_field_has_its_rule() {
    let generated = json!({
        "name": "00-worker",
        "labels": {"machineconfiguration.openshift.io/role": "worker"},
        "annotations": {"machineconfiguration.openshift.io/generated-by-controller-version": "v0"},
    });
    let all = [
        object(generated, json!({"osImageURL": "generated", "kernelArguments": ["a"], "kernelType": "default"})),
        fragment(
            "50-a",
            "worker",
            json!({"kernelArguments": ["b", "a"], "kernelType": "realtime", "fips": true, "extensions": ["usbguard"]}),
        ),
        fragment(
            "60-b",
            "worker",
            json!({"osImageURL": "mine", "kernelType": "default", "fips": false, "extensions": ["usbguard", "sysstat"]}),
        ),
        fragment("70-c", "worker", json!({"baseOSExtensionsContainerImage": "extensions", "kernelType": ""})),
    ];
    let rendered = render(&worker(), &all).unwrap();
    expect![[r#"{"osImageURL":"mine","baseOSExtensionsContainerImage":"extensions","config":{"ignition":{"version":"3.5.0"}},"kernelArguments":["a","b","a"],"extensions":["usbguard","usbguard","sysstat"],"fips":true,"kernelType":"realtime"}"#]]
        .assert_eq(&serde_json::to_string(&rendered.machine_config.spec).unwrap());
    let notes = rendered.machine_config.metadata.annotations.unwrap();
    assert_eq!(notes["machineconfiguration.openshift.io/os-image-url-overridden"], "true");
    assert_eq!(rendered.machine_config.metadata.labels.unwrap()["machinist.dev/rendered-for"], "worker");
}

#[test]
fn files_overwrite_unless_they_have_nothing_to_write() {
    let all = [config(
        "50-a",
        json!({"storage": {"files": [
            {"path": "/a", "contents": {"source": "data:,"}},
            {"path": "/b", "contents": {"source": "data:,"}, "overwrite": false},
            {"path": "/c", "mode": 384},
        ]}}),
    )];
    let rendered = render(&worker(), &all).unwrap();
    let overwrite: Vec<_> = files(&rendered).iter().map(|file| file["overwrite"].to_string()).collect();
    assert_eq!(overwrite, ["true", "false", "null"]);
}

#[test]
fn a_cluster_without_images_renders_without_images() {
    let rendered =
        render::render(&worker(), &[file("a", "/a", "")], &render::Settings::default(), &render::Fetched::default());
    assert_eq!(rendered.unwrap().machine_config.spec.os_image_url, None);
}

#[test]
fn a_config_close_to_the_limit_is_a_warning() {
    let all = [file("50-a", "/a", &"x".repeat(900))];
    let settings = render::Settings { object_limit: 1500, ..settings() };
    let rendered = render::render(&worker(), &all, &settings, &render::Fetched::default()).unwrap();
    assert!(rendered.warnings[0].message.contains("of 1500 bytes"), "{:?}", rendered.warnings);
}

#[test]
fn the_size_that_is_checked_is_the_size_of_the_object() {
    for all in [
        vec![file("50-a", "/a", "é%C3")],
        vec![file("50-a", "/a", "x"), fragment("60", "worker", json!({"kernelArguments": ["\"quoted\""]}))],
    ] {
        let size = match render(&worker(), &all) {
            Ok(rendered) => serde_json::to_vec(&rendered.machine_config).unwrap().len(),
            Err(_) => continue,
        };
        let with_limit = |object_limit| {
            let settings = render::Settings { object_limit, ..settings() };
            render::render(&worker(), &all, &settings, &render::Fetched::default()).is_ok()
        };
        assert!(with_limit(size) && !with_limit(size - 1), "{size}");
    }
}

/// The fragments of every input of the vectors, read once.
fn merge_inputs() -> &'static [Vec<api::machineconfiguration::MachineConfig>] {
    static INPUTS: LazyLock<Vec<Vec<api::machineconfiguration::MachineConfig>>> = LazyLock::new(read_merge_inputs);
    &INPUTS
}

fn read_merge_inputs() -> Vec<Vec<api::machineconfiguration::MachineConfig>> {
    let fragments = |mut input: serde_json::Value| {
        let list = input["machineConfigs"].as_array_mut().unwrap();
        for fragment in list.iter_mut() {
            fragment["spec"]["extensions"] =
                json!(fragment["spec"]["extensions"].as_array().cloned().unwrap_or_default());
        }
        list.iter().map(|each| object(each["metadata"].clone(), each["spec"].clone())).collect()
    };
    inputs("merge").into_iter().map(fragments).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_order_of_arrival_does_not_matter(index in 0usize..300, order in any::<u64>()) {
        let inputs = merge_inputs();
        let mut fragments = inputs[index % inputs.len()].clone();
        let everything = pool("any", json!({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}));
        let before = render(&everything, &fragments);
        let mut random = crate::mutate::Random::new(order);
        for place in (1..fragments.len()).rev() {
            fragments.swap(place, random.below(place + 1));
        }
        prop_assert_eq!(render(&everything, &fragments), before);
    }
}

#[test]
fn rendering_a_rendered_config_changes_nothing() {
    let everything = pool("any", json!({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}));
    for fragments in merge_inputs() {
        let Ok(once) = render(&everything, fragments) else { continue };
        let mut again = once.machine_config.clone();
        again
            .metadata
            .labels
            .get_or_insert_default()
            .insert("machineconfiguration.openshift.io/role".into(), "worker".into());
        again.metadata.annotations = None;
        let twice = render(&everything, &[again]).unwrap();
        assert_eq!(twice.machine_config.spec, once.machine_config.spec);
        assert_eq!(twice.machine_config.metadata.name, once.machine_config.metadata.name);
    }
}
