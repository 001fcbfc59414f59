//! A config that takes the daemon's way to the cluster away is taken back, although the daemon can ask nobody.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use api::machineconfiguration::MachineConfig;
use change::host::Host as _;
use daemon::engine::{Engine, Prepared};
use daemon::journal::Trial;
use daemon::store::Store;
use host::directory::Directory;
use serde_json::json;

const KUBECONFIG: &str = "/etc/kubernetes/kubelet.conf";
/// Nobody listens there.
const GOOD: &str = r#"{"apiVersion":"v1","kind":"Config","current-context":"it","contexts":[{"name":"it","context":{"cluster":"it","user":"it"}}],"clusters":[{"name":"it","cluster":{"server":"https://127.0.0.1:1"}}],"users":[{"name":"it","user":{"token":"abc"}}]}"#;
const BAD_AUTHORITY: &str = r#"{"apiVersion":"v1","kind":"Config","current-context":"it","contexts":[{"name":"it","context":{"cluster":"it","user":"it"}}],"clusters":[{"name":"it","cluster":{"server":"https://127.0.0.1:1","certificate-authority-data":"bm9uZQ=="}}],"users":[{"name":"it","user":{"token":"abc"}}]}"#;

fn config(name: &str, path: &str, text: &str) -> MachineConfig {
    let source = ignition::data_url::encode(text.as_bytes());
    let mut config = MachineConfig::default();
    config.metadata.name = Some(name.to_owned());
    config.spec.config = Some(json!({
        "ignition": {"version": "3.4.0"},
        "storage": {"files": [{"path": path, "overwrite": true, "contents": {"source": source}}]},
    }));
    config
}

/// Leaves a host on which the second of two files at `path` is on trial, as a daemon that had a line has left it.
fn leave_on_trial(root: &Path, path: &str, texts: [&str; 2]) {
    let host = Directory::open(root).unwrap();
    let engine = Engine::new(&host);
    let [one, two] = [config("rendered-worker-one", path, texts[0]), config("rendered-worker-two", path, texts[1])];
    let mut from = MachineConfig::default();
    let way = Some("n1@the one before".to_owned());
    let trial = Trial { deadline_seconds: 1, live: true, way, ..Trial::default() };
    for (to, trial) in [(one, None), (two, Some(trial))] {
        let steps = engine.prepare(&from, &to).unwrap();
        engine.execute(&Prepared { from, to: to.clone(), steps, actions: Vec::new(), trial: trial.clone() }).unwrap();
        match trial {
            Some(_) => drop(engine.time_trial().unwrap()),
            None => engine.finish().unwrap(),
        }
        from = to;
    }
}

struct Daemon(Child);

impl Daemon {
    fn start(root: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_machinistd"));
        command.args(["--simulate", "--metrics-url", "127.0.0.1:0", "--root"]).arg(root).args(arguments);
        Self(command.env_remove("NODE_NAME").env_remove("KUBECONFIG").stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
fn eventually<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        match look() {
            Some(found) => return found,
            None if start.elapsed() > Duration::from_secs(60) => panic!("waited in vain for {what}"),
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

#[track_caller]
fn is_given_back(path: &str, texts: [&str; 2], arguments: &[&str], because: &str) {
    let folder = tempfile::tempdir().unwrap();
    leave_on_trial(folder.path(), path, texts);
    let daemon = Daemon::start(folder.path(), arguments);
    let host = Directory::open(folder.path()).unwrap();
    let store = Store::new(host.files());
    let reverted = eventually("the config to be given back", || match store.journal() {
        Ok(None) => store.reverted().ok().flatten(),
        _ => None,
    });
    drop(daemon);
    assert_eq!(reverted.config, "rendered-worker-two");
    assert!(reverted.reason.contains(because), "{}", reverted.reason);
    assert_eq!(std::fs::read_to_string(folder.path().join(&path[1..])).unwrap(), texts[0]);
    let current = store.current().unwrap().unwrap();
    assert_eq!(current.metadata.name.as_deref(), Some("rendered-worker-one"));
}

#[test]
fn a_config_that_breaks_the_kubeconfig_is_given_back() {
    is_given_back(KUBECONFIG, [GOOD, "no kubeconfig"], &["--node", "n1"], KUBECONFIG);
}

#[test]
fn a_config_whose_kubeconfig_names_a_file_that_is_missing_is_given_back() {
    let missing = GOOD.replace(r#""token":"abc""#, r#""client-certificate":"/none.pem","client-key":"/none.pem""#);
    is_given_back(KUBECONFIG, [GOOD, &missing], &["--node", "n1"], "/none.pem");
}

#[test]
fn a_config_whose_kubeconfig_leads_nowhere_is_given_back() {
    let nowhere = GOOD.replace("https://127.0.0.1:1", "https://");
    is_given_back(KUBECONFIG, [GOOD, &nowhere], &["--node", "n1"], "the API cannot be asked any more");
    let silent = "the API is not heard with the kubeconfig that came with it";
    is_given_back(KUBECONFIG, [GOOD, &GOOD.replace("127.0.0.1:1", "127.0.0.1:2")], &["--node", "n1"], silent);
    is_given_back(KUBECONFIG, [GOOD, BAD_AUTHORITY], &["--node", "n1"], silent);
}

#[test]
fn a_config_after_which_the_daemon_does_not_know_its_node_any_more_is_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, GOOD).unwrap();
    let arguments = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    is_given_back("/etc/machinist/machinistd.env", ["NODE_NAME=n1", ""], &arguments, "node-name is required");
}

#[test]
fn without_work_under_way_a_daemon_without_a_credential_ends_and_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let output = crate::machinistd(&["--simulate", "--node", "n1", "--root", folder.path().to_str().unwrap()]);
    assert!(!output.status.success());
    assert!(crate::said(&output).contains("no kubeconfig of a kubelet is on the host"), "{}", crate::said(&output));
}
