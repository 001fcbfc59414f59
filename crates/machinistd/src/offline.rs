//! The commands that need no cluster.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use daemon::once::{self, Outcome};
use daemon::{difference, engine};

use crate::arguments::Start;
use crate::serve::open_host;

/// There is something to see.
const DIFFERS: u8 = 3;

pub(crate) fn diff(arguments: &Start) -> anyhow::Result<ExitCode> {
    let host = open_host(arguments)?;
    let (config, mismatches) = difference::difference(&*host)?;
    if mismatches.is_empty() {
        println!("this host is as {config} says");
        return Ok(ExitCode::SUCCESS);
    }
    for mismatch in &mismatches {
        println!("{}", difference::describe(&arguments.root, mismatch));
    }
    println!("{} differences from {config}", mismatches.len());
    Ok(ExitCode::from(DIFFERS))
}

pub(crate) fn once_from(arguments: &Start, file: &Path, skip_reboot: bool) -> anyhow::Result<ExitCode> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let config =
        once::read(&text).with_context(|| format!("{} is neither a MachineConfig nor Ignition", file.display()))?;
    let host = open_host(arguments)?;
    finish(once::apply(&*host, &config)?, &*host, &engine::name(&config), skip_reboot)
}

pub(crate) fn finish(
    outcome: Outcome,
    host: &dyn change::host::Host,
    config: &str,
    skip_reboot: bool,
) -> anyhow::Result<ExitCode> {
    match outcome {
        Outcome::Nothing => println!("nothing to change"),
        Outcome::Applied => println!("applied {config}"),
        Outcome::NeedsReboot if skip_reboot => {
            once::leave(host)?;
            println!("applied {config}; it takes effect with the next boot");
        }
        Outcome::NeedsReboot => {
            println!("applied {config}; rebooting");
            once::reboot(host, &format!("Completing firstboot provisioning to {config}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `ID` and `VERSION_ID` of the host's os-release.
pub(crate) fn os_release(root: &Path) -> (String, String) {
    let read = |place: &str| std::fs::read_to_string(root.join(place));
    let text = read("etc/os-release").or_else(|_| read("usr/lib/os-release")).unwrap_or_default();
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.map(|value| value.trim_matches('"').to_owned())
    };
    (value("ID").unwrap_or_else(|| "unsupported".into()), value("VERSION_ID").unwrap_or_default())
}
