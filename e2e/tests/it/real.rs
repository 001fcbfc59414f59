//! Stories on a cluster with real kubelets: the release as users install it, pods that run, nodes that drain and reboot.
//!
//! A cluster takes ten seconds to boot and Machinist as long to install, so stories that can follow one another share one:
//! each leaves the cluster settled for the next.

mod away;
mod confined;
mod control_planes;
mod draining;
mod installing;
mod registry;
mod rolling_out;
mod runbooks;
mod stage;
mod typed;
mod uninstalling;
mod web;

use stage::Stage;
use testkit::real_cluster::Options;

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_on_real_kubelets_rolls_out_drains_and_goes_without_a_trace() {
    let Some(stage) = Stage::boot(Options::default()).await else { return };
    let before = uninstalling::everything(&stage).await;
    installing::the_release_becomes_ready_pods(&stage).await;
    confined::every_pod_but_the_daemons_and_the_servers_is_restricted(&stage);
    rolling_out::a_first_file_takes_one_worker_after_the_other(&stage).await;
    rolling_out::workers_reboot_one_after_the_other_and_a_service_keeps_answering(&stage).await;
    draining::a_drain_that_a_budget_holds_is_told_within_seconds(&stage).await;
    uninstalling::nothing_is_left_but_what_the_user_made(&stage, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_only_control_plane_node_takes_a_config_and_its_controller_comes_back() {
    let Some(stage) = Stage::boot(Options::default()).await else { return };
    installing::the_release_becomes_ready_pods(&stage).await;
    control_planes::the_only_node_reboots_and_the_controller_is_back(&stage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_whose_control_plane_is_managed_runs_everything_on_its_workers() {
    let Some(stage) = Stage::boot(Options { control_plane_nodes: 0, ..Options::default() }).await else { return };
    runbooks::plain_kubernetes_and_own_images(&stage).await;
    control_planes::everything_runs_on_workers(&stage).await;
}
