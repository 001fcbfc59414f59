//! A fleet of `machinist up` for tests: started as a user would, looked at by its verbs.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::Changes;

use crate::{Folder, Run};

/// Long enough for a laptop that runs every test at once.
const PATIENCE: Duration = Duration::from_secs(120);

/// A fleet that ends with the test.
pub(crate) struct Fleet {
    pub(crate) folder: Folder,
    process: Child,
    changes: Changes,
}

impl Fleet {
    pub(crate) fn start(more: &[&str]) -> Self {
        let fleet = Self::try_start(Folder::new(&[]), more);
        fleet.unwrap_or_else(|said| panic!("machinist up ended: {said}"))
    }

    /// What it said instead, when it does not come up.
    pub(crate) fn try_start(folder: Folder, more: &[&str]) -> Result<Self, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_machinist"));
        command.args(["up", "--data", "fleet"]).args(more).current_dir(folder.path());
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        if lines.by_ref().map_while(Result::ok).any(|line| line.contains("Your fleet is up")) {
            // The rest is read, so that the fleet never waits for a reader.
            std::thread::spawn(move || lines.for_each(drop));
            let changes = Changes::of(&folder.path().join("fleet/kubeconfig"));
            return Ok(Self { folder, process, changes });
        }
        let output = process.wait_with_output().unwrap();
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        let kubeconfig = self.folder.path().join("fleet/kubeconfig").display().to_string();
        self.folder.run(&[arguments, &["--kubeconfig", &kubeconfig]].concat())
    }

    /// A client of its administrator.
    pub(crate) async fn client(&self) -> kube::Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        cluster::connect(Some(&self.folder.path().join("fleet/kubeconfig"))).await.unwrap()
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let run = self.run(&[arguments, &["-o", "json"]].concat());
        serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{arguments:?}: {}{}", run.stdout, run.stderr))
    }

    /// Looks, with each change of the cluster, until it is as wanted.
    #[track_caller]
    pub(crate) fn wait(&self, arguments: &[&str], wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.json(arguments);
            if wanted(&seen) {
                return seen;
            }
            assert!(self.changes.wait(deadline), "{arguments:?}: waited in vain; the last answer was {seen:#}");
        }
    }

    /// Asks, with each change of the cluster, until there is an answer.
    #[track_caller]
    pub(crate) fn until<T>(&self, ask: impl Fn() -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(answer) = ask() {
                return answer;
            }
            assert!(self.changes.wait(deadline), "waited in vain");
        }
    }

    /// Waits until every worker has the config that the pool wants, and it is not `old`.
    pub(crate) fn updated(&self, old: &str) -> String {
        let status = self.wait(&["status", "--pool", "worker"], |status| {
            let pool = &status["pools"][0];
            pool["state"] == "Updated" && pool["target"] != old
        });
        status["pools"][0]["target"].as_str().unwrap().to_owned()
    }

    pub(crate) fn on_node(&self, node: &str, path: &str) -> PathBuf {
        self.folder.path().join("fleet/nodes").join(node).join("root").join(path)
    }

    /// What the log tells of nodes that were taken out of service, since the fleet's folder was made.
    pub(crate) fn disturbances(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.folder.path().join("fleet/machinist.log")).unwrap();
        let tells =
            |line: &&str| ["initiating cordon", "initiating drain", "reboot"].iter().any(|it| line.contains(it));
        log.lines().filter(tells).map(str::to_owned).collect()
    }

    pub(crate) fn end(&mut self, signal: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        let status = self.process.wait().unwrap();
        assert_eq!(signal == "INT", status.success(), "{status}");
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
