//! What differs on the host: all of it is told, nothing secret is, and a config that mends it is not held up.

use change::host::{Attributes, Host};
use daemon::cluster_policy::ClusterPolicy;
use daemon::engine::{self, Engine};
use daemon::prepare::{self, prepare};
use daemon::{repair, verify};
use host::directory::Directory;
use serde_json::{Value, json};

use crate::configs::{config, furnish, path, put, text};
use crate::stage::settle;

fn users(key: &str) -> Value {
    json!([{"name": "core", "sshAuthorizedKeys": [key], "passwordHash": "$6$right"}])
}

#[test]
fn every_difference_is_listed_with_a_short_diff_and_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap();
    furnish(&host);
    let units = json!([{"name": "masked.service", "mask": true}]);
    let files =
        [("/etc/open", "right\n"), ("/etc/token", "a\ntoken: right\n"), ("/etc/gone", "x"), ("/etc/closed", "x")];
    let mut one = config("one", &files, &units, &users("ssh-ed25519 RIGHT"));
    one.spec.config.as_mut().unwrap()["storage"]["files"][3]["mode"] = json!(0o600);
    settle(&host, &one);
    put(&host, "/etc/open", "wrong\n");
    put(&host, "/etc/token", "a\ntoken: wrong\n");
    host.files().put(&path("/etc/closed"), b"hidden", &Attributes::root(0o640)).unwrap();
    host.files().remove(&path("/etc/gone")).unwrap();
    host.files().remove(&path("/etc/systemd/system/masked.service")).unwrap();
    put(&host, "/etc/shadow", "root:*:1::::::\ncore:$6$wrong:1:0:99999:7:::\n");
    put(&host, "/home/core/.ssh/authorized_keys.d/ignition", "ssh-ed25519 WRONG\n");
    let found = verify::verify(&host, &engine::read(&one).unwrap());
    let shown: Vec<String> = found
        .iter()
        .map(|mismatch| format!("{} [{}]", mismatch.message, mismatch.detail.clone().unwrap_or_default()))
        .collect();
    let expected = [
        "mode mismatch for file: \"/etc/closed\"; expected: -rw-------/384/0600; received: -rw-r-----/416/0640 []",
        "content mismatch for file \"/etc/closed\" []",
        "could not stat file \"/etc/gone\": lstat /etc/gone: no such file or directory []",
        "content mismatch for file \"/etc/open\" [-right\n+wrong]",
        "content mismatch for file \"/etc/token\" []",
        "state validation: error while evaluation symlink for path \"/etc/systemd/system/masked.service\": lstat /etc/systemd/system/masked.service: no such file or directory []",
        "SSH keys of user \"core\" are not those of the config []",
        "password of user \"core\" is not that of the config []",
    ];
    assert_eq!(shown, expected);
    assert!(!shown.concat().contains("$6$"), "hashes stay where they are");

    repair::repair(&host, &one).unwrap();
    assert_eq!(verify::verify(&host, &engine::read(&one).unwrap()), []);
    assert_eq!(text(&host, "/etc/open").unwrap(), "right\n");
}

#[test]
fn only_drift_that_the_new_config_does_not_mend_holds_it_up() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap();
    furnish(&host);
    let one = config("one", &[("/etc/a", "1"), ("/etc/b", "1")], &json!([]), &json!([]));
    settle(&host, &one);
    put(&host, "/etc/a", "by hand");
    let mends = config("two", &[("/etc/a", "2"), ("/etc/b", "1")], &json!([]), &json!([]));
    let policy = ClusterPolicy::defaults();
    prepare(&host, mends.clone(), &policy, false).unwrap();
    let other = config("three", &[("/etc/a", "1"), ("/etc/b", "2")], &json!([]), &json!([]));
    let error = prepare(&host, other.clone(), &policy, false).unwrap_err();
    assert!(matches!(error, prepare::Error::Drift(_)), "{error}");
    let words = "unexpected on-disk state validating against one: content mismatch for file \"/etc/a\"";
    assert_eq!(error.to_string(), words);
    prepare(&host, other.clone(), &policy, true).unwrap();

    let mut repairs = ClusterPolicy::defaults();
    repairs.pool.drift = Some(api::machinist::DriftPolicy::Repair);
    let ready = prepare(&host, other, &repairs, false).unwrap();
    Engine::new(&host).execute(&ready.prepared).unwrap();
    assert_eq!((text(&host, "/etc/a").unwrap(), text(&host, "/etc/b").unwrap()), ("1".to_owned(), "2".to_owned()));
}
