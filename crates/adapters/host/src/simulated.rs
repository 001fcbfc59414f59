//! A simulated service manager and operating system over any files, for hosts that are not machines.
//!
//! Units are enabled by the same links as on a real host. A unit runs when it is started, and fails when its `ExecStart` is
//! `/bin/false`; nothing is ever executed. A reboot gives a new boot id, stops everything and boots the OS that was staged.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use change::host::{Activity, Attributes, Backend, Error, ErrorKind, Files, HostPath, PackageChange};

use crate::units;

mod boot_loader;
mod images;
mod os;

pub(crate) use images::Store;
pub(crate) use os::COMMAND_LINE;
use os::Deployments;

/// Where the simulation keeps its boot id, so that another process sees the same one.
const BOOT_ID: &str = "/var/lib/machinist/simulated-boot";

/// State that is not in files: what runs, what was asked for.
#[derive(Debug, Default)]
pub(crate) struct Simulation {
    state: Mutex<State>,
    pub(crate) backend: Option<Backend>,
    /// Reboots are asked for and do not happen.
    pub(crate) ignores_reboots: bool,
}

#[derive(Debug, Default)]
struct State {
    running: BTreeMap<String, Activity>,
    actions: Vec<String>,
    starts: u64,
    /// Time that has passed on this host only.
    passed: Duration,
}

impl Simulation {
    pub(crate) fn with_backend(backend: Option<Backend>) -> Self {
        Self { backend, ..Self::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn record(&self, action: String) {
        self.state().actions.push(action);
    }

    /// What was asked of the service manager and the system since the last call, in order.
    pub(crate) fn take_actions(&self) -> Vec<String> {
        std::mem::take(&mut self.state().actions)
    }

    pub(crate) fn activity(&self, unit: &str) -> Activity {
        let inactive = || Activity { active: "inactive".into(), ..Activity::default() };
        self.state().running.get(unit).cloned().unwrap_or_else(inactive)
    }

    pub(crate) fn daemon_reload(&self) {
        self.record("daemon-reload".into());
        self.state().running.values_mut().for_each(|activity| activity.needs_reload = false);
    }

    pub(crate) fn launch(&self, files: &dyn Files, verb: &'static str, unit: &str) -> Result<(), Error> {
        self.record(format!("{verb} {unit}"));
        let Some(text) = units::text(files, unit)? else {
            return Err(Error::new(ErrorKind::Unsupported, verb, unit, "no such unit, or it is masked"));
        };
        let fails = text.lines().any(|line| line.trim() == "ExecStart=/bin/false");
        let mut state = self.state();
        state.starts += 1;
        let active = if fails { "failed" } else { "active" };
        let invocation = format!("{:032x}", state.starts);
        let activity = Activity { active: active.into(), invocation, ..Activity::default() };
        state.running.insert(unit.to_owned(), activity);
        if fails {
            return Err(Error::new(ErrorKind::Failed, verb, unit, "its main process exited with status 1"));
        }
        Ok(())
    }

    pub(crate) fn stop(&self, unit: &str) {
        self.record(format!("stop {unit}"));
        self.state().running.remove(unit);
    }

    pub(crate) fn reload(&self, unit: &str) -> Result<(), Error> {
        self.record(format!("reload {unit}"));
        if self.activity(unit).has_failed() {
            return Err(Error::new(ErrorKind::Failed, "reload", unit, "the unit has failed"));
        }
        Ok(())
    }

    fn needs_image(&self, action: &'static str) -> Result<(), Error> {
        match self.backend {
            Some(Backend::Bootc | Backend::RpmOstree) => Ok(()),
            Some(Backend::BootLoader(_)) | None => {
                Err(Error::new(ErrorKind::Unsupported, action, "this host", "it has neither bootc nor rpm-ostree"))
            }
        }
    }

    pub(crate) fn kernel_arguments(&self, files: &dyn Files) -> Result<String, Error> {
        match self.backend {
            Some(Backend::BootLoader(_)) => boot_loader::running(files),
            Some(Backend::Bootc | Backend::RpmOstree) | None => Ok(Deployments::load(files)?.kernel_arguments()),
        }
    }

    pub(crate) fn change_kernel_arguments(
        &self,
        files: &dyn Files,
        delete: &[String],
        append: &[String],
    ) -> Result<(), Error> {
        if let Some(Backend::BootLoader(loader)) = self.backend {
            let boot = self.boot_id(files)?;
            return boot_loader::with_arguments(self, loader, files, &boot, |arguments| {
                arguments.change(delete, append)
            });
        }
        self.needs_image("change kernel arguments of")?;
        Deployments::load(files)?.change_kernel_arguments(files, delete, append)
    }

    pub(crate) fn booted_image(&self, files: &dyn Files) -> Result<Option<String>, Error> {
        Ok(Deployments::load(files)?.booted_image())
    }

    pub(crate) fn booted_kernel(&self, files: &dyn Files) -> Result<String, Error> {
        Ok(Deployments::load(files)?.booted_kernel().to_owned())
    }

    pub(crate) fn stage_image(&self, files: &dyn Files, image: &str) -> Result<(), Error> {
        self.needs_image("stage an image on")?;
        Deployments::load(files)?.stage_image(files, image)
    }

    pub(crate) fn drop_staged(&self, files: &dyn Files) -> Result<(), Error> {
        match self.backend {
            None => Ok(()),
            Some(Backend::BootLoader(loader)) => {
                let boot = self.boot_id(files)?;
                boot_loader::with_arguments(self, loader, files, &boot, boot_loader::drop_staged)
            }
            Some(Backend::Bootc | Backend::RpmOstree) => Deployments::load(files)?.drop_staged(files),
        }
    }

    pub(crate) fn change_packages(&self, files: &dyn Files, change: &PackageChange) -> Result<(), Error> {
        self.needs_image("change packages of")?;
        self.record(format!("packages +{:?} -{:?}", change.install, change.uninstall));
        Deployments::load(files)?.change_packages(files, change)
    }

    pub(crate) fn installed(&self, files: &dyn Files, packages: &[&str]) -> Result<Vec<String>, Error> {
        let deployments = Deployments::load(files)?;
        let booted = deployments.booted_packages().iter();
        Ok(booted.filter(|package| packages.contains(&package.as_str())).cloned().collect())
    }

    pub(crate) fn boot_id(&self, files: &dyn Files) -> Result<String, Error> {
        let stored = files.read(&boot_path()?)?;
        Ok(stored.map_or_else(|| "boot-0".to_owned(), |bytes| String::from_utf8_lossy(&bytes).trim().to_owned()))
    }

    /// The clock of the machine that plays this host, so that another process counts on.
    pub(crate) fn uptime(&self) -> Duration {
        crate::clock::uptime() + self.state().passed
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.state().passed += time;
    }

    pub(crate) fn reboot(&self, files: &dyn Files, reason: &str) -> Result<(), Error> {
        if self.ignores_reboots {
            self.record(format!("ignored reboot: {reason}"));
            return Ok(());
        }
        let number: u64 = self.boot_id(files)?.trim_start_matches("boot-").parse().unwrap_or(0);
        files.put(&boot_path()?, format!("boot-{}\n", number + 1).as_bytes(), &Attributes::root(0o644))?;
        self.boot(files)?;
        files.flush()?;
        self.record(format!("reboot: {reason}"));
        Ok(())
    }

    /// What a fresh start of the machine changes.
    pub(crate) fn boot(&self, files: &dyn Files) -> Result<(), Error> {
        self.state().running.clear();
        match self.backend {
            None => Ok(()),
            Some(Backend::BootLoader(loader)) => boot_loader::boot(loader, files),
            Some(Backend::Bootc | Backend::RpmOstree) => Deployments::load(files)?.boot(files),
        }
    }
}

fn boot_path() -> Result<HostPath, Error> {
    HostPath::parse(BOOT_ID).map_err(|error| Error::new(ErrorKind::Refused, "read", BOOT_ID, error.problem))
}

/// The package that a file came with, from the lists of dpkg on this host's disk.
pub(crate) fn package_of(files: &dyn Files, path: &HostPath) -> Result<Option<String>, Error> {
    let parsed = |place: Result<HostPath, change::host::InvalidPath>| {
        place.map_err(|error| Error::new(ErrorKind::Refused, "read", "the lists of dpkg", error.problem))
    };
    let folder = parsed(HostPath::parse("/var/lib/dpkg/info"))?;
    for list in files.list(&folder)? {
        let Some(package) = list.strip_suffix(".list") else { continue };
        let text = files.read(&parsed(folder.join(&list))?)?.unwrap_or_default();
        if String::from_utf8_lossy(&text).lines().any(|line| line == path.as_str()) {
            return Ok(Some(package.to_owned()));
        }
    }
    Ok(None)
}
