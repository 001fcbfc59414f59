//! Serves `/metrics` and `/healthz` by a few lines of HTTP: nothing larger is worth its memory here.
//!
//! On the loopback as plain HTTP for everybody on the host. On any other address by TLS, and only to those whom the API lets
//! in; see [`Guard`]. Nothing happens between two requests.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use change::host::Host;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::Metrics;
use super::guard::{Guard, Verdict};
use super::identity::Identity;

/// A client that dawdles is cut off.
const PATIENCE: Duration = Duration::from_secs(10);
/// Requests at once; the others wait.
const AT_ONCE: usize = 4;
/// Tokens of service accounts have one or two thousand characters.
const HEAD: usize = 16 << 10;

/// Who is let in.
#[derive(Clone)]
pub enum Door {
    /// Everybody who can connect.
    Open,
    Guarded {
        guard: Arc<Guard>,
        identity: Arc<Identity>,
        host: Arc<dyn Host>,
    },
}

/// `host:port`, also where an IPv6 address has no brackets because it came from a pod's environment.
pub fn address(text: &str) -> String {
    match text.rsplit_once(':') {
        Some((host, port)) if host.parse::<Ipv6Addr>().is_ok() => format!("[{host}]:{port}"),
        _ => text.to_owned(),
    }
}

/// Answers until the task is dropped.
pub async fn serve(listener: TcpListener, metrics: Metrics, kubelet: String, door: Door) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (metrics, kubelet, door) = (metrics.clone(), kubelet.clone(), door.clone());
        tokio::spawn(async move {
            let _ = tokio::time::timeout(PATIENCE, open(stream, &metrics, &kubelet, &door)).await;
            drop(place);
        });
    }
}

async fn open(stream: TcpStream, metrics: &Metrics, kubelet: &str, door: &Door) -> std::io::Result<()> {
    match door {
        Door::Open => answer(stream, metrics, kubelet, None).await,
        Door::Guarded { guard, identity, host } => {
            let (identity, host) = (Arc::clone(identity), Arc::clone(host));
            let config = tokio::task::spawn_blocking(move || identity.now(host.files())).await;
            let config = config.map_err(std::io::Error::other)?.map_err(std::io::Error::other)?;
            let stream = TlsAcceptor::from(config).accept(stream).await?;
            answer(stream, metrics, kubelet, Some(guard)).await
        }
    }
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    metrics: &Metrics,
    kubelet: &str,
    guard: Option<&Guard>,
) -> std::io::Result<()> {
    let head = head(&mut stream).await?;
    let mut words = head.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let refusal = match guard {
        Some(guard) => refusal(guard, &head, path).await,
        None => None,
    };
    let (status, body) = match (refusal, method, path) {
        (Some(refusal), ..) => refusal,
        (None, "GET", "/metrics") => {
            metrics.note_kubelet(crate::trial::kubelet_is_well(kubelet).await);
            ("200 OK", metrics.page())
        }
        (None, "GET", "/healthz") => match metrics.trouble() {
            None => ("200 OK", "ok".to_owned()),
            Some(trouble) => ("503 Service Unavailable", trouble.to_owned()),
        },
        (None, "GET", _) => ("404 Not Found", String::new()),
        (None, ..) => ("405 Method Not Allowed", String::new()),
    };
    let challenge = if status.starts_with("401") { "WWW-Authenticate: Bearer\r\n" } else { "" };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\n{challenge}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

/// What whoever asks is told instead of the page.
async fn refusal(guard: &Guard, head: &str, path: &str) -> Option<(&'static str, String)> {
    let unknown =
        |why: &str| Some(("401 Unauthorized", format!("{why}: send a bearer token that the cluster knows\n")));
    let Some(token) = bearer(head) else { return unknown("there is no token") };
    match guard.judge(token, path).await {
        Verdict::Allowed => None,
        Verdict::Unknown => unknown("the cluster does not know this token"),
        Verdict::Forbidden => {
            Some(("403 Forbidden", format!("this account may not get the non-resource URL {path}\n")))
        }
        Verdict::CannotTell => {
            Some(("503 Service Unavailable", "the cluster cannot be asked who this is; try again\n".to_owned()))
        }
    }
}

fn bearer(head: &str) -> Option<&str> {
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let mut tokens = fields.filter(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    let (scheme, token) = tokens.next()?.1.trim().split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

/// The request up to its first empty line.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<String> {
    let mut head = Vec::new();
    let mut part = [0_u8; 1024];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let length = stream.read(&mut part).await?;
        if length == 0 || head.len() + length > HEAD {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        head.extend_from_slice(&part[..length]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_however_its_header_is_written() {
        let of = |line: &str| bearer(&format!("GET /metrics HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n")).map(str::to_owned);
        assert_eq!(of("Authorization: Bearer abc").as_deref(), Some("abc"));
        assert_eq!(of("authorization:bearer  abc ").as_deref(), Some("abc"));
        assert_eq!(
            (of("Authorization: Basic abc"), of("Authorization: Bearer "), of("X: Bearer abc")),
            (None, None, None)
        );
    }

    #[test]
    fn an_address_of_a_pod_may_have_no_brackets() {
        assert_eq!(address("10.0.0.1:8797"), "10.0.0.1:8797");
        assert_eq!(address("fd00::1:8797"), "[fd00::1]:8797");
        assert_eq!(address("[fd00::1]:8797"), "[fd00::1]:8797");
        assert_eq!(address("localhost:8797"), "localhost:8797");
    }
}
