//! Changes on a folder: applied, finished after a crash, and undone.

use std::time::Duration;

use api::machineconfiguration::MachineConfig;
use change::host::{Backend, EntryKind, Host};
use daemon::engine::{Engine, Error, Prepared, Standing};
use daemon::journal::PostAction;
use daemon::verify;
use host::directory::Directory;
use serde_json::json;

use crate::configs::{config, furnish, path, put, text};

fn update(host: &dyn Host, from: &MachineConfig, to: &MachineConfig) -> Result<(), Error> {
    let engine = Engine::new(host);
    let steps = engine.prepare(from, to)?;
    let prepared = Prepared { from: from.clone(), to: to.clone(), steps, actions: Vec::new(), trial: None };
    engine.execute(&prepared)?;
    assert_eq!(engine.recover()?, Standing::Applied);
    engine.finish()
}

fn full(name: &str) -> MachineConfig {
    let unit = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
    let units = json!([
        {"name": "mine.service", "enabled": true, "contents": unit, "dropins": [{"name": "10-a.conf", "contents": "[Service]\nNice=1\n"}]},
        {"name": "shipped.service", "enabled": false},
        {"name": "masked.service", "mask": true},
    ]);
    let users = json!([{"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 A a"], "passwordHash": "$6$x"}]);
    config(name, &[("/etc/chrony.conf", "ours\n"), ("/etc/new/deep", "new\n")], &units, &users)
}

#[test]
fn a_config_arrives_whole_and_leaves_whole() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap();
    furnish(&host);
    let (nothing, full) = (MachineConfig::default(), full("rendered-worker-1"));
    update(&host, &nothing, &full).unwrap();
    let target = daemon::engine::read(&full).unwrap();
    assert_eq!(verify::verify(&host, &target), []);
    assert_eq!(text(&host, "/etc/chrony.conf").unwrap(), "ours\n");
    assert_eq!(host.services().enablement("mine.service").unwrap(), "enabled");
    assert_eq!(host.services().enablement("shipped.service").unwrap(), "disabled");
    assert_eq!(host.services().enablement("masked.service").unwrap(), "masked");
    assert_eq!(text(&host, "/home/core/.ssh/authorized_keys.d/ignition").unwrap(), "ssh-ed25519 A a\n");
    assert!(text(&host, "/etc/shadow").unwrap().contains("core:$6$x:1:0:99999:7:::"));

    update(&host, &full, &config("rendered-worker-2", &[], &json!([]), &json!([]))).unwrap();
    assert_eq!(text(&host, "/etc/chrony.conf").unwrap(), "distribution\n", "the distribution's file is back");
    assert_eq!(host.files().look(&path("/etc/new/deep")).unwrap(), None);
    assert_eq!(host.services().enablement("mine.service").unwrap(), "not-found");
    assert_eq!(host.services().enablement("shipped.service").unwrap(), "enabled", "as it was before");
    assert_eq!(text(&host, "/home/core/.ssh/authorized_keys.d/ignition").unwrap(), "", "removed keys are removed");
    assert!(text(&host, "/etc/shadow").unwrap().contains("core:*:1:"), "locked, not empty");
    let leftovers = host.files().list(&path("/etc/machine-config-daemon/orig/etc")).unwrap();
    assert_eq!(leftovers, Vec::<String>::new(), "what was put back is forgotten");
}

#[test]
fn configs_are_kept_for_the_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap();
    furnish(&host);
    let (one, two) = (
        config("one", &[("/etc/a", "1")], &json!([]), &json!([])),
        config("two", &[("/etc/a", "2")], &json!([]), &json!([])),
    );
    update(&host, &MachineConfig::default(), &one).unwrap();
    update(&host, &one, &two).unwrap();
    for name in ["currentconfig", "previousconfig"] {
        let entry = host.files().look(&path(&format!("/etc/machine-config-daemon/{name}"))).unwrap().unwrap();
        assert_eq!((entry.kind, entry.mode), (EntryKind::File, 0o600));
    }
    let engine = Engine::new(&host);
    assert_eq!(engine.store().current().unwrap().unwrap(), two);
    assert_eq!(engine.store().previous().unwrap().unwrap(), one);
    assert_eq!(host.files().list(&path("/etc/machine-config-daemon/journal")).unwrap(), Vec::<String>::new());
}

#[test]
fn many_files_arrive_together_and_go_back_together() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap();
    // Names that differ only far behind, in folders that must be made.
    let long = "x".repeat(100);
    let names: Vec<String> = (0..200).map(|number| format!("/etc/many/{}/{long}-{number}", number % 7)).collect();
    let files = |text: &'static str| names.iter().map(move |name| (name.as_str(), text)).collect::<Vec<_>>();
    let one = config("one", &files("1"), &json!([]), &json!([]));
    update(&host, &MachineConfig::default(), &one).unwrap();
    assert_eq!(verify::verify(&host, &daemon::engine::read(&one).unwrap()), []);
    let mut more = files("2");
    put(&host, "/etc/taken/by-somebody", "x");
    more.push(("/etc/taken", "a folder is there"));
    let two = config("two", &more, &json!([]), &json!([]));
    let error = update(&host, &one, &two).unwrap_err();
    assert!(matches!(error, Error::Undone { .. }), "{error}");
    assert_eq!(verify::verify(&host, &daemon::engine::read(&one).unwrap()), []);
    let left = (0..7).flat_map(|number| host.files().list(&path(&format!("/etc/many/{number}"))).unwrap());
    assert_eq!(left.count(), 200, "no temporary file stays");
}

#[test]
fn a_step_that_fails_takes_everything_back() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap();
    furnish(&host);
    // Something that no config put there stands where a file shall go, and cannot be replaced by a file.
    put(&host, "/etc/zz/taken/by-somebody", "x");
    let one = config("one", &[("/etc/chrony.conf", "one\n")], &json!([]), &json!([]));
    update(&host, &MachineConfig::default(), &one).unwrap();
    let two = config(
        "two",
        &[("/etc/chrony.conf", "two\n"), ("/etc/a", "2"), ("/etc/zz/taken", "2")],
        &json!([]),
        &json!([]),
    );
    let error = update(&host, &one, &two).unwrap_err();
    assert!(matches!(&error, Error::Undone { config, .. } if config == "one"), "{error}");
    assert!(error.to_string().contains("/etc/zz/taken"), "{error}");
    assert_eq!(text(&host, "/etc/chrony.conf").unwrap(), "one\n");
    assert_eq!(text(&host, "/etc/a"), None);
    assert_eq!(text(&host, "/etc/zz/taken/by-somebody").unwrap(), "x");
    let engine = Engine::new(&host);
    assert!(matches!(engine.recover().unwrap(), Standing::WentBack { .. }));
    assert_eq!(engine.store().reverted().unwrap(), None, "it was never tried, so it may be tried again");
    assert_eq!(engine.recover().unwrap(), Standing::Settled);
}

#[test]
fn a_host_without_an_os_backend_refuses_what_needs_one_before_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap();
    let mut to = config("two", &[("/etc/a", "2")], &json!([]), &json!([]));
    to.spec.kernel_arguments = vec!["nosmt".into()];
    to.spec.os_image_url = Some("registry/os@sha256:1".into());
    to.spec.kernel_type = Some("realtime".into());
    let error = Engine::new(&host).prepare(&MachineConfig::default(), &to).unwrap_err().to_string();
    for what in ["kernel arguments", "the OS image", "the kernel type", "neither bootc nor rpm-ostree"] {
        assert!(error.contains(what), "{error}");
    }
    assert_eq!(text(&host, "/etc/a"), None);
}

#[test]
fn a_host_with_bootc_alone_refuses_what_bootc_cannot_do_before_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap().with_backend(Backend::Bootc);
    let mut to = config("two", &[("/etc/a", "2")], &json!([]), &json!([]));
    to.spec.os_image_url = Some("registry/os@sha256:1".into());
    Engine::new(&host).prepare(&MachineConfig::default(), &to).unwrap();
    to.spec.kernel_arguments = vec!["nosmt".into()];
    to.spec.kernel_type = Some("realtime".into());
    to.spec.extensions = vec!["usbguard".into()];
    let error = Engine::new(&host).prepare(&MachineConfig::default(), &to).unwrap_err().to_string();
    for what in ["kernel arguments", "the kernel type", "extensions"] {
        let sentence = format!("{what} cannot be changed on a host with bootc alone; it needs rpm-ostree");
        assert!(error.contains(&sentence), "{error}");
    }
    assert!(!error.contains("OS image"), "{error}");
}

#[test]
#[cfg(not(target_arch = "aarch64"))]
fn a_kernel_that_this_machine_cannot_run_is_refused_before_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap().with_backend(Backend::RpmOstree);
    let mut to = config("two", &[], &json!([]), &json!([]));
    to.spec.kernel_type = Some("64k-pages".into());
    let error = Engine::new(&host).prepare(&MachineConfig::default(), &to).unwrap_err().to_string();
    assert!(error.contains("64k-pages is only supported for aarch64 architecture"), "{error}");
}

#[test]
fn extensions_whose_packages_are_not_installed_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap().with_backend(Backend::RpmOstree);
    let mut config = config("one", &[], &json!([]), &json!([]));
    config.spec.extensions = vec!["usbguard".into(), "sysstat".into()];
    let found = verify::list(&verify::verify(&host, &daemon::engine::read(&config).unwrap()));
    assert_eq!(
        found,
        "extension package verification failed: extension \"usbguard\" verification failed: no valid package set is fully \
         installed; extension \"sysstat\" verification failed: no valid package set is fully installed"
    );
}

#[test]
fn on_a_read_only_host_only_what_resolves_into_etc_and_var_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap().with_read_only_usr();
    std::fs::create_dir_all(folder.path().join("var/opt")).unwrap();
    std::fs::create_dir_all(folder.path().join("usr/share")).unwrap();
    std::os::unix::fs::symlink("var/opt", folder.path().join("opt")).unwrap();
    let good = config("good", &[("/opt/tool/x", "1"), ("/etc/a", "1")], &json!([]), &json!([]));
    Engine::new(&host).prepare(&MachineConfig::default(), &good).unwrap();
    let bad = config("bad", &[("/usr/share/x", "1"), ("/lost/x", "1")], &json!([]), &json!([]));
    let error = Engine::new(&host).prepare(&MachineConfig::default(), &bad).unwrap_err().to_string();
    assert!(error.contains("/usr/share/x") && error.contains("/lost/x"), "all are named: {error}");
}

#[test]
fn a_file_that_did_not_change_is_not_written_again() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap();
    let one = config("one", &[("/etc/a", "1"), ("/etc/b", "1")], &json!([]), &json!([]));
    let two = config("two", &[("/etc/a", "1"), ("/etc/b", "2")], &json!([]), &json!([]));
    update(&host, &MachineConfig::default(), &one).unwrap();
    let inode = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().ino();
    let (a, b) = (inode("etc/a"), inode("etc/b"));
    update(&host, &one, &two).unwrap();
    assert_eq!(inode("etc/a"), a);
    assert_ne!(inode("etc/b"), b);
}

#[test]
fn a_reboot_counts_only_when_the_boot_id_has_changed_and_the_way_back_reboots_too() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap();
    let one = config("one", &[("/etc/a", "1")], &json!([]), &json!([]));
    let two = config("two", &[("/etc/a", "2")], &json!([]), &json!([]));
    update(&host, &MachineConfig::default(), &one).unwrap();
    let engine = Engine::new(&host);
    let (steps, actions) = (engine.prepare(&one, &two).unwrap(), vec![PostAction::Reboot]);
    engine.execute(&Prepared { from: one, to: two, steps, actions, trial: None }).unwrap();
    assert_eq!(engine.recover().unwrap(), Standing::Applied);
    engine.mark_rebooting().unwrap();
    assert_eq!(engine.recover().unwrap(), Standing::WaitsForReboot, "a daemon that only restarted has not rebooted");
    host.system().reboot("test").unwrap();
    assert_eq!(engine.recover().unwrap(), Standing::Trying);
    assert_eq!(engine.time_trial().unwrap(), 0);
    host.pass(Duration::from_secs(60));
    assert!(engine.time_trial().unwrap() >= 60, "the trial keeps its start");
    assert!(matches!(engine.go_back("it does not work"), Err(Error::Undone { .. })));
    assert_eq!(text(&host, "/etc/a").unwrap(), "1");
    assert!(matches!(engine.recover().unwrap(), Standing::MustRebootBack { .. }));
    engine.mark_rebooting().unwrap();
    assert!(matches!(engine.recover().unwrap(), Standing::MustRebootBack { .. }));
    host.system().reboot("back").unwrap();
    let reason = "it does not work".to_owned();
    assert_eq!(engine.recover().unwrap(), Standing::WentBack { reason: reason.clone() });
    let reverted = engine.store().reverted().unwrap().unwrap();
    assert_eq!((reverted.config.as_str(), reverted.reason), ("two", reason));
    assert_eq!(engine.recover().unwrap(), Standing::Settled);
}

#[test]
fn contents_owners_and_modes_arrive_however_they_are_written() {
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap();
    furnish(&host);
    put(&host, "/etc/hosts", "127.0.0.1 localhost\n");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(b"packed\n").unwrap();
    let packed = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, gzip.finish().unwrap());
    let mut to = MachineConfig::default();
    to.metadata.name = Some("one".into());
    to.spec.config = Some(json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [
        {"path": "/etc/escaped", "contents": {"source": "data:text/plain;charset=utf-8,caf%C3%A9%0A"}},
        {"path": "/etc/base64", "mode": 0o600, "contents": {"source": "data:;base64,aGVsbG8K"}},
        {"path": "/etc/gzip", "contents": {"source": format!("data:;base64,{packed}"), "compression": "gzip"}},
        {"path": "/etc/empty", "mode": 0o4755, "contents": {"source": "data:,"}},
        {"path": "/etc/hosts", "append": [{"source": "data:,10.0.0.1%20api%0A"}, {"source": "data:,10.0.0.2%20db%0A"}]},
        {"path": "/etc/owned", "user": {"name": "core"}, "group": {"id": 0}, "contents": {"source": "data:,x"}},
    ]}}));
    update(&host, &MachineConfig::default(), &to).unwrap();
    let contents = |name: &str| text(&host, name).unwrap();
    assert_eq!(contents("/etc/escaped"), "café\n");
    assert_eq!(contents("/etc/base64"), "hello\n");
    assert_eq!(contents("/etc/gzip"), "packed\n");
    assert_eq!(contents("/etc/empty"), "");
    assert_eq!(contents("/etc/hosts"), "127.0.0.1 localhost\n10.0.0.1 api\n10.0.0.2 db\n");
    let mode = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("etc/base64"), mode("etc/empty"), mode("etc/escaped")), (0o600, 0o4755, 0o644));
    assert_eq!(verify::verify(&host, &daemon::engine::read(&to).unwrap()), []);
    to.spec.config.as_mut().unwrap()["storage"]["files"][5]["user"] = json!({"name": "nobody-here"});
    let error = update(&host, &MachineConfig::default(), &to).unwrap_err().to_string();
    assert!(error.contains("failed to retrieve UserID for username: nobody-here"), "{error}");
    assert_eq!(contents("/etc/hosts"), "127.0.0.1 localhost\n", "taken back, and what was appended to is as it was");
}

#[test]
fn a_current_config_that_was_cut_off_is_told_as_damaged_and_not_as_missing() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap();
    for damaged in ["", "{\"apiVersion\": \"mach"] {
        put(&host, "/etc/machine-config-daemon/currentconfig", damaged);
        let error = Engine::new(&host).store().current().unwrap_err().to_string();
        assert!(error.contains("currentconfig is damaged"), "{error}");
    }
}

#[test]
fn services_that_picked_a_config_up_pick_the_old_one_up_again_when_it_goes_back() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap();
    let unit = |command: &str| format!("[Service]\nExecStart={command}\n");
    let one =
        config("one", &[("/etc/a", "1")], &json!([{"name": "a.service", "contents": unit("/bin/true")}]), &json!([]));
    let two =
        config("two", &[("/etc/a", "2")], &json!([{"name": "a.service", "contents": unit("/bin/false")}]), &json!([]));
    update(&host, &MachineConfig::default(), &one).unwrap();
    let engine = Engine::new(&host);
    let steps = engine.prepare(&one, &two).unwrap();
    let actions = vec![PostAction::Restart("a.service".into())];
    engine.execute(&Prepared { from: one, to: two, steps, actions, trial: None }).unwrap();
    assert_eq!(engine.recover().unwrap(), Standing::Applied);
    let error = engine.act().unwrap_err();
    assert!(matches!(error, Error::Undone { .. }), "{error}");
    assert!(host.services().activity("a.service").unwrap().has_failed());
    assert!(matches!(engine.recover().unwrap(), Standing::WentBack { .. }));
    assert_eq!(text(&host, "/etc/a").unwrap(), "1");
    assert_eq!(host.services().activity("a.service").unwrap().active, "active", "restarted with its old text");
}

#[test]
fn a_journal_of_a_newer_daemon_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap();
    put(&host, "/etc/machine-config-daemon/journal/journal.json", r#"{"version": 3, "shape": "unknown"}"#);
    let error = Engine::new(&host).recover().unwrap_err().to_string();
    assert!(error.contains("newer machinistd (version 3, this one knows 2)"), "{error}");
}

#[test]
fn an_image_based_host_takes_image_arguments_kernel_and_extensions_with_its_reboot_and_gives_them_back() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::image_based(folder.path()).unwrap();
    let one = config("one", &[("/etc/a", "1")], &json!([]), &json!([]));
    let mut two = config("two", &[("/etc/a", "2")], &json!([]), &json!([]));
    two.spec.kernel_arguments = vec!["nosmt audit=0".into()];
    two.spec.kernel_type = Some("realtime".into());
    two.spec.extensions = vec!["usbguard".into()];
    two.spec.os_image_url = Some("example.org/os@sha256:1".into());
    update(&host, &MachineConfig::default(), &one).unwrap();
    let engine = Engine::new(&host);
    let (steps, actions) = (engine.prepare(&one, &two).unwrap(), vec![PostAction::Reboot]);
    engine.execute(&Prepared { from: one.clone(), to: two.clone(), steps, actions, trial: None }).unwrap();
    engine.mark_rebooting().unwrap();
    host.system().reboot("test").unwrap();
    // Another process finds the host as it has booted.
    let host = Directory::image_based(folder.path()).unwrap();
    let engine = Engine::new(&host);
    assert_eq!(engine.recover().unwrap(), Standing::Trying);
    assert_eq!(verify::verify(&host, &daemon::engine::read(&two).unwrap()), []);
    assert_eq!(text(&host, "/proc/cmdline").unwrap(), "BOOT_IMAGE=/boot/vmlinuz ro nosmt audit=0\n");

    assert!(matches!(engine.go_back("it does not work"), Err(Error::Undone { .. })));
    engine.mark_rebooting().unwrap();
    host.system().reboot("back").unwrap();
    assert!(matches!(engine.recover().unwrap(), Standing::WentBack { .. }));
    assert_eq!(text(&host, "/proc/cmdline").unwrap(), "BOOT_IMAGE=/boot/vmlinuz ro\n");
    assert_eq!(host.kernel_type().unwrap(), "default");
    assert_eq!(host.system().installed(&["usbguard"]).unwrap(), [""; 0]);
}

#[test]
fn an_original_that_cannot_be_kept_means_that_nothing_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap();
    let one = config("one", &[("/etc/a", "1")], &json!([]), &json!([]));
    update(&host, &MachineConfig::default(), &one).unwrap();
    std::fs::create_dir_all(folder.path().join("etc/b/full")).unwrap();
    let two = config("two", &[("/etc/a", "2"), ("/etc/b", "2")], &json!([]), &json!([]));
    assert!(matches!(update(&host, &one, &two), Err(Error::Undone { .. })));
    assert_eq!(text(&host, "/etc/a").unwrap(), "1");
    assert!(matches!(Engine::new(&host).recover().unwrap(), Standing::WentBack { .. }));
}

#[test]
fn an_update_that_was_written_is_taken_back_whatever_has_become_of_its_originals() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap();
    let one = config("one", &[("/etc/a", "1")], &json!([]), &json!([]));
    let two = config("two", &[("/etc/a", "2"), ("/etc/b", "2")], &json!([]), &json!([]));
    update(&host, &MachineConfig::default(), &one).unwrap();
    let engine = Engine::new(&host);
    let (steps, actions) = (engine.prepare(&one, &two).unwrap(), Vec::new());
    engine.execute(&Prepared { from: one, to: two, steps, actions, trial: None }).unwrap();
    // The memory of what stood at /etc/b cannot be looked at any more, so it cannot be kept again.
    let memory = folder.path().join("etc/machine-config-daemon/noorig/etc");
    std::fs::remove_dir_all(&memory).unwrap();
    std::os::unix::fs::symlink("etc", &memory).unwrap();
    let _ = engine.go_back("it does not work");
    assert_eq!(text(&host, "/etc/a").unwrap(), "1", "the old config is back, or the node says that it is not");
}

#[test]
fn a_file_that_ignition_wrote_over_the_distributions_own_gives_way_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap();
    put(&host, "/usr/etc/chrony.conf", "distribution\n");
    // As a machine is born: the daemon finds files of its config there and remembers no original.
    put(&host, "/etc/chrony.conf", "ours\n");
    put(&host, "/etc/only-ours", "ours\n");
    let one = config("one", &[("/etc/chrony.conf", "ours\n"), ("/etc/only-ours", "ours\n")], &json!([]), &json!([]));
    Engine::new(&host).store().save_current(&one).unwrap();
    update(&host, &one, &config("two", &[], &json!([]), &json!([]))).unwrap();
    assert_eq!(text(&host, "/etc/chrony.conf").unwrap(), "distribution\n");
    assert_eq!(text(&host, "/etc/only-ours"), None);
}

#[test]
fn a_packages_file_that_ignition_wrote_over_stays_where_no_copy_of_it_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap();
    put(&host, "/usr/share/factory/etc/nsswitch.conf", "factory\n");
    put(&host, "/var/lib/dpkg/info/base-files.list", "/.\n/etc\n/etc/issue\n/etc/kept\n");
    let ours = ["/etc/nsswitch.conf", "/etc/issue", "/etc/only-ours"].map(|path| (path, "ours\n"));
    ours.iter().for_each(|(path, text)| put(&host, path, text));
    let one = config("one", &ours, &json!([]), &json!([]));
    Engine::new(&host).store().save_current(&one).unwrap();
    // Where the daemon has seen that nothing stood there, nothing stands there again.
    let two = config("two", &[("/etc/kept", "ours\n")], &json!([]), &json!([]));
    update(&host, &one, &two).unwrap();
    update(&host, &two, &config("three", &[], &json!([]), &json!([]))).unwrap();
    assert_eq!(text(&host, "/etc/nsswitch.conf").unwrap(), "factory\n");
    assert_eq!(text(&host, "/etc/issue").unwrap(), "ours\n", "its package may need it");
    assert_eq!((text(&host, "/etc/only-ours"), text(&host, "/etc/kept")), (None, None));
}

#[test]
fn a_file_stays_while_the_package_manager_cannot_tell_whose_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap();
    put(&host, "/var/lib/dpkg/info", "no folder\n");
    put(&host, "/etc/issue", "ours\n");
    let one = config("one", &[("/etc/issue", "ours\n")], &json!([]), &json!([]));
    let two = config("two", &[], &json!([]), &json!([]));
    Engine::new(&host).store().save_current(&one).unwrap();
    let error = update(&host, &one, &two).unwrap_err().to_string();
    assert!(error.contains("/var/lib/dpkg/info"), "{error}");
    assert_eq!(text(&host, "/etc/issue").unwrap(), "ours\n");
    assert_eq!(Engine::new(&host).store().current().unwrap().unwrap(), one, "the update was taken back");
    host.files().remove(&path("/var/lib/dpkg/info")).unwrap();
    update(&host, &one, &two).unwrap();
}

#[test]
fn a_folder_of_the_config_that_changed_is_drift_and_is_repaired() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap();
    furnish(&host);
    let mut one = config("one", &[], &json!([]), &json!([]));
    one.spec.config.as_mut().unwrap()["storage"]["directories"] = json!([{"path": "/etc/kept", "mode": 0o750}]);
    update(&host, &MachineConfig::default(), &one).unwrap();
    let target = daemon::engine::read(&one).unwrap();
    assert_eq!(verify::verify(&host, &target), []);
    let place = folder.path().join("etc/kept");
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(
        verify::list(&verify::verify(&host, &target)),
        "mode mismatch for directory: \"/etc/kept\"; expected: drwxr-x---/2147484136/020000000750; received: drwx------/2147484096/020000000700"
    );
    daemon::repair::repair(&host, &one).unwrap();
    assert_eq!(verify::verify(&host, &target), []);
    std::fs::remove_dir(&place).unwrap();
    assert!(verify::list(&verify::verify(&host, &target)).starts_with("could not stat directory \"/etc/kept\""));
}

#[test]
fn keys_are_not_written_through_a_link_of_the_user() {
    if !testkit::needs::root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap();
    furnish(&host);
    put(&host, "/etc/passwd", "root:x:0:0::/root:/bin/bash\ncore:x:1000:1000::/home/core:/bin/bash\n");
    std::fs::create_dir_all(folder.path().join("home/core")).unwrap();
    let link = folder.path().join("home/core/.ssh");
    std::os::unix::fs::symlink("/etc", &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(1000), Some(1000)).unwrap();
    let users = json!([{"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 A"]}]);
    let error = update(&host, &MachineConfig::default(), &config("one", &[], &json!([]), &users)).unwrap_err();
    assert!(error.to_string().contains("leads through a symbolic link that is not root's"), "{error}");
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(folder.path().join("etc")).unwrap());
    assert_eq!(owner, 0, "nobody was given /etc");
}
