//! Conversion for older clients, and what is refused.

use expect_test::{Expect, expect};
use ignition::{Version, down};
use serde_json::{Value, json};

#[track_caller]
fn check(version: Version, rest: Value, expected: Expect) {
    let mut config = json!({"ignition": {"version": "3.5.0"}});
    for (key, value) in rest.as_object().unwrap() {
        config[key] = value.clone();
    }
    let config = ignition::parse(&config).unwrap();
    let text = match down::lower(config, version, vec!["own".to_owned()]) {
        Ok(mut lowered) => {
            lowered.config.as_object_mut().unwrap().remove("ignition");
            format!("{} {:?}", lowered.config, lowered.kernel_arguments)
        }
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&text);
}

#[test]
fn below_3_3_kernel_arguments_move() {
    let arguments = json!({"kernelArguments": {"shouldExist": ["a b", "c"]}});
    check(Version::V3_3, arguments.clone(), expect![[r#"{"kernelArguments":{"shouldExist":["a b","c"]}} ["own"]"#]]);
    check(Version::V3_2, arguments, expect![[r#"{} ["own", "a b", "c"]"#]]);
    check(
        Version::V2_2,
        json!({"kernelArguments": {"shouldNotExist": ["quiet"]}}),
        expect![
            "kernelArguments.shouldNotExist: can't serve version 2.2.0 with ignition KernelArguments.ShouldNotExist populated (allowed: none below 3.3.0)"
        ],
    );
}

#[test]
fn unsupported_fields_are_refused_by_name() {
    let luks = |fields: Value| {
        let mut luks = json!({"name": "a", "device": "/dev/a"});
        for (key, value) in fields.as_object().unwrap() {
            luks[key] = value.clone();
        }
        json!({"storage": {"luks": [luks]}})
    };
    check(
        Version::V3_4,
        luks(json!({"cex": {"enabled": true}})),
        expect!["storage.luks[0].cex: luks cex is not supported in spec v3.4.0"],
    );
    check(
        Version::V3_4,
        luks(json!({"cex": {"enabled": false}})),
        expect![[r#"{"storage":{"luks":[{"device":"/dev/a","name":"a"}]}} ["own"]"#]],
    );
    let tang = luks(json!({"clevis": {"tang": [{"url": "https://t", "thumbprint": "x", "advertisement": "{}"}]}}));
    check(
        Version::V3_4,
        tang.clone(),
        expect![[
            r#"{"storage":{"luks":[{"clevis":{"tang":[{"advertisement":"{}","thumbprint":"x","url":"https://t"}]},"device":"/dev/a","name":"a"}]}} ["own"]"#
        ]],
    );
    check(
        Version::V3_3,
        tang,
        expect!["storage.luks[0].clevis.tang: tang offline provisioning (advertisement) is not supported in spec v3.3"],
    );
    check(Version::V3_1, luks(json!({})), expect!["storage.luks: LUKS is not supported on 3.1"]);
    check(
        Version::V2_2,
        json!({"storage": {"files": [{"path": "/a", "mode": 384}]}}),
        expect![[r#"storage.files[0]: the file "/a" without contents is not supported on 2.2"#]],
    );
    check(
        Version::V2_2,
        json!({"storage": {"disks": [{"device": "/dev/a", "partitions": [{"number": 1, "shouldExist": false}, {"number": 2, "wipePartitionEntry": true}]}]}}),
        expect![
            "storage.disks[0].partitions[0].shouldExist: ShouldExist in Storage.Disks.Partitions is not supported on 2.2; storage.disks[0].partitions[1].wipePartitionEntry: WipePartitionEntry in Storage.Disks.Partitions is not supported on 2.2"
        ],
    );
}

#[test]
fn a_file_lies_on_the_filesystem_whose_mount_point_it_is_below() {
    let files =
        ["/data/x", "/database/x", "/etc/x"].map(|path| json!({"path": path, "contents": {"source": "data:,"}}));
    check(
        Version::V2_2,
        json!({"storage": {
            "filesystems": [{"device": "/dev/a", "format": "ext4", "path": "/data"}],
            "files": files,
            "directories": [{"path": "/data"}],
        }}),
        expect![[
            r#"{"storage":{"directories":[{"filesystem":"/data","path":"/"}],"files":[{"contents":{"source":"data:,"},"filesystem":"/data","overwrite":false,"path":"/x"},{"contents":{"source":"data:,"},"filesystem":"root","overwrite":false,"path":"/database/x"},{"contents":{"source":"data:,"},"filesystem":"root","overwrite":false,"path":"/etc/x"}],"filesystems":[{"mount":{"device":"/dev/a","format":"ext4"},"name":"/data"}]}} ["own"]"#
        ]],
    );
}

#[test]
fn a_file_with_appended_parts_becomes_several_entries() {
    check(
        Version::V2_2,
        json!({"storage": {"files": [{"path": "/a", "overwrite": true, "contents": {"source": "data:,1"}, "append": [{"source": "data:,2"}]}]}}),
        expect![[
            r#"{"storage":{"files":[{"contents":{"source":"data:,1"},"filesystem":"root","overwrite":true,"path":"/a"},{"append":true,"contents":{"source":"data:,2"},"filesystem":"root","overwrite":false,"path":"/a"}]}} ["own"]"#
        ]],
    );
}

#[test]
fn some_versions_are_never_served() {
    check(
        Version::V3_0,
        json!({}),
        expect![
            "ignition.version: conversion from 3.5.0 to 3.0.0 is not supported (allowed: 2.2.0, 3.1.0, 3.2.0, 3.3.0, 3.4.0, 3.5.0)"
        ],
    );
}
