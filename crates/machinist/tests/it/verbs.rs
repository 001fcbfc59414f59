//! The verbs that talk to a cluster, on the fleet of `machinist up`. Nothing but this binary is needed.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Folder, Run, file};

/// A fleet that ends with the test.
struct Fleet {
    folder: Folder,
    process: Child,
}

impl Fleet {
    fn start(more: &[&str]) -> Self {
        let fleet = Self::try_start(Folder::new(&[]), more);
        fleet.unwrap_or_else(|said| panic!("machinist up ended: {said}"))
    }

    /// What it said instead, when it does not come up.
    fn try_start(folder: Folder, more: &[&str]) -> Result<Self, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_machinist"));
        command.args(["up", "--data", "fleet"]).args(more).current_dir(folder.path());
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        if lines.by_ref().map_while(Result::ok).any(|line| line.contains("Your fleet is up")) {
            // The rest is read, so that the fleet never waits for a reader.
            std::thread::spawn(move || lines.for_each(drop));
            return Ok(Self { folder, process });
        }
        let output = process.wait_with_output().unwrap();
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn run(&self, arguments: &[&str]) -> Run {
        let kubeconfig = self.folder.path().join("fleet/kubeconfig").display().to_string();
        self.folder.run(&[arguments, &["--kubeconfig", &kubeconfig]].concat())
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let run = self.run(&[arguments, &["-o", "json"]].concat());
        serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{arguments:?}: {}{}", run.stdout, run.stderr))
    }

    /// Looks until it is as wanted.
    #[track_caller]
    fn wait(&self, arguments: &[&str], wanted: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let seen = self.json(arguments);
            if wanted(&seen) {
                return seen;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(120),
                "{arguments:?}: waited in vain; the last answer was {seen:#}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until every worker has the config that the pool wants, and it is not `old`.
    fn updated(&self, old: &str) -> String {
        let status = self.wait(&["status", "--pool", "worker"], |status| {
            let pool = &status["pools"][0];
            pool["state"] == "Updated" && pool["target"] != old
        });
        status["pools"][0]["target"].as_str().unwrap().to_owned()
    }

    fn on_node(&self, node: &str, path: &str) -> PathBuf {
        self.folder.path().join("fleet/nodes").join(node).join("root").join(path)
    }

    fn end(&mut self, signal: &str) {
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

#[test]
fn a_change_is_planned_applied_blamed_and_taken_back() {
    let fleet = Fleet::start(&["--nodes", "2"]);
    let first = fleet.updated("");
    // Pods of our own components come a moment after the pools.
    fleet.wait(&["doctor"], |doctor| doctor["findings"].as_array().is_some_and(Vec::is_empty));
    let healthy = fleet.run(&["doctor"]);
    assert_eq!((healthy.code, healthy.stdout.as_str()), (0, "Nothing is wrong: 2 pools and 3 nodes looked at.\n"));
    assert_eq!(fleet.run(&["plan"]).code, 0, "nothing is under way");

    fleet.folder.write("motd.yaml", file("50-worker-motd", "worker", "/etc/motd", "hello").as_bytes());
    let planned = fleet.run(&["plan", "-f", "motd.yaml", "--save", "plan.json"]);
    assert_eq!(planned.code, 3, "{}{}", planned.stdout, planned.stderr);
    let plan = fleet.json(&["plan", "-f", "motd.yaml"]);
    assert_eq!(plan["pools"][0]["waves"], serde_json::json!([["worker-1"], ["worker-2"]]));
    assert_eq!(plan["pools"][0]["nodes"][0]["files"], serde_json::json!(["added /etc/motd"]));
    assert_eq!(plan["pools"][0]["nodes"][0]["disruption"], "reboot");

    let applied = fleet.run(&["apply", "plan.json"]);
    assert_eq!(applied.code, 0, "{}{}", applied.stdout, applied.stderr);
    let refused = fleet.run(&["apply", "plan.json"]);
    assert_eq!(refused.code, 1, "the world is another one now");
    assert!(refused.stderr.contains("MachineConfig 50-worker-motd is new"), "{}", refused.stderr);

    let second = fleet.updated(&first);
    assert_eq!(plan["pools"][0]["to"], *second, "the plan named the config");
    assert_eq!(std::fs::read_to_string(fleet.on_node("worker-2", "etc/motd")).unwrap(), "hello");
    let blamed = fleet.json(&["blame", "worker-1", "/etc/motd"]);
    assert_eq!(blamed["fragment"]["name"], "50-worker-motd");
    assert_eq!(blamed["fragment"]["writtenBy"][0]["manager"], "machinist-apply");
    let compared = fleet.run(&["diff", &first, "node/worker-1"]);
    assert!(
        compared.code == 3 && compared.stdout.contains("added file /etc/motd"),
        "{}{}",
        compared.stdout,
        compared.stderr
    );

    let back = fleet.run(&["rollback", "worker", "--to", &first, "--yes"]);
    assert_eq!(back.code, 0, "{}{}", back.stdout, back.stderr);
    assert!(back.stdout.contains("delete   MachineConfig 50-worker-motd"), "{}", back.stdout);
    assert_eq!(fleet.updated(&second), first, "the same config to the letter");
    assert!(!fleet.on_node("worker-2", "etc/motd").exists());
}

#[test]
fn a_machine_that_is_off_is_named_and_a_drift_is_repaired() {
    let fleet = Fleet::start(&["--nodes", "1"]);
    fleet.folder.write("motd.yaml", file("50-worker-motd", "worker", "/etc/motd", "hello").as_bytes());
    let first = fleet.updated("");
    assert_eq!(fleet.run(&["plan", "-f", "motd.yaml", "--save", "plan.json"]).code, 3);
    assert_eq!(fleet.run(&["apply", "plan.json"]).code, 0);
    fleet.updated(&first);

    std::fs::write(fleet.on_node("worker-1", "etc/motd"), "by hand").unwrap();
    fleet.wait(&["why", "node", "worker-1"], |why| why["state"] == "Degraded");
    fleet.wait(&["doctor"], |doctor| {
        let findings = doctor["findings"].as_array().map(Vec::as_slice).unwrap_or_default();
        matches!(findings, [only] if only["id"] == "content-mismatch")
    });
    assert_eq!(fleet.run(&["doctor", "--fix"]).code, 3, "nobody can be asked here, so nothing is done");
    assert_eq!(fleet.run(&["doctor", "--fix", "--yes"]).code, 0);
    fleet.wait(&["why", "node", "worker-1"], |why| why["state"] == "Updated");
    assert_eq!(std::fs::read_to_string(fleet.on_node("worker-1", "etc/motd")).unwrap(), "hello");

    let switch = fleet.folder.path().join("fleet/nodes/worker-1/off");
    std::fs::write(&switch, "").unwrap();
    let off = fleet.wait(&["why", "node", "worker-1"], |why| why["state"] == "Blocked");
    assert!(off["summary"].as_str().unwrap().contains("NotReady"), "{off:#}");
    std::fs::remove_file(&switch).unwrap();
    fleet.wait(&["why", "node", "worker-1"], |why| why["state"] == "Updated");
}

#[test]
fn a_fleet_survives_the_end_of_its_process_and_refuses_a_second_one() {
    let mut fleet = Fleet::start(&["--nodes", "1", "--control-plane", "0"]);
    let first = fleet.updated("");
    let second = fleet.folder.run(&["up", "--data", "fleet"]);
    assert_eq!(second.code, 1);
    assert!(second.stderr.contains("is running in") && second.stderr.contains("--data"), "{}", second.stderr);

    fleet.end("KILL");
    let folder = std::mem::replace(&mut fleet.folder, Folder::new(&[]));
    let mut fleet = Fleet::try_start(folder, &["--nodes", "1", "--control-plane", "0"]).unwrap();
    assert_eq!(fleet.updated(""), first);
    fleet.end("INT");
}

#[test]
fn what_stands_in_the_way_of_a_fleet_is_said_in_one_sentence() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let folder = Folder::new(&[("file", "")]);
    let run = folder.run(&["up", "--port", &port]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains(&format!("port {port} is in use")) && run.stderr.contains("--port"), "{}", run.stderr);
    let run = folder.run(&["up", "--data", "file/below"]);
    assert!(run.code == 1 && run.stderr.contains("cannot be made") && run.stderr.contains("--data"), "{}", run.stderr);
    let limited = Command::new("sh")
        .current_dir(folder.path())
        .args(["-c", "ulimit -n 150; exec \"$0\" up --nodes 3", env!("CARGO_BIN_EXE_machinist")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&limited.stderr).into_owned();
    assert!(said.contains("open files") && said.contains("ulimit -n"), "{said}");
}

#[test]
fn a_missing_right_is_named_with_the_command_that_grants_it() {
    let fleet = Fleet::start(&["--nodes", "1", "--control-plane", "0"]);
    let text = std::fs::read_to_string(fleet.folder.path().join("fleet/kubeconfig")).unwrap();
    let nobody: Vec<&str> = text.lines().filter(|line| !line.contains("client-")).collect();
    fleet.folder.write("nobody", nobody.join("\n").as_bytes());
    for verb in [
        &["status"][..],
        &["why", "pool", "worker"],
        &["doctor"],
        &["plan"],
        &["rollback", "worker"],
        &["blame", "worker-1", "/x"],
    ] {
        let run = fleet.folder.run(&[verb, &["--kubeconfig", "nobody"]].concat());
        assert_eq!(run.code, 1, "{verb:?}");
        assert!(
            run.stderr.contains("you may not") && run.stderr.contains("kubectl create clusterrole"),
            "{verb:?}: {}",
            run.stderr
        );
    }
    let gone = fleet.folder.run(&["status", "--kubeconfig", "nowhere"]);
    assert!(gone.code == 1 && gone.stderr.contains("nowhere"), "{}", gone.stderr);
}

#[test]
fn many_nodes_live_in_memory() {
    let fleet = Fleet::start(&["--nodes", "300", "--in-memory"]);
    let status = fleet.json(&["status"]);
    assert_eq!(status["nodes"].as_array().unwrap().len(), 301);
    let table = fleet.run(&["status"]).stdout;
    assert!(table.contains("worker  Updated  300/300") && table.contains("301 of 301 updated"), "{table}");
}
