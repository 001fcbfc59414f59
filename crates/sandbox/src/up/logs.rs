//! `kubectl logs` of our own components: the lines of the fleet's log that are theirs.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::standins::Machines;

/// Only the end of a long log is read: who follows it looks twice a second.
const END: u64 = 4 << 20;

/// What a pod's log holds, for the embedded API. `nodes` is the folder of all nodes.
pub(super) fn of_pods(
    log: PathBuf,
    nodes: PathBuf,
    machines: Machines,
) -> impl Fn(&::apiserver::PodLog) -> Option<String> {
    move |asked| {
        let whose = whose(&asked.pod, &machines)?;
        if let Whose::Node(node) = &whose
            && let Ok(leader) = std::fs::read_to_string(nodes.join(node).join("leader"))
        {
            return journal(leader.trim());
        }
        let text = read_end(&log)?;
        let lines = text.lines().filter(|line| is_of(line, &whose));
        Some(lines.map(|line| format!("{line}\n")).collect())
    }
}

/// What the daemon on a systemd container has logged. A container that hangs must not hold the API.
fn journal(leader: &str) -> Option<String> {
    let mut command = Command::new("timeout");
    command.args(["5", "nsenter", "-t", leader, "-m", "-u", "-i", "-p", "-C"]);
    command.args(["journalctl", "-u", "machinistd", "--no-pager", "-n", "1000", "-o", "cat"]);
    let output = command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whose lines a pod's log is.
#[derive(Debug, PartialEq)]
enum Whose {
    /// The part of the code that writes them.
    Code(&'static str),
    Node(String),
}

fn whose(pod: &str, machines: &Machines) -> Option<Whose> {
    let code = [
        ("machine-config-controller-", "controllers"),
        ("machine-config-operator-", "operator"),
        ("machine-config-server-", "server"),
        ("machine-api-controllers-", "machines"),
        ("machine-api-operator-", "operator::machine_api"),
    ];
    if let Some((_, code)) = code.iter().find(|(prefix, _)| pod.starts_with(prefix)) {
        return Some(Whose::Code(code));
    }
    pod.starts_with("machine-config-daemon-").then(|| machines.node_of(pod)).flatten().map(Whose::Node)
}

/// A line is `time level target: message`, with `node{name="…"}:` before the target of a daemon.
fn is_of(line: &str, whose: &Whose) -> bool {
    let mut words = line.split_whitespace().skip(2);
    match whose {
        Whose::Node(node) => words.next().is_some_and(|span| span == format!("node{{name={node}}}:")),
        Whose::Code(code) => words.next().is_some_and(|target| {
            let target = target.trim_end_matches(':');
            target == *code || target.starts_with(&format!("{code}::"))
        }),
    }
}

fn read_end(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let size = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(END))).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_component_has_its_own_lines() {
        let controller = "2026-11-15T07:16:30Z  INFO controllers::drain: node worker-1: uncordoning";
        let daemon = "2026-11-15T07:16:30Z  INFO node{name=worker-1}: daemon::run: Starting update";
        assert!(is_of(controller, &Whose::Code("controllers")) && !is_of(daemon, &Whose::Code("controllers")));
        assert!(
            is_of(daemon, &Whose::Node("worker-1".to_owned()))
                && !is_of(controller, &Whose::Node("worker-1".to_owned()))
        );
        assert_eq!(whose("machine-config-controller-x-y", &Machines::default()), Some(Whose::Code("controllers")));
        assert_eq!(whose("web-1", &Machines::default()), None);
    }
}
