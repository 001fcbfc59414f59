//! Runs kubectl, the client users have.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs it with `input` on its standard input and returns whatever came of it.
pub fn run(kubeconfig: &Path, arguments: &[&str], input: Option<&str>, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(kubeconfig).args(arguments).envs(variables.iter().copied());
    // The discovery cache in the home folder belongs to the user, and ports are used again.
    command.env("KUBECACHEDIR", kubeconfig.with_file_name("kubectl-cache"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("kubectl starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let _ = std::io::Write::write_all(&mut stdin, input.unwrap_or_default().as_bytes());
    drop(stdin);
    child.wait_with_output().expect("kubectl can be waited for")
}

/// The same for a command that has to succeed; returns what it printed.
///
/// # Panics
/// When kubectl fails; the message has what it said.
#[track_caller]
pub fn must(kubeconfig: &Path, arguments: &[&str], input: Option<&str>) -> String {
    let output = run(kubeconfig, arguments, input, &[]);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "kubectl {}: {stdout}{stderr}", arguments.join(" "));
    stdout.into_owned()
}
