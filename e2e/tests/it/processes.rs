//! Starts our own binaries like users do.

use std::path::Path;

use testkit::ControlPlane;
use testkit::binaries::binary;
use testkit::process::Process;

/// Starts `machinist controller` with a short Lease and without a settling delay, logging into `folder`.
pub(crate) fn controller(control_plane: &ControlPlane, folder: &Path, name: &str, more: &[&str]) -> Process {
    controller_as(&control_plane.kubeconfig(), folder, name, more)
}

/// The same, with another credential than the administrator's.
pub(crate) fn controller_as(kubeconfig: &Path, folder: &Path, name: &str, more: &[&str]) -> Process {
    let more: Vec<&str> = ["--settle=0"].iter().chain(more).copied().collect();
    elected("controller", kubeconfig, folder, name, &more)
}

/// Starts `machinist operator` with a short Lease, logging into `folder`.
pub(crate) fn operator(control_plane: &ControlPlane, folder: &Path, name: &str, more: &[&str]) -> Process {
    elected("operator", &control_plane.kubeconfig(), folder, name, more)
}

/// Starts a process that takes part in an election.
fn elected(verb: &str, kubeconfig: &Path, folder: &Path, name: &str, more: &[&str]) -> Process {
    let mut arguments = vec![
        verb.to_owned(),
        "--kubeconfig".to_owned(),
        kubeconfig.display().to_string(),
        "--identity".to_owned(),
        name.to_owned(),
        "--lease-duration=3".to_owned(),
        "--listen=127.0.0.1:0".to_owned(),
    ];
    arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
    let log = folder.join(format!("{name}.log"));
    Process::start(&binary("machinist"), &arguments, &[], &log).expect("the process starts")
}

/// Returns the address at which such a process serves its health, `http://127.0.0.1:PORT`, once it listens.
pub(crate) async fn listening(process: &Process) -> String {
    testkit::wait_until("the process to listen", || async {
        let output = process.output();
        let line = output.lines().find(|line| line.contains("serving health"))?;
        let port: String = line.split("127.0.0.1:").nth(1)?.chars().take_while(char::is_ascii_digit).collect();
        Some(format!("http://127.0.0.1:{port}"))
    })
    .await
}

/// Starts `machinistd` for a node whose host is the folder `root`, with the kubelet's own credential.
pub(crate) fn daemon(control_plane: &ControlPlane, folder: &Path, node: &str, root: &Path) -> Process {
    let arguments = [
        "--node".to_owned(),
        node.to_owned(),
        "--root".to_owned(),
        root.display().to_string(),
        "--kubeconfig".to_owned(),
        control_plane.node_kubeconfig(node).display().to_string(),
        "--simulate".to_owned(),
    ];
    let log = folder.join(format!("{node}.log"));
    Process::start(&binary("machinistd"), &arguments, &[], &log).expect("the daemon starts")
}
