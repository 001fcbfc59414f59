//! How soon `machinist up` is ready: a small fleet on folders, and ten thousand nodes in memory.
//!
//! Time is what a user waits, from the start of the process to its words, so it is told with the machine's load.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

fn main() {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?").to_owned();
    let small = ready(&["--nodes", "3"]);
    println!(
        "bench: 1 control-plane node and 3 workers ready (load {load}) | {:.2} s, {:.0} MB | 2 s",
        small.0, small.1
    );
    let large = ready(&["--nodes", "10000", "--in-memory"]);
    println!("bench: 10,000 in-memory nodes ready (load {load}) | {:.1} s, {:.0} MB | 30 s", large.0, large.1);
}

/// Seconds until the fleet says that it is up, and the memory it then has in megabytes.
fn ready(arguments: &[&str]) -> (f64, f64) {
    let begun = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_machinist"));
    command.arg("up").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
    let is_up = lines.any(|line| line.contains("Your fleet is up"));
    let seconds = begun.elapsed().as_secs_f64();
    assert!(is_up, "the fleet did not come up");
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes: f64 = resident.and_then(|text| text.trim().split(' ').next()?.parse().ok()).unwrap_or(0.0);
    // As Ctrl-C would, so that the temporary folder is removed.
    let _ = Command::new("kill").args(["-s", "INT", &process.id().to_string()]).status();
    let _ = process.wait();
    (seconds, kilobytes / 1024.0)
}
