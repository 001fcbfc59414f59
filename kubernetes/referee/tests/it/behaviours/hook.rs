//! A webhook of the tests' own, which both servers call over HTTPS on the loopback address.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::wire::encode_base64;

/// What the webhook says.
pub(crate) enum Reply {
    Review(Value),
    Code(u16),
    Text(&'static str),
    /// Says nothing for longer than anybody should wait.
    Silence,
}

/// Makes the reply to a review that came to a path.
type Judge = fn(&str, &Value) -> Reply;

#[derive(Clone)]
pub(crate) struct Hook {
    pub(crate) port: u16,
    /// The authority of its certificate, as configurations carry it.
    pub(crate) authority: String,
    seen: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Hook {
    /// Serves until the test's runtime ends. Its certificate is for the loopback address and for these names.
    pub(crate) async fn start(names: &[&str], judge: Judge) -> Result<Self> {
        let authority_key = rcgen::KeyPair::generate()?;
        let mut parameters = rcgen::CertificateParams::new(Vec::new())?;
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "the tests' webhooks");
        let authority = parameters.self_signed(&authority_key)?;
        let issuer = rcgen::Issuer::new(parameters, authority_key);
        let key = rcgen::KeyPair::generate()?;
        let names = ["127.0.0.1", "localhost"].iter().chain(names).map(|&name| name.to_owned()).collect::<Vec<_>>();
        let certificate = rcgen::CertificateParams::new(names)?.signed_by(&key, &issuer)?;
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let hook = Hook { port, authority: encode_base64(authority.pem().as_bytes()), seen };
        let own = hook.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(own.clone().serve(acceptor.clone(), stream, judge));
            }
        });
        Ok(hook)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    /// The reviews that came to a path so far.
    pub(crate) fn seen(&self, path: &str) -> Vec<Value> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|(own, _)| own == path).map(|(_, review)| review.clone()).collect()
    }

    async fn serve(self, acceptor: TlsAcceptor, stream: TcpStream, judge: Judge) -> Result<()> {
        let mut stream = acceptor.accept(stream).await?;
        let (path, body) = request(&mut stream).await?;
        let path = path.split('?').next().unwrap_or_default().to_owned();
        let review: Value = serde_json::from_slice(&body)?;
        let reply = judge(&path, &review);
        self.seen.lock().unwrap().push((path, review));
        let (code, text) = match reply {
            Reply::Review(answer) => (200, answer.to_string()),
            Reply::Code(code) => (code, "{}".to_owned()),
            Reply::Text(text) => (200, text.to_owned()),
            Reply::Silence => {
                tokio::time::sleep(Duration::from_secs(20)).await;
                return Ok(());
            }
        };
        let head = format!(
            "HTTP/1.1 {code} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            text.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(text.as_bytes()).await?;
        stream.shutdown().await?;
        Ok(())
    }
}

/// The path and the body of one HTTP/1.1 request.
async fn request(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Result<(String, Vec<u8>)> {
    let mut data = Vec::new();
    let end = loop {
        if let Some(end) = data.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        anyhow::ensure!(stream.read_buf(&mut data).await? > 0, "the connection ended");
    };
    let head = String::from_utf8_lossy(&data[..end]).into_owned();
    let path = head.split(' ').nth(1).context("a path")?.to_owned();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let length = length.context("a length")?;
    while data.len() < end + length {
        anyhow::ensure!(stream.read_buf(&mut data).await? > 0, "the body ended");
    }
    Ok((path, data.split_off(end)))
}
