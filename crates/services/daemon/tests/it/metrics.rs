//! Metrics beyond the loopback: TLS, a token that the API knows, and the right to read them.

use std::net::SocketAddr;
use std::sync::Arc;

use daemon::metrics::{Door, Guard, Identity, Metrics, serve};
use host::memory::Memory;
use testkit::{ControlPlane, Kind, control_plane, metrics};
use tokio::net::TcpListener;

/// Serves as the daemon of node `n1` does, on an address of its own.
async fn start(control_plane: Option<&ControlPlane>) -> SocketAddr {
    let guard = Arc::new(Guard::default());
    if let Some(control_plane) = control_plane {
        guard.ask_with(control_plane.node_client("n1").await);
    }
    let door = Door::Guarded { guard, identity: Arc::new(Identity::of("n1")), host: Arc::new(Memory::new()) };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, Metrics::default(), "127.0.0.1:1".to_owned(), door));
    address
}

#[tokio::test]
async fn metrics_are_for_those_whom_the_cluster_lets_read_them() {
    let control_plane = control_plane(Kind::Embedded).await.expect("the embedded API needs nothing");
    let address = start(Some(&control_plane)).await;
    metrics::are_for_those_whom_the_cluster_lets_read_them(&control_plane, address).await;
}

#[tokio::test]
async fn nobody_is_let_in_while_the_cluster_cannot_be_asked() {
    let (status, _) = metrics::ask(start(None).await, Some("a token")).await;
    assert_eq!(status, 503);
}
