//! The real host: files beneath the root, systemd and logind over D-Bus, the OS through its own tools.

use std::path::Path;
use std::time::Duration;

use change::host::{
    Activity, Backend, BootLoader, Error, ErrorKind, Files, Host, HostImage, HostPath, Images, PackageChange,
    RuntimeVersion, Services, Space, System,
};

use crate::bus::Bus;
use crate::images;
use crate::labels;
use crate::os::{Os, Programs, Run, boot_loader};
use crate::root::Root;

pub struct Machine {
    root: Root,
    bus: Bus,
    os: Os,
    has_labels: bool,
}

impl Machine {
    pub fn open(root: &Path) -> Result<Self, Error> {
        let os = Os::new(Box::new(Programs::new(root)));
        let has_labels = labels::are_on(root) && os.tools().has("restorecon");
        Ok(Self { root: Root::open(root)?, bus: Bus::new(root), os, has_labels })
    }

    /// Whether a service manager could be running there at all; else the root is only a folder.
    pub fn is_at(root: &Path) -> bool {
        ["usr/lib/systemd/systemd", "lib/systemd/systemd"].iter().any(|place| root.join(place).exists())
    }

    /// Of a host without an image.
    fn boot_loader(&self) -> Option<BootLoader> {
        if self.os.backend().is_some() { None } else { boot_loader::find(&self.root) }
    }

    /// Arguments are given to a kernel, so only a boot of one counts.
    fn with_arguments(
        &self,
        loader: BootLoader,
        work: impl FnOnce(&boot_loader::Arguments<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.os.with_arguments(loader, &self.root, &kernel_boot_id()?, work)
    }

    /// With stand-ins for the host's programs.
    pub fn with_tools(mut self, run: Box<dyn Run>) -> Self {
        self.os = Os::new(run);
        self.has_labels = labels::are_on(self.root.path()) && self.os.tools().has("restorecon");
        self
    }
}

fn kernel_boot_id() -> Result<String, Error> {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_err(|error| Error::new(ErrorKind::Failed, "read", "the boot id", error.to_string()))?;
    Ok(kernel.trim().to_owned())
}

impl Host for Machine {
    fn files(&self) -> &dyn Files {
        &self.root
    }
    fn services(&self) -> &dyn Services {
        self
    }
    fn system(&self) -> &dyn System {
        self
    }
    fn images(&self) -> Option<&dyn Images> {
        Some(self)
    }
}

impl Images for Machine {
    fn runtime(&self) -> Result<RuntimeVersion, Error> {
        images::runtime(self.os.tools())
    }
    fn list(&self) -> Result<Vec<HostImage>, Error> {
        images::list(self.os.tools())
    }
    fn pull(&self, image: &str) -> Result<(), Error> {
        images::pull(self.os.tools(), image)
    }
    fn mark(&self, image: &str, keep: bool) -> Result<(), Error> {
        images::mark(self.os.tools(), image, keep)
    }
    fn space(&self) -> Result<Space, Error> {
        images::space(self.os.tools(), self.root.path())
    }
}

impl Services for Machine {
    fn enablement(&self, unit: &str) -> Result<String, Error> {
        self.bus.enablement(unit)
    }
    fn activity(&self, unit: &str) -> Result<Activity, Error> {
        self.bus.activity(unit)
    }
    fn enable(&self, units: &[String]) -> Result<(), Error> {
        self.bus.enable(units)
    }
    fn disable(&self, units: &[String]) -> Result<(), Error> {
        self.bus.disable(units)
    }
    fn preset(&self, unit: &str) -> Result<(), Error> {
        self.bus.preset(unit)
    }
    fn daemon_reload(&self) -> Result<(), Error> {
        self.bus.daemon_reload()
    }
    fn start(&self, unit: &str) -> Result<(), Error> {
        self.bus.job("start", "StartUnit", unit)
    }
    fn stop(&self, unit: &str) -> Result<(), Error> {
        self.bus.job("stop", "StopUnit", unit)
    }
    fn restart(&self, unit: &str) -> Result<(), Error> {
        self.bus.job("restart", "RestartUnit", unit)
    }
    fn reload(&self, unit: &str) -> Result<(), Error> {
        self.bus.job("reload", "ReloadUnit", unit)
    }
}

impl System for Machine {
    fn backend(&self) -> Option<Backend> {
        self.os.backend().or_else(|| self.boot_loader().map(Backend::BootLoader))
    }
    fn kernel_arguments(&self) -> Result<String, Error> {
        if self.boot_loader().is_some() { boot_loader::running(&self.root) } else { self.os.kernel_arguments() }
    }
    fn change_kernel_arguments(&self, delete: &[String], append: &[String]) -> Result<(), Error> {
        match self.boot_loader() {
            Some(loader) => self.with_arguments(loader, |arguments| arguments.change(delete, append)),
            None => self.os.change_kernel_arguments(delete, append),
        }
    }
    fn booted_image(&self) -> Result<Option<String>, Error> {
        self.os.booted_image()
    }
    fn stage_image(&self, image: &str) -> Result<(), Error> {
        self.os.stage_image(image)
    }
    fn drop_staged(&self) -> Result<(), Error> {
        match self.boot_loader() {
            Some(loader) => self.with_arguments(loader, boot_loader::drop_staged),
            None => self.os.drop_staged(),
        }
    }
    fn change_packages(&self, change: &PackageChange) -> Result<(), Error> {
        self.os.change_packages(change)
    }

    /// The kernel's, with the start of the service manager: a container's boot and a soft reboot are boots too.
    fn boot_id(&self) -> Result<String, Error> {
        Ok(format!("{}-{}", kernel_boot_id()?, self.bus.started()?))
    }

    fn uptime(&self) -> Duration {
        crate::clock::uptime()
    }

    fn reboot(&self, reason: &str) -> Result<(), Error> {
        // Words for the console and the journal; a reboot without them is still a reboot.
        let tools = self.os.tools();
        if tools.has("systemd-cat") {
            let _ = tools.run("systemd-cat", &["-t".into(), "machinistd".into(), "echo".into(), reason.into()]);
        }
        self.bus.reboot()
    }

    fn installed(&self, packages: &[&str]) -> Result<Vec<String>, Error> {
        self.os.installed(packages)
    }

    fn package_of(&self, path: &HostPath) -> Result<Option<String>, Error> {
        self.os.package_of(path)
    }

    fn finalize_failure(&self) -> Option<String> {
        self.os.finalize_failure()
    }

    fn foreign_packages(&self, known: &[&str]) -> usize {
        self.os.foreign_packages(known)
    }

    fn restore_labels(&self, paths: &[HostPath]) -> Result<(), Error> {
        if self.has_labels { labels::restore(self.os.tools(), paths) } else { Ok(()) }
    }

    fn mislabelled(&self, paths: &[HostPath]) -> Vec<HostPath> {
        if !self.has_labels {
            return Vec::new();
        }
        // A tool that fails says nothing about the files.
        labels::wrong(self.os.tools(), paths).unwrap_or_default()
    }

    fn hold_off_shutdown(&self, why: &str) -> Box<dyn Send> {
        match self.bus.hold_off_shutdown(why) {
            Ok(lock) => Box::new(lock),
            Err(_) => Box::new(()),
        }
    }

    fn fips(&self) -> bool {
        std::fs::read_to_string("/proc/sys/crypto/fips_enabled").is_ok_and(|text| text.trim() == "1")
    }
}
