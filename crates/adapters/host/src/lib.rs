//! The `Host` port on a real machine, on a folder and in memory.
//!
//! `conformance` is the one suite that all three pass. Nothing here decides what a host should look like.

mod bus;
mod clock;
pub mod conformance;
pub mod directory;
mod images;
pub mod labels;
pub mod machine;
pub mod memory;
pub mod os;
pub mod root;
mod simulated;
mod units;
pub mod watch;

/// Services and system of a host that has a `simulation` over its files. One place, so that simulated hosts cannot differ.
macro_rules! simulated_services {
    ($host:ty, $files:ident) => {
        impl Services for $host {
            fn enablement(&self, unit: &str) -> Result<String, Error> {
                units::enablement(&self.$files, unit)
            }
            fn activity(&self, unit: &str) -> Result<Activity, Error> {
                Ok(self.simulation.activity(unit))
            }
            fn enable(&self, names: &[String]) -> Result<(), Error> {
                names.iter().try_for_each(|unit| units::enable(&self.$files, unit))
            }
            fn disable(&self, names: &[String]) -> Result<(), Error> {
                names.iter().try_for_each(|unit| units::disable(&self.$files, unit))
            }
            fn preset(&self, unit: &str) -> Result<(), Error> {
                // Distributions that have no preset files enable nothing by themselves.
                if units::exists(&self.$files, unit)? { units::disable(&self.$files, unit) } else { Ok(()) }
            }
            fn daemon_reload(&self) -> Result<(), Error> {
                self.simulation.daemon_reload();
                Ok(())
            }
            fn start(&self, unit: &str) -> Result<(), Error> {
                self.simulation.launch(&self.$files, "start", unit)
            }
            fn stop(&self, unit: &str) -> Result<(), Error> {
                self.simulation.stop(unit);
                Ok(())
            }
            fn restart(&self, unit: &str) -> Result<(), Error> {
                self.simulation.launch(&self.$files, "restart", unit)
            }
            fn reload(&self, unit: &str) -> Result<(), Error> {
                self.simulation.reload(unit)
            }
        }

        impl change::host::Images for $host {
            fn runtime(&self) -> Result<change::host::RuntimeVersion, Error> {
                crate::simulated::Store::load(&self.$files)?.runtime()
            }
            fn list(&self) -> Result<Vec<change::host::HostImage>, Error> {
                Ok(crate::simulated::Store::load(&self.$files)?.list(&self.$files))
            }
            fn pull(&self, image: &str) -> Result<(), Error> {
                crate::simulated::Store::load(&self.$files)?.pull(&self.$files, image)
            }
            fn mark(&self, image: &str, keep: bool) -> Result<(), Error> {
                crate::simulated::Store::load(&self.$files)?.mark(&self.$files, image, keep)
            }
            fn space(&self) -> Result<change::host::Space, Error> {
                Ok(crate::simulated::Store::load(&self.$files)?.space())
            }
        }

        impl System for $host {
            fn backend(&self) -> Option<Backend> {
                self.simulation.backend
            }
            fn kernel_arguments(&self) -> Result<String, Error> {
                self.simulation.kernel_arguments(&self.$files)
            }
            fn change_kernel_arguments(&self, delete: &[String], append: &[String]) -> Result<(), Error> {
                self.simulation.change_kernel_arguments(&self.$files, delete, append)
            }
            fn booted_image(&self) -> Result<Option<String>, Error> {
                self.simulation.booted_image(&self.$files)
            }
            fn stage_image(&self, image: &str) -> Result<(), Error> {
                self.simulation.stage_image(&self.$files, image)
            }
            fn drop_staged(&self) -> Result<(), Error> {
                self.simulation.drop_staged(&self.$files)
            }
            fn change_packages(&self, change: &PackageChange) -> Result<(), Error> {
                self.simulation.change_packages(&self.$files, change)
            }
            fn boot_id(&self) -> Result<String, Error> {
                self.simulation.boot_id(&self.$files)
            }
            fn uptime(&self) -> std::time::Duration {
                self.simulation.uptime()
            }
            fn reboot(&self, reason: &str) -> Result<(), Error> {
                self.simulation.reboot(&self.$files, reason)
            }
            fn fips(&self) -> bool {
                false
            }
            fn installed(&self, packages: &[&str]) -> Result<Vec<String>, Error> {
                self.simulation.installed(&self.$files, packages)
            }
            fn package_of(&self, path: &change::host::HostPath) -> Result<Option<String>, Error> {
                crate::simulated::package_of(&self.$files, path)
            }
        }
    };
}
pub(crate) use simulated_services;
