//! The kinds of objects that pages, plans and comparisons are made from.

/// A kind that pages or plans are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Pools,
    Nodes,
    NodeReports,
    Ledgers,
    PoolPolicies,
    Configs,
    Provenances,
    KubeletConfigs,
    RuntimeConfigs,
    Machines,
    MachineSets,
    HealthChecks,
    Deployments,
    Pods,
    Budgets,
    DaemonSets,
    Events,
    // Only plans and comparisons read these.
    Leases,
    ControllerConfigs,
    Settings,
    Policies,
    ApiServers,
    NodeSettings,
    FeatureGates,
    Images,
    ContentPolicies,
    DigestMirrors,
    TagMirrors,
    ClusterImagePolicies,
    ImagePolicies,
    MachineDeployments,
    ControlPlanes,
}

impl Kind {
    pub(crate) const ALL: [Self; 32] = [
        Self::Pools,
        Self::Nodes,
        Self::NodeReports,
        Self::Ledgers,
        Self::PoolPolicies,
        Self::Configs,
        Self::Provenances,
        Self::KubeletConfigs,
        Self::RuntimeConfigs,
        Self::Machines,
        Self::MachineSets,
        Self::HealthChecks,
        Self::Deployments,
        Self::Pods,
        Self::Budgets,
        Self::DaemonSets,
        Self::Events,
        Self::Leases,
        Self::ControllerConfigs,
        Self::Settings,
        Self::Policies,
        Self::ApiServers,
        Self::NodeSettings,
        Self::FeatureGates,
        Self::Images,
        Self::ContentPolicies,
        Self::DigestMirrors,
        Self::TagMirrors,
        Self::ClusterImagePolicies,
        Self::ImagePolicies,
        Self::MachineDeployments,
        Self::ControlPlanes,
    ];

    /// Its group and plural.
    pub(crate) fn resource(self) -> (&'static str, &'static str) {
        const MCO: &str = "machineconfiguration.openshift.io";
        const MACHINE: &str = "machine.openshift.io";
        const CONFIG: &str = "config.openshift.io";
        const OPERATOR: &str = "operator.openshift.io";
        match self {
            Self::Pools => (MCO, "machineconfigpools"),
            Self::Nodes => ("", "nodes"),
            Self::NodeReports => (MCO, "machineconfignodes"),
            Self::Ledgers => ("machinist.dev", "poolledgers"),
            Self::PoolPolicies => ("machinist.dev", "poolpolicies"),
            Self::Configs => (MCO, "machineconfigs"),
            Self::Provenances => ("machinist.dev", "renderedprovenances"),
            Self::KubeletConfigs => (MCO, "kubeletconfigs"),
            Self::RuntimeConfigs => (MCO, "containerruntimeconfigs"),
            Self::Machines => (MACHINE, "machines"),
            Self::MachineSets => (MACHINE, "machinesets"),
            Self::HealthChecks => (MACHINE, "machinehealthchecks"),
            Self::Deployments => ("apps", "deployments"),
            Self::Pods => ("", "pods"),
            Self::Budgets => ("policy", "poddisruptionbudgets"),
            Self::DaemonSets => ("apps", "daemonsets"),
            Self::Events => ("", "events"),
            Self::Leases => ("coordination.k8s.io", "leases"),
            Self::ControllerConfigs => (MCO, "controllerconfigs"),
            Self::Settings => ("machinist.dev", "clustersettings"),
            Self::Policies => (OPERATOR, "machineconfigurations"),
            Self::ApiServers => (CONFIG, "apiservers"),
            Self::NodeSettings => (CONFIG, "nodes"),
            Self::FeatureGates => (CONFIG, "featuregates"),
            Self::Images => (CONFIG, "images"),
            Self::ContentPolicies => (OPERATOR, "imagecontentsourcepolicies"),
            Self::DigestMirrors => (CONFIG, "imagedigestmirrorsets"),
            Self::TagMirrors => (CONFIG, "imagetagmirrorsets"),
            Self::ClusterImagePolicies => (CONFIG, "clusterimagepolicies"),
            Self::ImagePolicies => (CONFIG, "imagepolicies"),
            Self::MachineDeployments => (MACHINE, "machinedeployments"),
            Self::ControlPlanes => (MACHINE, "controlplanemachinesets"),
        }
    }

    /// Its plural, with the group where another kind has the same one.
    pub(super) fn word(self) -> &'static str {
        if self == Self::NodeSettings { "nodes.config.openshift.io" } else { self.resource().1 }
    }

    /// Whether pages are drawn from it at every look; the others are read when somebody asks for a plan or a comparison.
    pub(super) fn is_drawn(self) -> bool {
        self <= Self::Events
    }

    pub(super) fn is_namespaced(self) -> bool {
        matches!(
            self,
            Self::Machines
                | Self::MachineSets
                | Self::HealthChecks
                | Self::Deployments
                | Self::Pods
                | Self::Budgets
                | Self::DaemonSets
                | Self::Events
        )
    }
}
