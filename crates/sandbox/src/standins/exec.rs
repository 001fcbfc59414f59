//! Commands in containers, as far as there is something to run them on: pods that see their node's root.
//!
//! A pod that mounts its node's `/` (our daemon at `/rootfs`, `kubectl debug node/…` at `/host`) is entered by making
//! that view: in a systemd container its own root, on a simulated node its folder with this machine's programs beneath.
//! No other pod runs anything, and that is said.

mod process;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use apiserver::{PodExec, Run};
use serde_json::Value;

/// Enters a view of the node's own root. `$1` is where it is mounted, `$2` whether there is a terminal.
const IN_CONTAINER: &str = include_str!("exec/container.sh");
/// As above; the working folder is the node's.
const IN_FOLDER: &str = include_str!("exec/folder.sh");

/// What a node is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A container with a system of its own, by its first process.
    Container { leader: u32 },
    /// A folder of this machine.
    Folder(PathBuf),
}

/// For the embedded API: how a command is run in a pod. `place` says what a node is, or why it cannot be entered.
pub fn commands(
    place: impl Fn(&str) -> Result<Place, String> + Send + Sync,
) -> impl Fn(&PodExec) -> Result<Run, String> + Send + Sync {
    move |asked| {
        let host = host_of(asked)?;
        let place = place(&asked.node)?;
        if let Place::Folder(folder) = &place {
            namespaces().map_err(|said| no_namespaces(&asked.node, folder, &said))?;
        }
        let words = words(asked, &place, &host);
        let folder = match place {
            Place::Folder(folder) => folder,
            Place::Container { .. } => PathBuf::from("/"),
        };
        let tty = asked.tty;
        Ok(Box::new(move |streams| Box::pin(process::run(words, folder, tty, streams))))
    }
}

/// Where the container sees the root of its node.
fn host_of(asked: &PodExec) -> Result<String, String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let spec = &asked.object["spec"];
    let is_root = |volume: &&Value| volume["hostPath"]["path"] == "/";
    let volumes = list(&spec["volumes"]);
    let names: Vec<&Value> = volumes.iter().filter(is_root).map(|volume| &volume["name"]).collect();
    let containers = ["containers", "initContainers", "ephemeralContainers"];
    let mut containers = containers.iter().flat_map(|field| list(&spec[field]));
    let container = containers.find(|own| own["name"] == asked.container.as_str()).unwrap_or_default();
    let mounts = list(&container["volumeMounts"]);
    let path =
        mounts.iter().find(|mount| names.contains(&&mount["name"])).and_then(|mount| mount["mountPath"].as_str());
    let Some(path) = path else {
        return Err(format!(
            "pod {} only stands for one: no image runs on node {}. Commands can be run in pods that mount the root of \
             their node, such as machine-config-daemon, which has it at /rootfs",
            asked.pod, asked.node
        ));
    };
    let path = path.trim_end_matches('/');
    let is_plain = |part: &str| {
        !part.is_empty() && part != ".." && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    match path.strip_prefix('/') {
        Some(rest) if rest.split('/').all(is_plain) => Ok(path.to_owned()),
        _ => Err(format!("the root of node {} cannot be shown at {path:?}: use a plain path", asked.node)),
    }
}

fn words(asked: &PodExec, place: &Place, host: &str) -> Vec<String> {
    let (enter, script) = match place {
        Place::Container { leader } => {
            let leader = leader.to_string();
            let enter = ["nsenter", "-t", &leader, "-m", "-u", "-i", "-p", "-C", "--", "unshare", "--mount", "--"];
            (enter.map(str::to_owned).to_vec(), IN_CONTAINER)
        }
        Place::Folder(_) => (NAMESPACES.map(str::to_owned).to_vec(), IN_FOLDER),
    };
    let tty = if asked.tty { "tty" } else { "" };
    let room = ["/bin/sh", "-c", script, "sh", host, tty].map(str::to_owned);
    enter.into_iter().chain(room).chain(asked.command.iter().cloned()).collect()
}

/// A user namespace even for root: what runs in it may be root of its node's files and of nothing else.
const NAMESPACES: [&str; 8] =
    ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--"];

/// Whether this machine lets us make namespaces; what it says if not.
fn namespaces() -> Result<(), String> {
    static TRIED: OnceLock<Result<(), String>> = OnceLock::new();
    let attempt = || {
        let mut command = Command::new(NAMESPACES[0]);
        command.args(&NAMESPACES[1..]).args(["mount", "-t", "tmpfs", "room", "/mnt"]);
        let output = command.stdin(Stdio::null()).output().map_err(|error| format!("unshare: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if output.status.success() { Ok(()) } else { Err(said) }
    };
    TRIED.get_or_init(attempt).clone()
}

fn no_namespaces(node: &str, folder: &std::path::Path, said: &str) -> String {
    format!(
        "nothing can be run as if on node {node}: this machine does not let you make namespaces ({said}). Allow it (sysctl \
         kernel.unprivileged_userns_clone=1, or kernel.apparmor_restrict_unprivileged_userns=0), use `machinist up \
         --systemd`, or look at the node's files in {}",
        folder.display()
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(mount: &str) -> PodExec {
        PodExec {
            namespace: "n".into(),
            pod: "machine-config-daemon-x".into(),
            node: "worker-1".into(),
            container: "c".into(),
            command: vec!["ls".into(), "a b".into()],
            stdin: false,
            tty: true,
            object: json!({"spec": {
                "containers": [{"name": "c", "volumeMounts": [{"name": "rootfs", "mountPath": mount}]}, {"name": "d"}],
                "volumes": [{"name": "rootfs", "hostPath": {"path": "/"}}, {"name": "x", "hostPath": {"path": "/x"}}],
            }}),
        }
    }

    #[test]
    fn only_pods_that_see_their_node_run_commands() {
        assert_eq!(host_of(&asked("/rootfs/")), Ok("/rootfs".to_owned()));
        let other = PodExec { container: "d".into(), ..asked("/rootfs") };
        assert!(host_of(&other).is_err_and(|why| why.contains("only stands for one")));
        for path in ["/../x", "/", "rootfs", "/a b", "/a/$(x)", "//x"] {
            assert!(host_of(&asked(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn a_command_reaches_its_node_word_by_word() {
        let shown = |place: &Place| {
            let words = words(&asked("/rootfs"), place, "/rootfs");
            words.iter().map(|word| if word.contains('\n') { "SCRIPT" } else { word }).collect::<Vec<_>>().join("|")
        };
        assert_eq!(
            shown(&Place::Container { leader: 7 }),
            "nsenter|-t|7|-m|-u|-i|-p|-C|--|unshare|--mount|--|/bin/sh|-c|SCRIPT|sh|/rootfs|tty|ls|a b"
        );
        assert!(
            shown(&Place::Folder("/x".into())).ends_with("--kill-child|--|/bin/sh|-c|SCRIPT|sh|/rootfs|tty|ls|a b")
        );
    }
}
