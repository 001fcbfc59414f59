//! A host that is a folder keeps the promises of the port.

use host::conformance;
use host::directory::Directory;

#[test]
fn a_directory_keeps_the_promises_of_a_host() {
    let folder = tempfile::tempdir().unwrap();
    conformance::all(&Directory::open(folder.path()).unwrap());
}
