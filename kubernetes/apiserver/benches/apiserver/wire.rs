//! The lightest client that is still a real one: TLS 1.3, a bearer token, and either HTTP/1.1 with a connection for each
//! watch, as kube-rs and so our daemon has it, or HTTP/2 with all watches on one connection, as client-go has it.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{net::TcpStream, sync::watch};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::process::TOKEN;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Protocol {
    One,
    Two,
}

impl Protocol {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::One => "HTTP/1.1",
            Self::Two => "HTTP/2",
        }
    }
}

#[derive(Clone)]
pub(crate) struct Wire {
    one: TlsConnector,
    two: TlsConnector,
    server: String,
}

impl Wire {
    pub(crate) fn new(folder: &std::path::Path, server: &str) -> Self {
        let connector = |protocol: &str| {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_file(folder.join("ca.crt")).unwrap()).unwrap();
            let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
            config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
            TlsConnector::from(Arc::new(config))
        };
        Self { one: connector("http/1.1"), two: connector("h2"), server: server.to_owned() }
    }

    pub(crate) async fn tls(&self, protocol: Protocol) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.server.trim_start_matches("https://")).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let connector = if protocol == Protocol::One { &self.one } else { &self.two };
        connector.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await.unwrap()
    }

    pub(crate) async fn connect(&self, protocol: Protocol) -> Connection {
        let stream = TokioIo::new(self.tls(protocol).await);
        let server = self.server.clone();
        match protocol {
            Protocol::One => {
                let (sender, connection) = http1::handshake(stream).await.unwrap();
                tokio::spawn(connection);
                Connection { sender: Sender::One(sender), server }
            }
            Protocol::Two => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
                tokio::spawn(connection);
                Connection { sender: Sender::Two(sender), server }
            }
        }
    }
}

enum Sender {
    One(http1::SendRequest<Empty<Bytes>>),
    Two(http2::SendRequest<Empty<Bytes>>),
}

pub(crate) struct Connection {
    sender: Sender,
    server: String,
}

impl Connection {
    pub(crate) async fn get(&mut self, path: &str) -> Incoming {
        // HTTP/2 names the server in the address, HTTP/1.1 in a header.
        let request =
            http::Request::get(format!("{}{path}", self.server)).header("authorization", format!("Bearer {TOKEN}"));
        let response = match &mut self.sender {
            Sender::One(sender) => {
                sender.ready().await.unwrap();
                let request = request.uri(path).header("host", "127.0.0.1");
                sender.send_request(request.body(Empty::new()).unwrap()).await.unwrap()
            }
            Sender::Two(sender) => {
                sender.ready().await.unwrap();
                sender.send_request(request.body(Empty::new()).unwrap()).await.unwrap()
            }
        };
        assert!(response.status().is_success(), "{} of {path}", response.status());
        response.into_body()
    }

    /// Lists and then watches from there, as informers do; returns the open watch.
    pub(crate) async fn list_and_watch(&mut self, path: &str, name: &str) -> Incoming {
        let selector = format!("fieldSelector=metadata.name%3D{name}");
        let list = self.get(&format!("{path}?{selector}&limit=500")).await.collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&list);
        assert!(text.contains(&format!("\"name\":\"{name}\"")), "{name} is listed");
        let version = text.split_once("\"metadata\":{\"resourceVersion\":\"").unwrap().1.split('"').next().unwrap();
        self.get(&format!(
            "{path}?watch=true&{selector}&allowWatchBookmarks=true&timeoutSeconds=290&resourceVersion={version}"
        ))
        .await
    }

    /// Another handle to the same HTTP/2 connection, which stays open as long as there is one.
    pub(crate) fn again(&self) -> Self {
        let Sender::Two(sender) = &self.sender else { panic!("an HTTP/1.1 connection does one thing at a time") };
        Self { sender: Sender::Two(sender.clone()), server: self.server.clone() }
    }
}

/// Marks when a change was sent, in microseconds since the start.
pub(crate) const STAMP: &str = "bench/at";

/// What all watchers together have seen.
pub(crate) struct Seen {
    start: Instant,
    delays: Mutex<Vec<Duration>>,
    count: watch::Sender<usize>,
}

impl Seen {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { start: Instant::now(), delays: Mutex::default(), count: watch::Sender::new(0) })
    }

    /// What the writer says: now.
    pub(crate) fn stamp(&self) -> String {
        self.start.elapsed().as_micros().to_string()
    }

    fn event(&self, line: &[u8]) {
        const KEY: &[u8] = b"\"bench/at\":\"";
        // The stamp is among the annotations, which come early.
        let head = &line[..line.len().min(2000)];
        let Some(at) = head.windows(KEY.len()).position(|window| window == KEY) else { return };
        let digits = &line[at + KEY.len()..];
        let digits = &digits[..digits.iter().position(|byte| *byte == b'"').unwrap()];
        let sent = std::str::from_utf8(digits).unwrap().parse().unwrap();
        self.delays.lock().unwrap().push(self.start.elapsed().saturating_sub(Duration::from_micros(sent)));
        self.count.send_modify(|count| *count += 1);
    }

    pub(crate) async fn wait(&self, wanted: usize) {
        let mut count = self.count.subscribe();
        let all = count.wait_for(|count| *count >= wanted);
        tokio::time::timeout(Duration::from_secs(60), all).await.expect("every event arrives").unwrap();
    }

    /// The delays so far, shortest first; the next phase begins with none.
    pub(crate) fn take(&self) -> Delays {
        let mut delays = std::mem::take(&mut *self.delays.lock().unwrap());
        self.count.send_replace(0);
        delays.sort();
        Delays(delays)
    }
}

pub(crate) struct Delays(pub(crate) Vec<Duration>);

impl Delays {
    /// Milliseconds within which this part of all, in percent, came.
    pub(crate) fn within(&self, percent: f64) -> f64 {
        let at = (self.0.len() as f64 * percent / 100.0).ceil() as usize;
        self.0[at.clamp(1, self.0.len()) - 1].as_secs_f64() * 1e3
    }
}

/// Reads a watch to its end; the connection stays open until then.
pub(crate) fn follow(mut body: Incoming, connection: Connection, seen: &Arc<Seen>) -> tokio::task::JoinHandle<()> {
    let seen = Arc::clone(seen);
    tokio::spawn(async move {
        let _keep_open = connection;
        // Frames end where they like; events end with their line.
        let mut unread: Vec<u8> = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            let Some(data) = frame.data_ref() else { continue };
            let mut rest = &data[..];
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                if unread.is_empty() {
                    seen.event(&rest[..end]);
                } else {
                    unread.extend_from_slice(&rest[..end]);
                    seen.event(&unread);
                    unread = Vec::new();
                }
                rest = &rest[end + 1..];
            }
            unread.extend_from_slice(rest);
        }
    })
}
