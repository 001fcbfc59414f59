//! A host that is a folder: real files beneath it, simulated services and reboots.
//!
//! For walking through an update without a machine: in tests, and in fleets on a laptop.

use std::path::Path;
use std::time::Duration;

use change::host::{Activity, Backend, Error, Files, Host, PackageChange, Services, System};

use crate::root::Root;
use crate::simulated::Simulation;
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

    /// As a host with an image-based OS would behave.
    pub fn with_backend(mut self, backend: Backend) -> Self {
        self.simulation.backend = Some(backend);
        self
    }

    pub fn with_read_only_usr(mut self) -> Self {
        self.root = self.root.with_read_only_usr();
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
}

crate::simulated_services!(Directory, root);
