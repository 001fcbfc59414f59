//! One client for each entry of each `clouds.yaml`, made when it is first needed.
//!
//! A Secret that changes makes another client, so that credentials are rotated without a restart.

use std::sync::Arc;

use machine::provider::{Error, ErrorKind, SecretData, Secrets};
use parking_lot::Mutex;

use super::http::Trust;
use super::{Client, clouds, http};
use crate::spec::OpenStackSpec;

/// Clients kept; a rotated Secret leaves one behind, and no cluster has as many clouds.
const MOST: usize = 32;
const CLOUDS: &str = "clouds.yaml";
const AUTHORITIES: &str = "cacert";

#[derive(Default)]
pub(crate) struct Accounts {
    /// Those used last are last.
    clients: Mutex<Vec<(Key, Arc<Client>)>>,
}

#[derive(Clone, PartialEq, Eq)]
struct Key {
    cloud: String,
    secret: SecretData,
}

impl Accounts {
    /// The client for a spec, or for what is left of one.
    pub(crate) fn client(&self, spec: &OpenStackSpec, secrets: &Secrets) -> Result<Arc<Client>, Error> {
        let name = spec.clouds_secret.as_ref().map(|reference| reference.name.as_str()).unwrap_or_default();
        let refused = |what: String| {
            Error::new(ErrorKind::Credentials, format!("providerSpec.cloudsSecret: Secret {name:?}: {what}"))
        };
        let secret = secrets.credentials.clone().ok_or_else(|| refused("it does not exist".to_owned()))?;
        let key = Key { cloud: spec.cloud_name.clone(), secret };
        if let Some(client) = self.kept(&key) {
            return Ok(client);
        }
        let client = Arc::new(make(&key).map_err(refused)?);
        let mut clients = self.clients.lock();
        // Another task may have been quicker; its client has the throttle that others already share.
        if let Some((_, client)) = clients.iter().find(|(other, _)| *other == key) {
            return Ok(client.clone());
        }
        if clients.len() == MOST {
            clients.remove(0);
        }
        clients.push((key, client.clone()));
        Ok(client)
    }

    fn kept(&self, key: &Key) -> Option<Arc<Client>> {
        let mut clients = self.clients.lock();
        let at = clients.iter().position(|(other, _)| other == key)?;
        let entry = clients.remove(at);
        let client = entry.1.clone();
        clients.push(entry);
        Some(client)
    }
}

fn make(key: &Key) -> Result<Client, String> {
    let text = key.secret.text(CLOUDS).ok_or_else(|| format!("it has no text under {CLOUDS}"))?;
    let cloud = clouds::parse(text, &key.cloud).map_err(|what| format!("{CLOUDS}: {what}"))?;
    let authorities = key.secret.bytes(AUTHORITIES).filter(|pem| !pem.is_empty()).map(<[u8]>::to_vec);
    if !cloud.verify {
        tracing::warn!(cloud = key.cloud, "clouds.yaml says verify: false; whoever answers is taken for the cloud");
    }
    let trust = Trust { authorities, anybody: !cloud.verify };
    let http = http::client(&trust).map_err(|words| format!("{AUTHORITIES}: {words}"))?;
    Ok(Client::new(http, cloud))
}
