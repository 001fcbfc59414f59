//! What the loop tells: the words that runbooks look for, written until they have arrived.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::annotations;
use api::machineconfiguration::{MachineConfig, MachineConfigNode};
use kube::api::Api;
use serde_json::json;
use testkit::wait_for;
use tokio::sync::watch;

use crate::configs::config;
use crate::stage::{NODE, Stage};

const WITNESS: &str = "127.0.0.1:1";

fn one() -> MachineConfig {
    config("rendered-worker-one", &[("/etc/a", "1")], &json!([]), &json!([]))
}

/// Everything that is logged on this thread from now on.
#[derive(Clone)]
struct Log(watch::Sender<Vec<u8>>);

impl Log {
    fn start(&self) -> (tracing::subscriber::DefaultGuard, tracing::Dispatch) {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || log.clone()).finish();
        // While there is only one subscriber, a line that another test's thread reaches first is switched off for all.
        let second = tracing::Dispatch::new(tracing_subscriber::registry());
        (tracing::subscriber::set_default(subscriber), second)
    }

    async fn contains(&self, line: &str) {
        let mut text = self.0.subscribe();
        let found = text.wait_for(|text| String::from_utf8_lossy(text).contains(line));
        let found = tokio::time::timeout(Duration::from_secs(30), found).await.is_ok();
        assert!(found, "{line:?} is not in\n{}", String::from_utf8_lossy(&self.0.borrow()));
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.send_modify(|text| text.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_file_changed_by_hand_is_told_in_the_words_of_the_runbook_until_it_is_written_back() {
    let log = Log(watch::channel(Vec::new()).0);
    let _guard = log.start();
    let stage = Stage::start(&one()).await;
    let daemon = stage.run(WITNESS, Arc::new(|_| false));
    stage.node("the daemon to report", |get| !get(annotations::DAEMON).is_empty()).await;
    let file = stage.root().join("etc/a");
    std::fs::write(&file, "by hand").unwrap();
    let words = "unexpected on-disk state validating against rendered-worker-one: content mismatch for file \"/etc/a\"";
    stage
        .node("the node to be degraded", |get| {
            get(annotations::STATE) == "Degraded" && get(annotations::REASON) == words
        })
        .await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "by hand", "the file is left alone");
    std::fs::write(&file, "1").unwrap();
    stage
        .node("the node to be done", |get| get(annotations::STATE) == "Done" && get(annotations::REASON).is_empty())
        .await;
    log.contains("Transitioned from state: Done -> Degraded").await;
    log.contains("Transitioned from state: Degraded -> Done").await;
    log.contains(&format!("Transitioned from degraded/unreconcilable reason {words} -> ")).await;
    daemon.abort();
}

#[tokio::test]
async fn a_node_has_the_annotations_of_the_drain_protocol_before_its_first_drain() {
    let stage = Stage::start(&one()).await;
    let daemon = stage.run(WITNESS, Arc::new(|_| false));
    let released = "uncordon-rendered-worker-one";
    stage
        .node("both annotations", |get| {
            // A request that is not answered would make the drain controller act.
            assert_eq!(get(annotations::DESIRED_DRAIN), get(annotations::LAST_APPLIED_DRAIN));
            get(annotations::DESIRED_DRAIN) == released && !get(annotations::DAEMON).is_empty()
        })
        .await;
    daemon.abort();
}

#[tokio::test]
async fn a_node_says_how_its_host_updates_its_operating_system() {
    let stage = Stage::start(&one()).await;
    let daemon = stage.run(WITNESS, Arc::new(|_| false));
    stage.node("the word", |get| get(annotations::OS_UPDATES) == "rpm-ostree").await;
    daemon.abort();
}

#[tokio::test]
async fn conditions_that_did_not_arrive_are_written_again_although_nothing_else_happens() {
    let stage = Stage::start(&one()).await;
    let is_mended = Arc::new(AtomicBool::new(false));
    let mended = Arc::clone(&is_mended);
    let daemon = stage.run(
        WITNESS,
        Arc::new(move |request| request.uri().path().contains("machineconfignodes") && !mended.load(Ordering::SeqCst)),
    );
    stage
        .node("the node to be done", |get| {
            get(annotations::STATE) == "Done"
                && !get(annotations::DAEMON).is_empty()
                && !get(annotations::DESIRED_DRAIN).is_empty()
        })
        .await;
    stage.loses(1).await;
    is_mended.store(true, Ordering::SeqCst);
    let nodes: Api<MachineConfigNode> = Api::all(stage.client.clone());
    wait_for(&nodes, NODE, "the condition Updated", |node| {
        let status = node.and_then(|node| node.status.as_ref());
        status.is_some_and(|status| {
            status.conditions.iter().any(|condition| condition.type_ == "Updated" && condition.status == "True")
        })
    })
    .await;
    daemon.abort();
}

#[tokio::test]
async fn a_change_of_disks_is_taken_where_the_cluster_overrides_its_refusal() {
    let mut two = config("rendered-worker-two", &[("/etc/a", "1")], &json!([]), &json!([]));
    two.spec.config.as_mut().unwrap()["storage"]["disks"] = json!([{"device": "/dev/vdb", "wipeTable": true}]);
    let stage = Stage::start(&one()).await;
    stage.create(&two).await;
    let daemon = stage.run(WITNESS, Arc::new(|_| false));
    stage.ask_for("rendered-worker-two").await;
    let node = stage.node("the node to refuse", |get| get(annotations::STATE) == "Unreconcilable").await;
    let reason = &node.metadata.annotations.unwrap()[annotations::REASON];
    assert!(reason.contains("ignition disks section contains changes"), "{reason}");
    stage.configure(json!({"irreconcilableValidationOverrides": {"storage": ["Disks"]}})).await;
    stage
        .node("the node to take it", |get| {
            get(annotations::CURRENT_CONFIG) == "rendered-worker-two" && get(annotations::STATE) == "Done"
        })
        .await;
    daemon.abort();
}
