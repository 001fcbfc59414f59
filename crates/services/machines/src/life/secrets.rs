//! The Secrets that provider specs name, read when they are needed and remembered for a moment.
//!
//! A set of a thousand machines names the same two Secrets, so a moment is enough to read them once. Nothing is kept that
//! could outlive a rotation.

use std::collections::HashMap;
use std::time::Duration;

use api::known::Reading;
use cluster::read;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;
use machine::provider::{Error, ErrorKind, SecretData};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long a Secret that was read is used again.
const MOMENT: Duration = Duration::from_secs(5);

pub(super) struct SecretCache {
    client: Client,
    /// Held while a Secret is read, so that all who need it wait for the one answer.
    known: Mutex<HashMap<(String, String), Read>>,
}

/// What a Secret held, and when.
struct Read {
    at: Instant,
    data: SecretData,
}

impl SecretCache {
    pub(super) fn new(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    /// The data of a Secret, or `None` if it does not exist. `field` names it in the Machine.
    pub(super) async fn get(&self, namespace: &str, name: &str, field: &str) -> Result<Option<SecretData>, Error> {
        let mut known = self.known.lock().await;
        known.retain(|_, read| read.at.elapsed() < MOMENT);
        let key = (namespace.to_owned(), name.to_owned());
        if let Some(read) = known.get(&key) {
            return Ok(Some(read.data.clone()));
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let data = match read::get(&api, name).await {
            Reading::Known { value, .. } => value.map(data),
            Reading::NotInstalled => None,
            Reading::Unknown(why) => {
                let message = format!("cannot read secret {namespace}/{name}, which {field} names: {why}");
                return Err(Error::new(ErrorKind::Unreachable, message));
            }
        };
        // One that is missing is made by hand or by the operator, and is noticed at the next try.
        if let Some(data) = data.clone() {
            known.insert(key, Read { at: Instant::now(), data });
        }
        Ok(data)
    }
}

fn data(secret: Secret) -> SecretData {
    SecretData(secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect())
}
