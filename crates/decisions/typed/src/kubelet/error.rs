//! Why a KubeletConfig is refused: upstream's sentences where there are some, always with the field and what would be right.

use super::limits::Violation;

/// A refusal of one KubeletConfig.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "spec.tlsSecurityProfile.custom.ciphers has none that a kubelet knows: {0}; for example ECDHE-ECDSA-AES128-GCM-SHA256"
    )]
    Ciphers(String),
    #[error("KubeletConfig's LogLevel is not valid [0,10]: {0} (spec.logLevel, for example 4)")]
    LogLevel(i32),
    #[error(
        "KubeletConfig could not be unmarshalled: {path} must be {expected}, for example {example}, but contains: {found}"
    )]
    Type { path: String, expected: &'static str, example: &'static str, found: String },
    #[error("KubeletConfig could not be unmarshalled: {path} is not a field of KubeletConfiguration{hint}")]
    UnknownField { path: String, hint: String },
    #[error(
        "KubeletConfiguration: {path} is known to kubelets from 1.{since} on, but a node of pool {pool:?} runs 1.{runs}"
    )]
    TooNew { path: String, since: u64, pool: String, runs: u64 },
    #[error(
        "KubeletConfiguration: {field} is not allowed to be set, but contains: {found} (remove spec.kubeletConfig.{path})"
    )]
    Managed { field: &'static str, path: &'static str, found: String },
    #[error(
        "KubeletConfiguration: autoSizingReserved and systemReserved cannot be set together (remove spec.autoSizingReserved or spec.kubeletConfig.systemReserved)"
    )]
    SizedTwice,
    #[error("KubeletConfiguration: systemReservedCgroup ({reserved}) must match systemCgroups ({system})")]
    Cgroups { reserved: String, system: String },
    #[error("invalid merged configuration: systemReservedCgroup ({reserved}) must match systemCgroups ({system})")]
    MergedCgroups { reserved: String, system: String },
    #[error(
        "KubeletConfiguration: staticPodPath is not allowed to be set for control plane pool {pool:?} (remove spec.kubeletConfig.staticPodPath)"
    )]
    StaticPodsOfControlPlane { pool: String },
    #[error(
        "KubeletConfiguration: staticPodPath must be empty for pool {pool:?}, but contains: {found} (leave spec.kubeletConfig.staticPodPath out, or write \"\" to disable static pods)"
    )]
    StaticPods { pool: String, found: String },
    #[error(
        "KubeletConfig's autoSizingReserved is not possible where the kubelet's own file is kept; write amounts into spec.kubeletConfig.systemReserved, for example memory: 1Gi"
    )]
    AutoSizingDropin,
    #[error(
        "kubelets read drop-ins from 1.{since} on, but a node of pool {pool:?} runs 1.{runs} and would read none; upgrade its kubelet"
    )]
    NoDropins { pool: String, since: u64, runs: u64 },
    #[error("KubeletConfiguration: {}", listed(.0))]
    Limits(Vec<Violation>),
    #[error(
        "KubeletConfiguration: {} (a field that no KubeletConfig sets counts with the kubelet's default here, because the kubelet's own file is not known; set fields that depend on one another together)",
        listed(.0)
    )]
    DropinLimits(Vec<Violation>),
}

fn listed(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
