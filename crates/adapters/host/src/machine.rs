//! The real host: files beneath the root, systemd and logind over D-Bus, the OS through its own tools.

use std::path::Path;

use change::host::{Activity, Backend, Error, ErrorKind, Files, Host, PackageChange, Services, System};

use crate::bus::Bus;
use crate::os::{Os, Programs, Run};
use crate::root::Root;

pub struct Machine {
    root: Root,
    bus: Bus,
    os: Os,
    programs: Programs,
}

impl Machine {
    pub fn open(root: &Path) -> Result<Self, Error> {
        let programs = Box::new(Programs::new(root));
        Ok(Self { root: Root::open(root)?, bus: Bus::new(root), os: Os::new(programs), programs: Programs::new(root) })
    }

    /// Whether a service manager could be running there at all; else the root is only a folder.
    pub fn is_at(root: &Path) -> bool {
        ["usr/lib/systemd/systemd", "lib/systemd/systemd"].iter().any(|place| root.join(place).exists())
    }

    pub fn with_tools(mut self, run: Box<dyn Run>) -> Self {
        self.os = Os::new(run);
        self
    }
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
        self.os.backend()
    }
    fn kernel_arguments(&self) -> Result<String, Error> {
        self.os.kernel_arguments()
    }
    fn change_kernel_arguments(&self, delete: &[String], append: &[String]) -> Result<(), Error> {
        self.os.change_kernel_arguments(delete, append)
    }
    fn booted_image(&self) -> Result<Option<String>, Error> {
        self.os.booted_image()
    }
    fn stage_image(&self, image: &str) -> Result<(), Error> {
        self.os.stage_image(image)
    }
    fn drop_staged(&self) -> Result<(), Error> {
        self.os.drop_staged()
    }
    fn change_packages(&self, change: &PackageChange) -> Result<(), Error> {
        self.os.change_packages(change)
    }

    /// The kernel's, with the start of the service manager: a container's boot and a soft reboot are boots too.
    fn boot_id(&self) -> Result<String, Error> {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map_err(|error| Error::new(ErrorKind::Failed, "read", "the boot id", error.to_string()))?;
        Ok(format!("{}-{}", kernel.trim(), self.bus.started()?))
    }

    fn reboot(&self, reason: &str) -> Result<(), Error> {
        // Words for the console and the journal; a reboot without them is still a reboot.
        if self.programs.has("systemd-cat") {
            let _ = self.programs.run("systemd-cat", &["-t".into(), "machinistd".into(), "echo".into(), reason.into()]);
        }
        self.bus.reboot()
    }

    fn fips(&self) -> bool {
        std::fs::read_to_string("/proc/sys/crypto/fips_enabled").is_ok_and(|text| text.trim() == "1")
    }
}
