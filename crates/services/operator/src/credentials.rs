//! The config server's authority and certificate, and the token that a kubelet first speaks with.
//!
//! All of them are made once: where there is none a Secret is created, and one that is there is replaced only in the version
//! that was looked at. A Secret that was not seen is never written over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::known::{Fresh, Unread};
use cluster::events::Severity;
use cluster::watch::Key;
use cluster::{Outcome, write};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use operate::Step;
use operate::certificates::{self, BOOTSTRAP_TOKEN, CA, Held, Snapshot, TLS, TOKEN_LIFE};
use operate::trouble::{self, Trouble};
use serde_json::{Value, json};

use crate::context::{Leading, MANAGER, Source, Work};
use crate::metrics::Named;
use crate::sign;

/// How often it is looked whether something is due, whatever happens.
const LOOK: Duration = Duration::from_secs(3600);
/// A clock that is wrong is looked at again sooner: somebody is setting it right.
const CLOCK: Duration = Duration::from_secs(10);

const EXPIRES: &str = "machinist.dev/expires";
const ACCOUNT: &str = "machinist.dev/account-uid";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot write Secret {name}")]
    Write {
        name: &'static str,
        #[source]
        source: kube::Error,
    },
    #[error("cannot make a certificate for Secret {name}")]
    Sign {
        name: &'static str,
        #[source]
        source: rcgen::Error,
    },
    #[error("cannot get a token for service account {}", operate::workloads::BOOTSTRAPPER)]
    Token(#[source] kube::Error),
    #[error(transparent)]
    Unread(#[from] Unread),
    /// Somebody else wrote the Secret first, so that one has to be looked at.
    #[error("Secret {name} was made or changed by somebody else meanwhile")]
    Overtaken { name: &'static str },
}

/// Looks at all of them and makes what is missing or due.
pub(crate) async fn renew(leading: &Leading) -> Outcome {
    let result = renew_all(leading).await;
    let trouble = result.as_ref().err().and_then(|error| {
        let cause = match error {
            Error::Write { source: kube::Error::Api(status), .. } | Error::Token(kube::Error::Api(status)) => {
                format!(
                    "{}; give the operator back its rights with `machinist install | kubectl apply -f -`",
                    status.message
                )
            }
            Error::Write { source, .. } | Error::Token(source) => source.to_string(),
            Error::Sign { source, .. } => source.to_string(),
            Error::Unread(unread) => return Some(Trouble::new(Step::MachineConfigServer, trouble::unread(unread))),
            Error::Overtaken { .. } => return None,
        };
        Some(Trouble::new(Step::MachineConfigServer, format!("{error}: {cause}")))
    });
    leading.trouble(Source::Credentials, trouble);
    match result {
        Ok(next) => Outcome::Again(next),
        Err(_) => Outcome::Retry,
    }
}

async fn renew_all(leading: &Leading) -> Result<Duration, Error> {
    let facts = crate::gather::gather(leading).await?;
    let server = leading.settings.installation.server.as_deref();
    let (authority, leaf) = (secret(leading, CA)?, secret(leading, TLS)?);
    let snapshot = Snapshot {
        authority: authority.clone().map(held),
        leaf: leaf.clone().map(held),
        names: facts.server_names(server),
        now: leading.now(),
        skew: crate::gather::skew(leading).await?,
    };
    let plan = certificates::plan(&snapshot);
    let trouble = plan.trouble.clone().map(|text| Trouble::new(Step::MachineConfigServer, text));
    leading.trouble(Source::Clock, trouble);
    if plan.trouble.is_some() {
        return Ok(CLOCK);
    }
    if let Some(why) = plan.authority {
        tracing::info!(?why, "making the config server's authority");
        make_authority(leading, authority.as_deref(), snapshot.now).await?;
    }
    if let Some(why) = plan.leaf {
        tracing::info!(?why, names = ?snapshot.names, "making the config server's certificate");
        make_leaf(leading, leaf.as_deref(), &snapshot).await?;
    }
    for (name, held) in [(CA, &snapshot.authority), (TLS, &snapshot.leaf)] {
        if let Some(pair) = held.pair() {
            let gauge = leading.metrics.expires.get_or_create(&Named { certificate: name.to_owned() }).clone();
            gauge.set(pair.certificate.not_after.as_second());
        }
    }
    let token = renew_token(leading, facts.api_ca.as_deref(), snapshot.now).await?;
    let left = |at: Timestamp| Duration::try_from(at.duration_since(snapshot.now)).unwrap_or_default();
    Ok(plan.next.into_iter().chain(token).map(left).min().unwrap_or(LOOK).clamp(CLOCK, LOOK))
}

async fn make_authority(leading: &Leading, old: Option<&Secret>, now: Timestamp) -> Result<(), Error> {
    let old_pair = old.and_then(|old| Some((text(old, "tls.crt")?, text(old, "tls.key")?)));
    let made = sign::authority(now, old_pair.as_ref().map(|(certificate, key)| (certificate.as_str(), key.as_str())));
    let made = made.map_err(|source| Error::Sign { name: CA, source })?;
    // Machines that were given an earlier authority keep trusting it until it ends.
    let mut previous = old_pair.map(|(certificate, _)| certificates::valid(&certificate, now)).unwrap_or_default();
    let earlier = old.and_then(|old| text(old, "previous.crt")).unwrap_or_default();
    previous.extend(certificates::valid(&earlier, now));
    let mut data = BTreeMap::from([("tls.crt", made.certificate), ("tls.key", made.key)]);
    data.extend((!previous.is_empty()).then(|| ("previous.crt", previous.concat())));
    data.extend(made.cross.map(|cross| ("cross.crt", cross)));
    write_secret(leading, old, CA, "Opaque", &data, &[]).await?;
    tell(leading, CA, "a new authority of the config server was made");
    Ok(())
}

async fn make_leaf(leading: &Leading, old: Option<&Secret>, snapshot: &Snapshot) -> Result<(), Error> {
    // What was just written may not have come back by the watch yet.
    let api: Api<Secret> = Api::namespaced(leading.client.clone(), leading.namespace());
    let authority = write::in_time(api.get(CA)).await.map_err(|source| Error::Write { name: CA, source })?;
    let (certificate, key) =
        (text(&authority, "tls.crt").unwrap_or_default(), text(&authority, "tls.key").unwrap_or_default());
    let made = sign::leaf((&certificate, &key), &snapshot.names, snapshot.now);
    let made = made.map_err(|source| Error::Sign { name: TLS, source })?;
    let chain = made.certificate + &text(&authority, "cross.crt").unwrap_or_default();
    let bundle = bundle_of(&authority, snapshot.now);
    let data = BTreeMap::from([("tls.crt", chain), ("tls.key", made.key), ("ca.crt", bundle)]);
    write_secret(leading, old, TLS, "kubernetes.io/tls", &data, &[]).await?;
    tell(leading, TLS, &format!("a new certificate of the config server was made for {}", snapshot.names.join(", ")));
    Ok(())
}

/// The token lives for a day and is replaced at noon, so to speak; the server reads it anew for each machine.
async fn renew_token(leading: &Leading, ca: Option<&str>, now: Timestamp) -> Result<Option<Timestamp>, Error> {
    let Some(ca) = ca else { return Ok(None) };
    let accounts: Api<ServiceAccount> = Api::namespaced(leading.client.clone(), leading.namespace());
    let account = write::in_time(accounts.get_opt(operate::workloads::BOOTSTRAPPER)).await.map_err(Error::Token)?;
    let Some(account) = account else {
        // It is made with everything else; then the watch calls again.
        leading.queue.add_after(Work::Credentials, Duration::from_secs(1));
        return Ok(None);
    };
    let uid = account.uid().unwrap_or_default();
    let present = secret(leading, BOOTSTRAP_TOKEN)?.into_inner();
    let note = |key: &str| present.as_ref().and_then(|secret| secret.annotations().get(key).cloned());
    let is_right = note(ACCOUNT).as_deref() == Some(&uid)
        && present
            .as_deref()
            .is_some_and(|secret| text(secret, "ca.crt").as_deref() == Some(ca) && text(secret, "token").is_some());
    let expires = note(EXPIRES).filter(|_| is_right).and_then(|text| text.parse().ok());
    if let Err(due) = certificates::token_due(expires, now) {
        return Ok(Some(due));
    }
    let wanted = TokenRequest {
        spec: TokenRequestSpec { expiration_seconds: Some(TOKEN_LIFE.as_secs()), ..TokenRequestSpec::default() },
        ..TokenRequest::default()
    };
    let parameters = PostParams::default();
    let answer = accounts.create_token_request(operate::workloads::BOOTSTRAPPER, &parameters, &wanted);
    let Some(status) = write::in_time(answer).await.map_err(Error::Token)?.status else { return Ok(None) };
    let expires = status.expiration_timestamp.0;
    let data = BTreeMap::from([("token", status.token), ("ca.crt", ca.to_owned())]);
    let notes = [(EXPIRES, expires.to_string()), (ACCOUNT, uid)];
    write_secret(leading, present.as_deref(), BOOTSTRAP_TOKEN, "Opaque", &data, &notes).await?;
    Ok(certificates::token_due(Some(expires), now).err())
}

/// What machines check the config server by: the authority, and those before it that are still valid.
pub(crate) fn bundle(leading: &Leading) -> Result<Option<String>, Unread> {
    let authority = secret(leading, CA)?.into_inner();
    let bundle = authority.map(|authority| bundle_of(&authority, leading.now()));
    Ok(bundle.filter(|bundle| !bundle.is_empty()))
}

fn bundle_of(authority: &Secret, now: Timestamp) -> String {
    let mut all = certificates::valid(&text(authority, "tls.crt").unwrap_or_default(), now);
    all.extend(certificates::valid(&text(authority, "previous.crt").unwrap_or_default(), now));
    all.dedup();
    all.concat()
}

/// A Secret of ours as it is known now. The watches count by the real clock, also where a test has another.
fn secret(leading: &Leading, name: &str) -> Result<Fresh<Option<Arc<Secret>>>, Unread> {
    let reading = leading.world.secrets.reading_of(&Key::in_namespace(leading.namespace(), name));
    Ok(reading.fresh("secrets", Timestamp::now())?.map(Clone::clone))
}

pub(crate) fn held(secret: Option<Arc<Secret>>) -> Held {
    let Some(secret) = secret else { return Held::Nothing };
    let certificate = text(&secret, "tls.crt").unwrap_or_default();
    let pair = sign::pair(&certificate, &text(&secret, "tls.key").unwrap_or_default());
    pair.map_or(Held::Garbage, Held::Pair)
}

pub(crate) fn text(secret: &Secret, key: &str) -> Option<String> {
    String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok()
}

/// Creates a Secret, or replaces what was `present` in exactly that version.
async fn write_secret(
    leading: &Leading,
    present: Option<&Secret>,
    name: &'static str,
    kind: &str,
    data: &BTreeMap<&str, String>,
    notes: &[(&str, String)],
) -> Result<(), Error> {
    let api: Api<Secret> = Api::namespaced(leading.client.clone(), leading.namespace());
    let encoded: serde_json::Map<String, Value> =
        data.iter().map(|(key, text)| ((*key).to_owned(), encode(text).into())).collect();
    let notes: serde_json::Map<String, Value> =
        notes.iter().map(|(key, text)| ((*key).to_owned(), text.clone().into())).collect();
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "type": kind,
        "metadata": {
            "name": name, "namespace": leading.namespace(), "annotations": notes,
            "labels": {api::labels::PART_OF: api::labels::PART_OF_MACHINIST},
        },
        "data": encoded,
    });
    let written = write::make_once(&api, MANAGER, &object, present).await;
    written.map_err(|source| Error::Write { name, source })?.ok_or(Error::Overtaken { name })?;
    leading.soon(Work::Facts);
    Ok(())
}

fn encode(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

fn tell(leading: &Leading, name: &str, message: &str) {
    let about = k8s_openapi::api::core::v1::ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Secret".to_owned()),
        name: Some(name.to_owned()),
        namespace: Some(leading.namespace().to_owned()),
        ..Default::default()
    };
    leading.events.publish_about(about, Severity::Normal, "CertificateRenewed", message);
}
