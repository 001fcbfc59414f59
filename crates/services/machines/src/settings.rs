//! How one process of the machine controllers is set up. Parsed once by the binary; only this type travels.

use std::net::SocketAddr;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespace of the Lease and of events about cluster-scoped objects.
    pub namespace: String,
    /// Name of this process in the Lease and the logs.
    pub identity: String,
    /// How long a leader that vanished still counts; absent, there is no election.
    pub lease: Option<Duration>,
    /// Where `/healthz`, `/readyz` and `/metrics` are served; absent, nowhere.
    pub listen: Option<SocketAddr>,
    /// How often the provider is asked about every machine, to notice instances that vanished or changed by themselves.
    pub resync: Duration,
    /// How long after its instance exists a machine may take to become a node before it is looked for where it stopped.
    pub joining_after: Duration,
    /// Etcd does not run as pods of this cluster, and whoever runs it keeps its quorum. Absent, a control plane whose etcd
    /// cannot be seen loses no machine.
    pub etcd_elsewhere: bool,
    /// Whether MachineHealthChecks are carried out.
    pub health_checks: bool,
    /// What happens to things in the cloud that carry the mark of this cluster and belong to no Machine.
    pub orphans: Orphans,
}

/// What happens to things in the cloud that belong to no Machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Orphans {
    /// They are told of in events and in the log. A cluster that was restored from an old backup does not know its younger
    /// Machines, so this is what happens unless somebody says otherwise.
    #[default]
    Report,
    /// They are told of, and those that carry the mark of this cluster's id are removed at the next look. The id is said
    /// and not read from Machines: a MachineSet that was copied from another cluster names that one.
    Remove { cluster: String },
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: api::names::MACHINE_API_NAMESPACE.to_owned(),
            identity: "machinist".to_owned(),
            lease: None,
            listen: None,
            // Upstream's resync period, which people know as the longest time until a lost instance is noticed.
            resync: Duration::from_secs(600),
            // Real machines need minutes; simulated ones are done before.
            joining_after: Duration::from_secs(60),
            etcd_elsewhere: false,
            health_checks: true,
            orphans: Orphans::Report,
        }
    }
}
