//! `pods/exec`: a command in a container, run by whoever plays the kubelet, its streams carried over WebSocket.
//!
//! Each message begins with the number of its stream, as Kubernetes numbers them. How the command ended is told on a
//! stream of its own, as a `Status`.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Response;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::{mpsc, watch},
};

use super::{Request, log};
use crate::{
    http::{
        Body,
        websocket::{self, Kind, Message, Reader},
    },
    object::text,
    server::{Api, stopped},
    status::{Answer, Failure},
};

/// The protocols that are spoken; only the first can say that there is no more input.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

/// How many pieces of output may wait for a slow client before the command has to wait too.
const WAITING: usize = 16;

/// A command that a client wants to run in a container.
#[derive(Debug, Clone, PartialEq)]
pub struct PodExec {
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub pod: String,
    /// The node that the pod runs on.
    pub node: String,
    /// The container in the pod.
    pub container: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Whether the client sends input.
    pub stdin: bool,
    /// Whether the client wants a terminal.
    pub tty: bool,
    /// The whole pod.
    pub object: Value,
}

/// The streams of a running command.
pub struct Streams {
    /// What the client sends. It ends when the client's input does, and without a terminal the command should see that.
    pub stdin: mpsc::Receiver<Bytes>,
    /// Where the command's output goes.
    pub output: mpsc::Sender<Output>,
    /// Columns and rows of the client's terminal, once they are known.
    pub size: watch::Receiver<Option<(u16, u16)>>,
}

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Of the standard output, or of the terminal.
    Stdout(Bytes),
    /// Of the standard error.
    Stderr(Bytes),
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// With this exit code.
    Code(i32),
    /// It could not be run, or not to its end; the text is shown to the user.
    Failed(String),
}

/// Runs a command. When the future is dropped, the command must end.
pub type Run = Box<dyn FnOnce(Streams) -> BoxFuture<'static, Ended> + Send>;

/// Says how a command is run, or why it cannot be.
pub(crate) type PodExecs = Arc<dyn Fn(&PodExec) -> Result<Run, String> + Send + Sync>;

/// Starts what the options of the request, as admission left them, ask for.
pub(crate) fn start(request: &Request<'_>, options: &Value) -> Answer<Response<Body>> {
    let Request { api, call, .. } = *request;
    let pod = api.store.get("/pods", &request.key(request.name).name).ok_or_else(|| request.not_found())?.value();
    let container = log::container(request.name, &pod, text(&options["container"]))?;
    let node = text(&pod["spec"]["nodeName"]).to_owned();
    if node.is_empty() {
        return Err(Failure::bad_request(format!("pod {} does not have a host assigned", request.name)));
    }
    let asked = PodExec {
        namespace: request.namespace.to_owned(),
        pod: request.name.to_owned(),
        node,
        container,
        command: options["command"].as_array().into_iter().flatten().map(|word| text(word).to_owned()).collect(),
        stdin: options["stdin"] == true,
        tty: options["tty"] == true,
        object: pod,
    };
    if asked.command.is_empty() {
        return Err(Failure::bad_request("you must specify at least 1 command for the container"));
    }
    let Some(execs) = &api.execs else { return Err(super::streams::nobody(request, &asked.node)) };
    let run = execs(&asked).map_err(|why| Failure::new(501, "NotImplemented", why))?;
    if !websocket::is_asked(&call.headers) {
        if call.header("upgrade").is_empty() {
            return Err(Failure::bad_request("Upgrade request required"));
        }
        let why = "streams are spoken over WebSocket only: use kubectl 1.31 or newer, without KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false";
        return Err(Failure::new(501, "NotImplemented", why));
    }
    let Some(protocol) = websocket::protocol(&call.headers, &PROTOCOLS) else {
        return Err(Failure::bad_request(format!("none of the offered protocols is spoken, only {PROTOCOLS:?}")));
    };
    let Some(upgrade) = call.upgrade.lock().take() else {
        return Err(Failure::bad_request("Upgrade request required"));
    };
    let shown = [options["stdout"] == true, options["stderr"] == true && !asked.tty];
    tokio::spawn(session(Arc::clone(api), upgrade, run, asked.stdin, shown));
    Ok(websocket::accept(&call.headers, protocol))
}

/// Carries the streams until the command has ended, the client is gone or the server stops.
async fn session(api: Arc<Api>, upgrade: OnUpgrade, run: Run, with_input: bool, [stdout, stderr]: [bool; 2]) {
    if let Ok(upgraded) = upgrade.await {
        converse(TokioIo::new(upgraded), api.stopping.clone(), run, with_input, [stdout, stderr]).await;
    }
}

async fn converse(
    connection: impl AsyncRead + AsyncWrite,
    mut stopping: watch::Receiver<bool>,
    run: Run,
    with_input: bool,
    [stdout, stderr]: [bool; 2],
) {
    let (read, mut write) = tokio::io::split(connection);
    let (input, stdin) = mpsc::channel(WAITING);
    let (output, mut outputs) = mpsc::channel(WAITING);
    let (resize, size) = watch::channel(None);
    let (pongs, mut replies) = mpsc::channel(WAITING);
    let client = listen(Reader::new(read), with_input.then_some(input), resize, pongs);
    let mut running = run(Streams { stdin, output, size });
    let carry = async {
        let mut ended = None;
        loop {
            let frame = tokio::select! {
                biased;
                Some(pong) = replies.recv() => websocket::frame(Kind::Pong, &[&pong]),
                piece = outputs.recv() => match (piece, &ended) {
                    (Some(Output::Stdout(bytes)), _) if stdout => websocket::frame(Kind::Binary, &[&[STDOUT], &bytes]),
                    (Some(Output::Stderr(bytes)), _) if stderr => websocket::frame(Kind::Binary, &[&[STDERR], &bytes]),
                    (Some(_), _) => continue,
                    // Everything that was written has been sent.
                    (None, Some(ended)) => return told(&mut write, ended).await,
                    (None, None) => {
                        ended = Some((&mut running).await);
                        continue;
                    }
                },
                end = &mut running, if ended.is_none() => {
                    ended = Some(end);
                    continue;
                }
            };
            if write.write_all(&frame).await.is_err() || write.flush().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = carry => {}
        () = client => {}
        () = stopped(&mut stopping) => {}
    }
}

/// Takes in what the client sends until it is gone.
async fn listen<R: AsyncRead + Unpin>(
    mut reader: Reader<R>,
    mut input: Option<mpsc::Sender<Bytes>>,
    resize: watch::Sender<Option<(u16, u16)>>,
    pongs: mpsc::Sender<Bytes>,
) {
    while let Some(message) = reader.next().await {
        match message {
            Message::Close => return,
            Message::Ping(payload) => {
                if pongs.send(payload).await.is_err() {
                    return;
                }
            }
            Message::Data(data) => match data.first() {
                Some(&STDIN) => {
                    if let Some(stdin) = &input {
                        // A command that does not read its input any more is no reason to end it.
                        let _ = stdin.send(data.slice(1..)).await;
                    }
                }
                Some(&RESIZE) => {
                    let asked: Value = serde_json::from_slice(&data[1..]).unwrap_or_default();
                    let number = |key: &str| asked[key].as_u64().and_then(|number| u16::try_from(number).ok());
                    if let (Some(columns), Some(rows)) = (number("Width"), number("Height")) {
                        resize.send_replace(Some((columns, rows)));
                    }
                }
                Some(&CLOSE) if data.get(1) == Some(&STDIN) => input = None,
                _ => {}
            },
        }
    }
}

/// Says how it ended, and good-bye.
async fn told(write: &mut (impl AsyncWrite + Unpin), ended: &Ended) {
    let status = status(ended).to_string();
    let last = [
        websocket::frame(Kind::Binary, &[&[ERROR], status.as_bytes()]),
        websocket::frame(Kind::Close, &[&1000_u16.to_be_bytes()]),
    ]
    .concat();
    let _ = write.write_all(&last).await;
    let _ = write.shutdown().await;
}

fn status(ended: &Ended) -> Value {
    match ended {
        Ended::Code(0) => json!({"metadata": {}, "status": "Success"}),
        Ended::Code(code) => json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        Ended::Failed(why) => json!({
            "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
            "message": format!("Internal error occurred: {why}"), "details": {"causes": [{"message": why}]},
        }),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A frame as clients send it, under a mask of zeros.
    fn sent(payload: &[u8]) -> Vec<u8> {
        [&[0x82, 0x80 | u8::try_from(payload.len()).unwrap(), 0, 0, 0, 0], payload].concat()
    }

    /// What the server sends in answer to these messages, frame by frame; `run` is the command.
    async fn check(messages: &[&[u8]], run: Run) -> Vec<String> {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let (_stop, stopping) = watch::channel(false);
        let conversation = tokio::spawn(converse(server, stopping, run, true, [true, true]));
        for message in messages {
            client.write_all(&sent(message)).await.unwrap();
        }
        let mut bytes = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut client, &mut bytes).await.unwrap();
        conversation.await.unwrap();
        let mut frames = Vec::new();
        while let [_, length, rest @ ..] = bytes.as_slice() {
            let (size, start) = match *length {
                126 => (usize::from(u16::from_be_bytes([rest[0], rest[1]])), 4),
                short => (usize::from(short), 2),
            };
            frames.push(String::from_utf8_lossy(&bytes[start..start + size]).escape_debug().to_string());
            bytes.drain(..start + size);
        }
        frames
    }

    #[tokio::test]
    async fn streams_and_the_end_of_a_command_reach_their_client() {
        let run: Run = Box::new(|mut streams| {
            Box::pin(async move {
                let mut input = Vec::new();
                while let Some(piece) = streams.stdin.recv().await {
                    input.extend_from_slice(&piece);
                }
                let size = *streams.size.borrow();
                let _ = streams.output.send(Output::Stdout(input.into())).await;
                let _ = streams.output.send(Output::Stderr(format!("{size:?}").into())).await;
                Ended::Code(3)
            })
        });
        let messages: [&[u8]; 5] =
            [b"\x04{\"Width\":80,\"Height\":25}", b"\x00in", b"\x00put", b"\x07what?", b"\xff\x00"];
        let frames = check(&messages, run).await;
        assert_eq!(frames[0], "\\u{1}input");
        assert_eq!(frames[1], "\\u{2}Some((80, 25))");
        assert!(frames[2].starts_with("\\u{3}{") && frames[2].contains("exit status 3"), "{frames:?}");
        assert_eq!(frames.len(), 4, "{frames:?}");
    }

    #[tokio::test]
    async fn a_client_that_leaves_ends_its_command() {
        struct Told(Option<tokio::sync::oneshot::Sender<()>>);
        impl Drop for Told {
            fn drop(&mut self) {
                let _ = self.0.take().map(|sender| sender.send(()));
            }
        }
        let (sender, dropped) = tokio::sync::oneshot::channel();
        let told = Told(Some(sender));
        let run: Run = Box::new(|streams| {
            Box::pin(async move {
                let _held = (told, streams);
                std::future::pending().await
            })
        });
        let (client, server) = tokio::io::duplex(64);
        let (_stop, stopping) = watch::channel(false);
        let conversation = tokio::spawn(converse(server, stopping, run, false, [true, true]));
        drop(client);
        let patience = std::time::Duration::from_secs(10);
        tokio::time::timeout(patience, conversation).await.expect("the conversation ends").unwrap();
        tokio::time::timeout(patience, dropped).await.expect("the command ends").unwrap();
    }
}
