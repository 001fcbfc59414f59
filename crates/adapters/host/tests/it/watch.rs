//! Which changes are noticed. The kernel queues events before a change returns, so nothing has to be waited for.

use std::fs;
use std::path::Path;

use change::host::HostPath;
use host::watch::Watch;

fn follow(root: &Path, paths: &[&str]) -> Watch {
    let mut watch = Watch::open(root).unwrap();
    watch.follow(paths.iter().map(|path| HostPath::parse(path).unwrap()).collect()).unwrap();
    assert!(!watch.drain());
    watch
}

#[test]
fn a_change_of_a_followed_file_is_noticed_and_a_neighbours_is_not() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("etc")).unwrap();
    let file = folder.path().join("etc/file");
    fs::write(&file, "1").unwrap();
    let mut watch = follow(folder.path(), &["/etc/file"]);
    fs::write(folder.path().join("etc/neighbour"), "1").unwrap();
    assert!(!watch.drain());
    fs::write(&file, "2").unwrap();
    assert!(watch.drain());
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    assert!(watch.drain());
    fs::remove_file(&file).unwrap();
    assert!(watch.drain());
    fs::write(&file, "3").unwrap();
    assert!(watch.drain(), "it is still followed after it was removed");
}

#[test]
fn a_path_whose_folders_do_not_exist_yet_is_followed_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut watch = follow(folder.path(), &["/etc/a/b/file"]);
    fs::create_dir(folder.path().join("var")).unwrap();
    assert!(!watch.drain());
    fs::create_dir_all(folder.path().join("etc/a/b")).unwrap();
    assert!(watch.drain());
    fs::write(folder.path().join("etc/a/b/file"), "1").unwrap();
    assert!(watch.drain());
    fs::remove_dir_all(folder.path().join("etc")).unwrap();
    assert!(watch.drain());
    fs::create_dir_all(folder.path().join("etc/a/b")).unwrap();
    assert!(watch.drain());
    fs::write(folder.path().join("etc/a/b/file"), "1").unwrap();
    assert!(watch.drain(), "a folder that was made anew is followed");
}

#[test]
fn many_files_need_few_watches() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("etc")).unwrap();
    let paths: Vec<String> = (0..2000).map(|number| format!("/etc/file-{number}")).collect();
    let mut watch = follow(folder.path(), &paths.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(watch.folders(), 1);
    fs::write(folder.path().join("etc/file-1999"), "1").unwrap();
    assert!(watch.drain());
}
