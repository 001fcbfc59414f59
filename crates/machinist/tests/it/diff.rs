//! `machinist diff`.

use expect_test::expect;

use crate::{Folder, file, fragment};

fn rendered(hash: &str, spec: &str) -> String {
    format!(
        "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata: {{name: rendered-worker-{hash}}}\nspec: {spec}\n"
    )
}

#[test]
fn a_change_is_shown_as_people_read_it() {
    let old = rendered(
        "a",
        r#"{kernelArguments: [quiet], config: {ignition: {version: 3.5.0},
          passwd: {users: [{name: core, sshAuthorizedKeys: [ssh-ed25519 AAAA me], passwordHash: $6$old}]},
          storage: {files: [
            {path: /etc/chrony.conf, contents: {source: "data:,server%20a%0Aserver%20b%0A"}},
            {path: /etc/gone, contents: {source: "data:,bye%0A"}},
            {path: /var/lib/kubelet/config.json, mode: 0600, contents: {source: "data:,1"}}]},
          systemd: {units: [{name: a.service, enabled: true, contents: "[Unit]\nDescription=a\n"}]}}}"#,
    );
    let new = rendered(
        "b",
        r#"{kernelArguments: [quiet, nosmt], osImageURL: quay.io/os@sha256:1, config: {ignition: {version: 3.5.0},
          passwd: {users: [{name: core, sshAuthorizedKeys: [ssh-ed25519 BBBB me], passwordHash: $6$new}]},
          storage: {files: [
            {path: /etc/chrony.conf, mode: 0600, contents: {source: "data:,server%20a%0Aserver%20c%0A"}},
            {path: /etc/binary, contents: {source: "data:;base64,//79"}},
            {path: /var/lib/kubelet/config.json, mode: 0600, contents: {source: "data:,12"}}],
            directories: [{path: /etc/d, mode: 0750}]},
          systemd: {units: [{name: a.service, enabled: false, contents: "[Unit]\nDescription=a\n",
            dropins: [{name: 10-x.conf, contents: "[Service]\nNice=1\n"}]}]}}}"#,
    );
    let folder = Folder::new(&[("a.yaml", &old), ("b.yaml", &new)]);
    let run = folder.run(&["diff", "a.yaml", "b.yaml"]);
    assert_eq!((run.code, run.stderr.as_str()), (3, ""));
    expect![[r#"
        worker  rendered-worker-a -> rendered-worker-b
        added file /etc/binary (mode 0644, user 0, group 0)
            +<binary, 3 bytes>
        changed file /etc/chrony.conf (mode 0644 -> 0600)
            -<18 bytes of text>
            +<masked, 18 bytes>
        removed file /etc/gone (mode 0644, user 0, group 0)
            @@ -1 +0,0 @@
            -bye
        changed file /var/lib/kubelet/config.json
            -<masked, 1 bytes>
            +<masked, 2 bytes>
        added folder /etc/d (mode 0750, user 0, group 0)
        changed unit a.service (enabled true -> false)
            drop-in 10-x.conf
            @@ -0,0 +1,2 @@
            +[Service]
            +Nice=1
        changed user core
            -ssh-ed25519 AAAA me
            +ssh-ed25519 BBBB me
            -password <masked>
            +password <masked>
        changed kernel arguments
            +nosmt
        changed OS image
            +quay.io/os@sha256:1

        in place    yes
        disruption  reboot, after the node is drained
            OS image                      reboot
            kernel arguments              reboot
            /etc/binary                   reboot (no policy covers it)
            /etc/chrony.conf              reboot (no policy covers it)
            /etc/gone                     reboot (no policy covers it)
            /var/lib/kubelet/config.json  none (policy on /var/lib/kubelet/config.json)
            /etc/d                        reboot (no policy covers it)
            unit a.service                reboot (no policy covers it)
            login keys and password       none
        actions     reboot
    "#]]
    .assert_eq(&run.stdout);
    for secret in ["$6$old", "$6$new"] {
        assert!(!run.stdout.contains(secret));
        assert!(folder.run(&["diff", "a.yaml", "b.yaml", "--show-secrets"]).stdout.contains(secret));
    }
}

#[test]
fn what_cannot_be_done_in_place_is_said_with_every_reason() {
    let old = rendered("a", "{config: {ignition: {version: 3.5.0}}}");
    let new =
        rendered("b", "{fips: true, config: {ignition: {version: 3.5.0}, storage: {disks: [{device: /dev/sda}]}}}");
    let run = Folder::new(&[("a.yaml", &old), ("b.yaml", &new)]).run(&["diff", "a.yaml", "b.yaml"]);
    expect![[r#"
        worker  rendered-worker-a -> rendered-worker-b
        changed FIPS mode
            -false
            +true
        changed ignition disks (only a machine's first boot reads it)

        in place    no
            ignition disks section contains changes
            detected change to FIPS flag; refusing to modify FIPS on a running cluster
        disruption  reboot, after the node is drained
            FIPS mode  reboot
        actions     reboot
    "#]]
    .assert_eq(&run.stdout);
}

#[test]
fn fragments_are_rendered_first_and_policies_of_the_new_side_count() {
    let policy = "apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\nmetadata: {name: cluster}\nspec: \
                  {nodeDisruptionPolicy: {files: [{path: /etc/app, actions: [{type: DaemonReload}, {type: Restart, restart: \
                  {serviceName: app.service}}]}]}}\n";
    let old = format!("{}---\n{}", file("50-w", "worker", "/etc/app/x", "1"), file("50-m", "master", "/etc/m", "1"));
    let new = format!(
        "{policy}---\n{}---\n{}",
        file("50-w", "worker", "/etc/app/x", "2"),
        file("50-m", "master", "/etc/m", "1")
    );
    let run = Folder::new(&[("a.yaml", &old), ("b.yaml", &new)]).run(&["diff", "a.yaml", "b.yaml", "-o", "json"]);
    assert_eq!((run.code, run.stderr.as_str()), (3, ""));
    let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(report["comparisons"][0]["pool"], "master");
    assert_eq!(report["comparisons"][0]["same"], true);
    let worker = &report["comparisons"][1];
    assert_eq!(worker["disruption"]["class"], "restart");
    assert_eq!(worker["disruption"]["actions"][1]["restart"]["serviceName"], "app.service");
    assert_eq!(worker["changes"]["files"][0]["after"]["contents"], "2");
}

#[test]
fn the_same_in_other_words_is_the_same() {
    let old = rendered(
        "a",
        r#"{config: {ignition: {version: 3.2.0}, storage: {files: [{path: /a, contents: {source: "data:,alpha%0A"}}]}}}"#,
    );
    let new = rendered(
        "b",
        r#"{config: {ignition: {version: 3.5.0}, storage: {files: [{path: /a, mode: 0644, contents: {source: "data:;base64,YWxwaGEK"}}]}}}"#,
    );
    let run = Folder::new(&[("a.yaml", &old), ("b.yaml", &new)]).run(&["diff", "a.yaml", "b.yaml"]);
    assert_eq!(run.code, 0, "{}", run.stdout);
}

#[test]
fn failing_is_not_differing() {
    let folder = Folder::new(&[("a.yaml", &fragment("50-x", "worker", "{ignition: {version: 9.0.0}}"))]);
    let run = folder.run(&["diff", "a.yaml", "a.yaml"]);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert_eq!(folder.run(&["diff", "a.yaml"]).code, 2);
    assert_eq!(folder.run(&["diff", "-", "-"]).code, 1);
}
