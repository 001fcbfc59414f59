//! A host in memory keeps the promises of the port, and loses in a power cut what was not flushed.

use change::host::{Attributes, Error, ErrorKind, Host, HostPath};
use host::conformance;
use host::memory::{Memory, Trouble};

fn path(text: &str) -> HostPath {
    HostPath::parse(text).unwrap()
}

#[test]
fn memory_keeps_the_promises_of_a_host() {
    conformance::all(&Memory::new());
}

#[test]
fn what_was_not_flushed_may_be_lost_and_what_was_is_not() {
    let host = Memory::new();
    let files = host.files();
    files.put(&path("/etc/a"), b"old", &Attributes::root(0o644)).unwrap();
    files.flush().unwrap();
    files.put(&path("/etc/a"), b"new", &Attributes::root(0o644)).unwrap();
    let read = |host: &Memory| host.files().read(&path("/etc/a")).unwrap().unwrap();
    assert_eq!(read(&host.after_power_cut(|| false)), b"old");
    assert_eq!(read(&host.after_power_cut(|| true)), b"new");
}

#[test]
fn a_cut_in_the_middle_of_a_write_leaves_the_old_contents() {
    for at in 0..3 {
        let host = Memory::new();
        host.files().put(&path("/etc/a"), b"old", &Attributes::root(0o644)).unwrap();
        host.files().flush().unwrap();
        host.trouble(Trouble::PowerCut { at });
        let error: Error = host.files().put(&path("/etc/a"), b"new", &Attributes::root(0o644)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::PowerCut);
        assert!(host.files().flush().is_err(), "a dead host does nothing");
        let back = host.after_power_cut(|| true);
        assert_eq!(back.files().read(&path("/etc/a")).unwrap().unwrap(), b"old", "point {at}");
        assert_ne!(back.system().boot_id(), host.system().boot_id());
    }
}
