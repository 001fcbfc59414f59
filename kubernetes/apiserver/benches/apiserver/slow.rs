//! What clients that do nothing cost those that do something: idle connections, and watchers that do not read.
//! A twin of the server has the same objects and the same changes but no such clients; each rate is told against the
//! twin's of the same moment, since a server that has more behind it is slower by itself.

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
/// A rate is taken in many short turns, each beside one of the twin's: the machine itself is faster and slower from second to
/// second, and only what both had in the same moment can be compared.
const TURNS: usize = 240;
const TURN: Duration = Duration::from_millis(75);

pub(crate) async fn measure() {
    let [folder, other] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (server, twin) = (Server::spawn(folder.path()), Server::spawn(other.path()));
    let wire = Wire::new(folder.path(), &server.url);
    let names = objects::names(NODE_COUNT);
    for server in [&server, &twin] {
        objects::create_nodes(server, &names).await;
    }
    compare(&server, &twin, &names).await;
    let alone = compare(&server, &twin, &names).await;
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
    let beside = compare(&server, &twin, &names).await;
    println!("bench: requests beside {IDLE} idle connections | {beside} | at least 95 % of the rate");
    stalled(&server, &twin, &wire, &names).await;
    drop(idle);
}

/// Half of them leave their socket unread, the other half read it and leave their HTTP/2 stream unread.
async fn stalled(server: &Server, twin: &Server, wire: &Wire, names: &[String]) {
    let fat = json!({"apiVersion": "v1", "kind": "Node", "metadata": {
        "name": "fat", "annotations": {"fill": "x".repeat(200_000)}}});
    objects::each([server, twin], |server| {
        json_body(server.client.post(format!("{}{NODES}", server.url)).bearer_auth(TOKEN), &fat)
    })
    .await;
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
    for server in [server, twin] {
        for turn in 0..40 {
            annotate(&server.client, &format!("{}{NODES}/fat", server.url), "turn", &turn.to_string()).await;
        }
    }
    let began = Instant::now();
    let each = (server.memory() - before) * 1024.0 / STALLED_WATCHERS as f64;
    println!("bench: memory of a watcher that does not read | {each:.0} KB after 8 MB of changes | -");
    let beside = compare(server, twin, names).await;
    println!(
        "bench: requests beside {IDLE} idle connections and {STALLED_WATCHERS} watchers that do not read | {beside} | at least 95 % of the rate"
    );
    let ended = tokio::time::timeout(STALLED * 4, ends(server, files, streams)).await.is_ok();
    println!(
        "bench: {STALLED_WATCHERS} watchers that do not read are ended ({} s allowed here) | {} | all",
        STALLED.as_secs(),
        if ended { format!("all within {:.1} s", began.elapsed().as_secs_f64()) } else { "never".to_owned() }
    );
    println!("bench: memory after that | {:.0} MB ({before:.0} MB before) | -", server.memory());
    drop(sockets);
    let after = compare(server, twin, names).await;
    println!("bench: requests after that | {after} | at least 95 % of the rate");
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

/// How fast a server answered, and how late.
#[derive(Default)]
struct Rate {
    delays: Vec<Duration>,
    time: Duration,
    cpu: Duration,
}

impl Rate {
    fn add(&mut self, other: Rate) {
        self.delays.extend(other.delays);
        self.time += other.time;
        self.cpu += other.cpu;
    }

    fn each_second(&self) -> f64 {
        self.delays.len() as f64 / self.time.as_secs_f64()
    }

    /// Microseconds of CPU for each request.
    fn cost(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.delays.len() as f64
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut delays = self.delays.clone();
        delays.sort();
        let delays = Delays(delays);
        let (p50, p99) = (delays.within(50.0), delays.within(99.0));
        write!(f, "{:.0}/s, p50 {p50:.1} ms, p99 {p99:.1} ms, {:.0} µs of CPU each", self.each_second(), self.cost())
    }
}

/// The server's rate and CPU, told against its twin's: the middle of what the turns say one by one, and of the rate the
/// middle half of them.
async fn compare(server: &Server, twin: &Server, names: &[String]) -> String {
    let (mut rate, mut control) = (Rate::default(), Rate::default());
    let (mut shares, mut costs) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        let (mut own, mut other) = (Rate::default(), Rate::default());
        // Neither is always the first of a pair.
        if turn % 2 == 0 {
            requests(server, names, &mut own).await;
            requests(twin, names, &mut other).await;
        } else {
            requests(twin, names, &mut other).await;
            requests(server, names, &mut own).await;
        }
        shares.push(100.0 * own.each_second() / other.each_second());
        costs.push(100.0 * own.cost() / other.cost());
        rate.add(own);
        control.add(other);
    }
    shares.sort_by(f64::total_cmp);
    costs.sort_by(f64::total_cmp);
    let cost = costs[TURNS / 2];
    let [low, middle, high] = [TURNS / 4, TURNS / 2, TURNS * 3 / 4].map(|at| shares[at]);
    format!(
        "{middle:.0} % of the rate ({low:.0} to {high:.0}) at {cost:.0} % of the CPU: {rate}; without them {control}"
    )
}

/// Gets and patches nodes as fast as the server answers.
async fn requests(server: &Server, names: &[String], rate: &mut Rate) {
    let (cpu, began) = (server.cpu(), Instant::now());
    let worker = async |worker: usize| {
        let mut delays = Vec::new();
        for turn in 0.. {
            if began.elapsed() > TURN {
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
    let delays = futures::future::join_all((0..CONCURRENT).map(worker)).await;
    rate.delays.extend(delays.into_iter().flatten());
    rate.time += began.elapsed();
    rate.cpu += server.cpu() - cpu;
}
