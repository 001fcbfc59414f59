//! Brings the host from one config to another, through a journal, and finishes or undoes after any crash.
//!
//! The order is always: write the journal, make it durable, do the work, make that durable, move the journal on. The engine
//! knows no cluster: who may start an update, drains and reports are the loop's business.

use api::machineconfiguration::MachineConfig;
use change::backend;
use change::content::Content;
use change::host::{Error as HostError, ErrorKind, Host, HostPath};
use change::plan::{configures_sshd, plan};
use change::step::Step;
use change::target::{self, Target};

use crate::faults::{self, Way};
use crate::journal::{Journal, Phase, PostAction, Trial};
use crate::store::{Reverted, Store};
use crate::trial::Clock;
use crate::{accounts, apply, keys, originals, store, together};

pub use ::node::Standing;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("config {name} cannot be used: {source}")]
    Config { name: String, source: target::Error },
    #[error("this host cannot take config {name}: {}", problems.join("; "))]
    Refused { name: String, problems: Vec<String> },
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("{reason}; the host is back at {config}")]
    Undone { config: String, reason: String },
    #[error("{reason}; going back to {config} failed too: {problem}")]
    Stuck { config: String, reason: String, problem: HostError },
    #[error(
        "the journal has lost the configs it speaks of; remove /etc/machine-config-daemon/journal after checking the host"
    )]
    LostSides,
}

impl Error {
    pub fn is_power_cut(&self) -> bool {
        matches!(self, Error::Host(error) | Error::Store(store::Error::Host(error)) if error.kind == ErrorKind::PowerCut)
    }
}

/// An update that was looked at and can begin.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub from: MachineConfig,
    pub to: MachineConfig,
    pub steps: Vec<Step>,
    pub actions: Vec<PostAction>,
    pub trial: Option<Trial>,
}

pub struct Engine<'a> {
    host: &'a dyn Host,
    store: Store<'a>,
}

impl<'a> Engine<'a> {
    pub fn new(host: &'a dyn Host) -> Self {
        Self { host, store: Store::new(host.files()) }
    }

    pub fn store(&self) -> &Store<'a> {
        &self.store
    }

    /// The steps, or every reason why this host cannot take them. Nothing is touched.
    pub fn prepare(&self, from: &MachineConfig, to: &MachineConfig) -> Result<Vec<Step>, Error> {
        self.plan(&read(from)?, &read(to)?)
    }

    /// [`Engine::prepare`], for configs that were read already.
    pub fn plan(&self, old: &Target, new: &Target) -> Result<Vec<Step>, Error> {
        let steps = plan(old, new);
        let problems = self.problems(new, &steps);
        if problems.is_empty() { Ok(steps) } else { Err(Error::Refused { name: new.name.clone(), problems }) }
    }

    fn problems(&self, target: &Target, steps: &[Step]) -> Vec<String> {
        let files = self.host.files();
        let mut problems = backend::problems(self.host.system().backend(), std::env::consts::ARCH, steps);
        let paths = steps.iter().filter_map(|step| match step {
            Step::WriteFile { path } | Step::WriteLink { path } | Step::MakeFolder { path } => Some(path),
            _ => None,
        });
        problems.extend(paths.filter_map(|path| files.refuses(path)));
        // Where sshd will read keys from is known only after its configuration has changed.
        if !steps.iter().any(configures_sshd) {
            let users =
                steps.iter().filter_map(|step| if let Step::SetKeys { user } = step { Some(user) } else { None });
            problems.extend(users.flat_map(|user| self.key_problems(target, user)));
        }
        if target.fips != self.host.system().fips() && target.fips {
            problems.push("detected change to FIPS flag; refusing to modify FIPS on a running cluster".into());
        }
        problems
    }

    /// Why keys of a user could not be written where sshd reads them.
    fn key_problems(&self, target: &Target, user: &str) -> Vec<String> {
        let files = self.host.files();
        let Ok(Some(account)) = accounts::find(files, user) else { return Vec::new() };
        match keys::places(files, user, &account) {
            Ok(places) => places.paths().filter_map(|path| files.refuses(path)).collect(),
            Err(_) if target.users.get(user).is_none_or(|user| user.keys.is_empty()) => Vec::new(),
            Err(error) => vec![error.to_string()],
        }
    }

    /// Writes the journal and carries out every step. On a failure everything is taken back.
    pub fn execute(&self, prepared: &Prepared) -> Result<(), Error> {
        let journal = Journal {
            version: Journal::VERSION,
            from: name(&prepared.from),
            to: name(&prepared.to),
            phase: Phase::Applying,
            boot: self.host.system().boot_id()?,
            steps: prepared.steps.clone(),
            actions: prepared.actions.clone(),
            trial: prepared.trial.clone(),
            tried: false,
            kept: false,
        };
        self.store.save_sides(&prepared.from, &prepared.to)?;
        self.store.flush()?;
        self.record(&journal)?;
        self.carry_out(journal, &prepared.from, &prepared.to)
    }

    /// Every phase is on disk before it begins.
    fn record(&self, journal: &Journal) -> Result<(), Error> {
        faults::before_phase(&journal.phase);
        self.store.save_journal(journal)?;
        faults::after_phase(&journal.phase);
        Ok(())
    }

    fn carry_out(&self, mut journal: Journal, from: &MachineConfig, to: &MachineConfig) -> Result<(), Error> {
        let _lock = self.host.system().hold_off_shutdown("a config is being applied");
        let target = read(to)?;
        let originals = journal.steps.iter().take_while(|step| keeps(step)).count();
        if !journal.kept {
            match self.walk(&target, &journal.steps[..originals], 0, Way::On) {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::PowerCut => return Err(error.into()),
                Err(error) => return self.undo(journal, from, to, error.to_string()),
            }
            // Durable before the first write that could need an original.
            journal.kept = true;
            journal.version = Journal::VERSION;
            self.record(&journal)?;
        }
        match self.walk(&target, &journal.steps, originals, Way::On) {
            Ok(()) => {}
            Err(error) if error.kind == ErrorKind::PowerCut => return Err(error.into()),
            Err(error) => return self.undo(journal, from, to, error.to_string()),
        }
        journal.phase = Phase::Applied;
        journal.tried = true;
        self.record(&journal)?;
        self.settle(&journal, from, to)
    }

    /// Does the steps from the one with this index on, in order, and makes them durable.
    fn walk(&self, target: &Target, steps: &[Step], from: usize, way: Way) -> Result<(), HostError> {
        let mut system = false;
        let mut unlabelled = Vec::new();
        let mut index = from;
        while let Some(step) = steps.get(index) {
            if is_system(step) && !system {
                // Whatever an earlier try has staged; arguments must not be appended twice.
                self.host.system().drop_staged()?;
                system = true;
            }
            if *step == Step::DaemonReload {
                self.label(&mut unlabelled)?;
            }
            let alike = together::alike(&steps[index..]);
            together::each(alike, |offset, step| {
                faults::at_step(way, index + offset);
                tracing::debug!(step = index + offset + 1, of = steps.len(), "{step}");
                apply::apply(self.host, target, step)
            })?;
            unlabelled.extend(alike.iter().filter_map(apply::written));
            index += alike.len();
        }
        faults::at_step(way, steps.len());
        self.label(&mut unlabelled)?;
        self.host.files().flush()
    }

    /// Files that are there and work must not fail an update over a tool that is missing or refuses.
    fn label(&self, paths: &mut Vec<HostPath>) -> Result<(), HostError> {
        let paths = std::mem::take(paths);
        if paths.is_empty() {
            return Ok(());
        }
        match self.host.system().restore_labels(&paths) {
            Err(error) if error.kind == ErrorKind::PowerCut => Err(error),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "SELinux labels could not be restored");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// After `Applied`: the new config is what the node runs, and what no config has any more is forgotten.
    fn settle(&self, journal: &Journal, from: &MachineConfig, to: &MachineConfig) -> Result<(), Error> {
        self.store.save_previous(from)?;
        self.store.save_current(to)?;
        self.store.flush()?;
        self.forget(&journal.steps)
    }

    fn forget(&self, steps: &[Step]) -> Result<(), Error> {
        for step in steps {
            match step {
                Step::PutBack { path } => originals::forget(self.host.files(), path)?,
                Step::PutBackEnablement { unit } => originals::forget_enablement(self.host.files(), unit)?,
                _ => {}
            }
        }
        Ok(self.store.flush()?)
    }

    /// Takes everything back and says why. Always an error: the update did not happen.
    fn undo(
        &self,
        mut journal: Journal,
        from: &MachineConfig,
        to: &MachineConfig,
        reason: String,
    ) -> Result<(), Error> {
        tracing::warn!(from = journal.from, to = journal.to, reason, "taking the update back");
        if !matches!(journal.phase, Phase::Undoing { .. }) {
            journal.phase = Phase::Undoing { reason: reason.clone() };
            self.record(&journal)?;
        }
        let _lock = self.host.system().hold_off_shutdown("a config is being taken back");
        match self.take_back(&journal, from, to) {
            Ok(()) => {}
            Err(error) if error.kind == ErrorKind::PowerCut => return Err(error.into()),
            Err(problem) => return Err(Error::Stuck { config: journal.from, reason, problem }),
        }
        journal.phase = Phase::Undone { reason: reason.clone() };
        self.record(&journal)?;
        self.settle_back(&journal, from, to)?;
        Err(Error::Undone { config: journal.from.clone(), reason })
    }

    fn take_back(&self, journal: &Journal, from: &MachineConfig, to: &MachineConfig) -> Result<(), HostError> {
        let damaged = |error: Error| HostError::new(ErrorKind::Refused, "undo", journal.to.clone(), error.to_string());
        let (old, new) = (read(from).map_err(damaged)?, read(to).map_err(damaged)?);
        if !journal.kept && journal.version > 1 {
            // Every original is kept before the first write, so nothing has been written.
            return Ok(());
        }
        if !journal.kept {
            // An original that was not kept yet would be taken for nothing and removed.
            let originals: Vec<Step> = journal.steps.iter().filter(|step| keeps(step)).cloned().collect();
            self.walk(&new, &originals, 0, Way::Keeping)?;
        }
        let mut reverse = plan(&new, &old);
        if self.host.system().boot_id()? == journal.boot {
            if reverse.iter().any(is_system) {
                self.host.system().drop_staged()?;
            }
            reverse.retain(|step| !is_system(step));
        }
        self.walk(&old, &reverse, 0, Way::Back)
    }

    fn settle_back(&self, journal: &Journal, from: &MachineConfig, to: &MachineConfig) -> Result<(), Error> {
        if !journal.from.is_empty() {
            self.store.save_current(from)?;
        } else {
            self.store.remove(store::CURRENT)?;
        }
        self.store.flush()?;
        let (old, new) = (read(from)?, read(to)?);
        self.forget(&plan(&new, &old))
    }

    /// Looks at the journal after a start and carries on: finishes what was being applied, undoes what was being undone.
    pub fn recover(&self) -> Result<Standing, Error> {
        let Some(journal) = self.store.journal()? else {
            // Configs that were laid ready for a journal that never began.
            self.store.sweep()?;
            return Ok(Standing::Settled);
        };
        let (from, to) = self.store.sides()?.ok_or(Error::LostSides)?;
        match journal.phase.clone() {
            Phase::Applying => {
                tracing::info!(from = journal.from, to = journal.to, "finishing an update that was interrupted");
                match self.carry_out(journal, &from, &to) {
                    Ok(()) => Ok(Standing::Applied),
                    Err(Error::Undone { .. }) => self.recover(),
                    Err(error) => Err(error),
                }
            }
            Phase::Applied => {
                self.settle(&journal, &from, &to)?;
                Ok(Standing::Applied)
            }
            Phase::Rebooting { boot } if boot == self.host.system().boot_id()? => Ok(Standing::WaitsForReboot),
            Phase::Rebooting { .. } | Phase::Trying(_) => Ok(Standing::Trying),
            Phase::Undoing { reason } => {
                tracing::info!(from = journal.from, to = journal.to, "taking an update back, which was interrupted");
                match self.undo(journal, &from, &to, reason) {
                    Err(Error::Undone { .. }) => self.recover(),
                    Err(error) => Err(error),
                    Ok(()) => Ok(Standing::Settled),
                }
            }
            Phase::Undone { reason } => {
                self.settle_back(&journal, &from, &to)?;
                if self.must_reboot_back(&journal)? {
                    return Ok(Standing::MustRebootBack { reason });
                }
                self.act_back(&journal);
                self.close_back(&journal, reason)
            }
            Phase::RebootingBack { boot, reason } if boot == self.host.system().boot_id()? => {
                Ok(Standing::MustRebootBack { reason })
            }
            Phase::RebootingBack { reason, .. } => self.close_back(&journal, reason),
        }
    }

    /// A host that has booted the new config must boot again to be rid of it.
    fn must_reboot_back(&self, journal: &Journal) -> Result<bool, Error> {
        Ok(journal.reboots() && self.host.system().boot_id()? != journal.boot)
    }

    fn close_back(&self, journal: &Journal, reason: String) -> Result<Standing, Error> {
        if journal.tried {
            let reverted = Reverted { version: 1, config: journal.to.clone(), reason: reason.clone() };
            self.store.save_reverted(&reverted)?;
            self.store.flush()?;
        }
        self.store.close_journal()?;
        Ok(Standing::WentBack { reason })
    }

    /// Reloads and restarts what the change asks for, and checks that it took effect. Not for changes that reboot.
    pub fn act(&self) -> Result<(), Error> {
        let Some(journal) = self.store.journal()? else { return Ok(()) };
        for action in &journal.actions {
            if let Err(error) = self.act_once(action) {
                let reason = format!("could not apply update: {error}");
                return self.go_back(&reason);
            }
        }
        Ok(())
    }

    /// Services that may have picked the new config up pick the old one up again. One that cannot must not keep the others,
    /// or the node, from going on.
    fn act_back(&self, journal: &Journal) {
        if !journal.tried || journal.reboots() {
            return;
        }
        for action in &journal.actions {
            if let Err(error) = self.act_once(action) {
                tracing::warn!(error = &error as &dyn std::error::Error, "not back as it was");
            }
        }
    }

    fn act_once(&self, action: &PostAction) -> Result<(), HostError> {
        let services = self.host.services();
        let failed = |verb, unit: &str, detail: &str| HostError::new(ErrorKind::Failed, verb, unit, detail);
        match action {
            PostAction::DaemonReload => services.daemon_reload(),
            PostAction::Reload(unit) => {
                services.reload(unit)?;
                match services.activity(unit)?.active.as_str() {
                    "failed" => Err(failed("reload", unit, "it has failed since")),
                    _ => Ok(()),
                }
            }
            PostAction::Restart(unit) => {
                let before = services.activity(unit)?.invocation;
                services.restart(unit)?;
                let after = services.activity(unit)?;
                if after.has_failed() {
                    return Err(failed("restart", unit, "it failed to start"));
                }
                if !before.is_empty() && before == after.invocation {
                    return Err(failed("restart", unit, "the same instance still runs"));
                }
                Ok(())
            }
            PostAction::Reboot => Ok(()),
        }
    }

    /// Records that the reboot is being asked for; the caller asks.
    pub fn mark_rebooting(&self) -> Result<(), Error> {
        let boot = self.host.system().boot_id()?;
        self.move_on(|phase| match phase {
            Phase::Undone { reason } | Phase::RebootingBack { reason, .. } => Phase::RebootingBack { boot, reason },
            _ => Phase::Rebooting { boot },
        })
    }

    /// Starts the trial, or goes on with it after a restart of the daemon or the machine. Returns the seconds it has lasted.
    pub fn time_trial(&self) -> Result<i64, Error> {
        let Some(journal) = self.store.journal()? else { return Ok(0) };
        let boot = self.host.system().boot_id()?;
        let uptime = i64::try_from(self.host.system().uptime().as_secs()).unwrap_or(i64::MAX);
        let clock = match &journal.phase {
            Phase::Trying(clock) => clock.clone().carry_on(&boot, uptime),
            _ => Clock::start(&boot, uptime),
        };
        let elapsed = clock.elapsed(uptime);
        if journal.phase != Phase::Trying(clock.clone()) {
            self.move_on(|_| Phase::Trying(clock))?;
        }
        Ok(elapsed)
    }

    fn move_on(&self, next: impl FnOnce(Phase) -> Phase) -> Result<(), Error> {
        let Some(mut journal) = self.store.journal()? else { return Ok(()) };
        journal.phase = next(journal.phase);
        journal.version = Journal::VERSION;
        self.record(&journal)
    }

    /// The update is over and good.
    pub fn finish(&self) -> Result<(), Error> {
        Ok(self.store.close_journal()?)
    }

    /// Gives the new config up after it was applied: back to the old one, for `reason`.
    pub fn go_back(&self, reason: &str) -> Result<(), Error> {
        let Some(journal) = self.store.journal()? else { return Ok(()) };
        let (from, to) = self.store.sides()?.ok_or(Error::LostSides)?;
        self.undo(journal, &from, &to, reason.to_owned())
    }
}

fn keeps(step: &Step) -> bool {
    matches!(step, Step::Keep { .. } | Step::KeepEnablement { .. })
}

/// Whether a step changes the operating system and not only its files.
pub(crate) fn is_system(step: &Step) -> bool {
    matches!(step, Step::StageImage { .. } | Step::KernelArguments { .. } | Step::Packages { .. })
}

/// The name of a config; empty for the config of a host that never had one.
pub fn name(config: &MachineConfig) -> String {
    config.metadata.name.clone().unwrap_or_default()
}

/// Checks what was read of the config of this name.
pub fn check(content: &Content, name: &str) -> Result<Target, Error> {
    Target::of(content, name).map_err(|source| Error::Config { name: name.to_owned(), source })
}

pub fn content(config: &MachineConfig) -> Result<Content, Error> {
    let refused = |source| Error::Config { name: name(config), source: target::Error::Ignition(source) };
    Content::read(config).map_err(refused)
}

pub fn read(config: &MachineConfig) -> Result<Target, Error> {
    check(&content(config)?, &name(config))
}
