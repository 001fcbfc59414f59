//! The program inside the images that testkit builds for clusters with real kubelets.
//!
//! `pause` holds a pod's namespaces open. `serve PORT` is a typical web server: it answers each request with the name
//! of its pod, and on SIGTERM it stops accepting requests and completes those in progress.

#![allow(clippy::unwrap_used)]

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match words[..] {
        ["pause"] => runtime.block_on(ended()),
        ["serve", port] => runtime.block_on(serve(port.parse().unwrap())),
        _ => panic!("in_pod pause | serve PORT"),
    }
}

/// Returns when the runtime asks the pod to end. The first process of a pod receives only signals that it handles.
async fn ended() {
    let mut signal = signal(SignalKind::terminate()).unwrap();
    signal.recv().await;
}

async fn serve(port: u16) {
    let listener = TcpListener::bind(("0.0.0.0", port)).await.unwrap();
    let mut answers = JoinSet::new();
    let ended = ended();
    tokio::pin!(ended);
    loop {
        tokio::select! {
            () = &mut ended => break,
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    answers.spawn(answer(stream));
                }
            }
        }
    }
    drop(listener);
    while answers.join_next().await.is_some() {}
}

async fn answer(mut stream: TcpStream) {
    let name = std::env::var("HOSTNAME").unwrap_or_default();
    let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{name}", name.len());
    if stream.read(&mut [0; 1024]).await.is_ok_and(|length| length > 0) {
        let _ = stream.write_all(text.as_bytes()).await;
        let _ = stream.shutdown().await;
    }
}
