//! The node's binary as a user runs it: what it says when it is used wrongly.

#![allow(clippy::unwrap_used)]

mod lost_line;
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

/// The binary under the name `chroot`, as the image has it.
fn chroot(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("chroot");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_machinistd"), &link).unwrap();
    Command::new(link).args(arguments).output().unwrap()
}

#[test]
fn as_chroot_it_says_what_is_wrong_with_the_exit_codes_of_chroot() {
    for (arguments, words) in
        [(&[][..], "missing operand"), (&["--userspec=a", "/"], "--userspec=a"), (&["/nowhere"], "'/nowhere'")]
    {
        let output = chroot(arguments);
        assert_eq!(output.status.code(), Some(125), "{}", said(&output));
        assert!(said(&output).contains(words), "{}", said(&output));
    }
}

#[test]
fn as_chroot_it_runs_a_command_of_the_other_root() {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !is_root {
        assert_eq!(chroot(&["/"]).status.code(), Some(125), "only root may");
        return;
    }
    let output = chroot(&["/", "pwd"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "/\n", "{}", said(&output));
    assert_eq!(chroot(&["/", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(chroot(&["/", "nothing-of-this-name"]).status.code(), Some(127));
}
