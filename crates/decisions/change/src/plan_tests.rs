//! What `plan` answers, step by step.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::target::{File, Folder, Owner, User};
use expect_test::{Expect, expect};

fn path(text: &str) -> HostPath {
    HostPath::parse(text).unwrap()
}

fn with_files(files: &[(&str, &str)]) -> Target {
    let files = files.iter().map(|(name, text)| (path(name), File::new(*text, 0o644))).collect();
    Target { files, ..Target::default() }
}

fn with_unit(name: &str, unit: Unit) -> Target {
    Target { units: [(name.to_owned(), unit)].into(), ..Target::default() }
}

#[track_caller]
fn check(from: &Target, to: &Target, expected: Expect) {
    let lines: Vec<String> = plan(from, to).iter().map(ToString::to_string).collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn a_settled_host_plans_nothing() {
    let target = with_files(&[("/etc/a", "1")]);
    check(&target, &target, expect![""]);
}

#[test]
fn only_files_that_differ_are_written_and_those_that_go_are_put_back() {
    let from = with_files(&[("/etc/a", "1"), ("/etc/b", "1"), ("/etc/c", "1")]);
    let to = with_files(&[("/etc/a", "1"), ("/etc/b", "2"), ("/etc/d", "1")]);
    check(
        &from,
        &to,
        expect![[r#"
            keep the original of /etc/d
            write /etc/b
            write /etc/d
            put back the original of /etc/c"#]],
    );
}

#[test]
fn a_removed_unit_is_stopped_and_disabled_before_its_file_goes() {
    let old =
        with_unit("old.service", Unit { contents: Some("[Unit]".into()), enabled: Some(true), ..Unit::default() });
    check(
        &old,
        &Target::default(),
        expect![[r#"
            stop old.service
            disable old.service
            put back the original of /etc/systemd/system/old.service
            read unit files again
            put back whether old.service is enabled"#]],
    );
}

#[test]
fn a_new_unit_is_written_before_it_is_enabled() {
    let dropins = [("10-x.conf".to_owned(), "[Service]".to_owned())].into();
    let new =
        with_unit("new.service", Unit { contents: Some("[Unit]".into()), enabled: Some(true), dropins, mask: false });
    check(
        &Target::default(),
        &new,
        expect![[r#"
            keep the original of /etc/systemd/system/new.service
            keep the original of /etc/systemd/system/new.service.d/10-x.conf
            remember whether new.service is enabled
            write drop-in 10-x.conf of new.service
            write unit new.service
            read unit files again
            enable new.service"#]],
    );
}

#[test]
fn a_masked_unit_needs_no_contents() {
    check(
        &Target::default(),
        &with_unit("a.service", Unit { mask: true, ..Unit::default() }),
        expect![[r#"
            keep the original of /etc/systemd/system/a.service
            mask a.service
            read unit files again"#]],
    );
}

#[test]
fn an_enabled_unit_whose_text_changes_is_disabled_while_the_old_text_stands() {
    let unit = |text: &str| Unit { contents: Some(text.into()), enabled: Some(true), ..Unit::default() };
    check(
        &with_unit("a.service", unit("1")),
        &with_unit("a.service", unit("2")),
        expect![[r#"
            disable a.service
            write unit a.service
            read unit files again
            enable a.service"#]],
    );
}

#[test]
fn system_changes_come_last() {
    let user = User { keys: vec!["ssh-ed25519 A".into()], password_hash: Some("$6$x".into()) };
    let to = Target {
        users: [("core".to_owned(), user)].into(),
        kernel_arguments: vec!["a b=\"1 2\"".into()],
        os_image: "registry/os@sha256:1".into(),
        extensions: vec!["usbguard".into()],
        kernel_type: "realtime".into(),
        ..with_files(&[("/etc/a", "1")])
    };
    check(
        &Target { kernel_type: "default".into(), ..Target::default() },
        &to,
        expect![[r#"
            keep the original of /etc/a
            write /etc/a
            set SSH keys of core
            set password of core
            stage OS image registry/os@sha256:1
            kernel arguments: delete [], append ["a", "b=\"1 2\""]
            packages: install ["usbguard"], uninstall [], kernel default to realtime"#]],
    );
}

#[test]
fn a_folder_goes_after_what_is_in_it() {
    let folder = Folder { mode: 0o755, user: Owner::Id(0), group: Owner::Id(0) };
    let mut from = with_files(&[("/etc/d/e/f", "1")]);
    from.folders = [(path("/etc/d"), folder.clone()), (path("/etc/d/e"), folder)].into();
    check(
        &from,
        &Target::default(),
        expect![[r#"
            put back the original of /etc/d/e/f
            put back the original of /etc/d/e
            put back the original of /etc/d"#]],
    );
}

#[test]
fn certificates_that_others_keep_fresh_stay_when_their_entry_goes() {
    let from = with_files(&[("/etc/kubernetes/kubelet-ca.crt", "x"), ("/etc/docker/certs.d/r/ca.crt", "x")]);
    check(&from, &Target::default(), expect![""]);
}

#[test]
fn keys_are_written_again_when_sshd_may_read_them_elsewhere() {
    let user = |keys: &[&str]| User { keys: keys.iter().map(|key| (*key).to_owned()).collect(), ..User::default() };
    let users: std::collections::BTreeMap<String, User> =
        [("core".to_owned(), user(&["ssh-ed25519 A"])), ("other".to_owned(), user(&[]))].into();
    let from = Target { users: users.clone(), ..Target::default() };
    let to = Target { users, ..with_files(&[("/etc/ssh/sshd_config.d/10-keys.conf", "AuthorizedKeysFile x")]) };
    check(
        &from,
        &to,
        expect![[r#"
            keep the original of /etc/ssh/sshd_config.d/10-keys.conf
            write /etc/ssh/sshd_config.d/10-keys.conf
            set SSH keys of core"#]],
    );
}
