//! `Infrastructure`, as part of a ControllerConfig: the platform of the cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Empty;
use crate::config::{
    AlibabaCloudPlatformStatus, AwsPlatformSpec, AwsPlatformStatus, AzurePlatformStatus, BareMetalPlatformStatus,
    ExternalPlatformSpec, ExternalPlatformStatus, GcpPlatformStatus, IbmCloudPlatformStatus, NutanixPlatformSpec,
    NutanixPlatformStatus, OnPremisesPlatformSpec, OpenStackPlatformStatus, OvirtPlatformStatus, PowerVsPlatformSpec,
    PowerVsPlatformStatus, SimplePlatformStatus, VspherePlatformSpec,
};

/// What the cluster runs on (`config.openshift.io/v1`).
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-embedded-resource" = true))]
pub struct Infrastructure {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::plain_object")]
    pub metadata: Option<ObjectMeta>,
    pub spec: InfrastructureSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<InfrastructureStatus>,
}

/// Settings by the user.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "Infrastructure",
    // [`Infrastructure`] is the copy in a ControllerConfig: the same content, with all fields optional.
    root = "ClusterInfrastructure",
    plural = "infrastructures",
    doc = "The platform of the cluster. One object, named cluster.",
    status = "InfrastructureStatus",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct InfrastructureSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_config: Option<ConfigMapFileReference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_spec: Option<PlatformSpec>,
}

/// One key of a ConfigMap.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapFileReference {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Settings of the platform; only the member that `type` names is used.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(oldSelf.vsphere) && has(self.vsphere) ? (has(self.vsphere.vcenters) && size(self.vsphere.vcenters) < 2) : true")
    .message("vcenters can have at most 1 item when configured post-install"))]
pub struct PlatformSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alibaba_cloud: Option<Empty>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws: Option<AwsPlatformSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub azure: Option<Empty>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baremetal: Option<OnPremisesPlatformSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equinix_metal: Option<Empty>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalPlatformSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gcp: Option<Empty>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ibmcloud: Option<Empty>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubevirt: Option<Empty>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nutanix: Option<NutanixPlatformSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openstack: Option<OnPremisesPlatformSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ovirt: Option<Empty>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub powervs: Option<PowerVsPlatformSpec>,
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::platform_type")]
    pub type_: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vsphere: Option<VspherePlatformSpec>,
}

/// Observed state.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InfrastructureStatus {
    #[serde(default, rename = "apiServerInternalURI", skip_serializing_if = "Option::is_none")]
    pub api_server_internal_uri: Option<String>,
    #[serde(default, rename = "apiServerURL", skip_serializing_if = "Option::is_none")]
    pub api_server_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["HighlyAvailable", "HighlyAvailableArbiter", "SingleReplica", "DualReplica", "External"], "default" = "HighlyAvailable"))]
    pub control_plane_topology: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["None", "AllNodes"], "default" = "None"))]
    pub cpu_partitioning: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_discovery_domain: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["HighlyAvailable", "SingleReplica"], "default" = "HighlyAvailable"))]
    pub infrastructure_topology: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::platform_type")]
    pub platform: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_status: Option<PlatformStatus>,
}

/// Facts about the platform; only the member that `type` names is used.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlatformStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alibaba_cloud: Option<AlibabaCloudPlatformStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws: Option<AwsPlatformStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub azure: Option<AzurePlatformStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baremetal: Option<BareMetalPlatformStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equinix_metal: Option<SimplePlatformStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalPlatformStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gcp: Option<GcpPlatformStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ibmcloud: Option<IbmCloudPlatformStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubevirt: Option<SimplePlatformStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nutanix: Option<NutanixPlatformStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openstack: Option<OpenStackPlatformStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ovirt: Option<OvirtPlatformStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub powervs: Option<PowerVsPlatformStatus>,
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::platform_type")]
    pub type_: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vsphere: Option<BareMetalPlatformStatus>,
}
