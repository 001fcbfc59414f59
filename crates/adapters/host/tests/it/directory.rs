//! A host that is a folder keeps the promises of the port.

use change::host::{Host, KernelChange, PackageChange};
use host::conformance;
use host::directory::Directory;

#[test]
fn a_directory_keeps_the_promises_of_a_host() {
    let folder = tempfile::tempdir().unwrap();
    conformance::all(&Directory::open(folder.path()).unwrap());
}

#[test]
fn a_directory_on_an_old_kernel_keeps_the_promises_of_a_host() {
    let folder = tempfile::tempdir().unwrap();
    conformance::all(&Directory::open(folder.path()).unwrap().on_old_kernel());
}

/// Each call is another process that opens the same folder.
fn image_based(folder: &tempfile::TempDir) -> Directory {
    Directory::image_based(folder.path()).unwrap()
}

fn command_line(folder: &tempfile::TempDir) -> String {
    std::fs::read_to_string(folder.path().join("proc/cmdline")).unwrap()
}

#[test]
fn an_image_based_directory_keeps_the_promises_of_a_host() {
    let folder = tempfile::tempdir().unwrap();
    conformance::all(&image_based(&folder));
}

#[test]
fn what_is_staged_outlives_the_process_and_takes_effect_with_the_reboot() {
    let folder = tempfile::tempdir().unwrap();
    let (image, nosmt) = ("example.org/os@sha256:1", ["nosmt".to_owned()]);
    image_based(&folder).system().stage_image(image).unwrap();
    image_based(&folder).system().change_kernel_arguments(&[], &nosmt).unwrap();
    let kernel = Some(KernelChange { from: "default".into(), to: "realtime".into() });
    let change = PackageChange { install: vec!["usbguard".into()], kernel, ..PackageChange::default() };
    image_based(&folder).system().change_packages(&change).unwrap();
    let before = image_based(&folder);
    assert_eq!(before.system().booted_image().unwrap(), None);
    assert_eq!(before.system().installed(&["usbguard"]).unwrap(), [""; 0]);
    assert_eq!(before.kernel_type().unwrap(), "default");
    assert_eq!(before.system().kernel_arguments().unwrap(), "nosmt", "of the deployment that boots next");
    assert!(!command_line(&folder).contains("nosmt"), "the running kernel has its own");

    image_based(&folder).system().reboot("test").unwrap();
    let after = image_based(&folder);
    assert_eq!(after.system().booted_image().unwrap().as_deref(), Some(image));
    assert_eq!(after.system().installed(&["usbguard", "kerberos"]).unwrap(), ["usbguard"]);
    assert_eq!(after.kernel_type().unwrap(), "realtime");
    assert_eq!(command_line(&folder), "BOOT_IMAGE=/boot/vmlinuz ro nosmt\n");
}

#[test]
fn what_was_staged_and_dropped_does_not_boot() {
    let folder = tempfile::tempdir().unwrap();
    let host = image_based(&folder);
    host.system().stage_image("example.org/os@sha256:1").unwrap();
    host.system().change_kernel_arguments(&[], &["nosmt".to_owned()]).unwrap();
    host.system().drop_staged().unwrap();
    host.system().reboot("test").unwrap();
    assert_eq!(host.system().booted_image().unwrap(), None);
    assert!(!command_line(&folder).contains("nosmt"));
}
