//! The first config of a host that nobody looked after before: only what differs from the host costs anything.

use api::machineconfiguration::MachineConfig;
use change::host::{Backend, Host};
use daemon::cluster_policy::ClusterPolicy;
use daemon::engine::{Engine, Standing};
use daemon::journal::PostAction;
use daemon::prepare::{Ready, prepare};
use host::directory::Directory;
use serde_json::json;

use crate::configs::{config, furnish, put, text};

const UNIT: &str = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";

/// A host that is by chance, or by another tool, what [`wanted`] asks for.
fn host(folder: &tempfile::TempDir) -> Directory {
    let host = Directory::open(folder.path()).unwrap();
    furnish(&host);
    put(&host, "/etc/motd", "hello\n");
    put(&host, "/etc/systemd/system/mine.service", UNIT);
    host.services().daemon_reload().unwrap();
    host.services().enable(&["mine.service".to_owned()]).unwrap();
    host
}

fn wanted(motd: &str) -> MachineConfig {
    let units = json!([
        {"name": "mine.service", "enabled": true, "contents": UNIT},
        {"name": "shipped.service", "enabled": true},
    ]);
    config("rendered-worker-1", &[("/etc/chrony.conf", "distribution\n"), ("/etc/motd", motd)], &units, &json!([]))
}

fn ready(host: &dyn Host, config: &MachineConfig) -> Ready {
    prepare(host, config.clone(), &ClusterPolicy::defaults(), false).unwrap()
}

#[test]
fn a_first_config_that_changes_nothing_neither_drains_nor_reboots() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(&folder);
    let ready = ready(&host, &wanted("hello\n"));
    assert!(!ready.drain);
    assert_eq!(ready.prepared.actions, []);
    let engine = Engine::new(&host);
    engine.execute(&ready.prepared).unwrap();
    assert_eq!(engine.recover().unwrap(), Standing::Applied);
    engine.finish().unwrap();
    assert_eq!(engine.store().current().unwrap().unwrap(), wanted("hello\n"), "the host knows what it runs");
    assert_eq!(text(&host, "/etc/motd").unwrap(), "hello\n");
}

#[test]
fn a_first_config_costs_what_its_difference_to_the_host_costs() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(&folder);
    let other = ready(&host, &wanted("changed\n"));
    assert!(other.drain);
    assert_eq!(other.prepared.actions, [PostAction::Reboot]);
    // A path whose change needs nothing.
    let mut quiet = wanted("hello\n");
    let files = quiet.spec.config.as_mut().unwrap()["storage"]["files"].as_array_mut().unwrap();
    files.push(json!({"path": "/var/lib/kubelet/config.json", "contents": {"source": "data:,x"}}));
    let quiet = ready(&host, &quiet);
    assert!(!quiet.drain);
    assert_eq!(quiet.prepared.actions, []);
}

#[test]
fn kernel_arguments_that_are_there_are_not_appended_again() {
    let folder = tempfile::tempdir().unwrap();
    drop(host(&folder));
    let host = Directory::open(folder.path()).unwrap().with_backend(Backend::RpmOstree);
    let mut config = wanted("hello\n");
    config.spec.kernel_arguments = vec!["nosmt".into()];
    let before = ready(&host, &config);
    assert_eq!(before.prepared.actions, [PostAction::Reboot]);
    host.system().change_kernel_arguments(&[], &["nosmt".to_owned()]).unwrap();
    host.system().reboot("test").unwrap();
    let after = ready(&host, &config);
    assert_eq!(after.prepared.actions, []);
    assert!(
        !after.prepared.steps.iter().any(|step| format!("{step:?}").contains("nosmt")),
        "{:?}",
        after.prepared.steps
    );
}
