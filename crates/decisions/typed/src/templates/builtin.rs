//! The templates that come with the product, by profile.
//!
//! On kubeadm, k3s and unknown hosts the kubelet and the runtime are the cluster's own, so there is nothing that hosts start
//! from: an installation changes no node there.

use super::Profile;

pub(super) fn of(profile: Profile) -> &'static [(&'static str, &'static str)] {
    match profile {
        Profile::OpenShift => OPENSHIFT,
        Profile::Kubeadm | Profile::K3s | Profile::None => &[],
    }
}

macro_rules! templates {
    ($profile:literal: $($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../templates/", $profile, "/", $path)))),*]
    };
}

const OPENSHIFT: &[(&str, &str)] = templates!("openshift":
    "common/00/apiserver-url",
    "common/00/audit-quiet-containers",
    "common/00/cleanup-cni",
    "common/00/crio-proxy",
    "common/00/internal-pull-secret",
    "common/00/iptables-modules",
    "common/00/kubelet-auto-node-size",
    "common/00/kubelet-log-level",
    "common/00/kubelet-proxy",
    "common/00/mco-hostname",
    "common/00/networkmanager-ipv6",
    "common/00/networkmanager-keyfiles",
    "common/00/networkmanager-sdn",
    "common/00/node-valid-hostname",
    "common/00/proxy-env",
    "common/00/pull-secret",
    "common/00/sysctl-arp",
    "common/00/sysctl-inotify",
    "common/00/sysctl-userfaultfd",
    "common/00/sysctl-vm-max-map",
    "common/00/system-reserved-calc",
    "common/00/systemd-accounting",
    "common/00/trust-bundle",
    "common/00/volume-plugins",
    "common/00/zincati",
    "common/01-container-runtime/policy-json",
    "common/01-container-runtime/registries-conf",
    "common/01-container-runtime/storage-conf",
    "common/01-kubelet/cloud-config",
    "common/01-kubelet/kubelet-ca",
    "common/01-kubelet/root-ca",
    "role/arbiter/00/node-sizing",
    "role/arbiter/01-kubelet/kubelet-conf",
    "role/arbiter/01-kubelet/kubelet-service",
    "role/master/00/node-sizing",
    "role/master/01-kubelet/kubelet-conf",
    "role/master/01-kubelet/kubelet-service",
    "role/worker/00/node-sizing",
    "role/worker/01-kubelet/kubelet-conf",
    "role/worker/01-kubelet/kubelet-service",
    "runtime/containerd/01-container-runtime/containerd-conf",
    "runtime/containerd/01-container-runtime/policy-json",
    "runtime/containerd/01-container-runtime/registries-conf",
    "runtime/containerd/01-container-runtime/storage-conf",
    "runtime/crio/01-container-runtime/crio-conf",
);

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Every file below a folder, by its path.
    fn files(folder: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in folder.read_dir().expect("the folder is there").flatten() {
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            match entry.path().is_dir() {
                true => files(&entry.path(), &format!("{name}/"), found),
                false => found.push(name),
            }
        }
    }

    #[test]
    fn every_template_in_the_folder_is_compiled_in() {
        let mut found = Vec::new();
        files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("templates/openshift"), "", &mut found);
        found.sort();
        let listed: Vec<_> = OPENSHIFT.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(listed, found);
    }
}
