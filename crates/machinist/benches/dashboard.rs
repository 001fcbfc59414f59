//! The dashboard of ten thousand nodes: its first page, how soon a change is on a hundred open pages, and what that costs.
//!
//! `cargo xtask bench dashboard -- NODES` takes another number of nodes.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use api::machineconfiguration::MachineConfigPool;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

const PAGES: usize = 100;
const CHANGES: usize = 10;

fn main() {
    let nodes: usize = std::env::args().skip(1).find_map(|it| it.parse().ok()).unwrap_or(10_000);
    let data = tempfile::tempdir().unwrap();
    let (folder, count) = (data.path().display().to_string(), nodes.to_string());
    let (fleet, _) = start(&["up", "--nodes", &count, "--in-memory", "--data", &folder], "Your fleet is up");
    let kubeconfig = data.path().join("kubeconfig").display().to_string();
    let arguments = ["dashboard", "--listen", "127.0.0.1:0", "--kubeconfig", &kubeconfig];
    let (dashboard, line) = start(&arguments, "The dashboard is at");
    let (address, cookie) = enter(&line);
    let (seconds, bytes) = first_page(&address, &cookie);
    println!("bench: first page of {nodes} nodes | {:.0} ms | 200 ms", seconds * 1000.0);
    println!("bench: its size | {} KB | 300 KB", bytes / 1024);

    let before = resident(&dashboard.0);
    let (sender, arrivals) = mpsc::channel();
    for _ in 0..PAGES {
        let _ = request(&address, &cookie, "/");
        let (stream, sender) = (open(&address, &cookie, "/events"), sender.clone());
        std::thread::spawn(move || {
            let lines = BufReader::new(stream).lines().map_while(Result::ok);
            for line in lines.filter(|line| line.starts_with("data: {") && line.contains("\"pools\"")) {
                let _ = sender.send((Instant::now(), line));
            }
        });
    }
    println!("bench: memory for {PAGES} open pages | {:.0} MB | 50 MB", (resident(&dashboard.0) - before).max(0.0));
    let (used, begun) = (processor(&dashboard.0), Instant::now());
    let slowest = changes(&kubeconfig, &arrivals);
    let share = (processor(&dashboard.0) - used) / begun.elapsed().as_secs_f64() * 100.0;
    println!("bench: a change on {PAGES} open pages | {:.0} ms | 1000 ms", slowest.as_secs_f64() * 1000.0);
    println!("bench: processor while a pool changes every second | {share:.1} % of a core | 5 %");
    drop((dashboard, fleet));
}

/// A process that ends as with Ctrl-C.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-s", "INT", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

/// Starts machinist and waits for a line with these words.
fn start(arguments: &[&str], words: &str) -> (Running, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_machinist"));
    let mut process = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains(words)).unwrap_or_else(|| panic!("no line with {words}"));
    // What it says later must not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    (Running(process), line)
}

/// Uses the link once: where the dashboard is, and the cookie of the session.
fn enter(line: &str) -> (String, String) {
    let link = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    let (address, query) = link.trim_start_matches("http://").split_once('/').unwrap();
    let answer = request(address, "", &format!("/{query}"));
    let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    (address.to_owned(), cookie.split(';').next().unwrap().to_owned())
}

/// Seconds and bytes of the fleet's page, once the cluster is read: the middle of several.
fn first_page(address: &str, cookie: &str) -> (f64, usize) {
    while !request(address, cookie, "/").starts_with("HTTP/1.1 200") {
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut takes: Vec<(f64, usize)> = (0..9)
        .map(|_| {
            let begun = Instant::now();
            let answer = request(address, cookie, "/");
            (begun.elapsed().as_secs_f64(), answer.len())
        })
        .collect();
    takes.sort_by(|one, two| one.0.total_cmp(&two.0));
    takes[4]
}

/// Pauses and resumes a pool, and returns how long the slowest change took to the last page.
fn changes(kubeconfig: &str, arrivals: &mpsc::Receiver<(Instant, String)>) -> Duration {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = runtime.block_on(cluster::connect(Some(kubeconfig.as_ref()))).unwrap();
    let pools: Api<MachineConfigPool> = Api::all(client);
    let mut slowest = Duration::ZERO;
    for round in 0..CHANGES {
        let state = if round % 2 == 0 { "Paused" } else { "Updated" };
        let patch = Patch::Merge(json!({"spec": {"paused": round % 2 == 0}}));
        let begun = Instant::now();
        runtime.block_on(pools.patch("worker", &PatchParams::default(), &patch)).unwrap();
        let mut told = 0;
        while told < PAGES {
            let (at, line) = arrivals.recv_timeout(Duration::from_secs(60)).unwrap();
            if line.contains(&format!("\"state\":\"{state}\"")) {
                told += 1;
                slowest = slowest.max(at.duration_since(begun));
            }
        }
        std::thread::sleep(Duration::from_secs(1).saturating_sub(begun.elapsed()));
    }
    slowest
}

fn open(address: &str, cookie: &str, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n").unwrap();
    stream
}

fn request(address: &str, cookie: &str, path: &str) -> String {
    let mut answer = Vec::new();
    open(address, cookie, path).read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Megabytes in memory.
fn resident(process: &Child) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().split(' ').next().unwrap().parse::<f64>().unwrap() / 1024.0
}

/// Seconds of a processor that the process has used.
fn processor(process: &Child) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // Ticks of a hundredth of a second, on every Linux that we run on.
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}
