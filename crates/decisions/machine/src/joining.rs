//! Reads how far a machine without a node has come on its way to one.
//!
//! What is known comes from others: the config server counts the uses of a machine's token and writes how its first boot
//! went, and the API keeps the certificate requests of its kubelet. Where nothing of that is there, nothing is said.

use api::machine::Machine;
use api::machinist::BootstrapToken;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer as _;

use crate::condition;
use crate::lifecycle::Joining;

/// The condition that the config server writes about a first boot.
const FIRST_BOOT: &str = "FirstBoot";

/// The signer of the certificates with which kubelets register.
const SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// A kubelet's request for its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateRequest {
    pub name: String,
    /// The node that the kubelet wants to be.
    pub node: String,
    /// Nobody has decided about it.
    pub pending: bool,
}

impl CertificateRequest {
    /// Reads a request. `None` for one that is not a kubelet's, that cannot be read, or that was refused.
    pub fn from_object(object: &CertificateSigningRequest) -> Option<Self> {
        if object.spec.signer_name != SIGNER {
            return None;
        }
        let (_, pem) = x509_parser::pem::parse_x509_pem(&object.spec.request.0).ok()?;
        let (_, request) = X509CertificationRequest::from_der(&pem.contents).ok()?;
        let subject = &request.certification_request_info.subject;
        let node = subject.iter_common_name().find_map(|name| name.as_str().ok()?.strip_prefix("system:node:"));
        let conditions = object.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let is = |type_: &str| conditions.iter().any(|condition| condition.type_ == type_);
        if is("Denied") || is("Failed") {
            return None;
        }
        Some(Self {
            name: object.metadata.name.clone().unwrap_or_default(),
            node: node?.to_owned(),
            pending: !is("Approved"),
        })
    }
}

/// How far a machine has come, as far as anybody saw it. The latest step that is known counts.
pub fn of(machine: &Machine, tokens: &[BootstrapToken], requests: &[CertificateRequest]) -> Option<Joining> {
    let conditions = machine.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let first_boot = condition::find(conditions, FIRST_BOOT);
    if let Some(failed) = first_boot.filter(|condition| condition.status == "False") {
        return Some(Joining::IgnitionFailed(failed.message.clone().unwrap_or_default()));
    }
    let mut own = requests.iter().filter(|request| is_called(machine, &request.node));
    // A kubelet that gave up on one request makes another; the one that was granted counts.
    if let Some(first) = own.next() {
        let granted = !first.pending || own.any(|request| !request.pending);
        let pending = Joining::CertificatePending(first.name.clone());
        return Some(if granted { Joining::KubeletSilent } else { pending });
    }
    let mut tokens = tokens.iter().filter(|token| is_of(token, machine)).peekable();
    let is_known = tokens.peek().is_some();
    let is_used = tokens.any(|token| token.status.as_ref().is_some_and(|status| status.uses > 0));
    match (is_used || first_boot.is_some(), is_known) {
        (true, _) => Some(Joining::Served),
        (false, true) => Some(Joining::NotServed),
        (false, false) => None,
    }
}

/// Whether a node of this name would be the Machine's.
fn is_called(machine: &Machine, node: &str) -> bool {
    let addresses = machine.status.as_ref().map(|status| status.addresses.as_slice()).unwrap_or_default();
    machine.metadata.name.as_deref() == Some(node) || addresses.iter().any(|it| it.address == node)
}

fn is_of(token: &BootstrapToken, machine: &Machine) -> bool {
    match &token.spec.machine_uid {
        Some(uid) => machine.metadata.uid.as_ref() == Some(uid),
        None => token.spec.machine.is_some() && token.spec.machine == machine.metadata.name,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    const PEM: &str = "-----BEGIN CERTIFICATE REQUEST-----\n\
        MIHtMIGUAgEAMDIxFTATBgNVBAoMDHN5c3RlbTpub2RlczEZMBcGA1UEAwwQc3lz\n\
        dGVtOm5vZGU6c2xvdzBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABE4E03I/tHHn\n\
        vnWHMHfh5ADBfK3Rng0mfiGRTPtezsRagdaI5ART6zPq+jvHJE3c8GCgBaYM7ehY\n\
        ec1LpU6pZ/SgADAKBggqhkjOPQQDAgNIADBFAiATePg9uPrqmY1Lk9KzOLJHivQt\n\
        VaBnEBDJH3aBVsFZuQIhAOmVrv2KNm7bnsL0y4QBEOsTLudjd7NoqtfjeEX0/CPb\n\
        -----END CERTIFICATE REQUEST-----\n";

    fn machine(first_boot: Value) -> Machine {
        let status = json!({"conditions": first_boot, "addresses": [{"type": "Hostname", "address": "host-7"}]});
        serde_json::from_value(json!({"metadata": {"name": "slow", "uid": "u"}, "spec": {}, "status": status})).unwrap()
    }

    fn token(uses: i64) -> BootstrapToken {
        let spec = json!({"pool": "worker", "sha256": "", "machine": "slow", "machineUid": "u"});
        serde_json::from_value(json!({"metadata": {"name": "t"}, "spec": spec, "status": {"uses": uses}})).unwrap()
    }

    fn request(node: &str, pending: bool) -> CertificateRequest {
        CertificateRequest { name: format!("csr-of-{node}"), node: node.to_owned(), pending }
    }

    #[test]
    fn the_latest_step_that_is_known_counts() {
        let quiet = machine(json!([]));
        assert_eq!(of(&quiet, &[], &[request("another", true)]), None, "nobody knows anything of it");
        assert_eq!(of(&quiet, &[token(0)], &[]), Some(Joining::NotServed));
        assert_eq!(of(&quiet, &[token(1)], &[]), Some(Joining::Served));
        let through = machine(json!([{"type": "FirstBoot", "status": "True"}]));
        assert_eq!(of(&through, &[], &[]), Some(Joining::Served));
        let asks = [request("host-7", true)];
        assert_eq!(of(&through, &[token(1)], &asks), Some(Joining::CertificatePending("csr-of-host-7".to_owned())));
        let granted = [request("slow", true), request("slow", false)];
        assert_eq!(of(&through, &[token(1)], &granted), Some(Joining::KubeletSilent));
        let failed = machine(json!([{"type": "FirstBoot", "status": "False", "message": "no disk"}]));
        assert_eq!(of(&failed, &[token(1)], &[]), Some(Joining::IgnitionFailed("no disk".to_owned())));
    }

    #[test]
    fn a_kubelets_request_names_its_node() {
        let read = |signer: &str, conditions: Value| {
            let mut object = CertificateSigningRequest::default();
            object.metadata.name = Some("csr-1".to_owned());
            object.spec.signer_name = signer.to_owned();
            object.spec.request.0 = PEM.as_bytes().to_vec();
            object.status = serde_json::from_value(json!({"conditions": conditions})).unwrap();
            CertificateRequest::from_object(&object).map(|request| (request.node, request.pending))
        };
        let one = |type_: &str| json!([{"type": type_, "status": "True"}]);
        assert_eq!(read(SIGNER, json!([])), Some(("slow".to_owned(), true)));
        assert_eq!(read(SIGNER, one("Approved")), Some(("slow".to_owned(), false)));
        assert_eq!(read(SIGNER, one("Denied")), None);
        assert_eq!(read("kubernetes.io/kubelet-serving", json!([])), None);
    }
}
