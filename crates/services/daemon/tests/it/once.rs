//! Configs without a cluster: from a file, and at a new machine's first boot.

use change::host::{Backend, Host};
use daemon::engine::Engine;
use daemon::once::{self, Outcome};
use daemon::store;
use host::directory::Directory;
use serde_json::json;

use crate::configs::{config, furnish, path, put, text};

#[test]
fn a_file_with_a_machine_config_or_with_ignition_is_applied() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap();
    furnish(&host);
    let whole = config("from-a-file", &[("/etc/a", "1")], &json!([]), &json!([]));
    let read = once::read(&serde_json::to_vec(&whole).unwrap()).unwrap();
    assert_eq!(once::apply(&host, &read).unwrap(), Outcome::NeedsReboot, "nobody has said that this file is harmless");
    assert_eq!(text(&host, "/etc/a").unwrap(), "1");
    assert_eq!(once::apply(&host, &read).unwrap(), Outcome::NeedsReboot, "it has not rebooted yet");
    once::reboot(&host, "test").unwrap();
    assert_eq!(once::apply(&host, &read).unwrap(), Outcome::Nothing);
    let ignition = once::read(&serde_json::to_vec(&whole.spec.config.unwrap()).unwrap()).unwrap();
    assert_eq!(once::apply(&host, &ignition).unwrap(), Outcome::Nothing, "the same, written as Ignition");
    let keys = json!([{"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 A"]}]);
    let more = config("more", &[("/etc/a", "1")], &json!([]), &keys);
    assert_eq!(once::apply(&host, &more).unwrap(), Outcome::Applied, "keys need no reboot");
    assert_eq!(Engine::new(&host).store().journal().unwrap(), None, "nothing is left under way");
    assert!(once::read(b"{").is_err());
}

#[test]
fn first_boot_changes_the_operating_system_only_where_it_differs() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap().with_backend(Backend::RpmOstree);
    let mut born = config("rendered-worker-1", &[], &json!([]), &json!([]));
    put(&host, store::ENCAPSULATED, &serde_json::to_string(&born).unwrap());
    assert_eq!(once::first_boot(&host, &born, &mut |_| {}).unwrap(), Outcome::Nothing);
    assert_eq!(host.files().look(&path(store::ENCAPSULATED)).unwrap(), None, "first boot is over");

    born.spec.kernel_arguments = vec!["nosmt".into()];
    put(&host, store::ENCAPSULATED, &serde_json::to_string(&born).unwrap());
    assert_eq!(once::first_boot(&host, &born, &mut |_| {}).unwrap(), Outcome::NeedsReboot);
    assert!(host.system().kernel_arguments().unwrap().contains("nosmt"));
    assert!(host.files().look(&path(store::ENCAPSULATED)).unwrap().is_some(), "it is over after the reboot");
    // Stopped before it could ask for the reboot, it asks again.
    assert_eq!(once::first_boot(&host, &born, &mut |_| {}).unwrap(), Outcome::NeedsReboot);
    once::reboot(&host, "test").unwrap();
    assert_eq!(once::first_boot(&host, &born, &mut |_| {}).unwrap(), Outcome::Applied);
    assert_eq!(host.files().look(&path(store::ENCAPSULATED)).unwrap(), None);
    assert!(host.files().look(&path(store::ENCAPSULATED_DONE)).unwrap().is_some());
    put(&host, store::ENCAPSULATED, &serde_json::to_string(&born).unwrap());
    assert_eq!(
        once::first_boot(&host, &born, &mut |_| {}).unwrap(),
        Outcome::Nothing,
        "the arguments are there already"
    );
}

#[test]
fn a_new_machine_remembers_its_birth_until_it_is_adopted() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap();
    let store = store::Store::new(host.files());
    assert_eq!(store.birth().unwrap(), None);
    put(&host, store::NODE_ANNOTATIONS, r#"{"machineconfiguration.openshift.io/currentConfig": "rendered-worker-1"}"#);
    let birth = store.birth().unwrap().unwrap();
    assert_eq!(birth["machineconfiguration.openshift.io/currentConfig"], "rendered-worker-1");
    put(&host, store::SERVED, "secret");
    store.close(store::SERVED).unwrap();
    store.close(store::KUBECONFIG).unwrap();
    assert_eq!(host.files().look(&path(store::SERVED)).unwrap().unwrap().mode, 0o600);
    assert_eq!(text(&host, store::SERVED).unwrap(), "secret");
    store.rename_done(store::NODE_ANNOTATIONS, store::NODE_ANNOTATIONS_DONE).unwrap();
    assert_eq!(store.birth().unwrap(), None);
}
