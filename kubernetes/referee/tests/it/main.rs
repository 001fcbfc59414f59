//! The embedded API compared with a real kube-apiserver, and with the Go packages that a kube-apiserver is made of.

#![allow(clippy::unwrap_used)]

mod applying;
#[macro_use]
mod behaviours;
mod builtins;
mod control_plane;
mod dice;
mod expressions;
mod go_clients;
mod kubectl;
mod oracle;
mod patterns;
mod quantities;
mod quotas;
mod rules;
mod schema;
mod waiting;

/// A comparison that is renamed would run each time, and nobody would know why.
#[test]
fn every_long_comparison_is_there() {
    let list = std::process::Command::new(std::env::current_exe().unwrap()).arg("--list").output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let names: Vec<&str> = list.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    for name in include_str!("../../long.txt").lines().filter(|line| !line.starts_with('#')) {
        assert!(names.contains(&name), "long.txt names {name}, which is no test");
    }
}
