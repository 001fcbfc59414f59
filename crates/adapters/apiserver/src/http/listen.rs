//! Connections: TLS, the certificate the peer shows, and HTTP/1.1 or HTTP/2 on top.

use std::{sync::Arc, time::Duration};

use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::{
    auth::{Peer, certificates},
    http,
    server::{Api, stopped},
};

/// A peer that does not finish the handshake does not keep a task.
const HANDSHAKE: Duration = Duration::from_secs(10);

pub(crate) async fn run(api: Arc<Api>, listener: TcpListener, tls: Arc<ServerConfig>) {
    let acceptor = TlsAcceptor::from(tls);
    let mut stopping = api.stopping.clone();
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(Arc::clone(&api), acceptor.clone(), stream));
                }
                Err(error) => {
                    // Out of file descriptors, most often: wait for connections to end.
                    tracing::warn!(error = &error as &dyn std::error::Error, "accept failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = stopped(&mut stopping) => break,
        }
    }
    while connections.join_next().await.is_some() {}
}

async fn connection(api: Arc<Api>, acceptor: TlsAcceptor, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await else { return };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let peer = Arc::new(Peer { certificate: certificate.and_then(certificates::user) });
    let mut stopping = api.stopping.clone();
    let service = service_fn(move |request| {
        let (api, peer) = (Arc::clone(&api), Arc::clone(&peer));
        async move { Ok::<_, std::convert::Infallible>(http::serve(api, peer, request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1000);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => {}
        () = stopped(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(Duration::from_secs(1), connection).await;
        }
    }
}
