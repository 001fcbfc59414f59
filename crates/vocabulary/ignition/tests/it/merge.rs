//! The parent and child rules, one by one.

use expect_test::{Expect, expect};
use ignition::merge;
use serde_json::{Value, json};

#[track_caller]
fn check(parent: Value, child: Value, expected: Expect) {
    let parse = |mut config: Value| {
        config["ignition"] = json!({"version": "3.5.0"});
        ignition::parse(&config).unwrap()
    };
    let mut merged = ignition::to_value(merge::merge(parse(parent), parse(child)));
    merged.as_object_mut().unwrap().remove("ignition");
    expected.assert_eq(&merged.to_string());
}

fn files(files: Value) -> Value {
    json!({"storage": {"files": files}})
}

#[test]
fn a_file_keeps_what_the_child_does_not_set() {
    check(
        files(json!([{"path": "/a", "mode": 384, "contents": {"source": "data:,1"}}, {"path": "/b"}])),
        files(json!([{"path": "/c"}, {"path": "/a", "contents": {"source": "data:,2"}}])),
        expect![[
            r#"{"storage":{"files":[{"contents":{"source":"data:,2"},"mode":384,"path":"/a"},{"path":"/b"},{"path":"/c"}]}}"#
        ]],
    );
}

#[test]
fn contents_are_merged_as_a_unit() {
    let hash = format!("sha512-{}", "0".repeat(128));
    let parent = files(
        json!([{"path": "/a", "contents": {"source": "data:,1", "compression": "gzip", "verification": {"hash": hash}}}]),
    );
    check(
        parent.clone(),
        files(json!([{"path": "/a", "contents": {"source": "data:,2"}}])),
        expect![[r#"{"storage":{"files":[{"contents":{"source":"data:,2"},"path":"/a"}]}}"#]],
    );
    check(
        parent,
        files(json!([{"path": "/a", "mode": 420}])),
        expect![[
            r#"{"storage":{"files":[{"contents":{"compression":"gzip","source":"data:,1","verification":{"hash":"sha512-00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"}},"mode":420,"path":"/a"}]}}"#
        ]],
    );
}

#[test]
fn the_newest_entry_at_a_path_replaces_entries_of_other_kinds() {
    check(
        json!({"storage": {"files": [{"path": "/a"}, {"path": "/b"}], "directories": [{"path": "/d"}]}}),
        json!({"storage": {"links": [{"path": "/a", "target": "/z"}], "files": [{"path": "/d"}]}}),
        expect![[r#"{"storage":{"files":[{"path":"/b"},{"path":"/d"}],"links":[{"path":"/a","target":"/z"}]}}"#]],
    );
}

#[test]
fn an_owner_has_an_id_or_a_name() {
    check(
        files(json!([{"path": "/a", "user": {"id": 0}, "group": {"name": "root"}}])),
        files(json!([{"path": "/a", "user": {"name": "core"}, "group": {"id": 7}}])),
        expect![[r#"{"storage":{"files":[{"group":{"id":7},"path":"/a","user":{"name":"core"}}]}}"#]],
    );
}

#[test]
fn units_and_dropins_join_by_name() {
    check(
        json!({"systemd": {"units": [{"name": "a.service", "enabled": true, "contents": "[Unit]\n", "dropins": [{"name": "1.conf", "contents": "[A]\n"}]}]}}),
        json!({"systemd": {"units": [{"name": "a.service", "enabled": false, "dropins": [{"name": "2.conf"}, {"name": "1.conf", "contents": "[B]\n"}]}]}}),
        expect![[
            r#"{"systemd":{"units":[{"contents":"[Unit]\n","dropins":[{"contents":"[B]\n","name":"1.conf"},{"name":"2.conf"}],"enabled":false,"name":"a.service"}]}}"#
        ]],
    );
}

#[test]
fn keys_are_united_and_passwords_replaced() {
    let user = |hash: &str, keys: Value| json!({"passwd": {"users": [{"name": "core", "passwordHash": hash, "sshAuthorizedKeys": keys}]}});
    check(
        user("x", json!(["a", "b"])),
        user("y", json!(["c", "a"])),
        expect![[r#"{"passwd":{"users":[{"name":"core","passwordHash":"y","sshAuthorizedKeys":["a","b","c"]}]}}"#]],
    );
}

#[test]
fn a_kernel_argument_is_in_one_list_only() {
    check(
        json!({"kernelArguments": {"shouldExist": ["a", "b"], "shouldNotExist": ["c"]}}),
        json!({"kernelArguments": {"shouldExist": ["c"], "shouldNotExist": ["a"]}}),
        expect![[r#"{"kernelArguments":{"shouldExist":["b","c"],"shouldNotExist":["a"]}}"#]],
    );
}

#[test]
fn options_and_appended_parts_are_concatenated() {
    check(
        json!({"storage": {"filesystems": [{"device": "/dev/a", "format": "ext4", "options": ["x"]}], "files": [{"path": "/a", "append": [{"source": "data:,1"}]}]}}),
        json!({"storage": {"filesystems": [{"device": "/dev/a", "format": "xfs", "options": ["x"]}], "files": [{"path": "/a", "append": [{"source": "data:,1"}]}]}}),
        expect![[
            r#"{"storage":{"files":[{"append":[{"source":"data:,1"},{"source":"data:,1"}],"path":"/a"}],"filesystems":[{"device":"/dev/a","format":"xfs","options":["x","x"]}]}}"#
        ]],
    );
}

#[test]
fn a_header_without_a_value_removes_the_parents_header() {
    let merge = |headers: Value| json!({"storage": {"luks": [{"name": "a", "device": "/dev/a", "keyFile": {"source": "http://x/y", "httpHeaders": headers}}]}});
    check(
        merge(json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}])),
        merge(json!([{"name": "A"}, {"name": "C", "value": "3"}])),
        expect![[
            r#"{"storage":{"luks":[{"device":"/dev/a","keyFile":{"httpHeaders":[{"name":"B","value":"2"},{"name":"C","value":"3"}],"source":"http://x/y"},"name":"a"}]}}"#
        ]],
    );
}
