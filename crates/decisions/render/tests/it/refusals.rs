//! Bad input: one clear sentence with object and field, and no config.

use std::io::Write as _;

use expect_test::{Expect, expect};
use ignition::data_url;
use serde_json::{Value, json};

use crate::world::{config, file, fragment, object, pool, render, settings, worker};

#[track_caller]
fn check(fragment: api::machineconfiguration::MachineConfig, expected: Expect) {
    let error = render(&worker(), &[file("00-good", "/good", "x"), fragment]).unwrap_err();
    expected.assert_eq(&error.to_string());
}

fn bad_file(fields: Value) -> api::machineconfiguration::MachineConfig {
    let mut file = json!({"path": "/x", "contents": {"source": "data:,"}});
    for (key, value) in fields.as_object().unwrap() {
        file[key] = value.clone();
    }
    config("50-bad", json!({"storage": {"files": [file]}}))
}

fn spec2(rest: Value) -> api::machineconfiguration::MachineConfig {
    let mut config = rest;
    config["ignition"] = json!({"version": "2.2.0"});
    fragment("50-bad", "worker", json!({"config": config}))
}

#[test]
fn every_bad_input_names_object_and_field() {
    check(
        fragment("50-bad", "worker", json!({"config": {"ignition": {"version": "3.6.0"}}})),
        expect![
            "MachineConfig 50-bad: spec.config.ignition.version: unknown version 3.6.0 (allowed: 2.0.0, 2.1.0, 2.2.0, 3.0.0, 3.1.0, 3.2.0, 3.3.0, 3.4.0, 3.5.0)"
        ],
    );
    check(
        fragment("50-bad", "worker", json!({"config": {}})),
        expect![
            "MachineConfig 50-bad: spec.config.ignition.version: invalid version: ignition.version is missing (allowed: 2.0.0, 2.1.0, 2.2.0, 3.0.0, 3.1.0, 3.2.0, 3.3.0, 3.4.0, 3.5.0)"
        ],
    );
    check(
        spec2(json!({"storage": {"files": [{"filesystem": "data", "path": "/x"}]}})),
        expect![[
            r#"MachineConfig 50-bad: spec.config.storage.files[0].filesystem: filesystem "data" of "/x" is not root: its mount point is unknown (allowed: root)"#
        ]],
    );
    check(
        spec2(json!({"networkd": {"units": [{"name": "a.network"}]}})),
        expect![
            "MachineConfig 50-bad: spec.config.networkd.units: config includes deprecated networkd section - use Files instead"
        ],
    );
    check(
        spec2(json!({"passwd": {"users": [{"name": "admin"}]}})),
        expect![
            "MachineConfig 50-bad: spec.config.passwd.users[0].name: unexpected user with name: admin. Only core user is supported (allowed: core)"
        ],
    );
    check(
        config("50-bad", json!({"storage": {"files": [{"path": "/x"}, {"path": "/x"}]}})),
        expect![[r#"MachineConfig 50-bad: spec.config.storage.files[1]: duplicate entry defined: "/x""#]],
    );
    check(
        bad_file(json!({"contents": {"source": "data:;base64,!"}})),
        expect![[
            r#"MachineConfig 50-bad: spec.config.storage.files[0].contents.source: invalid data character at byte 13: "data:;base64,!" (allowed: data, http, https, s3, arn, gs, tftp)"#
        ]],
    );
    check(
        bad_file(json!({"path": "/x/../y"})),
        expect![[
            r#"MachineConfig 50-bad: spec.config.storage.files[0].path: path is not fully simplified: "/x/../y" (allowed: an absolute path without //, . or ..)"#
        ]],
    );
    check(
        bad_file(json!({"path": "x"})),
        expect![[
            r#"MachineConfig 50-bad: spec.config.storage.files[0].path: path not absolute: "x" (allowed: an absolute path without //, . or ..)"#
        ]],
    );
    check(
        bad_file(json!({"mode": 0o1644})),
        expect![
            "MachineConfig 50-bad: spec.config.storage.files[0].mode: invalid mode 01644 for /x, cannot exceed 0777"
        ],
    );
    check(
        fragment("50-bad", "worker", json!({"kernelType": "realtime", "extensions": ["kernel-devel"]})),
        expect![
            "MachineConfig 50-bad: spec.extensions: installing kernel-devel extension is not supported with kernelType: realtime"
        ],
    );
    check(
        fragment("50-bad", "worker", json!({"kernelType": "fast", "extensions": ["games"]})),
        expect![
            "MachineConfig 50-bad: spec.kernelType: kernelType=fast is invalid (allowed: default, realtime, 64k-pages); MachineConfig 50-bad: spec.extensions[0]: invalid extensions found: [games] (allowed: two-node-ha, ipsec, usbguard, kerberos, kernel-devel, sandboxed-containers, sysstat)"
        ],
    );
}

#[test]
fn a_fragment_without_a_role_is_refused() {
    let bare = object(json!({"name": "50-bare", "labels": {"mine": "yes"}}), json!({"kernelArguments": ["quiet"]}));
    let mine = pool("mine", json!({"matchLabels": {"mine": "yes"}}));
    expect!["MachineConfig 50-bare: metadata.labels[machineconfiguration.openshift.io/role]: cannot find label in MachineConfig: the role it is for is missing"]
        .assert_eq(&render(&mine, &[bare]).unwrap_err().to_string());
}

#[test]
fn a_gzip_bomb_is_refused() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&vec![0; ignition::DECODED_LIMIT + 1]).unwrap();
    let source = data_url::encode(&encoder.finish().unwrap());
    check(
        bad_file(json!({"contents": {"compression": "gzip", "source": source}})),
        expect!["MachineConfigPool worker: /x: decompressed contents exceed 33554432 bytes"],
    );
    check(
        bad_file(json!({"contents": {"compression": "gzip", "source": "data:,plain"}})),
        expect!["MachineConfigPool worker: /x: failed decompressing: the header is no gzip header"],
    );
}

#[test]
fn a_path_below_another_fragments_link_is_refused() {
    let link = config("40-link", json!({"storage": {"links": [{"path": "/etc/l", "target": "/z"}]}}));
    let error = render(&worker(), &[link, file("50-below", "/etc/l/x", "x")]).unwrap_err();
    expect![[r#"MachineConfigPool worker: storage.files[0]: file path includes link in config: "/etc/l/x""#]]
        .assert_eq(&error.to_string());
}

#[test]
fn a_pool_that_selects_nothing_or_everything_is_refused() {
    expect!["MachineConfigPool worker: spec.machineConfigSelector: no MachineConfigs found matching selector"]
        .assert_eq(&render(&worker(), &[]).unwrap_err().to_string());
    expect!["MachineConfigPool all: spec.machineConfigSelector: an empty selector would select every MachineConfig"]
        .assert_eq(&render(&pool("all", json!({})), &[file("a", "/a", "")]).unwrap_err().to_string());
    let odd = pool("odd", json!({"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}));
    expect![[r#"MachineConfigPool odd: spec.machineConfigSelector: invalid label selector: "Near" is not a valid label selector operator"#]]
        .assert_eq(&render(&odd, &[file("a", "/a", "")]).unwrap_err().to_string());
}

#[test]
fn an_object_too_large_for_the_api_is_refused() {
    let all = [file("50-a", "/a", &"x".repeat(3000))];
    let settings = render::Settings { object_limit: 2000, ..settings() };
    let error = render::render(&worker(), &all, &settings, &render::Fetched::default()).unwrap_err().to_string();
    assert!(error.contains("is too large (") && error.contains("max 2000 bytes"), "{error}");
}

#[test]
fn an_image_of_ones_own_and_a_stream_exclude_each_other() {
    let mut pool = worker();
    pool.spec.os_image_stream = serde_json::from_value(json!({"name": "rhel-10"})).unwrap();
    let error = render(&pool, &[fragment("a", "worker", json!({"osImageURL": "mine"}))]).unwrap_err();
    expect!["MachineConfigPool worker: spec.osImageStream.name: cannot override MachineConfig osImageURL and set MachineConfigPool spec.osImageStream.name simultaneously"]
        .assert_eq(&error.to_string());
}

#[test]
fn faults_of_every_kind_are_told_at_once() {
    let mut wrong = spec2(json!({"storage": {"files": [{"filesystem": "data", "path": "/x"}]}}));
    wrong.spec.kernel_type = Some("realtime".to_owned());
    wrong.spec.extensions = vec!["kernel-devel".to_owned()];
    let credentials = json!([{"path": "/y", "contents": {"source": "http://169.254.169.254/latest"}}]);
    let remote = config("60-remote", json!({"storage": {"files": credentials}}));
    let error = render(&worker(), &[file("00-good", "/good", "x"), wrong, remote]).unwrap_err();
    let told: Vec<String> = error.to_string().split("; ").map(str::to_owned).collect();
    expect![[r#"
        MachineConfig 50-bad: spec.config.storage.files[0].filesystem: filesystem "data" of "/x" is not root: its mount point is unknown (allowed: root)
        MachineConfig 50-bad: spec.extensions: installing kernel-devel extension is not supported with kernelType: realtime
        MachineConfig 60-remote: spec.config.storage.files: /y: source http://169.254.169.254/latest is a link-local address"#]].assert_eq(&told.join("\n"));
}

#[test]
fn files_that_are_too_large_only_together_are_refused_with_their_names() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&vec![0; 30 << 20]).unwrap();
    let source = data_url::encode(&gzip.finish().unwrap());
    let file = |number| {
        let contents = json!({"source": source, "compression": "gzip"});
        json!({"path": format!("/etc/zeros/{number}"), "contents": contents})
    };
    let files: Vec<Value> = (1..=9).map(file).collect();
    let error = render(&worker(), &[config("50-bad", json!({"storage": {"files": files}}))]).unwrap_err();
    expect!["MachineConfigPool worker: storage.files: all files together unpack to more than 268435456 bytes: make them fewer or smaller; large ones are /etc/zeros/1 (31457280), /etc/zeros/2 (31457280), /etc/zeros/3 (31457280), /etc/zeros/4 (31457280), /etc/zeros/5 (31457280), /etc/zeros/6 (31457280), /etc/zeros/7 (31457280), /etc/zeros/8 (31457280), /etc/zeros/9 (31457280)"].assert_eq(&error.to_string());
}
