//! Accepts connections: always with TLS, and in plain HTTP only on request. Connections, headers and time are bounded.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::answer::Answerer;
use crate::body::Bodies;
use crate::daemon::Daemon;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::places::{Counted, MOVING, Place, Places, Visit};
use crate::source::Source;
use crate::tls;

/// Machines that connect at the same moment wait in the kernel's backlog, which costs this process nothing.
const BACKLOG: u32 = 4096;

/// Connections that are served at once. Each holds some tens of kilobytes of TLS state; further ones wait.
const CONNECTIONS: usize = 224;

/// Accepted connections that wait for a place or have not sent anything yet. They need almost no memory.
const LOBBY: usize = 1024;

/// Limit of TLS's send buffer per connection: one record. The response body itself is shared by all connections, so a
/// client that stops reading costs little.
const UNSENT: usize = 16 * 1024;

/// A machine sends its few hundred bytes at once, so a client that needs longer than this is not a machine.
const HEADER_TIME: Duration = Duration::from_secs(5);

/// Maximum age of a connection. After that, the current response is completed and the connection is closed.
const VISIT: Duration = Duration::from_secs(60);

/// Even the slowest management network transfers a config in this time.
const LAST_ANSWER: Duration = Duration::from_secs(30);

/// How often this time is extended for a client that is still downloading: the daemon's binary takes long on slow
/// links.
const EXTENSIONS: usize = 20;

/// Response for clients that send too slowly.
const LATE: &str = "HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: 58\r\n\r\nthe request did not arrive in time; send its head at once\n";

/// How long, and how many bytes, are still read from a client that was refused.
const LAST_WORDS: Duration = Duration::from_secs(1);
const LAST_WORDS_BYTES: u64 = 16 * 1024 * 1024;

/// Far more than Ignition sends.
const HEADER_BYTES: usize = 8 * 1024;

pub struct Settings {
    /// The address of the TLS port.
    pub secure: SocketAddr,
    /// The address of the plain HTTP port, if there is one.
    pub insecure: Option<SocketAddr>,
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The daemon's binary, for machines whose image lacks it.
    pub daemon: Option<Daemon>,
    /// The address of this server as machines see it, `host` or `host:port`. Without it, machines are not told to
    /// download the binary.
    pub host: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on {address}: {source}")]
    Bind { address: SocketAddr, source: std::io::Error },
    #[error(transparent)]
    Certificate(#[from] tls::Error),
    #[error(transparent)]
    Host(#[from] serving::daemon::Error),
}

/// A server that is bound but does not serve yet, so that the caller can learn its ports first.
pub struct Listener {
    secure: TcpListener,
    insecure: Option<TcpListener>,
    acceptor: TlsAcceptor,
    answerer: Arc<Answerer>,
}

impl Listener {
    pub fn bind(settings: Settings, source: Source) -> Result<Self, Error> {
        let secure = bind(settings.secure)?;
        Self::on(secure, settings, source)
    }

    /// Uses a port that was bound before the certificate existed. Connections wait in its backlog meanwhile.
    pub fn on(secure: TcpListener, settings: Settings, source: Source) -> Result<Self, Error> {
        let insecure = settings.insecure.map(bind).transpose()?;
        let port = secure.local_addr().map_or(settings.secure.port(), |address| address.port());
        let host = settings.host.as_deref().map(|host| serving::daemon::authority(host, port)).transpose()?;
        let fetched = settings.daemon.as_ref().zip(host);
        let fetched = fetched.map(|(daemon, host)| serving::daemon::Fetched {
            source: serving::daemon::source(&host, daemon.sha256()),
            verification: daemon.verification(),
        });
        let acceptor = TlsAcceptor::from(Arc::new(tls::config(&settings.certificate, &settings.key)?));
        let answerer = Answerer {
            source,
            bodies: Bodies::new(fetched),
            daemon: settings.daemon,
            limits: Limits::default(),
            reports: Limits::default(),
            metrics: Metrics::new(),
        };
        Ok(Self { secure, insecure, acceptor, answerer: Arc::new(answerer) })
    }

    /// The address of the TLS port.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.secure.local_addr()
    }

    /// The address of the plain HTTP port, if there is one.
    pub fn insecure_address(&self) -> Option<SocketAddr> {
        self.insecure.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Serves until it is dropped.
    pub async fn run(self) {
        let house = Arc::new(House {
            lobby: Places::new(LOBBY),
            places: Places::new(CONNECTIONS),
            answerer: Arc::clone(&self.answerer),
        });
        let plain = async {
            match &self.insecure {
                None => std::future::pending().await,
                Some(listener) => accept(listener, None, &house).await,
            }
        };
        tokio::join!(accept(&self.secure, Some(&self.acceptor), &house), plain);
    }
}

/// Holds all connections: in `lobby` until their first byte, and in `places` while they are served.
struct House {
    lobby: Arc<Places>,
    places: Arc<Places>,
    answerer: Arc<Answerer>,
}

fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().map_err(|source| Error::Bind { address, source })
}

async fn accept(listener: &TcpListener, acceptor: Option<&TlsAcceptor>, house: &Arc<House>) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Most likely the process is out of file descriptors; open connections will end.
                tracing::warn!(error = &error as &dyn std::error::Error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        // One connection waits here for room in the lobby; all others wait in the kernel's backlog.
        let Some(seat) = house.lobby.take().await else { return };
        let (acceptor, house) = (acceptor.cloned(), Arc::clone(house));
        tokio::spawn(async move {
            let Some(place) = wait(&stream, seat, &house.places).await else { return };
            house.answerer.metrics.connections.inc();
            // The future that serves a connection is large, so it is allocated only now.
            let visit = Box::pin(visit(stream, peer, acceptor, &house.answerer, &place));
            tokio::select! {
                () = visit => {}
                () = place.visit.over() => tracing::debug!(%peer, "a stalled connection was closed to make room"),
            }
            house.answerer.metrics.connections.dec();
            drop(place);
        });
    }
}

/// Waits in the lobby for the first byte and then for a place. Returns `None` if the client sends nothing.
async fn wait(stream: &TcpStream, seat: Place, places: &Arc<Places>) -> Option<Place> {
    tokio::select! {
        spoken = timeout(HEADER_TIME, stream.readable()) => spoken.ok()?.ok()?,
        () = seat.visit.over() => return None,
    }
    seat.visit.answering(places.take()).await
}

async fn visit(
    stream: TcpStream,
    peer: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    answerer: &Arc<Answerer>,
    place: &Place,
) {
    let _ = stream.set_nodelay(true);
    let stream = Counted::wire(stream, &place.visit);
    match acceptor {
        None => serve(stream, peer, answerer, place).await,
        Some(acceptor) => {
            if let Ok(Ok(mut stream)) = timeout(HEADER_TIME, acceptor.accept(stream)).await {
                stream.get_mut().1.set_buffer_limit(Some(UNSENT));
                serve(stream, peer, answerer, place).await;
            }
        }
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, peer: SocketAddr, answerer: &Arc<Answerer>, place: &Place) {
    let mut stream = Counted::words(stream, &place.visit);
    let Err(error) = converse(&mut stream, peer, answerer, place).await else { return };
    tracing::debug!(%peer, error = &error as &dyn std::error::Error, "a connection ended early");
    // Closing a socket with unread input resets the connection, and the client may lose the response. So remaining
    // input is read for a moment.
    let is_late = error.is_timeout() && place.visit.is_in_midsentence();
    let _ = timeout(LAST_WORDS, async {
        if is_late {
            stream.write_all(LATE.as_bytes()).await?;
        }
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(LAST_WORDS_BYTES), &mut tokio::io::sink()).await
    })
    .await;
}

async fn converse(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    peer: SocketAddr,
    answerer: &Arc<Answerer>,
    place: &Place,
) -> hyper::Result<()> {
    let service = service_fn(|request| {
        let answerer = answerer.clone();
        let visit = place.visit.clone();
        async move {
            let answer = answerer.answer(request, peer.ip().to_canonical());
            Ok::<_, Infallible>(visit.answering(answer).await)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    match timeout(VISIT, connection.as_mut()).await {
        Ok(ended) => ended,
        Err(_) => {
            connection.as_mut().graceful_shutdown();
            last_answer(connection, &place.visit).await
        }
    }
}

/// Waits for a connection to end, as long as it transfers data.
async fn last_answer<E>(mut connection: impl Future<Output = Result<(), E>> + Unpin, visit: &Visit) -> Result<(), E> {
    for _ in 0..EXTENSIONS {
        let before = visit.moved();
        match timeout(LAST_ANSWER, &mut connection).await {
            Ok(ended) => return ended,
            Err(_) if visit.moved() - before < MOVING => break,
            Err(_) => {}
        }
    }
    Ok(())
}
