//! What holds for all machines of a controller, and no Machine says.

use std::time::Duration;

/// How domains are made and how long libvirt may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub acceleration: Acceleration,
    /// How long one call may take. A host that hangs must not hold the other hosts' machines.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { acceleration: Acceleration::default(), patience: Duration::from_secs(60) }
    }
}

/// Which of a host's domain types is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Acceleration {
    /// `kvm` where the host offers it, otherwise what it offers.
    #[default]
    Auto,
    /// `qemu`: the processor is emulated, on hosts whose KVM is offered but does not work.
    Emulated,
}
