//! The certificate of admission, and what the API server trusts there.
//!
//! Each certificate has an authority of its own whose key is thrown away, so there is no key whose theft would let
//! somebody answer for another. The authority before it stays trusted until every pod has read the new certificate.

use std::sync::Arc;

use api::known::Unread;
use base64::Engine as _;
use cluster::{read, write};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use operate::certificates;
use operate::machine_api::webhook::{SECRET, due, names};
use serde_json::json;

use super::{Context, MANAGER};
use crate::credentials::{held, text};
use crate::sign;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Unread(#[from] Unread),
    #[error("cannot make a certificate for Secret {SECRET}")]
    Sign(#[source] rcgen::Error),
    #[error("cannot write Secret {SECRET}")]
    Write(#[source] kube::Error),
    /// Somebody else wrote the Secret first, so that one has to be looked at.
    #[error("Secret {SECRET} was made or changed by somebody else meanwhile")]
    Overtaken,
}

/// What the API server trusts, in PEM. The certificate is made where it is missing or due.
pub(super) async fn bundle(context: &Context) -> Result<String, Error> {
    let now = (context.settings.now)();
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &context.settings.namespace);
    let present = read::get(&api, SECRET).await.fresh("secrets", Timestamp::now())?.into_inner().clone();
    let present = present.map(Arc::new);
    let names = names(&context.settings.namespace, context.settings.webhook_url.as_deref());
    let trusted = present.as_deref().and_then(|secret| text(secret, "ca.crt")).unwrap_or_default();
    let why = due(&held(present.clone()), &names, now);
    let Some(why) = why.or_else(|| trusted.is_empty().then_some(certificates::Why::Garbage)) else {
        return Ok(trusted);
    };
    tracing::info!(?why, ?names, "making the certificate of admission");
    let authority = sign::authority_of("machine-api-operator-webhook-ca", now).map_err(Error::Sign)?;
    let leaf = sign::leaf_of("machine-api-operator-webhook", (&authority.certificate, &authority.key), &names, now);
    let leaf = leaf.map_err(Error::Sign)?;
    // One authority before this one: pods read the new certificate within minutes, and it is renewed after months.
    let before = certificates::valid(&trusted, now).into_iter().next().unwrap_or_default();
    let bundle = authority.certificate + &before;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {
            "name": SECRET, "namespace": context.settings.namespace,
            "labels": {api::labels::PART_OF: api::labels::PART_OF_MACHINIST},
        },
        "data": {"tls.crt": encode(&leaf.certificate), "tls.key": encode(&leaf.key), "ca.crt": encode(&bundle)},
    });
    let written = write::make_once(&api, MANAGER, &object, present.as_deref()).await.map_err(Error::Write)?;
    written.map(|_| bundle).ok_or(Error::Overtaken)
}
