//! CertificateSigningRequests: approved ones of the client signers get their certificate.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use builtin::conditions::set_condition;
use serde_json::{Value, json};

use crate::{
    auth::{Action, User},
    object::{Draft, text},
    ownership,
    server::Api,
    store::{Expect, Write},
    verbs::now,
};

const COLLECTION: &str = "certificates.k8s.io/certificatesigningrequests";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET: &str = "kubernetes.io/kube-apiserver-client-kubelet";

pub(crate) async fn settle(api: &Arc<Api>) {
    for object in super::all(api, COLLECTION) {
        let old = object.value();
        let mut new = old.clone();
        approve(api, &mut new);
        sign(api, &mut new);
        if new != old {
            if let Some(resource) = api.registry.load().of_collection(COLLECTION) {
                ownership::report(resource, "kube-controller-manager", &old, &mut new);
            }
            let draft = Draft::new(object.key.clone(), &new);
            // Stale means that it just changed, which brings another look.
            let _ = api.store.commit(Write::Put(Box::new(draft), Expect::Version(object.version))).await;
        }
    }
}

fn has(request: &Value, kind: &str) -> bool {
    let conditions = request["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// A kubelet's request is approved when its sender may ask for node certificates.
fn approve(api: &Api, request: &mut Value) {
    if has(request, "Approved") || has(request, "Denied") || request["spec"]["signerName"] != KUBELET {
        return;
    }
    let spec = &request["spec"];
    let Some(subject) = pem(spec).and_then(|pem| api.authority.subject(&pem)) else { return };
    if !subject.name.starts_with("system:node:") || subject.groups.first().map(String::as_str) != Some("system:nodes") {
        return;
    }
    let groups = spec["groups"].as_array().into_iter().flatten().map(|group| text(group).to_owned()).collect();
    let sender = User { name: text(&spec["username"]).to_owned(), groups, ..User::default() };
    let kinds: &[&str] = if sender.name == subject.name { &["selfnodeclient", "nodeclient"] } else { &["nodeclient"] };
    let allowed = kinds.iter().any(|kind| {
        let action = Action {
            verb: "create",
            group: "certificates.k8s.io",
            resource: "certificatesigningrequests",
            subresource: kind,
            ..Action::default()
        };
        api.access.allows(api, &sender, &action)
    });
    if allowed {
        let message = "Auto approving kubelet client certificate after SubjectAccessReview.";
        set_condition(&mut request["status"], "Approved", "True", "AutoApproved", message, &now);
        stamp(request);
    }
}

fn stamp(request: &mut Value) {
    for condition in request["status"]["conditions"].as_array_mut().into_iter().flatten() {
        if condition["lastUpdateTime"].is_null() {
            condition["lastUpdateTime"] = now().into();
        }
    }
}

fn sign(api: &Api, request: &mut Value) {
    let spec = &request["spec"];
    let ours = matches!(text(&spec["signerName"]), CLIENT | KUBELET);
    if !ours || !has(request, "Approved") || has(request, "Failed") || request["status"]["certificate"].is_string() {
        return;
    }
    let signed =
        pem(spec).ok_or_else(|| "the request is no PEM".to_owned()).and_then(|pem| api.authority.sign_request(&pem));
    match signed {
        Ok(certificate) => request["status"]["certificate"] = json!(STANDARD.encode(certificate)),
        Err(reason) => {
            set_condition(&mut request["status"], "Failed", "True", "SignerValidationFailure", &reason, &now);
            stamp(request);
        }
    }
}

fn pem(spec: &Value) -> Option<String> {
    String::from_utf8(STANDARD.decode(text(&spec["request"])).ok()?).ok()
}
