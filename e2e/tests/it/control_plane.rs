//! Installs our kinds on the test control plane, which every other suite relies on.

use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use kube::api::{Api, ListParams, PostParams};
use testkit::{Kind, control_plane};

#[tokio::test]
async fn our_kinds_are_accepted_by_a_real_server() {
    let Some(control_plane) = control_plane(Kind::Real).await else { return };
    control_plane.install().await;
    let client = control_plane.client().await;
    let pools: Api<MachineConfigPool> = Api::all(client.clone());
    pools.create(&PostParams::default(), &testkit::objects::pool("infra")).await.unwrap();
    let configs: Api<MachineConfig> = Api::all(client);
    let fragment = testkit::objects::file_config("50-motd", "infra", "/etc/motd", "hello");
    configs.create(&PostParams::default(), &fragment).await.unwrap();
    let as_node: Api<MachineConfig> = Api::all(control_plane.node_client("one").await);
    as_node.get("50-motd").await.unwrap();
    assert!(as_node.list(&ListParams::default()).await.is_err(), "a node reads MachineConfigs by name only");
}
