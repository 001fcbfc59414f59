//! Metrics of a daemon that asks a real API server, with a real kubelet's credential, who may read them.

use std::sync::Arc;

use daemon::metrics::{Door, Guard, Identity, Metrics, serve};
use host::memory::Memory;
use testkit::{Kind, control_plane, metrics};
use tokio::net::TcpListener;

#[tokio::test]
async fn a_kubelets_credential_is_enough_to_check_who_reads_metrics() {
    let Some(control_plane) = control_plane(Kind::Real).await else { return };
    let guard = Arc::new(Guard::default());
    guard.ask_with(control_plane.node_client("n1").await);
    let door = Door::Guarded { guard, identity: Arc::new(Identity::of("n1")), host: Arc::new(Memory::new()) };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, Metrics::default(), "127.0.0.1:1".to_owned(), door));
    metrics::are_for_those_whom_the_cluster_lets_read_them(&control_plane, address).await;
}
