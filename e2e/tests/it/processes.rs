//! Our own binaries, run as users run them.

use std::path::Path;

use testkit::ControlPlane;
use testkit::binaries::binary;
use testkit::process::Process;

/// Starts `machinist controller` with a short Lease and no settling, logging into `folder`.
pub(crate) fn controller(control_plane: &ControlPlane, folder: &Path, name: &str, more: &[&str]) -> Process {
    let mut arguments = vec![
        "controller".to_owned(),
        "--kubeconfig".to_owned(),
        control_plane.kubeconfig().display().to_string(),
        "--identity".to_owned(),
        name.to_owned(),
        "--lease-duration=3".to_owned(),
        "--listen=127.0.0.1:0".to_owned(),
        "--settle=0".to_owned(),
    ];
    arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
    let log = folder.join(format!("{name}.log"));
    Process::start(&binary("machinist"), &arguments, &[], &log).expect("the controller starts")
}
