//! `MachineConfig`: one fragment of a host's configuration, or the result of rendering a pool's fragments.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Content of a fragment. The API does not check it; bad content is found when the pool is rendered.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineConfig",
    plural = "machineconfigs",
    shortname = "mc",
    doc = "A fragment of a host's configuration, or a rendered config.",
    derive = "Default",
    derive = "PartialEq",
    // The spec may be missing, so deserializing must not require it.
    attr = "cfg_attr(all(), serde(default))",
    printcolumn(
        name = "GeneratedByController",
        type_ = "string",
        json_path = r".metadata.annotations.machineconfiguration\.openshift\.io/generated-by-controller-version"
    ),
    printcolumn(name = "IgnitionVersion", type_ = "string", json_path = ".spec.config.ignition.version"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigSpec {
    /// OS image that replaces the cluster's own.
    #[serde(default, rename = "osImageURL", skip_serializing_if = "Option::is_none")]
    pub os_image_url: Option<String>,
    /// Image with the packages behind `extensions`, when it is not the cluster's own.
    #[serde(default, rename = "baseOSExtensionsContainerImage", skip_serializing_if = "Option::is_none")]
    pub base_os_extensions_container_image: Option<String>,
    /// Ignition config, of any supported version of the specification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub config: Option<Value>,
    /// Arguments appended to the kernel's command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::schema::null_is_empty")]
    #[schemars(extend("nullable" = true, "x-kubernetes-list-type" = "atomic"))]
    pub kernel_arguments: Vec<String>,
    /// Named sets of packages added to the OS.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub extensions: Vec<String>,
    /// FIPS mode. It can only be chosen before a host's first boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fips: Option<bool>,
    /// `default`, `realtime` or `64k-pages`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_type: Option<String>,
}
