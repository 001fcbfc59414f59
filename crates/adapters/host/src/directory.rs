//! A host that is a folder: real files beneath it, simulated services and reboots.
//!
//! For walking through an update without a machine: in tests, and in fleets on a laptop.

use std::path::Path;
use std::time::Duration;

use change::host::{Activity, Backend, Error, ErrorKind, Files, Host, HostPath, PackageChange, Services, System};

use crate::root::Root;
use crate::simulated::{COMMAND_LINE, Simulation};
use crate::units;

#[derive(Debug)]
pub struct Directory {
    root: Root,
    simulation: Simulation,
}

impl Directory {
    pub fn open(root: &Path) -> Result<Self, Error> {
        Ok(Self { root: Root::open(root)?, simulation: Simulation::default() })
    }

    /// A host with an image-based OS, which takes images, kernel arguments, kernels and extensions at its next reboot.
    pub fn image_based(root: &Path) -> Result<Self, Error> {
        let host = Self::open(root)?.with_backend(Backend::RpmOstree);
        let line = HostPath::parse(COMMAND_LINE)
            .map_err(|error| Error::new(ErrorKind::Refused, "look at", COMMAND_LINE, error.problem))?;
        // The first process that opens it switches it on.
        if host.root.look(&line)?.is_none() {
            host.simulation.boot(&host.root)?;
        }
        Ok(host)
    }

    /// The kernel type that has booted, by its name in a MachineConfig.
    pub fn kernel_type(&self) -> Result<String, Error> {
        let kernel = self.simulation.booted_kernel(&self.root)?;
        Ok(if kernel.is_empty() { "default".to_owned() } else { kernel })
    }

    /// As a host with an image-based OS would behave.
    pub fn with_backend(mut self, backend: Backend) -> Self {
        self.simulation.backend = Some(backend);
        self
    }

    /// A host on which a reboot can be asked for and does not happen.
    pub fn that_ignores_reboots(mut self) -> Self {
        self.simulation.ignores_reboots = true;
        self
    }

    pub fn with_read_only_usr(mut self) -> Self {
        self.root = self.root.with_read_only_usr();
        self
    }

    /// As on a kernel before 5.6.
    pub fn on_old_kernel(mut self) -> Self {
        self.root = self.root.on_old_kernel();
        self
    }

    /// Lets time pass on this host.
    pub fn pass(&self, time: Duration) {
        self.simulation.pass(time);
    }

    /// What was asked of the service manager and the system since the last call, in order.
    pub fn take_actions(&self) -> Vec<String> {
        self.simulation.take_actions()
    }
}

impl Host for Directory {
    fn files(&self) -> &dyn Files {
        &self.root
    }
    fn services(&self) -> &dyn Services {
        self
    }
    fn system(&self) -> &dyn System {
        self
    }
    fn images(&self) -> Option<&dyn change::host::Images> {
        Some(self)
    }
}

crate::simulated_services!(Directory, root);
