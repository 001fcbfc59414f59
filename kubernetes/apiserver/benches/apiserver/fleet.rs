//! A fleet's worth of clients: each watches its own Node and one MachineConfig, while nodes change.
//!
//! A delay runs from the moment the writer sends its request, so it has the write with its sync to disk in it, to the
//! moment the client has the whole event.

use std::{path::Path, sync::Arc, time::Duration};

use futures::{StreamExt, stream};

use crate::{
    nodes,
    objects::{self, CONFIGS, NODES, annotate},
    process::{self, Server},
    wire::{Connection, Protocol, STAMP, Seen, Wire, follow},
};

const EACH_SECOND: u32 = 500;
const SECONDS: u32 = 10;
/// As large as a rendered config of a small cluster.
const CONFIG_BYTES: usize = 100_000;

pub(crate) async fn measure() {
    let folder = tempfile::tempdir().unwrap();
    let names = objects::names(nodes());
    {
        let server = Server::spawn(folder.path());
        objects::create_nodes(&server, &names).await;
        objects::create_config(&server, CONFIG_BYTES).await;
    }
    for protocol in [Protocol::Two, Protocol::One] {
        serve(folder.path(), &names, protocol).await;
    }
}

async fn serve(folder: &Path, names: &[String], protocol: Protocol) {
    let server = Server::spawn(folder);
    let wire = Wire::new(folder, &server.url);
    let before = server.memory();
    let each = if protocol == Protocol::One { 2 } else { 1 };
    // Where files are scarce there are fewer clients, and the figure says so.
    let names = &names[..names.len().min(process::connections() / each)];
    let (count, seen) = (names.len(), Seen::new());
    let (cpu, began) = (server.cpu(), std::time::Instant::now());
    stream::iter(names)
        .map(|name| open(&wire, protocol, name, &seen))
        .buffer_unordered(32)
        .for_each(|()| async {})
        .await;
    let kind = match protocol {
        Protocol::Two => format!("{count} HTTP/2 clients of two watches"),
        Protocol::One => format!("{count} HTTP/1.1 clients of two watches ({} connections)", 2 * count),
    };
    println!(
        "bench: {kind} connect, list and watch | {:.1} s, {:.0} µs of CPU each | -",
        began.elapsed().as_secs_f64(),
        (server.cpu() - cpu).as_secs_f64() * 1e6 / count as f64
    );
    let idle = server.memory();
    let (cpu, began) = (server.cpu(), std::time::Instant::now());
    changes(&server, names, &seen).await;
    let (busy, took) = (server.cpu() - cpu, began.elapsed());
    let delays = seen.take();
    println!(
        "bench: memory of {kind} | {:.0} MB, at most {:.0} MB ({before:.0} MB before, {:.1} KB a client) | under 600 MB",
        server.memory(),
        server.peak(),
        (idle - before) * 1024.0 / count as f64
    );
    println!(
        "bench: event delivery to {kind}, {EACH_SECOND} nodes a second change | p99 {:.1} ms, p50 {:.1} ms, last {:.1} ms at {:.0}/s | p99 under 100 ms",
        delays.within(99.0),
        delays.within(50.0),
        delays.within(100.0),
        delays.0.len() as f64 / took.as_secs_f64()
    );
    println!(
        "bench: CPU per change meanwhile, {} | {:.0} µs | -",
        protocol.name(),
        busy.as_secs_f64() * 1e6 / delays.0.len() as f64
    );
    let cpu = server.cpu();
    annotate(&server.client, &format!("{}{CONFIGS}/rendered", server.url), STAMP, &seen.stamp()).await;
    seen.wait(count).await;
    let delays = seen.take();
    println!(
        "bench: a change of the MachineConfig (100 KB) reaches {kind} | p50 {:.0} ms, last {:.0} ms, {:.0} µs of CPU each, memory at most {:.0} MB | -",
        delays.within(50.0),
        delays.within(100.0),
        (server.cpu() - cpu).as_secs_f64() * 1e6 / count as f64,
        server.peak()
    );
}

/// One client; returns when both of its watches are open.
async fn open(wire: &Wire, protocol: Protocol, name: &str, seen: &Arc<Seen>) {
    let mut shared: Option<Connection> = None;
    for (path, name) in [(NODES, name), (CONFIGS, "rendered")] {
        let mut connection = match shared.take() {
            Some(connection) => connection,
            None => wire.connect(protocol).await,
        };
        let body = connection.list_and_watch(path, name).await;
        if protocol == Protocol::Two {
            shared = Some(connection.again());
        }
        follow(body, connection, seen);
    }
}

/// So many nodes a second change, for a while; ends when every change has arrived.
async fn changes(server: &Server, names: &[String], seen: &Arc<Seen>) {
    let total = (EACH_SECOND * SECONDS) as usize;
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / EACH_SECOND);
    for turn in 0..total {
        ticks.tick().await;
        let (client, seen) = (server.client.clone(), Arc::clone(seen));
        let url = format!("{}{NODES}/{}", server.url, names[turn * 7 % names.len()]);
        tokio::spawn(async move { annotate(&client, &url, STAMP, &seen.stamp()).await });
    }
    seen.wait(total).await;
}
