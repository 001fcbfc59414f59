//! Tests on real systemd nodes: machinistd as a service of a booted system, against a real API.

pub(crate) mod base;
mod dying;
mod metrics;
mod node;
mod rights;
mod rolling_out;
mod world;

use std::fs;
use std::process::Command;

use api::annotations;
use api::machineconfiguration::MachineConfigNode;
use kube::api::Api;
use serde_json::json;
use testkit::{wait_for, wait_until};

use node::Setup;
use world::{World, file, get};

const UNIT: &str = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n";

#[tokio::test]
async fn files_units_dropins_and_keys_arrive_and_an_old_unit_goes() {
    let Some(world) = World::new().await else { return };
    let old = json!({
        "storage": {"files": [file("/etc/motd", "from the old config\n"), file("/etc/only-old", "old\n")]},
        "systemd": {"units": [{"name": "old.service", "enabled": true, "contents": UNIT}]},
    });
    let base = world.config("rendered-worker-base", json!({})).await;
    let old = world.config("rendered-worker-old", old).await;
    let new = json!({
        "storage": {"files": [file("/etc/motd", "from the new config\n"), file("/etc/deep/er/file", "new\n"), file("/etc/systemd/system-preset/10-story.preset", "disable preset.service\n")]},
        "systemd": {"units": [
            {"name": "new.service", "enabled": true, "contents": UNIT,
             "dropins": [{"name": "10-nice.conf", "contents": "[Service]\nNice=7\n"}]},
            {"name": "ssh.service", "dropins": [{"name": "10-nice.conf", "contents": "[Service]\nNice=3\n"}]},
            {"name": "preset.service", "contents": UNIT},
        ]},
        "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 AAAA test"]}]},
    });
    let new = world.config("rendered-worker-new", new).await;
    let node = world.node("n1", 1, &base).await;
    world.answer_drains("n1");
    let shipped = node.read("/etc/motd").expect("the distribution ships one");

    world.want("n1", &old).await;
    world.done("n1", &old).await;
    assert_eq!(node.run(&["systemctl", "is-active", "old.service"]).trim(), "active");

    // Debian's systemd would let root's reboot pass this lock.
    let lock = ["systemd-inhibit", "--what=shutdown", "--mode=block", "--who=backup", "--why=a backup is running"];
    node.run(&[&["systemd-run", "--unit=backup", "--"], &lock[..], &["sleep", "infinity"]].concat());
    world.want("n1", &new).await;
    let held = world.state("n1", "Degraded", |node| get(node, annotations::REASON).contains("backup")).await;
    assert!(get(&held, annotations::REASON).contains("a backup is running"), "{}", get(&held, annotations::REASON));
    assert_eq!(node.boots(), 2, "somebody else's work is not cut off");
    node.run(&["systemctl", "stop", "backup.service"]);
    world.done("n1", &new).await;
    assert_eq!(node.boots(), 3, "each of the two changes reboots once");
    assert_eq!(node.read("/etc/motd").unwrap(), "from the new config\n");
    assert_eq!(node.read("/etc/deep/er/file").unwrap(), "new\n");
    assert_eq!(node.read("/etc/only-old"), None);
    assert_eq!(node.run(&["systemctl", "is-active", "new.service"]).trim(), "active");
    assert_eq!(node.run(&["systemctl", "show", "-P", "Nice", "new.service"]).trim(), "7");
    assert_eq!(node.run(&["systemctl", "show", "-P", "Nice", "ssh.service"]).trim(), "3");
    let preset = node.try_run(&["systemctl", "is-enabled", "preset.service"]).stdout;
    assert_eq!(String::from_utf8_lossy(&preset).trim(), "disabled", "as the preset file says");
    let gone = node.run(&["systemctl", "show", "-P", "LoadState", "old.service"]);
    assert_eq!(gone.trim(), "not-found");
    assert_eq!(node.read("/home/core/.ssh/authorized_keys.d/ignition").unwrap(), "ssh-ed25519 AAAA test\n");

    world.want("n1", &base).await;
    world.done("n1", &base).await;
    assert_eq!(node.read("/etc/motd").unwrap(), shipped, "what the distribution shipped is back");
}

#[tokio::test]
async fn a_reload_only_change_does_not_reboot() {
    let Some(world) = World::new().await else { return };
    let path = "/etc/ssh/sshd_config.d/50-machinist.conf";
    let actions = json!([{"type": "Reload", "reload": {"serviceName": "ssh.service"}}]);
    world.policies(&json!({"files": [{"path": path, "actions": actions}]}));
    let base = world.config("rendered-worker-base", json!({})).await;
    let new = json!({"storage": {"files": [file(path, "MaxAuthTries 3\n")]}});
    let new = world.config("rendered-worker-new", new).await;
    let node = world.node("n1", 2, &base).await;
    let show = |property: &str| node.run(&["systemctl", "show", "-P", property, "ssh.service"]).trim().to_owned();
    let before = (show("InvocationID"), show("ExecReload"));
    world.want("n1", &new).await;
    world.done("n1", &new).await;
    assert_eq!(node.boots(), 1);
    assert_eq!(node.read(path).unwrap(), "MaxAuthTries 3\n");
    assert_eq!(show("InvocationID"), before.0, "it was not restarted");
    assert_ne!(show("ExecReload"), before.1, "it was reloaded");
    let phases: Api<MachineConfigNode> = Api::all(world.client.clone());
    let is_true = |node: &MachineConfigNode, type_: &str| {
        let conditions = node.status.iter().flat_map(|status| &status.conditions);
        conditions.filter(|condition| condition.type_ == type_).any(|condition| condition.status == "True")
    };
    let all =
        ["Updated", "UpdatePrepared", "UpdateExecuted", "AppliedFilesAndOS", "UpdatePostActionComplete", "Resumed"];
    let told = wait_for(&phases, "n1", "every phase", |node| {
        node.is_some_and(|node| all.iter().all(|type_| is_true(node, type_)))
    });
    let told = told.await.unwrap();
    assert!(!is_true(&told, "RebootedNode"));
    let mut prepared = told.status.iter().flat_map(|status| &status.conditions);
    let prepared = prepared.find(|condition| condition.type_ == "UpdatePrepared").unwrap();
    assert!(prepared.message.contains("ssh.service"), "it says what will be done: {}", prepared.message);
}

#[tokio::test]
async fn a_change_of_disks_is_refused_until_the_cluster_overrides_its_refusal() {
    let Some(world) = World::new().await else { return };
    world.quiet_folder();
    let base = world.config("rendered-worker-base", json!({})).await;
    let new = json!({"storage": {
        "disks": [{"device": "/dev/vdb", "wipeTable": true}], "files": [file("/etc/quiet/new", "new")],
    }});
    let new = world.config("rendered-worker-new", new).await;
    let node = world.node("n1", 15, &base).await;
    world.answer_drains("n1");
    world.want("n1", &new).await;
    let words = "ignition disks section contains changes";
    let says = |node: &k8s_openapi::api::core::v1::Node| get(node, annotations::REASON).contains(words);
    world.state("n1", "Unreconcilable", says).await;
    assert_eq!(node.read("/etc/quiet/new"), None, "nothing of it was written");

    let overrides = json!({
        "apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration", "metadata": {"name": "cluster"},
        "spec": {
            "managementState": "Managed", "irreconcilableValidationOverrides": {"storage": ["Disks"]},
            "nodeDisruptionPolicy": {"files": [{"path": "/etc/quiet", "actions": [{"type": "None"}]}]},
        },
    });
    world.control_plane.apply(&overrides.to_string());
    world.done("n1", &new).await;
    assert_eq!(node.read("/etc/quiet/new").unwrap(), "new");
    assert!(!node.path("/dev/vdb").exists(), "the layout of disks is for new machines");
}

#[tokio::test]
async fn drift_is_reported_soon_or_repaired_depending_on_the_policy() {
    let Some(world) = World::new().await else { return };
    world.quiet_folder();
    let base = world.config("rendered-worker-base", json!({})).await;
    let new = json!({"storage": {"files": [file("/etc/quiet/a", "right\n"), file("/etc/quiet/b", "right\n")]}});
    let new = world.config("rendered-worker-new", new).await;
    let node = world.node("n1", 3, &base).await;
    world.want("n1", &new).await;
    world.done("n1", &new).await;

    let start = std::time::Instant::now();
    fs::write(node.path("/etc/quiet/a"), "wrong\n").unwrap();
    node.run(&["sh", "-c", "echo wrong >/etc/quiet/a; rm /etc/quiet/b"]);
    let degraded = world.state("n1", "Degraded", |node| get(node, annotations::REASON).contains("/etc/quiet/b")).await;
    // On an idle machine this takes less than a second, which `cargo xtask bench daemon` measures; tests share the
    // machine.
    let took = start.elapsed();
    assert!(took < std::time::Duration::from_secs(30), "{took:?}");
    let reason = get(&degraded, annotations::REASON);
    assert!(
        reason.contains("content mismatch for file \"/etc/quiet/a\"")
            && reason.contains("could not stat file \"/etc/quiet/b\""),
        "{reason}"
    );
    let shown = node.try_run(&["/usr/local/bin/machinistd", "diff"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert_eq!(shown.status.code(), Some(3), "{text}");
    assert!(text.contains("-right") && text.contains("+wrong") && text.contains("owner 0:0"), "{text}");

    node.run(&["sh", "-c", "echo right >/etc/quiet/a; echo right >/etc/quiet/b"]);
    world.done("n1", &new).await;

    let policy = json!({"apiVersion": "machinist.dev/v1alpha1", "kind": "PoolPolicy", "metadata": {"name": "worker"}, "spec": {"drift": "Repair"}});
    world.control_plane.apply(&policy.to_string());
    node.run(&["sh", "-c", "echo wrong >/etc/quiet/a"]);
    wait_until("the file to be repaired", || async { (node.read("/etc/quiet/a")? == "right\n").then_some(()) }).await;
    world.done("n1", &new).await;
    assert_eq!(node.boots(), 1);
}

#[tokio::test]
async fn a_failing_unit_ends_the_trial_and_the_node_reverts_by_itself() {
    let Some(world) = World::new().await else { return };
    let base = world.config("rendered-worker-base", json!({})).await;
    let bad = "[Service]\nType=oneshot\nExecStart=/bin/false\n[Install]\nWantedBy=multi-user.target\n";
    let units = json!([{"name": "bad.service", "enabled": true, "contents": bad}]);
    let bad = world
        .config(
            "rendered-worker-bad",
            json!({"systemd": {"units": units}, "storage": {"files": [file("/etc/bad", "bad")]}}),
        )
        .await;
    let node = world.node("n1", 6, &base).await;
    world.answer_drains("n1");
    // The daemon is also killed before and after it records each reboot, and requests that reboot after its restart.
    let phases = ["rebooting", "rebootingBack"].map(|phase| [format!("before {phase}"), format!("after {phase}")]);
    node.arm(&phases.concat());
    world.want("n1", &bad).await;
    let held = world.state("n1", "Degraded", |node| get(node, annotations::REVERTED) == bad).await;
    let reason = get(&held, annotations::REASON);
    assert!(reason.contains("unit bad.service has failed"), "{reason}");
    assert_eq!(get(&held, annotations::CURRENT_CONFIG), base);
    assert_eq!(node.boots(), 3, "into the new config and back");
    assert_eq!(node.armed(), "");
    assert_eq!(node.read("/etc/bad"), None);
    assert_eq!(node.run(&["systemctl", "show", "-P", "LoadState", "bad.service"]).trim(), "not-found");
    // The daemon does not retry by itself; a new target heals the node.
    world.want("n1", &base).await;
    let done = world.done("n1", &base).await;
    assert_eq!(get(&done, annotations::REVERTED), "");
    assert_eq!(node.boots(), 3);
}

#[tokio::test]
async fn a_config_that_breaks_the_kubelets_kubeconfig_is_taken_back() {
    let Some(world) = World::new().await else { return };
    let policy = json!({"apiVersion": "machinist.dev/v1alpha1", "kind": "PoolPolicy", "metadata": {"name": "worker"}, "spec": {"trial": {"deadline": "5s"}}});
    world.control_plane.apply(&policy.to_string());
    let base = world.config("rendered-worker-base", json!({})).await;
    let broken = json!({"storage": {"files": [file("/var/lib/kubelet/kubeconfig", "not a kubeconfig\n")]}});
    let broken = world.config("rendered-worker-broken", broken).await;
    let node = world.node("n1", 14, &base).await;
    world.answer_drains("n1");
    let credential = node.read("/var/lib/kubelet/kubeconfig").unwrap();
    world.want("n1", &broken).await;
    let held = world.state("n1", "Degraded", |node| get(node, annotations::REVERTED) == broken).await;
    let reason = get(&held, annotations::REASON);
    assert!(reason.contains("/var/lib/kubelet/kubeconfig"), "{reason}");
    assert_eq!(get(&held, annotations::CURRENT_CONFIG), base);
    assert_eq!(node.boots(), 3, "into the broken config and back");
    assert_eq!(node.read("/var/lib/kubelet/kubeconfig").unwrap(), credential);
}

#[tokio::test]
async fn an_api_that_is_away_for_a_whole_update_does_not_stop_it() {
    let Some(world) = World::new().await else { return };
    let base = world.config("rendered-worker-base", json!({})).await;
    let new = world.config("rendered-worker-new", json!({"storage": {"files": [file("/etc/new", "new")]}})).await;
    let node = world.node("n1", 7, &base).await;
    world.annotate("n1", json!({ annotations::LAST_APPLIED_DRAIN: format!("drain-{new}") })).await;
    world.want("n1", &new).await;
    wait_until("the journal", || async { node.read("/etc/machine-config-daemon/journal/journal.json") }).await;
    world.control_plane.stop_api_server();
    wait_until("the reboot", || async { (node.boots() == 2).then_some(()) }).await;
    wait_until("the trial", || async {
        let journal = node.read("/etc/machine-config-daemon/journal/journal.json")?;
        journal.contains("trying").then_some(())
    })
    .await;
    assert_eq!(node.read("/etc/new").as_deref(), Some("new"));
    world.control_plane.start_api_server().await;
    world.answer_drains("n1");
    world.done("n1", &new).await;
    assert_eq!(node.boots(), 2);
}

#[tokio::test]
async fn the_force_file_applies_everything_again_on_a_node_that_has_drifted() {
    let Some(world) = World::new().await else { return };
    world.quiet_folder();
    let base = world.config("rendered-worker-base", json!({})).await;
    let new = world.config("rendered-worker-new", json!({"storage": {"files": [file("/etc/quiet/a", "right")]}})).await;
    let node = world.node("n1", 8, &base).await;
    world.answer_drains("n1");
    world.want("n1", &new).await;
    world.done("n1", &new).await;
    node.run(&["sh", "-c", "echo wrong >/etc/quiet/a"]);
    world.state("n1", "Degraded", |_| true).await;
    node.run(&["touch", "/run/machine-config-daemon-force"]);
    world.done("n1", &new).await;
    assert_eq!(node.read("/etc/quiet/a").unwrap(), "right");
    assert_eq!(node.boots(), 2, "a forced update reboots");
}

#[tokio::test]
async fn a_new_ssh_key_lets_in_and_a_removed_one_does_not() {
    if !testkit::needs::program("ssh", "install openssh-client") {
        return;
    }
    let Some(world) = World::new().await else { return };
    let keys = tempfile::tempdir().unwrap();
    let key = |name: &str| {
        let path = keys.path().join(name);
        let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&path).status();
        assert!(made.unwrap().success());
        fs::read_to_string(path.with_extension("pub")).unwrap().trim().to_owned()
    };
    let (old, new) = (key("old"), key("new"));
    let users = |key: &str| json!({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": [key]}]}});
    let base = world.config("rendered-worker-base", json!({})).await;
    let first = world.config("rendered-worker-first", users(&old)).await;
    let second = world.config("rendered-worker-second", users(&new)).await;
    let node = world.node("n1", 9, &base).await;
    let login = |name: &str| {
        let options = [
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
            "-o",
            "BatchMode=yes",
            "-o",
            "IdentitiesOnly=yes",
            "-o",
            "ConnectTimeout=5",
        ];
        let mut ssh = Command::new("ssh");
        ssh.args(options).arg("-i").arg(keys.path().join(name)).arg(format!("core@{}", node.address)).arg("true");
        ssh.output().unwrap().status.success()
    };
    world.want("n1", &first).await;
    world.done("n1", &first).await;
    assert!(login("old") && !login("new"));
    world.want("n1", &second).await;
    world.done("n1", &second).await;
    assert!(login("new") && !login("old"));
    assert_eq!(node.boots(), 1, "keys take effect by themselves");
}

#[tokio::test]
async fn a_daemon_in_a_container_manages_the_host_at_its_root() {
    let Some(world) = World::new().await else { return };
    let base = world.config("rendered-worker-base", json!({})).await;
    let new = json!({
        "storage": {"files": [file("/etc/new", "new")]},
        "systemd": {"units": [{"name": "new.service", "enabled": true, "contents": UNIT}]},
    });
    let new = world.config("rendered-worker-new", new).await;
    let node = world.node_with("n1", 10, &base, &Setup { in_container: true, ..Setup::default() }).await;
    world.answer_drains("n1");
    world.want("n1", &new).await;
    world.done("n1", &new).await;
    assert_eq!(node.boots(), 2);
    assert_eq!(node.read("/etc/new").as_deref(), Some("new"));
    assert_eq!(node.run(&["systemctl", "is-active", "new.service"]).trim(), "active");
}

#[tokio::test]
async fn a_new_machine_continues_from_its_first_config_even_if_the_cluster_no_longer_has_it() {
    let Some(world) = World::new().await else { return };
    world.quiet_folder();
    // The config that the config server served. The cluster no longer has it.
    let ignition = json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [file("/etc/quiet/born", "born")]}});
    let born = testkit::objects::machine_config("rendered-worker-born", "worker", ignition);
    let told = json!({
        annotations::CURRENT_CONFIG: "rendered-worker-born", annotations::DESIRED_CONFIG: "rendered-worker-born",
        annotations::FIRST_PIVOT_CONFIG: "rendered-worker-born", annotations::STATE: "Done",
    });
    // The first boot left its own MachineConfig, which does not contain the files.
    let mut encapsulated = born.clone();
    encapsulated.spec.config = Some(json!({"ignition": {"version": "3.4.0"}}));
    let files = vec![
        ("/etc/quiet/born", "born".to_owned()),
        ("/etc/machine-config-daemon/node-annotations.json", told.to_string()),
        ("/etc/machine-config-daemon/currentconfig", serde_json::to_string(&encapsulated).unwrap()),
        ("/etc/mcs-machine-config-content.json", serde_json::to_string(&born).unwrap()),
    ];
    let object = testkit::objects::node("n1", &["worker"]);
    world.nodes().create(&kube::api::PostParams::default(), &object).await.unwrap();
    let setup = Setup { files, ..Setup::default() };
    let node = node::Node::boot(&world.control_plane, "n1", 13, &setup);
    let joined = world.done("n1", "rendered-worker-born").await;
    assert_eq!(get(&joined, annotations::FIRST_PIVOT_CONFIG), "rendered-worker-born");
    assert_eq!(get(&joined, annotations::DESIRED_CONFIG), "rendered-worker-born");
    assert!(!node.path("/etc/machine-config-daemon/node-annotations.json").exists());
    // Files that Ignition wrote belong to the config: drift is detected, and they are removed with their entry.
    fs::write(node.path("/etc/quiet/born"), "changed").unwrap();
    node.run(&["sh", "-c", "echo changed >/etc/quiet/born"]);
    let drifted = world.state("n1", "Degraded", |_| true).await;
    assert!(get(&drifted, annotations::REASON).contains("/etc/quiet/born"));
    node.run(&["sh", "-c", "printf born >/etc/quiet/born"]);
    world.done("n1", "rendered-worker-born").await;
    let next = world.config("rendered-worker-next", json!({})).await;
    world.want("n1", &next).await;
    world.done("n1", &next).await;
    assert_eq!(node.read("/etc/quiet/born"), None);
    assert_eq!(node.boots(), 1);
}

#[tokio::test]
async fn the_real_host_passes_the_conformance_suite() {
    let Some(world) = World::new().await else { return };
    let base = world.config("rendered-worker-base", json!({})).await;
    let node = world.node_with("n1", 11, &base, &Setup { kubelet: true, ..Setup::default() }).await;
    node.run(&["/usr/local/bin/on_node", "conformance"]);
    let boot_id = || node.run(&["/usr/local/bin/on_node", "boot-id"]);
    let before = boot_id();
    assert_eq!(boot_id(), before);
    node.run(&["/usr/local/bin/on_node", "reboot"]);
    node.booted(2).await;
    assert_ne!(boot_id(), before, "a reboot changes the boot id");
    let log = node.run(&["journalctl", "-b", "-u", "machinistd", "-o", "json", "--no-pager"]);
    let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let ours: Vec<_> = lines.filter(|line| line["_COMM"] == "machinistd").collect();
    assert!(!ours.is_empty() && ours.iter().all(|line| line["PRIORITY"].is_string()), "{ours:?}");
    let is_clean = |line: &serde_json::Value| !line["MESSAGE"].as_str().unwrap_or_default().starts_with('<');
    assert!(ours.iter().all(is_clean), "journald has taken the priorities off: {ours:?}");
    assert!(ours.iter().any(|line| line["PRIORITY"] == "7"), "debug lines have their own priority");
}
