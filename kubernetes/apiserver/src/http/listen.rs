//! Connections: TLS, the certificate the peer shows, and HTTP/1.1 or HTTP/2 on top.

use std::{pin::Pin, sync::Arc, time::Duration};

use hyper::{
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::TlsAcceptor;

use super::patience::{Patient, Socket, Streams};
use crate::{
    auth::{Peer, certificates},
    http,
    server::{Api, stopped},
};

/// A peer that does not finish the handshake does not keep a task.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// An HTTP/1.1 connection without a request is closed after this. Clients drop theirs after 90 seconds; being later means
/// that no request meets a closing door.
const IDLE: Duration = Duration::from_secs(95);
/// What a connection or a stream holds back before its answer has to wait.
const UNSENT: usize = 64 * 1024;

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
    tune(&stream);
    let patience = api.patience;
    let pulse = Arc::default();
    let socket = Socket::new(stream, patience, Arc::clone(&pulse));
    // Boxed, so that nothing of the handshake is kept for as long as the connection lasts.
    let handshake = Box::pin(tokio::time::timeout(HANDSHAKE, acceptor.accept(socket)));
    let Ok(Ok(stream)) = handshake.await else { return };
    let session = stream.get_ref().1;
    let two = session.alpn_protocol() == Some(b"h2");
    let certificate = session.peer_certificates().and_then(|chain| chain.first());
    let peer = Arc::new(Peer { certificate: certificate.and_then(certificates::user) });
    let stopping = api.stopping.clone();
    let service = service_fn(move |request| {
        let (api, peer) = (Arc::clone(&api), Arc::clone(&peer));
        // Boxed, so that a connection has room for a request only while there is one, and a watch none for its start.
        let answer = Box::pin(http::serve(api, peer, request));
        async move { Ok::<_, std::convert::Infallible>(answer.await) }
    });
    let stream = TokioIo::new(stream);
    if two {
        let mut builder = http2::Builder::new(Streams(patience));
        builder.timer(TokioTimer::new()).max_concurrent_streams(1000).max_send_buf_size(UNSENT);
        let connection = Box::pin(builder.serve_connection(stream, service));
        serve(connection, stopping, http2::Connection::graceful_shutdown).await;
    } else {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(IDLE).max_buf_size(UNSENT);
        let connection = Box::pin(builder.serve_connection(stream, service).with_upgrades());
        let serving = serve(connection, stopping, http1::UpgradeableConnection::graceful_shutdown);
        Patient::new(std::pin::pin!(serving), patience, pulse).await;
    }
}

/// Runs a connection until it ends or the server does.
async fn serve<C: Future>(
    mut connection: Pin<Box<C>>,
    mut stopping: watch::Receiver<bool>,
    shut_down: impl FnOnce(Pin<&mut C>),
) {
    tokio::select! {
        _ = connection.as_mut() => {}
        () = stopped(&mut stopping) => {
            shut_down(connection.as_mut());
            let _ = tokio::time::timeout(Duration::from_secs(1), connection).await;
        }
    }
}

/// Answers go out at once, and a peer that vanished without a word is noticed in a few minutes.
fn tune(stream: &TcpStream) {
    use rustix::net::sockopt;
    let _ = stream.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, Duration::from_secs(60));
    let _ = sockopt::set_tcp_keepintvl(stream, Duration::from_secs(20));
    let _ = sockopt::set_tcp_keepcnt(stream, 5);
}

/// Every connection is an open file. The usual soft limit is for programs that cannot have more than a thousand; the hard
/// one is what the administrator means.
pub(crate) fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(error = &error as &dyn std::error::Error, "cannot raise the limit of open files");
    }
}
