//! `kubectl exec` on the nodes of a fleet: what each of them is made of.

use crate::standins::{Machines, Place};
use ::apiserver::{PodExec, Run};

use super::{Arguments, folder::Folder};

/// How commands are run in pods, for the embedded API.
pub(super) fn on_nodes(
    folder: &Folder,
    machines: Machines,
    arguments: &Arguments,
) -> impl Fn(&PodExec) -> Result<Run, String> + Send + Sync + 'static {
    let (nodes, in_memory, systemd) = (folder.nodes(), arguments.in_memory, arguments.systemd);
    crate::standins::commands(move |node| {
        if in_memory {
            return Err(format!("node {node} is in memory and has no files: use `machinist up` without --in-memory"));
        }
        // A pod can name any node; only ours have folders.
        if !machines.knows(node) {
            return Err(format!("there is no machine behind node {node}"));
        }
        let off = || format!("node {node} is off or starting: its commands can be run when it is Ready");
        if machines.off().contains(node) {
            return Err(off());
        }
        if !systemd {
            return Ok(Place::Folder(nodes.join(node).join("root")));
        }
        let leader = std::fs::read_to_string(nodes.join(node).join("leader")).unwrap_or_default();
        leader.trim().parse().map(|leader| Place::Container { leader }).map_err(|_| off())
    })
}
