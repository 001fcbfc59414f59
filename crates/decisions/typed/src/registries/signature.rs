//! Signature policies: what a policy of the API asks for, in the words of `policy.json`.

use api::config::{ImageSigstoreVerificationPolicy, PolicyIdentity};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::reference::{is_component, is_domain, parse_any};

/// What is wrong with a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("spec.scopes {0:?} is no scope; write a host, a repository or a wildcard such as *.example.com")]
    Scope(String),
    #[error("spec.policy.rootOfTrust.{0} must be set for this policyType")]
    Missing(&'static str),
    #[error("spec.policy.rootOfTrust.policyType {0:?} is unknown; there are PublicKey, FulcioCAWithRekor, PKI")]
    PolicyType(String),
    #[error(
        "At least one of subjectEmail, subjectHostname must be specified (spec.policy.rootOfTrust.pki.pkiCertificateSubject)"
    )]
    PkiSubject,
    #[error("{0} not specified (spec.policy.rootOfTrust.fulcioCAWithRekor.fulcioSubject)")]
    FulcioSubject(&'static str),
    #[error("unknown signedIdentity match policy: {0}")]
    MatchPolicy(String),
    #[error("error getting signedIdentity for {policy}: {problem}")]
    Identity { policy: &'static str, problem: String },
}

/// The requirement that an image must meet.
pub(super) fn requirement(policy: &ImageSigstoreVerificationPolicy) -> Result<Value, Problem> {
    let root = &policy.root_of_trust;
    let mut requirement = json!({"type": "sigstoreSigned"});
    match root.policy_type.as_str() {
        "PublicKey" => {
            let key = root.public_key.as_ref().ok_or(Problem::Missing("publicKey"))?;
            requirement["keyData"] = data(&key.key_data);
            if let Some(rekor) = key.rekor_key_data.as_ref().filter(|rekor| !rekor.0.is_empty()) {
                requirement["rekorPublicKeyData"] = data(rekor);
            }
        }
        "FulcioCAWithRekor" => {
            let fulcio = root.fulcio_ca_with_rekor.as_ref().ok_or(Problem::Missing("fulcioCAWithRekor"))?;
            let subject = &fulcio.fulcio_subject;
            for (name, value) in [("oidcIssuer", &subject.oidc_issuer), ("subjectEmail", &subject.signed_email)] {
                if value.is_empty() {
                    return Err(Problem::FulcioSubject(name));
                }
            }
            requirement["fulcio"] = json!({
                "caData": data(&fulcio.fulcio_ca_data),
                "oidcIssuer": subject.oidc_issuer,
                "subjectEmail": subject.signed_email,
            });
            requirement["rekorPublicKeyData"] = data(&fulcio.rekor_key_data);
        }
        "PKI" => {
            let pki = root.pki.as_ref().ok_or(Problem::Missing("pki"))?;
            let mut trusted = json!({"caRootsData": data(&pki.ca_roots_data)});
            if let Some(intermediates) = pki.ca_intermediates_data.as_ref().filter(|data| !data.0.is_empty()) {
                trusted["caIntermediatesData"] = data(intermediates);
            }
            let subject = &pki.pki_certificate_subject;
            let subjects = [("subjectEmail", &subject.email), ("subjectHostname", &subject.hostname)];
            let given = subjects.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?)));
            let given: Vec<_> = given.filter(|(_, value)| !value.is_empty()).collect();
            if given.is_empty() {
                return Err(Problem::PkiSubject);
            }
            for (name, value) in given {
                trusted[name] = value.clone().into();
            }
            requirement["pki"] = trusted;
        }
        other => return Err(Problem::PolicyType(other.to_owned())),
    }
    requirement["signedIdentity"] = identity(policy.signed_identity.as_ref())?;
    Ok(requirement)
}

fn data(bytes: &ByteString) -> Value {
    STANDARD.encode(&bytes.0).into()
}

fn identity(identity: Option<&PolicyIdentity>) -> Result<Value, Problem> {
    let Some(identity) = identity else { return Ok(json!({"type": "matchRepoDigestOrExact"})) };
    match identity.match_policy.as_str() {
        "MatchRepoDigestOrExact" => Ok(json!({"type": "matchRepoDigestOrExact"})),
        "MatchRepository" => Ok(json!({"type": "matchRepository"})),
        policy @ "ExactRepository" => {
            let refuse = |problem| Problem::Identity { policy: "ExactRepository", problem };
            let exact = identity.exact_repository.as_ref();
            let exact = exact.ok_or_else(|| refuse(format!("exactRepository is required with {policy}")))?;
            match parse_any(&exact.repository) {
                Some(_) => Ok(json!({"type": "exactRepository", "dockerRepository": exact.repository})),
                None => Err(refuse(format!("Invalid format of dockerRepository {:?}", exact.repository))),
            }
        }
        policy @ "RemapIdentity" => {
            let refuse = |problem| Problem::Identity { policy: "RemapIdentity", problem };
            let remap = identity.remap_identity.as_ref();
            let remap = remap.ok_or_else(|| refuse(format!("remapIdentity is required with {policy}")))?;
            for prefix in [&remap.prefix, &remap.signed_prefix] {
                if !is_prefix(prefix) {
                    return Err(refuse(format!("prefix {prefix:?} is not valid")));
                }
            }
            Ok(json!({"type": "remapIdentity", "prefix": remap.prefix, "signedPrefix": remap.signed_prefix}))
        }
        other => Err(Problem::MatchPolicy(other.to_owned())),
    }
}

/// A registry, or a registry and the beginning of a path.
fn is_prefix(text: &str) -> bool {
    let mut parts = text.split('/');
    parts.next().is_some_and(is_domain) && parts.all(is_component)
}
