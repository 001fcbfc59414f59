//! `ControllerConfig`: facts about the cluster, used as parameters of templates.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Dns, Infrastructure, ProxyStatus};

/// Parameters of templates. Written by the operator.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "ControllerConfig",
    plural = "controllerconfigs",
    doc = "Facts about the cluster that templates are filled with. One object, named machine-config-controller.",
    status = "ControllerConfigStatus",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ControllerConfigSpec {
    /// Certificates that hosts trust beside the system's, in PEM.
    #[schemars(schema_with = "crate::schema::bytes")]
    #[schemars(extend("nullable" = true))]
    pub additional_trust_bundle: Option<ByteString>,
    /// OS image of hosts for which no MachineConfig sets another.
    #[serde(rename = "baseOSContainerImage")]
    pub base_os_container_image: String,
    /// Image with the packages behind extensions.
    #[serde(default, rename = "baseOSExtensionsContainerImage", skip_serializing_if = "Option::is_none")]
    pub base_os_extensions_container_image: Option<String>,
    /// CA of the cloud's API, in PEM.
    #[serde(rename = "cloudProviderCAData")]
    #[schemars(schema_with = "crate::schema::bytes")]
    #[schemars(extend("nullable" = true))]
    pub cloud_provider_ca_data: Option<ByteString>,
    /// Configuration of the cloud provider.
    pub cloud_provider_config: String,
    /// Address of the cluster's DNS service.
    #[serde(rename = "clusterDNSIP")]
    pub cluster_dns_ip: String,
    /// The cluster's DNS object.
    #[schemars(required)]
    #[schemars(extend("nullable" = true))]
    pub dns: Option<Dns>,
    /// Deprecated copy of a field of `infra`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_discovery_domain: Option<String>,
    /// CAs of image registries that the cluster found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub image_registry_bundle_data: Vec<ImageRegistryBundle>,
    /// CAs of image registries, configured by the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub image_registry_bundle_user_data: Vec<ImageRegistryBundle>,
    /// Images that templates refer to, by key.
    pub images: BTreeMap<String, String>,
    /// The cluster's Infrastructure object.
    #[schemars(required)]
    #[schemars(extend("nullable" = true))]
    pub infra: Option<Infrastructure>,
    /// Docker config for pulling from the cluster's own registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::bytes")]
    #[schemars(extend("nullable" = true))]
    pub internal_registry_pull_secret: Option<ByteString>,
    /// `IPv4`, `IPv6`, `DualStack` or `DualStackIPv6Primary`.
    pub ip_families: String,
    /// CA that clients of the API server trust, in PEM.
    #[serde(rename = "kubeAPIServerServingCAData")]
    #[schemars(schema_with = "crate::schema::bytes")]
    pub kube_api_server_serving_ca_data: ByteString,
    /// Network settings of hosts.
    #[schemars(required)]
    #[schemars(extend("nullable" = true))]
    pub network: Option<NetworkInfo>,
    /// The network plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_type: Option<String>,
    /// Deprecated.
    #[serde(default, rename = "osImageURL", skip_serializing_if = "Option::is_none")]
    pub os_image_url: Option<String>,
    /// Deprecated copy of a field of `infra`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// The cluster's proxy.
    #[schemars(required)]
    #[schemars(extend("nullable" = true))]
    pub proxy: Option<ProxyStatus>,
    /// Secret for pulling images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_reference")]
    pub pull_secret: Option<ObjectReference>,
    /// Image of the release; only set while a cluster is installed.
    pub release_image: String,
    /// CA of the config server, in PEM.
    #[serde(rename = "rootCAData")]
    #[schemars(schema_with = "crate::schema::bytes")]
    pub root_ca_data: ByteString,
}

/// The CA of one registry.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageRegistryBundle {
    #[schemars(schema_with = "crate::schema::bytes")]
    pub data: ByteString,
    /// The registry's host, with `..` for the colon before a port.
    pub file: String,
}

/// Network settings of hosts.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkInfo {
    #[schemars(required)]
    #[schemars(extend("nullable" = true))]
    pub mtu_migration: Option<MtuMigration>,
}

/// A change of MTU in progress.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MtuMigration {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MtuMigrationValues>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<MtuMigrationValues>,
}

/// The MTU before and after.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MtuMigrationValues {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub from: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub to: Option<i32>,
}

/// Status written by the template controller.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerConfigStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<ControllerConfigCondition>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub controller_certificates: Vec<ControllerCertificate>,
    /// Generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A condition of the templates.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerConfigCondition {
    #[schemars(schema_with = "crate::schema::time")]
    #[schemars(extend("nullable" = true))]
    pub last_transition_time: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub status: String,
    #[serde(rename = "type")]
    pub type_: String,
}

/// A certificate that hosts are given.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerCertificate {
    pub bundle_file: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub not_after: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub not_before: Option<Time>,
    pub signer: String,
    pub subject: String,
}
