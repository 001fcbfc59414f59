//! One config without a cluster: from a file, or the rest of a new machine's first boot.

use api::machineconfiguration::MachineConfig;
use change::diff::Diff;
use change::disruption::Disruption;
use change::host::Host;
use change::kargs;
use serde_json::Value;

use crate::cluster_policy::ClusterPolicy;
use crate::engine::{self, Engine, Prepared, Standing};
use crate::journal::PostAction;
use crate::store;

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Nothing,
    Applied,
    NeedsReboot,
}

/// Reads a MachineConfig, or an Ignition config as one.
pub fn read(text: &[u8]) -> Result<MachineConfig, serde_json::Error> {
    let value: Value = serde_json::from_slice(text)?;
    if value.get("ignition").is_some() {
        let mut config = MachineConfig::default();
        config.metadata.name = Some("once-from".into());
        config.spec.config = Some(value);
        return Ok(config);
    }
    serde_json::from_value(value)
}

/// From what the host runs to `config`, with the default policies.
pub fn apply(host: &dyn Host, config: &MachineConfig) -> Result<Outcome, engine::Error> {
    let engine = Engine::new(host);
    let owes_reboot = finish_earlier(&engine)? == Some(Outcome::NeedsReboot);
    let earlier = engine.store().journal()?.map(|journal| journal.to);
    if owes_reboot && earlier.is_none_or(|earlier| earlier == engine::name(config)) {
        return Ok(Outcome::NeedsReboot);
    }
    // Another config takes over what the earlier one has written, and its reboot.
    engine.finish()?;
    let from = engine.store().current()?.unwrap_or_default();
    let outcome = go(host, &from, config, &mut |_| {})?;
    Ok(if owes_reboot { Outcome::NeedsReboot } else { outcome })
}

/// Asks for the reboot that an [`Outcome::NeedsReboot`] is about. The journal stays open until the machine has rebooted, so
/// that whoever is stopped in between asks again.
pub fn reboot(host: &dyn Host, reason: &str) -> Result<(), engine::Error> {
    Engine::new(host).mark_rebooting()?;
    Ok(host.system().reboot(reason)?)
}

/// Leaves the reboot to somebody else, as the user has asked: the change takes effect with the next boot, whenever that is.
pub fn leave(host: &dyn Host) -> Result<(), engine::Error> {
    let engine = Engine::new(host);
    engine.finish()?;
    close_first_boot(&engine)
}

/// Carries on what an earlier try left, and says what came of it: nothing was left, it is over, or it waits for its reboot.
fn finish_earlier(engine: &Engine<'_>) -> Result<Option<Outcome>, engine::Error> {
    match engine.recover()? {
        Standing::Settled | Standing::WentBack { .. } => Ok(None),
        Standing::WaitsForReboot | Standing::MustRebootBack { .. } => Ok(Some(Outcome::NeedsReboot)),
        // The reboot has happened.
        Standing::Trying => {
            engine.finish()?;
            Ok(Some(Outcome::Applied))
        }
        Standing::Applied if engine.store().journal()?.is_some_and(|journal| journal.reboots()) => {
            Ok(Some(Outcome::NeedsReboot))
        }
        Standing::Applied => {
            engine.act()?;
            engine.finish()?;
            Ok(Some(Outcome::Applied))
        }
    }
}

fn close_first_boot(engine: &Engine<'_>) -> Result<(), engine::Error> {
    engine.store().rename_done(store::ENCAPSULATED, store::ENCAPSULATED_DONE)?;
    Ok(engine.store().flush()?)
}

/// Ignition has written files and units; what is left is the operating system. Without a difference nothing reboots. With
/// one, the first boot is over when this is called again after the reboot.
///
/// Each step is told to `begin` before it happens, so that a failure has a place.
pub fn first_boot(
    host: &dyn Host,
    config: &MachineConfig,
    begin: &mut dyn FnMut(&str),
) -> Result<Outcome, engine::Error> {
    let engine = Engine::new(host);
    begin("finish what an earlier try left");
    match finish_earlier(&engine)? {
        Some(Outcome::NeedsReboot) => return Ok(Outcome::NeedsReboot),
        Some(outcome) => {
            close_first_boot(&engine)?;
            return Ok(outcome);
        }
        None => {}
    }
    begin("read the running system");
    let from = as_booted(host, config)?;
    let outcome = go(host, &from, config, begin)?;
    if outcome != Outcome::NeedsReboot {
        begin("close the first boot");
        close_first_boot(&engine)?;
    }
    Ok(outcome)
}

/// The machine as it came up, said as a config: its image, and those wanted arguments that it already has.
fn as_booted(host: &dyn Host, config: &MachineConfig) -> Result<MachineConfig, engine::Error> {
    let system = host.system();
    let mut booted = MachineConfig::default();
    booted.metadata.name = Some("mco-empty-mc".into());
    booted.spec.fips = config.spec.fips.map(|_| system.fips());
    if system.backend().is_some() {
        booted.spec.os_image_url = system.booted_image()?;
        let line = system.kernel_arguments()?;
        booted.spec.kernel_arguments = kargs::running(&config.spec.kernel_arguments, &line);
    }
    Ok(booted)
}

fn go(
    host: &dyn Host,
    from: &MachineConfig,
    to: &MachineConfig,
    begin: &mut dyn FnMut(&str),
) -> Result<Outcome, engine::Error> {
    let engine = Engine::new(host);
    begin("compare it with the config");
    let (old, new) = (engine::content(from)?, engine::content(to)?);
    let steps = engine.plan(&engine::check(&old, &engine::name(from))?, &engine::check(&new, &engine::name(to))?)?;
    if steps.is_empty() {
        return Ok(Outcome::Nothing);
    }
    let policy = ClusterPolicy::defaults();
    let disruption = Disruption::of(&Diff::between(&old, &new), &policy.policies);
    let runtime = &policy.settings.runtime_service;
    let actions: Vec<PostAction> =
        disruption.actions.iter().filter_map(|action| PostAction::of(action, runtime)).collect();
    let prepared = Prepared { from: from.clone(), to: to.clone(), steps, actions, trial: None };
    begin(&format!("apply {} changes to the system", prepared.steps.len()));
    engine.execute(&prepared)?;
    let outcome = finish_earlier(&engine)?.unwrap_or(Outcome::Applied);
    Ok(outcome)
}
