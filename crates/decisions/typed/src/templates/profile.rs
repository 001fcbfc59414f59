//! Profiles: what the cluster's hosts look like, and where a kubelet's and a runtime's settings go on them.

use std::fmt;

/// What kind of cluster this is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// Hosts of OpenShift's kind: the kubelet and the runtime are ours, with upstream's paths.
    OpenShift,
    /// Hosts that kubeadm made: the kubelet's file is kubeadm's, ours are drop-ins.
    Kubeadm,
    /// Hosts of k3s, which runs kubelet and containerd inside itself.
    K3s,
    /// Hosts of which nothing is known: only what users write reaches them.
    #[default]
    None,
}

/// Where the settings of a kubelet go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kubelet {
    /// The whole file is ours.
    Whole,
    /// A folder of drop-ins that the kubelet merges over its own file, and how the kubelet is made to read it.
    Dropin {
        folder: &'static str,
        /// A drop-in of the kubelet's unit that names the folder, unless the kubelet reads it anyway.
        unit: Option<UnitDropin>,
        /// The first minor version whose kubelet reads the folder without an experimental switch.
        since: u64,
    },
    Unknown,
}

/// A drop-in of a systemd unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitDropin {
    pub path: &'static str,
    pub contents: &'static str,
}

/// What a node says about itself, as far as a profile can be told from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSigns {
    pub kubelet_version: String,
    pub os_image: String,
    pub runtime_version: String,
    pub annotations: Vec<String>,
}

impl Profile {
    /// The profile of this name in `ClusterSettings`.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::OpenShift, Self::Kubeadm, Self::K3s, Self::None].into_iter().find(|profile| profile.to_string() == name)
    }

    /// The profile that all nodes agree on; nodes that disagree, and no nodes, are no profile. A node that has not said
    /// anything yet does not count.
    pub fn detect(nodes: &[NodeSigns]) -> Self {
        let mut found = nodes.iter().filter(|node| **node != NodeSigns::default()).map(Self::of_node);
        let Some(first) = found.next() else { return Self::None };
        if found.all(|other| other == first) { first } else { Self::None }
    }

    /// The profile of a single node.
    pub(crate) fn of_node(node: &NodeSigns) -> Self {
        let has = |key: &str| node.annotations.iter().any(|annotation| annotation == key);
        if node.kubelet_version.contains("+k3s") {
            Self::K3s
        } else if node.os_image.contains("CoreOS") && node.runtime_version.starts_with("cri-o://") {
            Self::OpenShift
        } else if has("kubeadm.alpha.kubernetes.io/cri-socket") {
            Self::Kubeadm
        } else {
            Self::None
        }
    }

    /// Where the settings of a kubelet go.
    pub fn kubelet(self) -> Kubelet {
        match self {
            Self::OpenShift => Kubelet::Whole,
            Self::Kubeadm => Kubelet::Dropin {
                folder: "/etc/kubernetes/kubelet.conf.d",
                unit: Some(UnitDropin {
                    path: "/etc/systemd/system/kubelet.service.d/20-machinist-config-dir.conf",
                    contents: "[Service]\nEnvironment=\"KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml --config-dir=/etc/kubernetes/kubelet.conf.d\"\n",
                }),
                since: 30,
            },
            Self::K3s => {
                Kubelet::Dropin { folder: "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d", unit: None, since: 32 }
            }
            Self::None => Kubelet::Unknown,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenShift => "openshift",
            Self::Kubeadm => "kubeadm",
            Self::K3s => "k3s",
            Self::None => "none",
        })
    }
}

/// The container runtime of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Runtime {
    Crio,
    Containerd { major: u64 },
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crio => f.write_str("CRI-O"),
            Self::Containerd { major } => write!(f, "containerd {major}"),
        }
    }
}

impl Runtime {
    /// What a node's `containerRuntimeVersion` says, for example `containerd://1.7.2`.
    pub fn parse(version: &str) -> Option<Self> {
        match version.split_once("://")? {
            ("cri-o", _) => Some(Self::Crio),
            ("containerd", version) => {
                let major = version.trim_start_matches('v').split('.').next()?.parse().ok()?;
                Some(Self::Containerd { major })
            }
            _ => None,
        }
    }

    /// The major version of containerd, of which each has a form of configuration; 0 for CRI-O.
    pub fn major(self) -> u64 {
        match self {
            Self::Crio => 0,
            Self::Containerd { major } => major,
        }
    }

    /// Its name in templates' folders.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crio => "crio",
            Self::Containerd { .. } => "containerd",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_what_all_nodes_agree_on() {
        let k3s = NodeSigns { kubelet_version: "v1.33.1+k3s1".into(), ..NodeSigns::default() };
        let kubeadm =
            NodeSigns { annotations: vec!["kubeadm.alpha.kubernetes.io/cri-socket".into()], ..NodeSigns::default() };
        let openshift = NodeSigns {
            os_image: "Red Hat Enterprise Linux CoreOS 9.6".into(),
            runtime_version: "cri-o://1.33.1".into(),
            ..NodeSigns::default()
        };
        assert_eq!(Profile::detect(&[k3s.clone(), k3s.clone()]), Profile::K3s);
        assert_eq!(Profile::detect(std::slice::from_ref(&openshift)), Profile::OpenShift);
        assert_eq!(Profile::detect(&[k3s.clone(), kubeadm.clone()]), Profile::None);
        assert_eq!(Profile::detect(&[k3s, NodeSigns::default()]), Profile::K3s);
        assert_eq!(Profile::detect(&[kubeadm]), Profile::Kubeadm);
        assert_eq!(Profile::detect(&[NodeSigns::default()]), Profile::None);
        assert_eq!(Profile::detect(&[]), Profile::None);
    }

    #[test]
    fn names_of_profiles_are_read_back() {
        for profile in [Profile::OpenShift, Profile::Kubeadm, Profile::K3s, Profile::None] {
            assert_eq!(Profile::parse(&profile.to_string()), Some(profile));
        }
        assert_eq!(Profile::parse("talos"), None);
        assert_eq!(Runtime::parse("containerd://2.1.0"), Some(Runtime::Containerd { major: 2 }));
        assert_eq!(Runtime::parse("docker://20.10"), None);
    }
}
