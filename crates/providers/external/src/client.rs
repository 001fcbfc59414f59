//! One call: a question to the socket and its answer, within a time and a size.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use machine::provider::{Error, ErrorKind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::UnixStream;

use crate::convert;
use crate::wire;

/// An answer is not read beyond this; that of a thousand Machines is far below.
const LIMIT: usize = 64 << 20;

/// Where a provider is and how long it may take.
#[derive(Clone, Debug)]
pub struct Settings {
    pub socket: PathBuf,
    /// How long one call may take. A provider starts work and returns; none waits for an instance to boot.
    pub patience: Duration,
}

impl Settings {
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into(), patience: Duration::from_secs(25) }
    }

    /// Asks one question. Whatever goes wrong is an error of a kind.
    pub(crate) async fn call<A: DeserializeOwned>(&self, call: &str, question: &impl Serialize) -> Result<A, Error> {
        let body = serde_json::to_vec(question).map_err(|error| self.fault(ErrorKind::Other, call, &error))?;
        let exchange = tokio::time::timeout(self.patience, self.exchange(call, body)).await;
        let (status, body) = exchange.unwrap_or_else(|_| {
            let silence = format!("there is no answer within {} s", self.patience.as_secs_f32());
            Err(self.fault(ErrorKind::Unreachable, call, &silence))
        })?;
        self.read(call, status, &body)
    }

    async fn exchange(&self, call: &str, body: Vec<u8>) -> Result<(StatusCode, Bytes), Error> {
        let fail = |error: &dyn std::fmt::Display| self.fault(ErrorKind::Unreachable, call, error);
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| fail(&error))?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| fail(&error))?;
        let request = Request::post(format!("/v{}/{call}", wire::VERSION))
            .header(header::HOST, "provider")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::CONNECTION, "close")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| fail(&error))?;
        let asking = async {
            let answer = sender.send_request(request).await.map_err(|error| fail(&error))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), LIMIT).collect().await;
            Ok((status, body.map_err(|error| fail(&error))?.to_bytes()))
        };
        // The connection lives within this future, so that a call that is given up is cut off.
        let (answer, _) = futures::future::join(asking, connection).await;
        answer
    }

    fn read<A: DeserializeOwned>(&self, call: &str, status: StatusCode, body: &[u8]) -> Result<A, Error> {
        if let Ok(wire::Failed { error }) = serde_json::from_slice(body) {
            return Err(convert::error(error));
        }
        if status != StatusCode::OK {
            let said = format!("it answers {status} without an error of version {}", wire::VERSION);
            let kind = if status.is_server_error() { ErrorKind::Unreachable } else { ErrorKind::Other };
            return Err(self.fault(kind, call, &said));
        }
        let document: Value = serde_json::from_slice(body)
            .map_err(|error| self.fault(ErrorKind::Other, call, &format!("its answer is not JSON: {error}")))?;
        serde_json::from_value(document).map_err(|error| {
            let said = format!("its answer is not of version {}: {error}", wire::VERSION);
            self.fault(ErrorKind::Other, call, &said)
        })
    }

    /// An error in our words.
    pub(crate) fn fault(&self, kind: ErrorKind, call: &str, what: &dyn std::fmt::Display) -> Error {
        let message = format!("provider at {}, call {call}: {what}", self.socket.display());
        Error::new(kind, convert::plain(&message))
    }
}
