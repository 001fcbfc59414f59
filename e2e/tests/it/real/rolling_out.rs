//! Configs on their way to real nodes.

use std::collections::BTreeSet;

use testkit::objects::file_config;

use super::away::Account;
use super::stage::{NAMESPACE, Stage};
use super::web;

const WORKERS: [&str; 2] = ["worker-1", "worker-2"];

/// Nodes that never had a config are not free for the taking: they serve as others do.
pub(super) async fn a_first_file_takes_one_worker_after_the_other(stage: &Stage) {
    let account = Account::open(&stage.client).await;
    let old = stage.running("worker").await;
    stage.write(&file_config("50-first", "worker", "/etc/first", "first\n")).await;
    stage.updated("worker", &old, 2).await;
    have(stage, "/etc/first", "first\n");
    // Runbook R9, with nothing in the pod but our own programs.
    let pods = ["get", "pods", "-n", NAMESPACE, "-l", "k8s-app=machine-config-daemon", "-o", "name"];
    let pods = stage.cluster.kubectl(&[&pods[..], &["--field-selector", "spec.nodeName=worker-1"]].concat());
    let exec = ["exec", "-n", NAMESPACE, pods.trim(), "--", "chroot", "/rootfs", "cat", "/etc/first"];
    assert_eq!(stage.cluster.kubectl(&exec), "first\n");
    one_after_the_other(&account);
}

pub(super) async fn workers_reboot_one_after_the_other_and_a_service_keeps_answering(stage: &Stage) {
    let old = stage.running("worker").await;
    let boots = WORKERS.map(|name| stage.cluster.node(name).boots());
    let address = web::deploy(stage).await;
    let account = Account::open(&stage.client).await;
    let client = web::Client::start(stage, "control-1", address);
    stage.write(&file_config("60-second", "worker", "/etc/second", "second\n")).await;
    stage.updated("worker", &old, 2).await;
    let counted = client.stop();

    have(stage, "/etc/second", "second\n");
    one_after_the_other(&account);
    for (name, before) in WORKERS.into_iter().zip(boots) {
        assert_eq!(stage.cluster.node(name).boots(), before + 1, "{name} has rebooted once");
    }
    println!("real: {} requests answered, {} failed", counted.answered, counted.failures.len());
    for (name, time) in &account.seen().absences {
        println!("real: {name} was away for {:.1} s", time.as_secs_f64());
    }
    assert!(counted.answered > 100, "{counted:?}");
    assert!(counted.failures.is_empty(), "{counted:?}");
}

/// Each worker was away and rebooted meanwhile, and never two nodes at once.
#[track_caller]
fn one_after_the_other(account: &Account) {
    let seen = account.seen();
    assert_eq!(seen.most_away.len(), 1, "away together: {:?}; {seen:?}", seen.most_away);
    assert!(seen.rebooted_while_open.is_empty(), "{seen:?}");
    let rebooted: BTreeSet<&str> = seen.rebooted.iter().map(String::as_str).collect();
    assert_eq!(rebooted, BTreeSet::from(WORKERS), "{seen:?}");
    let back: BTreeSet<&str> = seen.absences.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(back, BTreeSet::from(WORKERS), "{seen:?}");
}

/// The file is on every worker, and on no other node.
#[track_caller]
fn have(stage: &Stage, path: &str, content: &str) {
    for node in stage.cluster.nodes() {
        let expected = WORKERS.contains(&node.name()).then(|| content.to_owned());
        assert_eq!(node.read(path), expected, "{path} of {}", node.name());
    }
}
