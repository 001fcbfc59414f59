//! What a change costs.

use api::machineconfiguration::MachineConfig;
use change::disruption::Disruption;
use change::policy::{Action, Policies, Policy, Settings};
use expect_test::{Expect, expect};
use serde_json::json;

use crate::{between, config, files, units, users};

fn policies(user: &[(&str, &[Action])]) -> Policies {
    let files = user.iter().map(|(subject, actions)| Policy { subject: (*subject).into(), actions: actions.to_vec() });
    let user = Policies { files: files.collect(), ..Policies::default() };
    Policies::defaults(&Settings::default()).overlaid(user)
}

#[track_caller]
fn check_with(policies: &Policies, old: &MachineConfig, new: &MachineConfig, expected: Expect) {
    let disruption = Disruption::of(&between(old, new), policies);
    let actions: Vec<_> = disruption.actions.iter().map(ToString::to_string).collect();
    let drain = if disruption.drain { ", drained" } else { "" };
    expected.assert_eq(&format!("{}{drain}: {}", disruption.class(), actions.join(", ")));
}

#[track_caller]
fn check(new: &MachineConfig, expected: Expect) {
    check_with(&policies(&[]), &config(json!({})), new, expected);
}

#[test]
fn what_no_policy_covers_reboots() {
    check(&files(json!([{"path": "/etc/x"}])), expect!["reboot, drained: reboot"]);
    check(&units(json!([{"name": "x.service"}])), expect!["reboot, drained: reboot"]);
    check(&config(json!({"storage": {"directories": [{"path": "/etc/x"}]}})), expect!["reboot, drained: reboot"]);
}

#[test]
fn settings_of_the_system_reboot() {
    let mut new = config(json!({}));
    new.spec.kernel_arguments = vec!["quiet".into()];
    check(&new, expect!["reboot, drained: reboot"]);
    let mut new = config(json!({}));
    new.spec.base_os_extensions_container_image = Some("quay.io/x".into());
    check(&new, expect!["none: "]);
}

#[test]
fn keys_and_pull_secrets_disturb_nobody() {
    check(&users(json!([{"name": "core", "sshAuthorizedKeys": ["a"]}])), expect!["none: "]);
    check(&files(json!([{"path": "/var/lib/kubelet/config.json"}])), expect!["none: "]);
}

#[test]
fn services_are_restarted_once_and_after_what_they_read() {
    let new = files(json!([
        {"path": "/etc/kubernetes/credential-providers/a.yaml"},
        {"path": "/etc/my/a"},
        {"path": "/etc/pki/ca-trust/source/anchors/iri-root-ca.crt"},
        {"path": "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt"},
        {"path": "/etc/systemd/system/kubelet.service.d/40-kubelet-crio-image-credential-provider.conf"},
    ]));
    let crio = Action::Restart("crio.service".into());
    check_with(
        &policies(&[("/etc/my", &[Action::Drain, crio])]),
        &config(json!({})),
        &new,
        expect![
            "drain, drained: drain, daemon-reload, restart coreos-update-ca-trust.service, restart kubelet.service, restart crio.service"
        ],
    );
}

#[test]
fn registries_drain_only_where_an_image_could_go_missing() {
    let with = |text: &str| files(json!([{"path": "/etc/containers/registries.conf", "contents": {"source": text}}]));
    let old = with("data:,unqualified-search-registries%20%3D%20%5B'a'%5D");
    check_with(
        &policies(&[]),
        &old,
        &with("data:,unqualified-search-registries%20%3D%20%5B'a','b'%5D"),
        expect!["reload: reload the container runtime"],
    );
    check_with(
        &policies(&[]),
        &old,
        &with("data:,unqualified-search-registries%20%3D%20%5B'b'%5D"),
        expect!["drain, drained: reload the container runtime"],
    );
    check_with(
        &policies(&[]),
        &old,
        &with("https://example.com/registries.conf"),
        expect!["drain, drained: reload the container runtime"],
    );
}

#[test]
fn nothing_changed_has_no_reasons() {
    let same = files(json!([{"path": "/etc/x"}]));
    assert_eq!(Disruption::of(&between(&same, &same), &policies(&[])), Disruption::default());
}
