//! What clients that do nothing cost those that do something: idle connections, and watchers that do not read.

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use http_body_util::BodyExt;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    objects::{self, NODES, annotate, json_body},
    process::{STALLED, Server, TOKEN},
    wire::{Connection, Delays, Protocol, Wire},
};

const NODE_COUNT: usize = 1000;
const IDLE: usize = 2000;
const STALLED_WATCHERS: usize = 500;
const CONCURRENT: usize = 16;
const PHASE: Duration = Duration::from_secs(3);

pub(crate) async fn measure() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::spawn(folder.path());
    let wire = Wire::new(folder.path(), &server.url);
    let names = objects::names(NODE_COUNT);
    objects::create_nodes(&server, &names).await;
    requests(&server, &names).await;
    let alone = requests(&server, &names).await;
    println!("bench: requests alone (4 gets to 1 patch) | {alone} | -");

    let mut idle = Vec::new();
    for protocol in [Protocol::One, Protocol::Two] {
        let before = server.memory();
        idle.extend(
            open(IDLE / 2, async || {
                let mut connection = wire.connect(protocol).await;
                connection.get("/readyz").await.collect().await.unwrap();
                connection
            })
            .await,
        );
        let each = (server.memory() - before) * 1024.0 / (IDLE / 2) as f64;
        println!("bench: memory of an idle connection, {} | {each:.1} KB | -", protocol.name());
    }
    let beside = requests(&server, &names).await;
    println!("bench: requests beside {IDLE} idle connections | {} | at least 95 % of the rate", beside.against(&alone));
    stalled(&server, &wire, &names, &alone).await;
    drop(idle);
}

/// Half of them leave their socket unread, the other half read it and leave their HTTP/2 stream unread.
async fn stalled(server: &Server, wire: &Wire, names: &[String], alone: &Rate) {
    let url = format!("{}{NODES}", server.url);
    let fat = json!({"apiVersion": "v1", "kind": "Node", "metadata": {
        "name": "fat", "annotations": {"fill": "x".repeat(200_000)}}});
    objects::each([()], |()| json_body(server.client.post(&url).bearer_auth(TOKEN), &fat)).await;
    let (before, files) = (server.memory(), server.open_files());
    let watch = format!("{NODES}?watch=true&resourceVersion=0");
    let sockets = open(STALLED_WATCHERS / 2, async || {
        let mut stream = wire.tls(Protocol::One).await;
        let request = format!("GET {watch} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut first = [0; 8];
        stream.read_exact(&mut first).await.unwrap();
        stream
    })
    .await;
    let streams = open(STALLED_WATCHERS / 2, async || {
        let mut connection = wire.connect(Protocol::Two).await;
        let body = connection.get(&watch).await;
        (connection, body)
    })
    .await;
    // More than a watcher, its connection and the kernel hold for it: from here on all of them have stopped.
    for turn in 0..40 {
        annotate(&server.client, &format!("{url}/fat"), "turn", &turn.to_string()).await;
    }
    let began = Instant::now();
    let each = (server.memory() - before) * 1024.0 / STALLED_WATCHERS as f64;
    println!("bench: memory of a watcher that does not read | {each:.0} KB after 8 MB of changes | -");
    let beside = requests(server, names).await;
    println!(
        "bench: requests beside {IDLE} idle connections and {STALLED_WATCHERS} watchers that do not read | {} | at least 95 % of the rate",
        beside.against(alone)
    );
    let ended = tokio::time::timeout(STALLED * 4, ends(server, files, streams)).await.is_ok();
    println!(
        "bench: {STALLED_WATCHERS} watchers that do not read are ended ({} s allowed here) | {} | all",
        STALLED.as_secs(),
        if ended { format!("all within {:.1} s", began.elapsed().as_secs_f64()) } else { "never".to_owned() }
    );
    println!("bench: memory after that | {:.0} MB ({before:.0} MB before) | -", server.memory());
    drop(sockets);
    let after = requests(server, names).await;
    println!("bench: requests after that | {} | at least 95 % of the rate", after.against(alone));
}

/// Waits until the server has closed the sockets, and reset the streams, of those who do not read.
async fn ends(server: &Server, files: usize, streams: Vec<(Connection, hyper::body::Incoming)>) {
    while server.open_files() > files + STALLED_WATCHERS / 2 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for (_open, mut body) in streams {
        while let Some(Ok(_)) = body.frame().await {}
    }
}

async fn open<T>(count: usize, one: impl AsyncFn() -> T) -> Vec<T> {
    stream::iter(0..count).map(|_| one()).buffer_unordered(32).collect().await
}

/// How fast the server answers, and how late.
struct Rate {
    each_second: f64,
    p50: f64,
    p99: f64,
    cpu: f64,
}

impl Rate {
    fn against(&self, other: &Self) -> String {
        format!("{:.0} % of the rate: {self}", 100.0 * self.each_second / other.each_second)
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { each_second, p50, p99, cpu } = self;
        write!(f, "{each_second:.0}/s, p50 {p50:.1} ms, p99 {p99:.1} ms, {cpu:.0} µs of CPU each")
    }
}

/// Gets and patches nodes as fast as the server answers.
async fn requests(server: &Server, names: &[String]) -> Rate {
    let (cpu, began) = (server.cpu(), Instant::now());
    let worker = async |worker: usize| {
        let mut delays = Vec::new();
        for turn in 0.. {
            if began.elapsed() > PHASE {
                break;
            }
            let url = format!("{}{NODES}/{}", server.url, names[(worker * 61 + turn * 7) % names.len()]);
            let sent = Instant::now();
            if turn % 5 == 0 {
                annotate(&server.client, &url, "turn", &format!("{:?}", began.elapsed())).await;
            } else {
                server.client.get(&url).bearer_auth(TOKEN).send().await.unwrap().bytes().await.unwrap();
            }
            delays.push(sent.elapsed());
        }
        delays
    };
    let mut delays: Vec<Duration> =
        futures::future::join_all((0..CONCURRENT).map(worker)).await.into_iter().flatten().collect();
    delays.sort();
    let delays = Delays(delays);
    let count = delays.0.len() as f64;
    Rate {
        each_second: count / began.elapsed().as_secs_f64(),
        p50: delays.within(50.0),
        p99: delays.within(99.0),
        cpu: (server.cpu() - cpu).as_secs_f64() * 1e6 / count,
    }
}
