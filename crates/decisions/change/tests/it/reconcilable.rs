//! Which changes a running node can make.

use api::machineconfiguration::MachineConfig;
use change::policy::Settings;
use change::reconcilable::{Allowances, reconcilable};
use expect_test::{Expect, expect};
use serde_json::json;

use crate::{between, config, content, files, users};

fn verdict(old: &MachineConfig, new: &MachineConfig, settings: &Settings, allowances: &Allowances) -> String {
    let answer = reconcilable(&between(old, new), &content(new), ("OLD", "NEW"), settings, allowances);
    answer.map_or_else(|error| error.to_string(), |()| "yes".into())
}

#[track_caller]
fn check(old: &MachineConfig, new: &MachineConfig, expected: Expect) {
    expected.assert_eq(&verdict(old, new, &Settings::default(), &Allowances::default()));
}

fn nothing() -> MachineConfig {
    config(json!({}))
}

#[test]
fn files_units_and_keys_can_change() {
    let new = users(json!([{"name": "core", "sshAuthorizedKeys": ["a"]}]));
    check(&nothing(), &new, expect!["yes"]);
    check(&new, &nothing(), expect!["yes"]);
    check(&nothing(), &files(json!([{"path": "/etc/x"}])), expect!["yes"]);
}

#[test]
fn every_obstacle_is_told() {
    let mut new = config(json!({
        "storage": {"disks": [{"device": "/dev/sda"}], "files": [{"path": "/etc/x", "append": [{"source": "data:,x"}]}]},
        "passwd": {"users": [{"name": "core", "homeDir": "/x"}, {"name": "bob"}]},
    }));
    new.spec.fips = Some(true);
    check(
        &nothing(),
        &new,
        expect![[
            r#"new machineconfig "NEW" is not reconcilable against "OLD": invalid passwd change(s): ignition passwd user section contains unsupported changes: non-core user "bob"; invalid passwd change(s): ignition passwd user section contains unsupported changes: user must be core and have 1 or more sshKeys; invalid passwd change(s): ignition passwd user section contains unsupported changes: changes of user core beyond its SSH keys and password hash are not reconcilable: homeDir; ignition disks section contains changes; ignition file /etc/x includes append; detected change to FIPS flag; refusing to modify FIPS on a running cluster"#
        ]],
    );
}

#[test]
fn folders_and_symbolic_links_can_change_but_hard_links_cannot() {
    let soft = config(json!({"storage": {
        "directories": [{"path": "/etc/d"}], "links": [{"path": "/etc/l", "target": "/etc/d"}],
    }}));
    check(&nothing(), &soft, expect!["yes"]);
    check(&soft, &nothing(), expect!["yes"]);
    let hard = config(json!({"storage": {"links": [{"path": "/etc/l", "target": "/etc/d", "hard": true}]}}));
    check(
        &nothing(),
        &hard,
        expect![[
            r#"new machineconfig "NEW" is not reconcilable against "OLD": ignition links section contains changes: /etc/l is a hard link"#
        ]],
    );
}

#[test]
fn encrypted_volumes_cannot_change() {
    let new = config(json!({"storage": {"luks": [{"name": "x", "device": "/dev/sdb"}]}}));
    check(
        &nothing(),
        &new,
        expect![[
            r#"new machineconfig "NEW" is not reconcilable against "OLD": ignition luks section contains changes"#
        ]],
    );
}

#[test]
fn the_force_file_cannot_be_part_of_a_config() {
    check(
        &nothing(),
        &files(json!([{"path": "/run/machine-config-daemon-force"}])),
        expect![[
            r#"new machineconfig "NEW" is not reconcilable against "OLD": cannot create /run/machine-config-daemon-force via Ignition"#
        ]],
    );
}

#[test]
fn contents_that_nobody_fetched_cannot_be_written() {
    let new = files(json!([{"path": "/etc/x", "contents": {"source": "https://example.com/x"}}]));
    check(
        &nothing(),
        &new,
        expect![[
            r#"new machineconfig "NEW" is not reconcilable against "OLD": the contents of file /etc/x cannot be decoded: source "https://example.com/x" is not inline and was not fetched"#
        ]],
    );
    check(&new, &new, expect!["yes"]);
}

#[test]
fn a_cluster_may_allow_new_disk_layouts_for_new_machines() {
    let new = config(json!({"storage": {"disks": [{"device": "/dev/sda"}]}}));
    let allowances = Allowances { first_boot: [change::content::Section::Disks].into() };
    assert_eq!(verdict(&nothing(), &new, &Settings::default(), &allowances), "yes");
}

#[test]
fn the_admin_user_is_a_setting() {
    let settings = Settings { admin_user: "ubuntu".into(), ..Settings::default() };
    let new = users(json!([{"name": "ubuntu", "sshAuthorizedKeys": ["a"]}]));
    assert_eq!(verdict(&nothing(), &new, &settings, &Allowances::default()), "yes");
    let new = users(json!([{"name": "core", "sshAuthorizedKeys": ["a"]}]));
    assert!(verdict(&nothing(), &new, &settings, &Allowances::default()).contains("non-ubuntu user \"core\""));
}

#[test]
fn overrides_name_sections_and_an_unknown_word_is_refused_with_its_place() {
    let overrides = |words: &[&str]| api::operator::IrreconcilableValidationOverrides {
        storage: words.iter().map(|word| (*word).to_owned()).collect(),
    };
    let read = |words: &[&str]| Allowances::try_from(&overrides(words)).map(|allowances| allowances.first_boot);
    use change::content::Section::{Disks, Filesystems, Raid};
    assert_eq!(read(&["Disks", "FileSystems", "Raid"]), Ok([Disks, Filesystems, Raid].into()));
    let error = read(&["Disks", "Luks"]).unwrap_err();
    assert_eq!(error.to_string(), "storage[1]: \"Luks\" is not one of Disks, FileSystems, Raid");
}
