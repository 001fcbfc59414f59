//! What the operating system allows one process, and what to do when that is too little.

use anyhow::{anyhow, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files that the process itself needs: the store, logs, connections of a few users.
const BASE: u64 = 200;

/// Open files of one node on a folder: its watch, its connection, and what it writes at the moment.
const PER_NODE: u64 = 8;

/// Watches of one node: the daemon's, and with a service manager of its own also that one's and its services'.
const WATCHES: (u32, u32) = (1, 8);

/// Raises the limit of open files as far as this user may, and refuses what cannot work.
pub(super) fn allow(nodes: u32, in_memory: bool, systemd: bool) -> anyhow::Result<()> {
    let needed = BASE + if in_memory { 0 } else { PER_NODE * u64::from(nodes) };
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < needed) {
        let allowed = maximum.map_or(needed, |maximum| maximum.min(needed.max(4096)));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(allowed), maximum });
    }
    let Rlimit { current, .. } = getrlimit(Resource::Nofile);
    if let Some(current) = current.filter(|current| *current < needed) {
        bail!(
            "{nodes} nodes need about {needed} open files, and this shell allows {current}; allow more with `ulimit -n {needed}`, \
             ask for fewer nodes with --nodes, or keep them in memory with --in-memory"
        );
    }
    let watches = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").ok();
    let watches = watches.and_then(|text| text.trim().parse::<u32>().ok());
    let wanted = nodes.saturating_mul(if systemd { WATCHES.1 } else { WATCHES.0 }).saturating_add(8);
    if let Some(watches) = watches.filter(|watches| !in_memory && *watches < wanted) {
        bail!(
            "{nodes} nodes watch their files, and this system allows {watches} watches a user; allow more with `sysctl \
             fs.inotify.max_user_instances={}`, ask for fewer nodes with --nodes, or keep them in memory with --in-memory",
            wanted + 56
        );
    }
    Ok(())
}

/// Why the API did not start, with a remedy where there is one.
pub(super) fn explain(error: ::apiserver::Error, port: u16) -> anyhow::Error {
    let mut source: Option<&dyn std::error::Error> = Some(&error);
    while let Some(cause) = source {
        if let Some(io) = cause.downcast_ref::<std::io::Error>() {
            match io.kind() {
                std::io::ErrorKind::AddrInUse => {
                    return anyhow!(
                        "port {port} is in use by another process; choose another with --port, or 0 for any that is free"
                    );
                }
                std::io::ErrorKind::PermissionDenied if port != 0 && port < 1024 => {
                    return anyhow!("this user may not listen on port {port}; choose one above 1023 with --port");
                }
                _ => {}
            }
            if io.raw_os_error() == Some(24) {
                return anyhow!("too many open files; allow more with `ulimit -n 4096`");
            }
            if io.raw_os_error() == Some(28) {
                return anyhow!("no space left for the fleet; choose a folder on another disk with --data");
            }
        }
        source = cause.source();
    }
    anyhow::Error::from(error)
}
