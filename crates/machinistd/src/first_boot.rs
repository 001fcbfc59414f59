//! Finishes a new machine's first boot and tells the config server how it went.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use daemon::engine;
use daemon::once::{self, Outcome};
use daemon::report::{self, Credential};
use serving::report::{Report, Stage};

use crate::arguments::Start;
use crate::offline::finish;
use crate::serve::open_host;

pub(crate) fn run(arguments: &Start, file: &Path, skip_reboot: bool) -> anyhow::Result<ExitCode> {
    let path = arguments.root.join(file.strip_prefix("/").unwrap_or(file));
    if !path.exists() {
        println!("first boot is already complete");
        return Ok(ExitCode::SUCCESS);
    }
    let mut report = Report { stage: Stage::FirstBoot, ..Report::default() };
    let result = complete(arguments, &path, skip_reboot, &mut report);
    if let Err(error) = &result {
        report.error = Some(format!("{error:#}"));
        tell(&arguments.root, None, report);
    }
    result
}

fn complete(arguments: &Start, path: &Path, skip_reboot: bool, report: &mut Report) -> anyhow::Result<ExitCode> {
    report.steps.push(format!("read {}", path.display()));
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let config = once::read(&text).with_context(|| format!("{} is not a MachineConfig", path.display()))?;
    let name = engine::name(&config);
    report.config = Some(name.clone());
    report.steps.push("open the host".to_owned());
    let host = open_host(arguments)?;
    let outcome = once::first_boot(&*host, &config, &mut |step| report.steps.push(step.to_owned()))?;
    report.reboots = outcome == Outcome::NeedsReboot;
    // Before the reboot: afterwards there is nothing left to tell.
    tell(&arguments.root, None, report.clone());
    report::forget(&arguments.root);
    finish(outcome, &*host, &name, skip_reboot)
}

/// Tells that Ignition failed, from the rescue shell of its initramfs or a unit there.
pub(crate) fn ignition_failed(arguments: &Start, log: &Path, config: Option<&Path>) -> anyhow::Result<ExitCode> {
    let log = std::fs::read_to_string(log).with_context(|| format!("cannot read {}", log.display()))?;
    let report = Report { stage: Stage::Ignition, error: Some(report::failures(&log)), ..Report::default() };
    let is_told = tell(&arguments.root, config, report);
    Ok(if is_told { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn tell(root: &Path, config: Option<&Path>, report: Report) -> bool {
    let fetched = || {
        let text = std::fs::read(config?).ok()?;
        Credential::in_config(&serde_json::from_slice(&text).ok()?)
    };
    let Some(credential) = Credential::on(root).or_else(fetched) else {
        tracing::info!("this machine came without a credential, so nobody is told");
        return false;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let told = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(report::send(root, &credential, report)).map_err(anyhow::Error::from));
    match &told {
        Ok(()) => tracing::info!("the config server knows"),
        Err(error) => tracing::warn!("the config server was not told: {error:#}"),
    }
    told.is_ok()
}
