//! What counts as a difference.

use api::machineconfiguration::MachineConfig;
use expect_test::{Expect, expect};
use serde_json::json;

use crate::{between, files, units, users};

/// One line per difference, e.g. `~ file /etc/x`.
#[track_caller]
fn check(old: &MachineConfig, new: &MachineConfig, expected: Expect) {
    let diff = between(old, new);
    let mut lines = Vec::new();
    let sign = |kind| match kind {
        change::diff::Kind::Added => '+',
        change::diff::Kind::Removed => '-',
        change::diff::Kind::Updated => '~',
    };
    lines.extend(diff.files.iter().map(|c| format!("{} file {}", sign(c.kind()), c.name)));
    lines.extend(diff.directories.iter().map(|c| format!("{} folder {}", sign(c.kind()), c.name)));
    lines.extend(diff.links.iter().map(|c| format!("{} link {}", sign(c.kind()), c.name)));
    lines.extend(diff.units.iter().map(|c| format!("{} unit {}", sign(c.kind()), c.name)));
    lines.extend(diff.users.iter().map(|c| format!("{} user {}", sign(c.kind()), c.name)));
    lines.extend(diff.kernel_arguments.iter().map(|c| format!("arguments {:?} {:?}", c.before, c.after)));
    lines.extend(diff.kernel_type.iter().map(|c| format!("kernel {} {}", c.before.as_str(), c.after.as_str())));
    lines.extend(diff.first_boot.iter().map(|section| format!("first boot: {section}")));
    assert_eq!(lines.is_empty(), diff.is_empty());
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn files_come_go_and_change() {
    let old = files(json!([{"path": "/b", "contents": {"source": "data:,1"}}, {"path": "/a"}]));
    let new = files(json!([{"path": "/c"}, {"path": "/b", "contents": {"source": "data:,2"}}]));
    check(
        &old,
        &new,
        expect![[r#"
            - file /a
            ~ file /b
            + file /c"#]],
    );
}

#[test]
fn the_same_bytes_in_another_encoding_are_no_difference() {
    let old = files(json!([{"path": "/a", "contents": {"source": "data:,alpha%0A"}}]));
    let new = files(json!([{"path": "/a", "contents": {"source": "data:;base64,YWxwaGEK"}}]));
    check(&old, &new, expect![""]);
}

#[test]
fn what_a_node_would_do_anyway_is_no_difference() {
    let old = files(json!([{"path": "/a", "contents": {"source": "data:,"}}]));
    let new = files(json!([{
        "path": "/a", "contents": {"source": "data:,"}, "mode": 0o644, "overwrite": true, "user": {"name": "root"},
    }]));
    check(&old, &new, expect![""]);
}

#[test]
fn order_is_no_difference() {
    let old = units(
        json!([{"name": "a.service"}, {"name": "b.service", "dropins": [{"name": "1.conf"}, {"name": "2.conf"}]}]),
    );
    let new = units(
        json!([{"name": "b.service", "dropins": [{"name": "2.conf"}, {"name": "1.conf"}]}, {"name": "a.service"}]),
    );
    check(&old, &new, expect![""]);
}

#[test]
fn a_drop_in_is_part_of_its_unit() {
    let old = units(json!([{"name": "a.service"}]));
    let new = units(json!([{"name": "a.service", "dropins": [{"name": "1.conf", "contents": "[Service]\n"}]}]));
    check(&old, &new, expect!["~ unit a.service"]);
}

#[test]
fn disabled_is_not_the_same_as_left_alone() {
    let old = units(json!([{"name": "a.service"}]));
    let new = units(json!([{"name": "a.service", "enabled": false}]));
    check(&old, &new, expect!["~ unit a.service"]);
}

#[test]
fn keys_and_passwords_are_differences_of_their_user() {
    let old = users(json!([{"name": "core", "sshAuthorizedKeys": ["a"]}]));
    let new = users(json!([{"name": "core", "sshAuthorizedKeys": ["a", "b"]}]));
    check(&old, &new, expect!["~ user core"]);
}

#[test]
fn kernel_arguments_differ_by_order_too_and_default_is_a_kernel_type() {
    let mut old = files(json!([]));
    let mut new = old.clone();
    old.spec.kernel_arguments = vec!["a".into(), "b".into()];
    new.spec.kernel_arguments = vec!["b".into(), "a".into()];
    new.spec.kernel_type = Some("default".into());
    check(&old, &new, expect![[r#"arguments ["a", "b"] ["b", "a"]"#]]);
}

#[test]
fn first_boot_sections_are_compared_without_their_empty_parts() {
    let old = crate::config(json!({"storage": {"disks": []}, "passwd": {"groups": null}}));
    let new = crate::config(json!({"storage": {"luks": [{"name": "x", "device": "/dev/sdb"}]}}));
    check(&old, &new, expect!["first boot: luks"]);
}
