//! Spec 2 configs that are lifted to spec 3.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

#[track_caller]
fn check(rest: Value, expected: Expect) {
    let mut config = json!({"ignition": {"version": "2.2.0"}});
    for (key, value) in rest.as_object().unwrap() {
        config[key] = value.clone();
    }
    let text = match ignition::parse(&config) {
        Ok(config) => {
            let mut config = ignition::to_value(config);
            config.as_object_mut().unwrap().remove("ignition");
            config.to_string()
        }
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&text);
}

#[test]
fn the_last_entry_of_a_path_wins_and_lists_are_reversed() {
    let file = |path: &str, text: &str| json!({"filesystem": "root", "path": path, "contents": {"source": format!("data:,{text}")}});
    check(
        json!({"storage": {"files": [file("/a", "1"), file("/b", "2"), file("/a", "3")]}}),
        expect![[
            r#"{"storage":{"files":[{"contents":{"source":"data:,3"},"overwrite":true,"path":"/a"},{"contents":{"source":"data:,2"},"overwrite":true,"path":"/b"}]}}"#
        ]],
    );
}

#[test]
fn units_keep_the_dropins_of_earlier_entries() {
    let dropin = |name: &str| json!({"name": name, "contents": "[Service]\nA=b\n"});
    check(
        json!({"systemd": {"units": [
            {"name": "a.service", "enable": true, "dropins": [dropin("x.conf"), dropin("y.conf")]},
            {"name": "a.service", "enabled": false, "dropins": [dropin("y.conf")]},
        ]}}),
        expect![[
            r#"{"systemd":{"units":[{"dropins":[{"contents":"[Service]\nA=b\n","name":"y.conf"},{"contents":"[Service]\nA=b\n","name":"x.conf"}],"enabled":false,"name":"a.service"}]}}"#
        ]],
    );
}

#[test]
fn entries_of_core_become_one_with_the_newest_keys_first() {
    check(
        json!({"passwd": {"users": [
            {"name": "core", "sshAuthorizedKeys": ["old", "both"]},
            {"name": "core", "sshAuthorizedKeys": ["new", "both"], "passwordHash": "x"},
        ]}}),
        expect![[
            r#"{"passwd":{"users":[{"name":"core","passwordHash":"x","sshAuthorizedKeys":["new","both","old"]}]}}"#
        ]],
    );
}

#[test]
fn appended_files_do_not_overwrite() {
    check(
        json!({"storage": {"files": [{"filesystem": "root", "path": "/a", "append": true, "contents": {"source": "data:,x"}}]}}),
        expect![[r#"{"storage":{"files":[{"append":[{"source":"data:,x"}],"overwrite":false,"path":"/a"}]}}"#]],
    );
}

#[test]
fn fields_that_spec_3_lacks_are_refused_with_their_path() {
    check(
        json!({"passwd": {"users": [{"name": "admin"}]}}),
        expect!["passwd.users[0].name: unexpected user with name: admin. Only core user is supported (allowed: core)"],
    );
    check(
        json!({"networkd": {"units": [{"name": "00-eth.network", "contents": "[Match]\n"}]}}),
        expect!["networkd.units: config includes deprecated networkd section - use Files instead"],
    );
    check(
        json!({"storage": {"files": [{"filesystem": "data", "path": "/a"}]}}),
        expect![[
            r#"storage.files[0].filesystem: filesystem "data" of "/a" is not root: its mount point is unknown (allowed: root)"#
        ]],
    );
    check(
        json!({"storage": {"files": [{"filesystem": "root", "path": "/a/../b"}]}}),
        expect![[
            r#"storage.files[0].path: path is not fully simplified: "/a/../b" (allowed: an absolute path without ..)"#
        ]],
    );
    check(
        json!({"storage": {"disks": [{"device": "/dev/sda", "partitions": [{"number": 1}]}]}}),
        expect![
            "storage.disks[0].partitions: size is deprecated; use sizeMB instead: spec 2 partitions count in sectors, spec 3 in MiB (allowed: partitions in spec 3)"
        ],
    );
    check(
        json!({"storage": {"files": [{"path": "/a"}]}}),
        expect!["storage.files[0].filesystem: no filesystem specified (allowed: root)"],
    );
}

#[test]
fn older_spec_2_versions_keep_their_defaults() {
    let lifted = |version: &str| {
        let file = json!({"filesystem": "root", "path": "/a", "append": true, "contents": {"source": "data:,x"}});
        let unit = json!({"name": "a.service", "enable": true, "enabled": false});
        let config = json!({
            "ignition": {"version": version},
            "storage": {"files": [file]},
            "systemd": {"units": [unit]},
        });
        let mut config = ignition::to_value(ignition::parse(&config).unwrap());
        config.as_object_mut().unwrap().remove("ignition");
        config.to_string()
    };
    expect![[r#"{"storage":{"files":[{"contents":{"source":"data:,x"},"group":{"id":0},"mode":0,"overwrite":true,"path":"/a","user":{"id":0}}]},"systemd":{"units":[{"enabled":true,"name":"a.service"}]}}"#]]
        .assert_eq(&lifted("2.0.0"));
    expect![[r#"{"storage":{"files":[{"contents":{"source":"data:,x"},"mode":0,"overwrite":true,"path":"/a"}]},"systemd":{"units":[{"enabled":false,"name":"a.service"}]}}"#]]
        .assert_eq(&lifted("2.1.0"));
    expect![[r#"{"storage":{"files":[{"append":[{"source":"data:,x"}],"overwrite":false,"path":"/a"}]},"systemd":{"units":[{"enabled":false,"name":"a.service"}]}}"#]]
        .assert_eq(&lifted("2.2.0"));
}
