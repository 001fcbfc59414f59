//! Fleets of v0.1.0, kept as `machinist up --data` left them on disk, in the hands of today's program.
//!
//! Each archive has three workers, one of them in a pool `infra`: at rest; killed while worker-3 wrote a file; and killed while
//! worker-3 tried its new config and worker-1 was about to reboot. They were made by the commit 772f72f.

use std::process::Command;

use api::machineconfiguration::MachineConfig;
use kube::Api;
use kube::api::PostParams;
use serde_json::Value;
use testkit::objects::file_config;

use crate::Folder;
use crate::fleet::Fleet;

#[tokio::test]
async fn a_fleet_of_v0_1_0_moves_no_node_and_takes_the_next_change() {
    let before = [
        "infra-cdd02de7746b06e46ad980aa17e54725",
        "master-07f181981064d7f7e3e4c2e6bc00a401",
        "worker-e02d0b9bad1a4775521aa61c64ef97d9",
    ];
    let fleet = fleet("settled");
    let status = fleet.wait(&["status"], is_settled);
    assert_eq!(targets(&status), before.map(|name| format!("rendered-{name}")));
    // One change later every decision about the old objects has been made.
    let configs: Api<MachineConfig> = Api::all(fleet.client().await);
    configs.create(&PostParams::default(), &file_config("70-infra-next", "infra", "/etc/next", "next")).await.unwrap();
    let status =
        fleet.wait(&["status"], |status| targets(status)[0] != format!("rendered-{}", before[0]) && is_settled(status));
    assert_eq!(targets(&status)[1..], before.map(|name| format!("rendered-{name}"))[1..]);
    assert_eq!(std::fs::read_to_string(fleet.on_node("worker-3", "etc/next")).unwrap(), "next");
    let others: Vec<String> = fleet.disturbances().into_iter().filter(|line| !line.contains("worker-3")).collect();
    assert!(others.is_empty(), "only the node of pool infra has moved: {others:#?}");
}

#[test]
fn an_update_that_v0_1_0_had_begun_is_finished() {
    for stopped in ["applying", "trying"] {
        let fleet = fleet(stopped);
        fleet.wait(&["status"], is_settled);
        for worker in ["worker-1", "worker-2", "worker-3"] {
            assert_eq!(
                std::fs::read_to_string(fleet.on_node(worker, "etc/motd")).unwrap(),
                "Half way\n",
                "{stopped}, {worker}"
            );
        }
    }
}

fn fleet(archive: &str) -> Fleet {
    let folder = Folder::new(&[]);
    let path = format!("{}/tests/fixtures/v0.1.0/{archive}.tgz", env!("CARGO_MANIFEST_DIR"));
    let mut unpack = Command::new("tar");
    assert!(unpack.args(["-xzf", &path]).current_dir(folder.path()).status().unwrap().success());
    Fleet::try_start(folder, &["--nodes", "3"]).unwrap_or_else(|said| panic!("{archive}: {said}"))
}

fn is_settled(status: &Value) -> bool {
    let are = |kind: &str, state: &str| status[kind].as_array().unwrap().iter().all(|it| it["state"] == state);
    are("pools", "Updated") && are("nodes", "Updated")
}

/// What each pool wants, by the name of the pool.
fn targets(status: &Value) -> Vec<String> {
    let pools = status["pools"].as_array().unwrap().iter();
    pools.map(|pool| pool["target"].as_str().unwrap_or_default().to_owned()).collect()
}
