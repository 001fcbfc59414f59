//! What a disk can do to a write: links that lead away, devices, huge files, no space, no permission.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use change::host::{Attributes, ErrorKind, Files, HostPath};
use host::root::Root;

const MODE: Attributes = Attributes::root(0o644);

fn path(text: &str) -> HostPath {
    HostPath::parse(text).unwrap()
}

/// A root and a folder beside it that nothing may touch.
fn world() -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("root/etc")).unwrap();
    fs::create_dir_all(folder.path().join("outside")).unwrap();
    fs::write(folder.path().join("outside/secret"), "untouched").unwrap();
    let root = Root::open(&folder.path().join("root")).unwrap();
    (folder, root)
}

/// One on this kernel and one as on a kernel without `openat2`.
fn worlds() -> [(tempfile::TempDir, Root); 2] {
    let (folder, root) = world();
    [world(), (folder, root.on_old_kernel())]
}

fn assert_outside_is_untouched(folder: &Path) {
    let names: Vec<_> = fs::read_dir(folder.join("outside")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["secret"]);
    assert_eq!(fs::read_to_string(folder.join("outside/secret")).unwrap(), "untouched");
}

#[test]
fn links_out_of_the_root_lead_nowhere() {
    for (folder, root) in worlds() {
        let etc = folder.path().join("root/etc");
        symlink(folder.path().join("outside"), etc.join("absolute")).unwrap();
        symlink("../../outside", etc.join("dots")).unwrap();
        symlink("/proc/self/root", etc.join("magic")).unwrap();
        for name in ["absolute", "dots", "magic"] {
            let target = path(&format!("/etc/{name}/secret"));
            let _ = root.put(&target, b"changed", &MODE);
            let _ = root.remove(&target);
            assert_ne!(root.read(&target).ok().flatten().as_deref(), Some(&b"untouched"[..]), "{name}");
        }
        assert_outside_is_untouched(folder.path());
    }
}

#[test]
fn a_link_of_the_process_file_system_is_refused() {
    let open = || Root::open(Path::new("/")).unwrap();
    for root in [open(), open().on_old_kernel()] {
        let error = root.read(&path("/proc/self/root/etc/passwd")).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    }
}

#[test]
fn a_folder_that_is_swapped_for_a_link_during_writes_leads_nowhere() {
    for (folder, root) in worlds() {
        let (etc, stop) = (folder.path().join("root/etc"), AtomicBool::new(false));
        let outside = folder.path().join("outside");
        fs::create_dir(etc.join("swapped")).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (swapped, kept) = (etc.join("swapped"), etc.join("kept"));
                while !stop.load(Ordering::Relaxed) {
                    let _ = fs::rename(&swapped, &kept);
                    let _ = symlink(&outside, &swapped);
                    let _ = fs::remove_file(&swapped);
                    let _ = fs::rename(&kept, &swapped);
                }
            });
            for round in 0..300 {
                let _ = root.put(&path("/etc/swapped/file"), format!("{round}").as_bytes(), &MODE);
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_outside_is_untouched(folder.path());
    }
}

#[test]
fn a_file_that_is_swapped_for_a_link_during_writes_is_replaced_and_what_it_points_to_is_not() {
    for (folder, root) in worlds() {
        let (etc, stop) = (folder.path().join("root/etc"), AtomicBool::new(false));
        let secret = folder.path().join("outside/secret");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (file, temporary) = (etc.join("file"), etc.join(".file.machinist"));
                while !stop.load(Ordering::Relaxed) {
                    // Both the place and the temporary neighbour, which an attacker can guess.
                    for place in [&file, &temporary] {
                        let _ = fs::remove_file(place);
                        let _ = symlink(&secret, place);
                    }
                }
            });
            for round in 0..300 {
                let _ = root.put(&path("/etc/file"), format!("{round}").as_bytes(), &MODE);
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_outside_is_untouched(folder.path());
        root.put(&path("/etc/file"), b"last", &MODE).unwrap();
        assert!(fs::symlink_metadata(etc.join("file")).unwrap().is_file());
    }
}

#[test]
fn devices_pipes_and_huge_files_are_not_read() {
    for (folder, root) in worlds() {
        let etc = folder.path().join("root/etc");
        assert!(Command::new("mkfifo").arg(etc.join("pipe")).status().unwrap().success());
        assert_eq!(
            root.read(&path("/etc/pipe")).unwrap_err().kind,
            ErrorKind::Refused,
            "and it does not wait for a writer"
        );
        fs::File::create(etc.join("huge")).unwrap().set_len(1 << 40).unwrap();
        let error = root.read(&path("/etc/huge")).unwrap_err();
        assert!(error.to_string().contains("larger than 32 MiB"), "{error}");
        if testkit::needs::root() {
            assert!(Command::new("mknod").arg(etc.join("zero")).args(["c", "1", "5"]).status().unwrap().success());
            assert_eq!(root.read(&path("/etc/zero")).unwrap_err().kind, ErrorKind::Refused);
            assert_eq!(root.copy(&path("/etc/zero"), &path("/etc/copy")).unwrap_err().kind, ErrorKind::Refused);
            root.put(&path("/etc/zero"), b"now a file", &MODE).unwrap();
            assert_eq!(fs::read(etc.join("zero")).unwrap(), b"now a file", "the device is replaced, not written to");
        }
        root.put(&path("/etc/pipe"), b"now a file", &MODE).unwrap();
        assert_eq!(root.read(&path("/etc/pipe")).unwrap().unwrap(), b"now a file");
    }
}

/// Mounts something at the root's `etc`, for the time of `inside`. Needs root; without it the test is noted as not run.
fn with_mount(arguments: &[&str], inside: impl FnOnce(&Path, &Root)) {
    if !testkit::needs::root() {
        return;
    }
    let (folder, _) = world();
    let etc = folder.path().join("root/etc");
    let mounted = Command::new("mount").args(arguments).arg(&etc).status().is_ok_and(|status| status.success());
    if !mounted && !testkit::needs::missing("nothing can be mounted here") {
        return;
    }
    let root = Root::open(&folder.path().join("root")).unwrap();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| inside(&etc, &root)));
    drop(root);
    assert!(Command::new("umount").arg(&etc).status().unwrap().success());
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn on_a_full_disk_the_old_contents_stay() {
    with_mount(&["-t", "tmpfs", "-o", "size=64k", "tmpfs"], |etc, root| {
        root.put(&path("/etc/file"), b"old", &MODE).unwrap();
        let error = root.put(&path("/etc/file"), &[b'x'; 256 * 1024], &MODE).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
        assert_eq!(root.read(&path("/etc/file")).unwrap().unwrap(), b"old");
        assert_eq!(fs::read_dir(etc).unwrap().count(), 1, "no temporary file takes the last space");
    });
}

#[test]
fn a_read_only_file_system_is_refused_before_and_during() {
    with_mount(&["-t", "tmpfs", "-o", "ro", "tmpfs"], |_, root| {
        let why = root.refuses(&path("/etc/file")).unwrap();
        assert!(why.contains("read-only file system"), "{why}");
        assert_eq!(root.put(&path("/etc/file"), b"x", &MODE).unwrap_err().kind, ErrorKind::ReadOnly);
    });
}

#[test]
fn an_immutable_file_keeps_its_contents_and_the_error_says_denied() {
    let (folder, root) = world();
    let file = folder.path().join("root/etc/file");
    fs::write(&file, "old").unwrap();
    let can = Command::new("chattr").arg("+i").arg(&file).output().is_ok_and(|output| output.status.success());
    if !can && !testkit::needs::missing("this file system has no immutable files, or the test is not root") {
        return;
    }
    let error = root.put(&path("/etc/file"), b"new", &MODE).unwrap_err();
    let contents = fs::read_to_string(&file).unwrap();
    let names = fs::read_dir(folder.path().join("root/etc")).unwrap().count();
    assert!(Command::new("chattr").arg("-i").arg(&file).status().unwrap().success());
    assert_eq!((error.kind, contents.as_str(), names), (ErrorKind::Denied, "old", 1), "{error}");
}

#[test]
fn a_link_that_a_user_made_is_not_followed_and_one_that_root_made_is() {
    use std::os::unix::fs::{MetadataExt, lchown};
    if !testkit::needs::root() {
        return;
    }
    for (folder, root) in worlds() {
        let home = folder.path().join("root/home");
        fs::create_dir(&home).unwrap();
        symlink("/etc", home.join("theirs")).unwrap();
        lchown(home.join("theirs"), Some(1000), Some(1000)).unwrap();
        symlink("../etc", home.join("roots")).unwrap();
        let owner = Attributes { mode: 0o700, user: 1000, group: 1000 };
        for error in [
            root.make_folder(&path("/home/theirs"), &owner).unwrap_err(),
            root.put(&path("/home/theirs/file"), b"x", &MODE).unwrap_err(),
            root.read(&path("/home/theirs/file")).unwrap_err(),
        ] {
            assert_eq!(error.kind, ErrorKind::Refused, "{error}");
            assert!(error.to_string().contains("a symbolic link that is not root's"), "{error}");
        }
        assert!(root.refuses(&path("/home/theirs/file")).is_some());
        assert_eq!(fs::metadata(folder.path().join("root/etc")).unwrap().uid(), 0);
        root.put(&path("/home/roots/file"), b"x", &MODE).unwrap();
        assert_eq!(fs::read(folder.path().join("root/etc/file")).unwrap(), b"x");
        // The link itself may be looked at, replaced and removed.
        root.put(&path("/home/theirs"), b"a file now", &MODE).unwrap();
        assert_eq!(root.read(&path("/home/theirs")).unwrap().unwrap(), b"a file now");
    }
}

/// Carried out by the test below, in a process with another umask.
#[test]
fn parents_are_made_beneath_the_folder_that_the_environment_names() {
    let Some(folder) = std::env::var_os("MADE_BENEATH") else { return };
    Root::open(Path::new(&folder)).unwrap().put(&path("/a/b/file"), b"x", &MODE).unwrap();
}

#[test]
fn parents_can_be_entered_by_everybody_whatever_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let name = "parents_are_made_beneath_the_folder_that_the_environment_names";
    let made = Command::new("sh")
        .args(["-c", "umask 077 && exec \"$0\" \"$1\""])
        .args([std::env::current_exe().unwrap().to_str().unwrap(), name])
        .env("MADE_BENEATH", folder.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    for made in ["a", "a/b"] {
        let mode = fs::metadata(folder.path().join(made)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "{made}");
    }
}
