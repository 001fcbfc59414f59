//! The physical state of a machine: power, network, clocks and disk.
//!
//! None of this is visible in the API. The account of who serves is computed from it.

use jiff::{SignedDuration, Timestamp};

use crate::daemon::Process;

/// One machine.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) power: Power,
    /// The network connection to the API. Pods on a partitioned machine keep running.
    pub(crate) linked: bool,
    /// Since when the kubelet has been silent.
    pub(crate) silent_since: Option<Timestamp>,
    /// Number of the current boot.
    pub(crate) boot: u64,
    pub(crate) booted: Timestamp,
    /// Offset of the wall clock from the true time.
    pub(crate) clock: SignedDuration,
    pub(crate) disk: Disk,
    pub(crate) process: Process,
    /// The config that its daemon has refused.
    pub(crate) refused: Option<String>,
    /// Its last update failed and no later one has succeeded.
    pub(crate) failed: bool,
    /// Our drain has started, and the uncordon was not confirmed yet.
    pub(crate) emptied: bool,
    /// A person uncordoned it after our drain, so running pods are expected.
    pub(crate) opened: bool,
    /// Its first config changes nothing on the machine, so it is adopted without a drain or reboot.
    pub(crate) adopts: bool,
    /// The etcd member, on machines of the control plane.
    pub(crate) etcd: Option<Member>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Power {
    On,
    /// Switched off by a fault.
    Off,
    /// Rebooting for an update until this time.
    Rebooting(Timestamp),
}

/// An etcd member, which can fail on a healthy machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) sick: bool,
    pub(crate) down_since: Option<Timestamp>,
}

/// State that survives a crash of the daemon and a power loss.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Disk {
    /// The config that the machine runs. `None` before its first.
    pub(crate) current: Option<String>,
    pub(crate) journal: Option<Work>,
    /// The config that failed its trial here.
    pub(crate) reverted: Option<String>,
}

/// An update from its first write on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) from: Option<String>,
    pub(crate) to: String,
    pub(crate) phase: Phase,
    pub(crate) reboots: bool,
    /// The update changes nothing on the machine.
    pub(crate) idle: bool,
    /// The boot in which it started.
    pub(crate) boot: u64,
    /// All steps were completed once.
    pub(crate) tried: bool,
    /// The boot, and the second of it, in which the trial started. Only for checking.
    pub(crate) looked_at: Option<(u64, i64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Applying,
    Applied,
    /// A reboot was requested in this boot.
    Rebooting(u64),
    /// On trial since this second of the trial clock.
    Trying(i64),
    Undoing,
    Undone,
    RebootingBack(u64),
}

impl Host {
    pub(crate) fn new(current: Option<&str>, now: Timestamp) -> Self {
        Self {
            power: Power::On,
            linked: true,
            silent_since: None,
            boot: 1,
            booted: now,
            clock: SignedDuration::ZERO,
            disk: Disk { current: current.map(str::to_owned), ..Disk::default() },
            process: Process::default(),
            refused: None,
            failed: false,
            emptied: false,
            opened: false,
            adopts: false,
            etcd: None,
        }
    }

    /// Running and connected.
    pub(crate) fn is_up(&self) -> bool {
        self.power == Power::On && self.linked
    }

    /// Without power or network because of a fault. A reboot for an update does not count.
    pub(crate) fn is_lost(&self) -> bool {
        self.power == Power::Off || !self.linked
    }

    /// Seconds since boot.
    pub(crate) fn uptime(&self, now: Timestamp) -> i64 {
        now.duration_since(self.booted).as_secs()
    }

    /// Seconds of the machine's own wall clock.
    pub(crate) fn wall_clock(&self, now: Timestamp) -> i64 {
        (now + self.clock).as_second()
    }

    pub(crate) fn has_member_up(&self) -> bool {
        self.etcd.is_some_and(|member| !member.sick) && self.is_up()
    }

    /// Records when the etcd member went down.
    pub(crate) fn watch_member(&mut self, now: Timestamp) {
        let is_up = self.has_member_up();
        if let Some(member) = &mut self.etcd {
            member.down_since = if is_up { None } else { Some(member.down_since.unwrap_or(now)) };
        }
    }
}
