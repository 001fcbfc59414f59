//! `DNS`, as part of a ControllerConfig.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Empty;

/// The cluster's DNS (`config.openshift.io/v1`).
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-embedded-resource" = true))]
pub struct Dns {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::plain_object")]
    pub metadata: Option<ObjectMeta>,
    pub spec: DnsSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Empty>,
}

/// Zones of the cluster.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DnsSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_domain: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<DnsPlatformSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_zone: Option<DnsZone>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_zone: Option<DnsZone>,
}

/// DNS settings of one platform.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.type) && self.type == 'AWS' ?  has(self.aws) : !has(self.aws)")
    .message("aws configuration is required when platform is AWS, and forbidden otherwise"))]
pub struct DnsPlatformSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws: Option<AwsDnsSpec>,
    #[serde(rename = "type")]
    #[schemars(schema_with = "crate::schema::platform_type")]
    #[x_kube(validation = Rule::new("self in ['','AWS']").message("allowed values are '' and 'AWS'"))]
    pub type_: String,
}

/// DNS settings on AWS.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwsDnsSpec {
    #[serde(default, rename = "privateZoneIAMRole", skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("matches(self, '^arn:(aws|aws-cn|aws-us-gov):iam::[0-9]{12}:role/.*$')")
    .message("privateZoneIAMRole must be a valid AWS IAM role ARN in the format: arn:<partition>:iam::<account-id>:role/<role-name>"))]
    pub private_zone_iam_role: Option<String>,
}

/// A zone, by identity or by tags.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DnsZone {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}
