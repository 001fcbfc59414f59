//! The node's binary as a user runs it: what it says when it is used wrongly.

#![allow(clippy::unwrap_used)]

mod memory;

use std::process::{Command, Output};

fn machinistd(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_machinistd"));
    command.args(arguments).env_remove("NODE_NAME").env_remove("KUBECONFIG").output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn without_a_node_name_it_says_which_flag_is_missing() {
    let output = machinistd(&["--root", "/nonexistent"]);
    assert!(!output.status.success());
    assert!(said(&output).contains("--node"), "{}", said(&output));
}

#[test]
fn an_unknown_flag_is_wrong_use() {
    let output = machinistd(&["--no-such-flag"]);
    assert_eq!(output.status.code(), Some(2));
}
