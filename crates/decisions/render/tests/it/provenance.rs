//! Every part of a config has one entry, and its fragment is the one whose word stands.

use std::collections::BTreeMap;

use api::machinist::EntryKind;
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::mutate::inputs;
use crate::world::{config, file, fragment, object, pool, render, worker};

#[track_caller]
fn check(fragments: &[api::machineconfiguration::MachineConfig], expected: Expect) {
    let provenance = render(&worker(), fragments).unwrap().provenance;
    let mut lines: Vec<String> = (provenance.entries.iter())
        .map(|entry| format!("{:?} {} from {} overrode {:?}", entry.kind, entry.name, entry.from, entry.overrode))
        .collect();
    lines.extend(provenance.conflicts.iter().map(|each| format!("conflict {} {:?}", each.name, each.fragments)));
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn the_last_contents_win_and_details_are_told_apart() {
    check(
        &[
            config(
                "10-a",
                json!({"storage": {"files": [{"path": "/x", "mode": 384, "contents": {"source": "data:,1"}}]}}),
            ),
            file("20-b", "/x", "2"),
            config("30-c", json!({"storage": {"files": [{"path": "/x", "mode": 420}]}})),
        ],
        expect![[r#"
            Path /x from 20-b overrode ["10-a"]
            Scalar config.storage.files[/x].mode from 30-c overrode []
            conflict /x ["10-a", "20-b"]"#]],
    );
}

#[test]
fn units_dropins_users_keys_arguments_and_scalars() {
    let unit = |name: &str, fields: Value| config(name, json!({"systemd": {"units": [fields]}}));
    check(
        &[
            unit(
                "10-a",
                json!({"name": "a.service", "contents": "[Unit]\n", "dropins": [{"name": "x.conf", "contents": "[A]\n"}]}),
            ),
            unit(
                "20-b",
                json!({"name": "a.service", "enabled": true, "dropins": [{"name": "x.conf", "contents": "[A]\n"}]}),
            ),
            config("30-c", json!({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["k1", "k2"]}]}})),
            config("40-d", json!({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["k2", "k3"]}]}})),
            fragment(
                "50-e",
                "worker",
                json!({"kernelArguments": ["quiet"], "kernelType": "realtime", "osImageURL": "one"}),
            ),
            fragment(
                "60-f",
                "worker",
                json!({"extensions": ["usbguard"], "kernelType": "64k-pages", "osImageURL": "two"}),
            ),
        ],
        expect![[r#"
            Unit a.service from 10-a overrode []
            Dropin a.service/x.conf from 20-b overrode ["10-a"]
            Key core/k1 from 30-c overrode []
            Key core/k2 from 30-c overrode []
            Key core/k3 from 40-d overrode []
            User core from 40-d overrode ["30-c"]
            Argument quiet from 50-e overrode []
            Extension usbguard from 60-f overrode []
            Scalar config.systemd.units[a.service].enabled from 20-b overrode []
            Scalar kernelType from 60-f overrode ["50-e"]
            Scalar osImageURL from 60-f overrode ["50-e"]
            conflict kernelType ["50-e", "60-f"]
            conflict osImageURL ["50-e", "60-f"]"#]],
    );
}

#[test]
fn equal_contents_in_another_encoding_are_no_conflict_and_neither_is_overriding_a_generated_one() {
    let generated = json!({
        "name": "01-generated",
        "labels": {"machineconfiguration.openshift.io/role": "worker"},
        "annotations": {"machineconfiguration.openshift.io/generated-by-controller-version": "v0"},
    });
    let spec = json!({"config": {"ignition": {"version": "3.2.0"}, "storage": {"files": [{"path": "/x", "contents": {"source": "data:,gen"}}]}}});
    check(
        &[
            object(generated, spec),
            file("20-b", "/x", "hi"),
            config(
                "30-c",
                json!({"storage": {"files": [{"path": "/x", "contents": {"source": "data:;base64,aGk="}}]}}),
            ),
        ],
        expect![[r#"Path /x from 30-c overrode ["01-generated", "20-b"]"#]],
    );
}

#[test]
fn a_conflict_is_a_warning_too() {
    let rendered = render(&worker(), &[file("10-a", "/x", "1"), file("20-b", "/x", "2")]).unwrap();
    expect!["MachineConfigPool worker: /x: two fragments give it different contents; the last name wins (10-a, 20-b)"]
        .assert_eq(&rendered.warnings[0].to_string());
}

/// The tracer repeats what the merge does; this holds the two together on every input of the vectors.
#[test]
fn every_part_of_a_rendered_config_has_one_entry_whose_fragment_says_what_stands() {
    let everything = pool("any", json!({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}));
    let mut looked_at = 0;
    for mut input in inputs("merge") {
        let mut fragments = Vec::new();
        for each in input["machineConfigs"].as_array_mut().unwrap() {
            each["spec"]["extensions"] = json!(each["spec"]["extensions"].as_array().cloned().unwrap_or_default());
            fragments.push(object(each["metadata"].clone(), each["spec"].clone()));
        }
        let Ok(rendered) = render(&everything, &fragments) else { continue };
        let entries = &rendered.provenance.entries;
        let paths: BTreeMap<&str, &str> = (entries.iter())
            .filter(|entry| entry.kind == EntryKind::Path)
            .map(|entry| (entry.name.as_str(), entry.from.as_str()))
            .collect();
        let result = rendered.machine_config.spec.config.as_ref().unwrap();
        let mut nodes = 0;
        for list in ["files", "directories", "links"] {
            for node in result["storage"][list].as_array().into_iter().flatten() {
                nodes += 1;
                let path = node["path"].as_str().unwrap();
                let from =
                    fragments.iter().find(|each| each.metadata.name.as_deref() == paths.get(path).copied()).unwrap();
                let parsed = ignition::to_value(ignition::parse(from.spec.config.as_ref().unwrap()).unwrap());
                let said = parsed["storage"][list].as_array().into_iter().flatten().find(|each| each["path"] == path);
                let said = said.unwrap_or_else(|| panic!("{path} is not from {:?}", from.metadata.name));
                if !node["contents"]["source"].is_null() {
                    assert_eq!(said["contents"]["source"], node["contents"]["source"], "{path}");
                }
                looked_at += 1;
            }
        }
        assert_eq!(nodes, paths.len());
        let units = result["systemd"]["units"].as_array().map_or(0, Vec::len);
        assert_eq!(entries.iter().filter(|entry| entry.kind == EntryKind::Unit).count(), units);
    }
    assert!(looked_at > 300, "{looked_at}");
}
