//! `ClusterImagePolicy` and `ImagePolicy`: who must have signed an image before it may run.

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Required signatures of images, in the whole cluster.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ClusterImagePolicy",
    plural = "clusterimagepolicies",
    doc = "Required signatures of images, in the whole cluster.",
    status = "ImagePolicyStatus",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterImagePolicySpec {
    pub policy: ImageSigstoreVerificationPolicy,
    #[schemars(schema_with = "scopes")]
    pub scopes: Vec<String>,
}

/// Required signatures of images in one namespace.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ImagePolicy",
    plural = "imagepolicies",
    namespaced,
    doc = "Required signatures of images in one namespace.",
    status = "ImagePolicyStatus",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ImagePolicySpec {
    pub policy: ImageSigstoreVerificationPolicy,
    #[schemars(schema_with = "scopes")]
    pub scopes: Vec<String>,
}

/// Result of applying a policy.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImagePolicyStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
}

/// Trust roots, and the identity that a signature must match.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageSigstoreVerificationPolicy {
    pub root_of_trust: PolicyRootOfTrust,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_identity: Option<PolicyIdentity>,
}

/// Trust roots. Only the field that `policyType` names is used.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.policyType) && self.policyType == 'PKI' ? has(self.pki) : !has(self.pki)")
    .message("pki is required when policyType is PKI, and forbidden otherwise"))]
#[x_kube(validation = Rule::new("has(self.policyType) && self.policyType == 'PublicKey' ? has(self.publicKey) : !has(self.publicKey)")
    .message("publicKey is required when policyType is PublicKey, and forbidden otherwise"))]
#[x_kube(validation = Rule::new("has(self.policyType) && self.policyType == 'FulcioCAWithRekor' ? has(self.fulcioCAWithRekor) : !has(self.fulcioCAWithRekor)")
    .message("fulcioCAWithRekor is required when policyType is FulcioCAWithRekor, and forbidden otherwise"))]
pub struct PolicyRootOfTrust {
    #[serde(default, rename = "fulcioCAWithRekor", skip_serializing_if = "Option::is_none")]
    pub fulcio_ca_with_rekor: Option<FulcioCaWithRekor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pki: Option<Pki>,
    #[schemars(extend("enum" = ["PublicKey", "FulcioCAWithRekor", "PKI"]))]
    pub policy_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<ImagePolicyPublicKey>,
}

/// A key, and perhaps a log that the signature must stand in.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImagePolicyPublicKey {
    #[schemars(schema_with = "key_data")]
    pub key_data: ByteString,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rekor_key_data")]
    pub rekor_key_data: Option<ByteString>,
}

/// Certificates of a Fulcio CA for one person, and the log that signatures must stand in.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FulcioCaWithRekor {
    #[serde(rename = "fulcioCAData")]
    #[schemars(schema_with = "fulcio_ca_data")]
    pub fulcio_ca_data: ByteString,
    pub fulcio_subject: FulcioSubject,
    #[schemars(schema_with = "rekor_key_data")]
    pub rekor_key_data: ByteString,
}

/// The subject that a Fulcio certificate must have.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FulcioSubject {
    #[schemars(length(max = 2048))]
    #[x_kube(validation = Rule::new("isURL(self)").message("oidcIssuer must be a valid URL"))]
    pub oidc_issuer: String,
    #[schemars(length(max = 320))]
    #[x_kube(validation = Rule::new(r"self.matches('^\\S+@\\S+$')").message("invalid email address"))]
    pub signed_email: String,
}

/// Certificates of a custom PKI.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pki {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ca_intermediates_data")]
    pub ca_intermediates_data: Option<ByteString>,
    #[schemars(schema_with = "ca_roots_data")]
    pub ca_roots_data: ByteString,
    pub pki_certificate_subject: PkiCertificateSubject,
}

/// The subject that a certificate must have.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.email) || has(self.hostname)")
    .message("at least one of email or hostname must be set in pkiCertificateSubject"))]
pub struct PkiCertificateSubject {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 320))]
    #[x_kube(validation = Rule::new(r"self.matches('^\\S+@\\S+$')").message("invalid email address"))]
    pub email: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = Rule::new("self.startsWith('*.') ? !format.dns1123Subdomain().validate(self.replace('*.', '', 1)).hasValue() : !format.dns1123Subdomain().validate(self).hasValue()")
        .message("hostname must be a valid dns 1123 subdomain name, optionally prefixed by '*.'. It must consist only of lowercase alphanumeric characters, hyphens, periods and the optional preceding asterisk."))]
    pub hostname: Option<String>,
}

/// For which image a signature counts.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(has(self.matchPolicy) && self.matchPolicy == 'ExactRepository') ? has(self.exactRepository) : !has(self.exactRepository)")
    .message("exactRepository is required when matchPolicy is ExactRepository, and forbidden otherwise"))]
#[x_kube(validation = Rule::new("(has(self.matchPolicy) && self.matchPolicy == 'RemapIdentity') ? has(self.remapIdentity) : !has(self.remapIdentity)")
    .message("remapIdentity is required when matchPolicy is RemapIdentity, and forbidden otherwise"))]
pub struct PolicyIdentity {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact_repository: Option<PolicyMatchExactRepository>,
    #[schemars(extend("enum" = ["MatchRepoDigestOrExact", "MatchRepository", "ExactRepository", "RemapIdentity"]))]
    pub match_policy: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remap_identity: Option<PolicyMatchRemapIdentity>,
}

/// The signature must be for this repository.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyMatchExactRepository {
    #[schemars(schema_with = "identity_prefix")]
    pub repository: String,
}

/// The signature may be for the same image below another prefix.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyMatchRemapIdentity {
    #[schemars(schema_with = "identity_prefix")]
    pub prefix: String,
    #[schemars(schema_with = "identity_prefix")]
    pub signed_prefix: String,
}

fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = crate::schema::conditions(generator);
    schema.insert("minItems".to_owned(), 1.into());
    schema.insert("maxItems".to_owned(), 8.into());
    schema
}

fn key_data(_: &mut SchemaGenerator) -> Schema {
    pem("keyData", "PUBLIC KEY", Some(68))
}

fn rekor_key_data(_: &mut SchemaGenerator) -> Schema {
    pem("rekorKeyData", "PUBLIC KEY", None)
}

fn fulcio_ca_data(_: &mut SchemaGenerator) -> Schema {
    pem("fulcioCAData", "CERTIFICATE", None)
}

fn ca_roots_data(_: &mut SchemaGenerator) -> Schema {
    certificates("caRootsData")
}

fn ca_intermediates_data(_: &mut SchemaGenerator) -> Schema {
    certificates("caIntermediatesData")
}

/// Bytes that begin and end like a PEM block of this kind.
fn pem(field: &str, kind: &str, least: Option<u32>) -> Schema {
    let (begin, end) = (format!("-----BEGIN {kind}-----"), format!("-----END {kind}-----"));
    let mut schema = json_schema!({
        "type": "string",
        "format": "byte",
        "maxLength": 8192,
        "x-kubernetes-validations": [
            {
                "rule": format!("string(self).startsWith('{begin}')"),
                "message": format!("the {field} must start with base64 encoding of '{begin}'."),
            },
            {
                "rule": format!(r"string(self).endsWith('{end}\n') || string(self).endsWith('{end}')"),
                "message": format!("the {field} must end with base64 encoding of '{end}'."),
            },
        ],
    });
    if let Some(least) = least {
        schema.insert("minLength".to_owned(), least.into());
    }
    schema
}

/// One or more PEM certificates.
fn certificates(field: &str) -> Schema {
    let mut schema = pem(field, "CERTIFICATE", Some(72));
    let counted = serde_json::json!({
        "rule": "string(self).findAll('-----BEGIN CERTIFICATE-----').size() == string(self).findAll('-----END CERTIFICATE-----').size()",
        "message": format!("{field} must be base64 encoding of valid PEM format data contain the same number of '-----BEGIN CERTIFICATE-----' and '-----END CERTIFICATE-----' markers."),
    });
    if let Some(serde_json::Value::Array(rules)) = schema.get_mut("x-kubernetes-validations") {
        rules.push(counted);
    }
    schema
}

fn identity_prefix(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 512,
        "x-kubernetes-validations": [
            {
                "rule": r"self.matches('.*:([\\w][\\w.-]{0,127})$')? self.matches('^(localhost:[0-9]+)$'): true",
                "message": "invalid repository or prefix in the signedIdentity, should not include the tag or digest",
            },
            {
                "rule": r"self.matches('^(((?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:\\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))+(?::[0-9]+)?)|(localhost(?::[0-9]+)?))(?:(?:/[a-z0-9]+(?:(?:(?:[._]|__|[-]*)[a-z0-9]+)+)?)+)?$')",
                "message": "invalid repository or prefix in the signedIdentity. The repository or prefix must starts with 'localhost' or a valid '.' separated domain. If contains registry paths, the path component names must start with at least one letter or number, with following parts able to be separated by one period, one or two underscore and multiple dashes.",
            },
        ],
    })
}

fn scopes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 256,
        "x-kubernetes-list-type": "set",
        "items": {
            "type": "string",
            "maxLength": 512,
            "x-kubernetes-validations": [
                {
                    "rule": "size(self.split('/')[0].split('.')) == 1 ? self.split('/')[0].split('.')[0].split(':')[0] == 'localhost' : true",
                    "message": "invalid image scope format, scope must contain a fully qualified domain name or 'localhost'",
                },
                {
                    "rule": r"self.contains('*') ? self.matches('^\\*(?:\\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))+$') : true",
                    "message": "invalid image scope with wildcard, a wildcard can only be at the start of the domain and is only supported for subdomain matching, not path matching",
                },
                {
                    "rule": r"!self.contains('*') ? self.matches('^((((?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:\\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))+(?::[0-9]+)?)|(localhost(?::[0-9]+)?))(?:(?:/[a-z0-9]+(?:(?:(?:[._]|__|[-]*)[a-z0-9]+)+)?)+)?)(?::([\\w][\\w.-]{0,127}))?(?:@([A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*[:][[:xdigit:]]{32,}))?$') : true",
                    "message": "invalid repository namespace or image specification in the image scope",
                },
            ],
        },
    })
}
