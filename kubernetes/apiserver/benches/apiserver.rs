//! The embedded server under load: beside kube-apiserver with etcd, and with a fleet of clients of its own.
//!
//! It always runs as a child process (this program again, with `--serve`), on one thread and with its store on disk as
//! `machinist apiserver` runs it, so that the load generator's own work is not counted. Parts can be named:
//! `cargo xtask bench apiserver -- fleet slow`. CPU is what the kernel counted for the server's threads.

#![allow(clippy::unwrap_used)]

#[path = "apiserver/compare.rs"]
mod compare;
#[path = "apiserver/fanout.rs"]
mod fanout;
#[path = "apiserver/fleet.rs"]
mod fleet;
#[path = "apiserver/growth.rs"]
mod growth;
#[path = "apiserver/objects.rs"]
mod objects;
#[path = "apiserver/process.rs"]
mod process;
#[path = "apiserver/slow.rs"]
mod slow;
#[path = "apiserver/wire.rs"]
mod wire;

/// As in `machinist`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const PARTS: [&str; 5] = ["compare", "growth", "slow", "fanout", "fleet"];

/// How many nodes; `BENCH_NODES` makes a quick run.
fn nodes() -> usize {
    std::env::var("BENCH_NODES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--serve") {
        return process::serve(&arguments[at + 1]).await;
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    process::raise_file_limit();
    let asked: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    if let Some(unknown) = asked.iter().find(|part| !PARTS.contains(&part.as_str())) {
        eprintln!("no part is called {unknown}; there are: {}", PARTS.join(", "));
        std::process::exit(2);
    }
    for part in PARTS {
        if !asked.is_empty() && !asked.iter().any(|name| *name == part) {
            continue;
        }
        let load = process::load();
        match part {
            "compare" => compare::measure().await,
            "growth" => growth::measure().await,
            "slow" => slow::measure().await,
            "fanout" => fanout::measure().await,
            _ => fleet::measure().await,
        }
        println!("bench: load of the machine when `{part}` began | {load} | -");
    }
}
