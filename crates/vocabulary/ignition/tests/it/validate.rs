//! Violates each rule of spec 3 once.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

#[track_caller]
fn check(version: &str, rest: Value, expected: Expect) {
    let mut config = json!({"ignition": {"version": version}});
    for (key, value) in rest.as_object().unwrap() {
        config[key] = value.clone();
    }
    let text = ignition::parse(&config).map_or_else(|error| error.to_string(), |_| "fine".to_owned());
    expected.assert_eq(&text);
}

fn file(fields: Value) -> Value {
    let mut file = json!({"path": "/etc/x"});
    for (key, value) in fields.as_object().unwrap() {
        file[key] = value.clone();
    }
    json!({"storage": {"files": [file]}})
}

#[test]
fn files() {
    let newest = "3.5.0";
    check(
        newest,
        file(json!({"path": "etc/x"})),
        expect![[
            r#"storage.files[0].path: path not absolute: "etc/x" (allowed: an absolute path without //, . or ..)"#
        ]],
    );
    check(
        newest,
        file(json!({"path": "/etc/../x"})),
        expect![[
            r#"storage.files[0].path: path is not fully simplified: "/etc/../x" (allowed: an absolute path without //, . or ..)"#
        ]],
    );
    check(
        newest,
        file(json!({"mode": 65536})),
        expect!["storage.files[0].mode: illegal file mode 65536 (octal 200000) (allowed: 0 to 4095, octal 0 to 7777)"],
    );
    check(
        newest,
        file(json!({"overwrite": true})),
        expect![
            "storage.files[0].overwrite: overwrite must be false if source is unspecified (allowed: false, or give contents.source)"
        ],
    );
    check(
        newest,
        file(json!({"user": {"id": 1, "name": "x"}})),
        expect!["storage.files[0].user: cannot set both id and name"],
    );
    check(
        newest,
        file(json!({"contents": {"source": "ftp://x/y"}})),
        expect![[
            r#"storage.files[0].contents.source: invalid url scheme: "ftp://x/y" (allowed: data, http, https, s3, arn, gs, tftp)"#
        ]],
    );
    check(
        newest,
        file(json!({"contents": {"source": "data:,a#b"}})),
        expect![[
            r#"storage.files[0].contents.source: invalid data character at byte 7: "data:,a#b" (allowed: data, http, https, s3, arn, gs, tftp)"#
        ]],
    );
    check(
        newest,
        file(json!({"contents": {"source": "data:,", "compression": "xz"}})),
        expect![[r#"storage.files[0].contents.compression: invalid compression method "xz" (allowed: gzip)"#]],
    );
    check(
        newest,
        file(json!({"contents": {"source": "data:,", "verification": {"hash": "md5-00"}}})),
        expect![
            "storage.files[0].contents.verification.hash: unrecognized hash function (allowed: sha512-<128 digits>, sha256-<64 digits>)"
        ],
    );
}

#[test]
fn rules_follow_the_version_the_config_was_written_in() {
    let sha256 = format!("sha256-{}", "0".repeat(64));
    let hashed = file(json!({"contents": {"source": "data:,", "verification": {"hash": sha256}}}));
    check("3.1.0", hashed.clone(), expect!["fine"]);
    check(
        "3.0.0",
        hashed,
        expect![
            "storage.files[0].contents.verification.hash: unrecognized hash function (allowed: sha512-<128 digits>)"
        ],
    );
    let none = json!({"storage": {"filesystems": [{"device": "/dev/sda", "format": "none"}]}});
    check("3.3.0", none.clone(), expect!["fine"]);
    check(
        "3.2.0",
        none,
        expect![[
            r#"storage.filesystems[0].format: invalid filesystem format "none" (allowed: ext4, btrfs, xfs, swap, vfat)"#
        ]],
    );
    let link = json!({"storage": {"links": [{"path": "/etc/l"}]}});
    check("3.0.0", link, expect!["storage.links[0].target: link target is required"]);
}

#[test]
fn no_path_twice_and_nothing_below_a_link() {
    let entry = json!({"path": "/etc/x", "contents": {"source": "data:,"}});
    check(
        "3.5.0",
        json!({"storage": {"files": [entry, entry]}}),
        expect![[r#"storage.files[1]: duplicate entry defined: "/etc/x""#]],
    );
    check(
        "3.5.0",
        json!({"storage": {"files": [{"path": "/etc/x"}], "directories": [{"path": "/etc/x"}]}}),
        expect![[r#"storage.files[0]: duplicate entry defined: "/etc/x""#]],
    );
    check(
        "3.5.0",
        json!({"storage": {"files": [{"path": "/a/b/c"}, {"path": "/ab"}], "links": [{"path": "/a", "target": "/z"}]}}),
        expect![[r#"storage.files[0]: file path includes link in config: "/a/b/c""#]],
    );
}

#[test]
fn units() {
    let unit = |unit: Value| json!({"systemd": {"units": [unit]}});
    check(
        "3.5.0",
        unit(json!({"name": "a"})),
        expect![[
            r#"systemd.units[0].name: invalid systemd unit extension: "a" (allowed: .service, .socket, .device, .mount, .automount, .swap, .target, .path, .timer, .snapshot, .slice, .scope)"#
        ]],
    );
    check(
        "3.5.0",
        unit(json!({"name": "a.service", "contents": "[Unit"})),
        expect!["systemd.units[0].contents: invalid unit content: unable to find end of section"],
    );
    check(
        "3.5.0",
        unit(json!({"name": "a.service", "dropins": [{"name": "x"}]})),
        expect![[r#"systemd.units[0].dropins[0].name: invalid systemd drop-in extension: "x" (allowed: .conf)"#]],
    );
    check(
        "3.5.0",
        json!({
            "systemd": {"units": [{"name": "a.service", "contents": "[Unit]\n"}]},
            "storage": {"files": [{"path": "/etc/systemd/system/a.service"}]},
        }),
        expect![[
            r#"storage.files[0].path: path conflicts with systemd unit or dropin: "/etc/systemd/system/a.service""#
        ]],
    );
}

#[test]
fn disks() {
    let partitions =
        |partitions: Value| json!({"storage": {"disks": [{"device": "/dev/sda", "partitions": partitions}]}});
    check(
        "3.5.0",
        partitions(json!([{"number": 1, "startMiB": 1, "sizeMiB": 10}, {"number": 2, "startMiB": 5, "sizeMiB": 10}])),
        expect!["storage.disks[0].partitions[1]: partitions overlap"],
    );
    check(
        "3.5.0",
        partitions(json!([{"number": 1}, {"number": 1}])),
        expect![[
            r#"storage.disks[0].partitions[1]: partition numbers collide; storage.disks[0].partitions[1]: duplicate entry defined: "number:1""#
        ]],
    );
    check(
        "3.5.0",
        partitions(json!([{"sizeMiB": 1}])),
        expect!["storage.disks[0].partitions[0]: a partition number >= 1 or a label must be specified"],
    );
    check(
        "3.5.0",
        json!({"storage": {"raid": [{"name": "md0", "level": "raid9", "devices": ["/dev/a"]}]}}),
        expect![
            "storage.raid[0].level: unrecognized raid level (allowed: linear, raid0, raid1, raid4, raid5, raid6, raid10)"
        ],
    );
    check(
        "3.5.0",
        json!({"storage": {"luks": [{"name": "a", "device": "/dev/a", "cex": {"enabled": true}, "keyFile": {"source": "data:,k"}}]}}),
        expect!["storage.luks[0].cex: cannot use key file with cex"],
    );
}
