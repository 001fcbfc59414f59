//! Admission of Machines: how the API server reaches it, and when its certificate is made anew.

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{CONTROLLERS_APP, place};
use crate::certificates::{Held, LEAF_RENEW, Why};

/// Secret of the certificate, and of the authority that signed it.
pub const SECRET: &str = "machine-api-operator-webhook-cert";
/// The Service through which the API server reaches the controllers' pods.
pub const SERVICE: &str = "machine-api-operator-webhook";
/// Both configurations have this name.
pub const CONFIGURATION: &str = "machine-api";
pub const PORT: u16 = 8443;
/// Where a pod has the Secret.
pub const FOLDER: &str = "/etc/machine-api-operator/tls";

/// How the API server reaches admission and what it trusts there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// In PEM.
    pub bundle: String,
    /// Where it is served; absent, behind the Service.
    pub url: Option<String>,
}

/// What the certificate has to be for.
pub fn names(namespace: &str, url: Option<&str>) -> Vec<String> {
    let host = url.and_then(|url| url.split_once("://")?.1.rsplit_once(':'));
    let mut names = vec![format!("{SERVICE}.{namespace}.svc")];
    names.extend(host.map(|(host, _)| host.trim_matches(['[', ']']).to_owned()));
    names
}

/// Why the certificate is made anew, if it is.
pub fn due(held: &Held, names: &[String], now: Timestamp) -> Option<Why> {
    match held {
        Held::Nothing => Some(Why::Missing),
        Held::Garbage => Some(Why::Garbage),
        Held::Pair(pair) if !pair.key_fits => Some(Why::KeyDiffers),
        Held::Pair(pair) if pair.certificate.not_after.duration_since(now) <= LEAF_RENEW => Some(Why::Due),
        Held::Pair(pair) if names.iter().any(|name| !pair.certificate.names.contains(name)) => Some(Why::Names),
        Held::Pair(_) => None,
    }
}

/// The Service and both configurations.
pub(super) fn objects(namespace: &str, webhook: &Webhook) -> [Value; 3] {
    let labels = json!({api::labels::K8S_APP: CONTROLLERS_APP});
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": namespace, "labels": labels},
        "spec": {
            "type": "ClusterIP",
            "selector": place(namespace).labels(),
            "ports": [{"name": "https", "port": 443, "targetPort": PORT, "protocol": "TCP"}],
        },
    });
    let created = ["CREATE"];
    let written = ["CREATE", "UPDATE"];
    let hook = |verb: &str, kind: &str, operations: &[&str]| hook(namespace, webhook, verb, kind, operations);
    [
        service,
        configuration("Mutating", &[hook("default", "machine", &created), hook("default", "machineset", &created)]),
        configuration(
            "Validating",
            &[
                hook("validation", "machine", &written),
                hook("validation", "machineset", &written),
                hook("validation", "machinehealthcheck", &written),
                hook("validation", "controlplanemachineset", &written),
            ],
        ),
    ]
}

fn configuration(kind: &str, hooks: &[Value]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": CONFIGURATION}, "webhooks": hooks,
    })
}

fn hook(namespace: &str, webhook: &Webhook, verb: &str, kind: &str, operations: &[&str]) -> Value {
    let word = if verb == "default" { "mutate" } else { "validate" };
    let version = if kind == "controlplanemachineset" { "v1" } else { "v1beta1" };
    let path = format!("/{word}-machine-openshift-io-{version}-{kind}");
    let bundle = base64::engine::general_purpose::STANDARD.encode(&webhook.bundle);
    let client = match &webhook.url {
        Some(url) => json!({"url": format!("{url}{path}"), "caBundle": bundle}),
        None => json!({
            "service": {"name": SERVICE, "namespace": namespace, "path": path, "port": 443}, "caBundle": bundle,
        }),
    };
    json!({
        "name": format!("{verb}.{kind}.machine.openshift.io"),
        "clientConfig": client,
        // As upstream: without the controllers nothing would be made of a Machine anyway, and nobody could write, drain or
        // release one while they are away. The controllers check again what gets in unseen.
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": 10,
        "admissionReviewVersions": ["v1"],
        "rules": [{
            "apiGroups": [api::machine::GROUP], "apiVersions": [version], "operations": operations,
            "resources": [format!("{kind}s")], "scope": "Namespaced",
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::{Certificate, Pair};

    #[test]
    fn a_certificate_is_made_anew_when_it_is_missing_ends_or_is_for_another_name() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let held = |days: i64, key_fits| {
            let certificate = Certificate {
                subject: String::new(),
                issuer: String::new(),
                not_before: now,
                not_after: now + jiff::SignedDuration::from_hours(24 * days),
                names: names("ns", None),
            };
            Held::Pair(Pair { certificate, key_fits })
        };
        let (inside, outside) = (names("ns", None), names("ns", Some("https://127.0.0.1:1")));
        assert_eq!(outside, ["machine-api-operator-webhook.ns.svc", "127.0.0.1"]);
        assert_eq!(due(&Held::Nothing, &inside, now), Some(Why::Missing));
        assert_eq!(due(&held(365, true), &inside, now), None);
        assert_eq!(due(&held(365, false), &inside, now), Some(Why::KeyDiffers));
        assert_eq!(due(&held(119, true), &inside, now), Some(Why::Due));
        assert_eq!(due(&held(365, true), &outside, now), Some(Why::Names));
    }

    #[test]
    fn an_outage_of_admission_stops_nobody_and_deletions_are_never_asked_about() {
        let webhook = Webhook { bundle: "CA".into(), url: None };
        let [_, mutating, validating] = objects("ns", &webhook);
        let hooks = |object: &Value| object["webhooks"].as_array().cloned().unwrap_or_default();
        for hook in hooks(&mutating).into_iter().chain(hooks(&validating)) {
            assert_eq!(hook["failurePolicy"], "Ignore", "{hook}");
            let operations = hook["rules"][0]["operations"].to_string();
            assert!(!operations.contains("DELETE") && operations.contains("CREATE"), "{hook}");
        }
    }
}
