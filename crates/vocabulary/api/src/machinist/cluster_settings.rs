//! `ClusterSettings`: settings that differ between Kubernetes distributions, in one object named `cluster`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Facts about the hosts of this cluster.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machinist.dev",
    version = "v1alpha1",
    kind = "ClusterSettings",
    plural = "clustersettings",
    singular = "clustersettings",
    category = "machinist",
    doc = "Facts about the hosts of this cluster. One object, named cluster.",
    derive = "Default",
    derive = "PartialEq",
    validation = Rule::new("self.metadata.name == 'cluster'").message("ClusterSettings must be named cluster"),
    printcolumn(name = "AdminUser", type_ = "string", json_path = ".spec.adminUser"),
    printcolumn(name = "RuntimeService", type_ = "string", json_path = ".spec.runtimeService"),
    printcolumn(name = "Profile", type_ = "string", json_path = ".spec.profile"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSettingsSpec {
    /// The user whose SSH keys and password a MachineConfig may set. `core` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub admin_user: Option<String>,
    /// The unit of the container runtime, which default disruption policies reload. `crio.service` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub runtime_service: Option<String>,
    /// What kind of hosts these are. It decides what every host starts from and where the settings of kubelets go:
    /// `openshift` (the kubelet and the runtime are configured by templates), `kubeadm` and `k3s` (their own files stay, ours are
    /// drop-ins), `none` (nothing is known of the kubelet). When absent, it is found from the nodes; `openshift` is never found
    /// where no template has configured a host before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["openshift", "kubeadm", "k3s", "none"]))]
    pub profile: Option<String>,
    /// What the containerd of hosts reads, where no MachineConfig writes its main file `/etc/containerd/config.toml`. Mirrors and
    /// ContainerRuntimeConfigs whose files nothing is known to read are told so, not reported as done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containerd: Option<ContainerdSettings>,
}

/// What the main file of containerd makes it read.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerdSettings {
    /// Whether `config_path` is `/etc/containerd/certs.d`, where mirrors are written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reads_hosts: bool,
    /// Whether `imports` has `/etc/containerd/conf.d/*.toml`, where settings of ContainerRuntimeConfigs are written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reads_dropins: bool,
}

impl ClusterSettingsSpec {
    /// Returns the admin user; `core` by default.
    pub fn admin_user(&self) -> &str {
        self.admin_user.as_deref().unwrap_or("core")
    }

    /// Returns the unit of the container runtime; `crio.service` by default.
    pub fn runtime_service(&self) -> &str {
        self.runtime_service.as_deref().unwrap_or("crio.service")
    }
}
