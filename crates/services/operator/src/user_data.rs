//! Keeps the `<pool>-user-data-managed` secrets and the tokens inside them.
//!
//! User data goes with its pool only when the pool is known to be gone, and is made anew only when the Secret or its token
//! is known to be missing.

use std::sync::Arc;
use std::time::Duration;

use api::known::Unread;
use api::machinist::{BootstrapToken, BootstrapTokenSpec};
use cluster::watch::Key;
use cluster::{Outcome, write};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::Api;
use operate::Step;
use operate::trouble::Trouble;
use operate::user_data::{LIFE, POOL_LABEL, Plan, Present, plan, secret, secret_name};
use serde_json::{Value, json};

use crate::context::{Leading, MANAGER, Source};

/// Looks at what new machines of one pool are given.
pub(crate) async fn renew(leading: &Leading, pool: &str) -> Outcome {
    let source = || Source::UserData(pool.to_owned());
    match look_and_renew(leading, pool).await {
        Ok(outcome) => outcome,
        Err(unread) => {
            leading.unread(source(), Some(unread));
            Outcome::Retry
        }
    }
}

async fn look_and_renew(leading: &Leading, pool: &str) -> Result<Outcome, Unread> {
    if leading.world.pools.fresh_one("machineconfigpools", &Key::cluster(pool))?.is_none() {
        return forget(leading, pool).await;
    }
    let facts = crate::gather::gather(leading).await?;
    let installation = leading.installation();
    let (Some(server), Some(ca)) = (facts.server(installation.server.as_deref()), &facts.server_ca) else {
        // Without an address of the config server there is nothing to point to.
        leading.trouble(Source::UserData(pool.to_owned()), None);
        return Ok(Outcome::Done);
    };
    let now = leading.now();
    let secret = user_data(leading, pool)?;
    let present = look(leading, secret.as_deref(), pool)?;
    // What it should point to is read from a pointer without a token, so that both are spelled alike.
    let right = serving::pointer::pointer(&server, pool, ca.as_bytes(), None);
    let text = |path: &str| right.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let source = text("/ignition/config/merge/0/source");
    let authority = text("/ignition/security/tls/certificateAuthorities/0/source");
    Ok(match plan(&present, &source, &authority, now) {
        Plan::Keep { next } => {
            leading.trouble(Source::UserData(pool.to_owned()), None);
            let left = |at: Timestamp| Duration::try_from(at.duration_since(now)).unwrap_or_default();
            next.map_or(Outcome::Done, |at| Outcome::Again(left(at).max(Duration::from_secs(60))))
        }
        Plan::Renew(why) => {
            tracing::info!(pool, ?why, "making user data for new machines");
            let pointer = |token: Option<&str>| serving::pointer::pointer(&server, pool, ca.as_bytes(), token);
            let made = make(leading, &installation, pool, secret.as_deref(), present.open, pointer).await;
            let text = |error: &kube::Error| {
                format!("Secret {}/{} cannot be made: {error}", installation.machine_namespace, secret_name(pool))
            };
            let trouble = made.as_ref().err().map(|error| Trouble::new(Step::MachineConfigPools, text(error)));
            leading.trouble(Source::UserData(pool.to_owned()), trouble);
            match made {
                Ok(true) => Outcome::Done,
                Ok(false) | Err(_) => Outcome::Retry,
            }
        }
    })
}

/// The Secret of a pool, as it is known now.
fn user_data(leading: &Leading, pool: &str) -> Result<Option<Arc<Secret>>, Unread> {
    let namespace = &leading.settings.installation.machine_namespace;
    leading.world.user_data.fresh_one("secrets", &Key::in_namespace(namespace, &secret_name(pool)))
}

/// What there is of it.
fn look(leading: &Leading, secret: Option<&Secret>, pool: &str) -> Result<Present, Unread> {
    let data = secret.and_then(|secret| secret.data.as_ref()?.get("userData"));
    let user_data = data.and_then(|bytes| String::from_utf8(bytes.0.clone()).ok());
    let hash = user_data.as_deref().and_then(token_of).map(|token| serving::token::hash(&token));
    let tokens = leading.world.tokens.fresh("bootstraptokens")?;
    let token = hash.and_then(|hash| tokens.into_iter().find(|token| token.spec.sha256 == hash));
    let policy = leading.world.policies.fresh_one("poolpolicies", &Key::cluster(pool))?;
    Ok(Present {
        user_data,
        token_expires: token.as_ref().and_then(|token| token.spec.expires.as_ref()).map(|time| time.0),
        token_exists: token.is_some_and(|token| token.metadata.deletion_timestamp.is_none()),
        open: policy.and_then(|policy| policy.spec.config_server.as_ref()?.open).unwrap_or(false),
    })
}

/// The token inside user data.
fn token_of(user_data: &str) -> Option<String> {
    let pointer: Value = serde_json::from_str(user_data).ok()?;
    serving::pointer::token(&pointer).map(str::to_owned)
}

/// `false` when somebody else was faster.
async fn make(
    leading: &Leading,
    installation: &operate::Installation,
    pool: &str,
    present: Option<&Secret>,
    open: bool,
    pointer: impl Fn(Option<&str>) -> Value,
) -> Result<bool, kube::Error> {
    let now = leading.now();
    let token = if open { None } else { Some(issue(leading, pool, now).await?) };
    let object = secret(installation, pool, &pointer(token.as_deref()));
    let api: Api<Secret> = Api::namespaced(leading.client.clone(), &installation.machine_namespace);
    let is_ours = write::make_once(&api, MANAGER, &object, present).await?.is_some();
    Ok(is_ours)
}

/// A token that opens this pool for a month. Only its hash is kept in the cluster; the secret is in the user data alone.
async fn issue(leading: &Leading, pool: &str, now: Timestamp) -> Result<String, kube::Error> {
    let token = hex::encode(rand::random::<[u8; 32]>());
    let hash = serving::token::hash(&token);
    let spec = BootstrapTokenSpec {
        pool: pool.to_owned(),
        sha256: hash.clone(),
        expires: Some(Time(now + LIFE)),
        ..BootstrapTokenSpec::default()
    };
    let name = format!("{}-{}", secret_name(pool), &hash[..10]);
    let object = json!({
        "apiVersion": "machinist.dev/v1alpha1", "kind": "BootstrapToken",
        "metadata": {"name": name, "labels": {POOL_LABEL: pool, api::labels::PART_OF: api::labels::PART_OF_MACHINIST}},
        "spec": serde_json::to_value(spec).map_err(kube::Error::SerdeError)?,
    });
    let api: Api<BootstrapToken> = Api::all(leading.client.clone());
    write::make_once(&api, MANAGER, &object, None).await?;
    Ok(token)
}

/// A pool that is gone takes its user data with it.
async fn forget(leading: &Leading, pool: &str) -> Result<Outcome, Unread> {
    let (secret, all) = (user_data(leading, pool)?, leading.world.tokens.fresh("bootstraptokens")?);
    leading.trouble(Source::UserData(pool.to_owned()), None);
    let namespace = leading.settings.installation.machine_namespace.clone();
    let secrets: Api<Secret> = Api::namespaced(leading.client.clone(), &namespace);
    let tokens: Api<BootstrapToken> = Api::all(leading.client.clone());
    let mut is_done = true;
    if let Some(secret) = secret {
        // Exactly the one that was looked at: a pool of this name may be there again, with user data of its own.
        is_done &= crate::tokens::delete_exactly(&secrets, &*secret).await;
    }
    for token in all {
        if token.labels().get(POOL_LABEL).is_some_and(|of| of == pool) {
            is_done &= crate::tokens::delete_exactly(&tokens, &*token).await;
        }
    }
    Ok(if is_done { Outcome::Done } else { Outcome::Retry })
}
