//! What every host promises, as code: each implementation's tests call these.
//!
//! They panic with the broken promise. `root` of the host must be empty or disposable.

use std::io::Read as _;

use change::host::{Attributes, Backend, EntryKind, Host, HostPath};

/// All of it, for a host with nothing but files and a service manager.
pub fn all(host: &dyn Host) {
    all_but_reboot(host);
    a_reboot_changes_the_boot_id(host);
    kernel_arguments_take_effect_with_a_reboot(host);
}

/// For the real host, whose reboot ends the suite too; its story asks for the boot id before and after.
pub fn all_but_reboot(host: &dyn Host) {
    files_are_replaced_whole(host);
    links_and_folders(host);
    copies_keep_what_a_file_is(host);
    removing_is_calm(host);
    paths_stay_beneath_the_root(host);
    units_are_enabled_by_their_install_section(host);
    what_the_host_cannot_do_is_said(host);
}

pub fn files_are_replaced_whole(host: &dyn Host) {
    let files = host.files();
    let motd = path("/etc/conformance/deep/motd");
    assert_eq!(files.read(&motd), Ok(None), "nothing is there before");
    assert_eq!(files.look(&motd), Ok(None));
    assert_eq!(files.refuses(&motd), None, "a new file in /etc can be written");
    files.put(&motd, b"one", &Attributes::root(0o640)).expect("a file and its parents are made");
    files.flush().expect("flush");
    assert_eq!(files.read(&motd), Ok(Some(b"one".to_vec())));
    let entry = files.look(&motd).expect("look").expect("it is there");
    assert_eq!((entry.kind, entry.mode, entry.size), (EntryKind::File, 0o640, 3));
    files.put(&motd, b"three", &Attributes::root(0o4755)).expect("replaced");
    assert_eq!(files.read(&motd), Ok(Some(b"three".to_vec())));
    assert_eq!(files.look(&motd).expect("look").expect("there").mode, 0o4755, "special bits are kept");
    files.put_from(&motd, &mut &b"pieces"[..], &Attributes::root(0o640)).expect("replaced piece by piece");
    let entry = files.look(&motd).expect("look").expect("it is there");
    assert_eq!((entry.kind, entry.mode, entry.size), (EntryKind::File, 0o640, 6));
    let mut text = String::new();
    let mut opened = files.open(&motd).expect("open").expect("it is there");
    opened.read_to_string(&mut text).expect("text");
    assert_eq!(text, "pieces");
    assert!(files.open(&path("/etc/conformance/deep/nothing")).expect("nothing is fine").is_none());
    assert!(files.open(&path("/etc/conformance/deep")).is_err(), "a folder is no file");
    assert_eq!(
        files.list(&path("/etc/conformance/deep")),
        Ok(vec!["motd".to_owned()]),
        "no temporary file stays behind"
    );
    assert!(
        files.put(&path("/etc/conformance/deep"), b"x", &Attributes::root(0o644)).is_err(),
        "a folder is not replaced"
    );
    assert!(
        files.put(&path("/etc/conformance/deep/motd/x"), b"x", &Attributes::root(0o644)).is_err(),
        "a file is no folder"
    );
}

pub fn links_and_folders(host: &dyn Host) {
    let files = host.files();
    let link = path("/etc/conformance/link");
    files.link(&link, "/etc/conformance/real").expect("a link to nothing is a link");
    let kind = |at: &HostPath| files.look(at).expect("look").map(|entry| entry.kind);
    assert_eq!(kind(&link), Some(EntryKind::Link("/etc/conformance/real".into())), "look does not follow");
    assert_eq!(files.read(&link), Ok(None), "read follows to nothing");
    files.put(&path("/etc/conformance/real"), b"r", &Attributes::root(0o644)).expect("put");
    assert_eq!(files.read(&link), Ok(Some(b"r".to_vec())), "read follows");
    files.put(&link, b"mine", &Attributes::root(0o644)).expect("a link at the target is replaced");
    assert_eq!(files.read(&path("/etc/conformance/real")), Ok(Some(b"r".to_vec())), "what it pointed to is untouched");
    let folder = path("/etc/conformance/folder/sub");
    files.make_folder(&folder, &Attributes::root(0o750)).expect("folder");
    files.make_folder(&folder, &Attributes::root(0o700)).expect("again");
    assert_eq!(files.look(&folder).expect("look").expect("there").mode, 0o700);
    files.link(&path("/etc/conformance/way"), "folder").expect("link to a folder");
    files.put(&path("/etc/conformance/way/sub/file"), b"x", &Attributes::root(0o644)).expect("through the link");
    assert_eq!(files.read(&path("/etc/conformance/folder/sub/file")), Ok(Some(b"x".to_vec())));
}

pub fn copies_keep_what_a_file_is(host: &dyn Host) {
    let files = host.files();
    let (from, to) = (path("/etc/conformance/from"), path("/var/conformance/kept/from.orig"));
    files.put(&from, b"original", &Attributes::root(0o600)).expect("put");
    files.copy(&from, &to).expect("copy makes parents");
    assert_eq!(files.read(&to), Ok(Some(b"original".to_vec())));
    assert_eq!(files.look(&to).expect("look").expect("there").mode, 0o600);
    files.link(&from, "/dev/null").expect("link");
    files.copy(&from, &to).expect("a link is copied as a link");
    assert_eq!(files.look(&to).expect("look").expect("there").kind, EntryKind::Link("/dev/null".into()));
    assert!(files.copy(&path("/etc/conformance/nowhere"), &to).is_err());
}

pub fn removing_is_calm(host: &dyn Host) {
    let files = host.files();
    let file = path("/etc/conformance/gone/file");
    files.remove(&file).expect("nothing there is fine, not even the folder");
    files.put(&file, b"x", &Attributes::root(0o644)).expect("put");
    assert!(files.remove(&path("/etc/conformance/gone")).is_err(), "a folder with something in it stays");
    files.remove(&file).expect("remove");
    assert_eq!(files.look(&file), Ok(None));
    files.remove(&path("/etc/conformance/gone")).expect("an empty folder goes");
    files.flush().expect("flush");
}

pub fn paths_stay_beneath_the_root(host: &dyn Host) {
    let files = host.files();
    files.link(&path("/etc/conformance/up"), "../../../../../../../../../../var/conformance-up").expect("link");
    files.make_folder(&path("/var/conformance-up"), &Attributes::root(0o755)).expect("folder");
    files.put(&path("/etc/conformance/up/file"), b"in", &Attributes::root(0o644)).expect("put");
    assert_eq!(files.read(&path("/var/conformance-up/file")), Ok(Some(b"in".to_vec())), "`..` stops at the root");
    files.link(&path("/etc/conformance/absolute"), "/var/conformance-up").expect("link");
    files.put(&path("/etc/conformance/absolute/other"), b"in", &Attributes::root(0o644)).expect("put");
    assert_eq!(
        files.read(&path("/var/conformance-up/other")),
        Ok(Some(b"in".to_vec())),
        "absolute links start at the root"
    );
    files.link(&path("/etc/conformance/loop"), "loop").expect("link");
    assert!(files.put(&path("/etc/conformance/loop/x"), b"x", &Attributes::root(0o644)).is_err());
}

pub fn units_are_enabled_by_their_install_section(host: &dyn Host) {
    let (files, services) = (host.files(), host.services());
    let unit = "conformance.service";
    let state = |unit: &str| services.enablement(unit).expect("enablement");
    assert_eq!(state(unit), "not-found");
    services.stop(unit).expect("a unit that is not there is stopped");
    let text = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n";
    let unit_file = path("/etc/systemd/system/conformance.service");
    files.put(&unit_file, text.as_bytes(), &Attributes::root(0o644)).expect("put");
    services.daemon_reload().expect("daemon-reload");
    assert_eq!(state(unit), "disabled");
    services.enable(&[unit.to_owned()]).expect("enable");
    services.enable(&[unit.to_owned()]).expect("enabling again changes nothing");
    assert_eq!(state(unit), "enabled");
    services.start(unit).expect("start");
    let first = services.activity(unit).expect("activity");
    assert_eq!(first.active, "active");
    services.restart(unit).expect("restart");
    assert_ne!(
        services.activity(unit).expect("activity").invocation,
        first.invocation,
        "a restart is a new invocation"
    );
    services.stop(unit).expect("stop");
    assert_eq!(services.activity(unit).expect("activity").active, "inactive");
    services.disable(&[unit.to_owned()]).expect("disable");
    assert_eq!(state(unit), "disabled");
    files.link(&unit_file, "/dev/null").expect("mask");
    services.daemon_reload().expect("daemon-reload");
    assert_eq!(state(unit), "masked");
    files.remove(&unit_file).expect("remove");
    services.daemon_reload().expect("daemon-reload");
    let bad = path("/etc/systemd/system/conformance-bad.service");
    files.put(&bad, b"[Service]\nType=oneshot\nExecStart=/bin/false\n", &Attributes::root(0o644)).expect("put");
    services.daemon_reload().expect("daemon-reload");
    assert_eq!(state("conformance-bad.service"), "static");
    assert!(services.start("conformance-bad.service").is_err(), "a unit that fails to start says so");
    assert!(services.activity("conformance-bad.service").expect("activity").has_failed());
    assert!(services.start("conformance-none.service").is_err());
    files.remove(&bad).expect("remove");
    services.daemon_reload().expect("daemon-reload");
}

/// Labels, packages and locks are there or not; asking for them is calm either way.
pub fn what_the_host_cannot_do_is_said(host: &dyn Host) {
    let system = host.system();
    let motd = path("/etc/conformance/labelled");
    host.files().put(&motd, b"x", &Attributes::root(0o644)).expect("put");
    system.restore_labels(std::slice::from_ref(&motd)).expect("labels");
    assert_eq!(system.mislabelled(&[motd]), Vec::new(), "a label that was restored is right");
    system.installed(&["no-such-package"]).expect("packages");
    drop(system.hold_off_shutdown("conformance"));
    if system.backend().is_none() {
        assert_eq!(system.booted_image(), Ok(None));
        assert!(system.stage_image("example.org/os@sha256:1").is_err());
        assert!(system.change_kernel_arguments(&[], &["quiet".to_owned()]).is_err());
        system.drop_staged().expect("nothing is staged");
    }
}

/// For hosts that can change them.
pub fn kernel_arguments_take_effect_with_a_reboot(host: &dyn Host) {
    let system = host.system();
    let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    let count = |argument: &str| {
        let line = system.kernel_arguments().expect("kernel arguments");
        line.split_whitespace().filter(|word| *word == argument).count()
    };
    match system.backend() {
        None | Some(Backend::Bootc) => return,
        Some(Backend::RpmOstree | Backend::BootLoader(_)) => {}
    }
    system.change_kernel_arguments(&[], &list(&["conformance=0"])).expect("staged");
    system.drop_staged().expect("dropped");
    system.reboot("conformance").expect("reboot");
    assert_eq!(count("conformance=0"), 0, "what was dropped does not boot");
    for _ in 0..2 {
        system.change_kernel_arguments(&[], &list(&["conformance=1", "conformant", "conformant"])).expect("staged");
    }
    system.reboot("conformance").expect("reboot");
    assert_eq!((count("conformance=1"), count("conformant")), (1, 1), "asked for twice, there once");
    for _ in 0..2 {
        system
            .change_kernel_arguments(&list(&["conformance=1", "conformant"]), &list(&["conformance=2", "conformant"]))
            .expect("staged");
    }
    system.drop_staged().expect("dropped");
    system.reboot("conformance").expect("reboot");
    assert_eq!((count("conformance=1"), count("conformant")), (1, 1), "back at what had booted");
    system.change_kernel_arguments(&list(&["conformance=1", "conformant", "other"]), &[]).expect("staged");
    system.reboot("conformance").expect("reboot");
    assert_eq!((count("conformance=1"), count("conformant")), (0, 0), "gone");
}

pub fn a_reboot_changes_the_boot_id(host: &dyn Host) {
    let system = host.system();
    let before = system.boot_id().expect("boot id");
    assert_eq!(system.boot_id().expect("boot id"), before);
    let earlier = system.uptime();
    assert!(system.uptime() >= earlier, "the clock of a boot never goes back");
    system.reboot("conformance").expect("reboot");
    assert_ne!(system.boot_id().expect("boot id"), before);
}

fn path(text: &str) -> HostPath {
    HostPath::parse(text).expect("a valid path")
}
