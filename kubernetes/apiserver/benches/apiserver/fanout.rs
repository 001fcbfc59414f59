//! One change and a thousand watchers, each with a connection of its own.

use futures::{StreamExt, stream};

use crate::{
    objects::{self, CONFIGS, annotate},
    process::Server,
    wire::{Protocol, STAMP, Seen, Wire, follow},
};

const WATCHERS: usize = 1000;
const ROUNDS: usize = 20;

pub(crate) async fn measure() {
    let small = [Protocol::Two, Protocol::One].map(|protocol| (protocol, 10_000));
    let large = [Protocol::Two, Protocol::One].map(|protocol| (protocol, 200_000));
    for (protocol, size) in small.into_iter().chain(large) {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::spawn(folder.path());
        objects::create_config(&server, size).await;
        let wire = Wire::new(folder.path(), &server.url);
        let seen = Seen::new();
        stream::iter(0..WATCHERS)
            .map(async |_| {
                let mut connection = wire.connect(protocol).await;
                let body = connection.list_and_watch(CONFIGS, "rendered").await;
                follow(body, connection, &seen);
            })
            .buffer_unordered(32)
            .for_each(|()| async {})
            .await;
        let url = format!("{}{CONFIGS}/rendered", server.url);
        let cpu = server.cpu();
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            annotate(&server.client, &url, STAMP, &seen.stamp()).await;
            seen.wait(WATCHERS).await;
            rounds.push(seen.take());
        }
        let cpu = (server.cpu() - cpu).as_secs_f64() * 1e6 / (ROUNDS * WATCHERS) as f64;
        // Each figure is the middle one of all rounds.
        let at = |percent: f64| {
            let mut values: Vec<f64> = rounds.iter().map(|delays| delays.within(percent)).collect();
            values.sort_by(f64::total_cmp);
            values[ROUNDS / 2]
        };
        println!(
            "bench: a change of {} KB reaches {WATCHERS} watchers over {} | first {:.1} ms, p50 {:.1} ms, p99 {:.1} ms, last {:.1} ms, {cpu:.0} µs of CPU each | -",
            size / 1000,
            protocol.name(),
            at(0.0),
            at(50.0),
            at(99.0),
            at(100.0)
        );
    }
}
