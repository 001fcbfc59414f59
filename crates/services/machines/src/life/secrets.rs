//! The Secrets that provider specs name, read when they are needed and remembered for a moment.
//!
//! A set of a thousand machines names the same two Secrets, so a moment is enough to read them once. Nothing is kept that
//! could outlive a rotation.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::known::Reading;
use cluster::read;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;
use machine::provider::{Error, ErrorKind, SecretData};
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// How long a Secret that was read is used again.
const MOMENT: Duration = Duration::from_secs(5);

/// How long it is remembered that a Secret is missing or cannot be read. It is made by hand or by the operator, and nobody
/// should wait for long until that is noticed; but a thousand machines that name it ask once and not a thousand times.
const MISSING: Duration = Duration::from_secs(1);

pub(crate) struct SecretCache {
    client: Client,
    /// One entry for each Secret, so that all who need it wait for the one answer, and nobody else does.
    known: Mutex<HashMap<Name, Arc<OnceCell<Read>>>>,
}

/// Namespace and name of a Secret.
type Name = (String, String);

/// What a Secret held, if it exists, or why it could not be read.
struct Read {
    at: Instant,
    data: Result<Option<SecretData>, String>,
}

impl Read {
    fn is_recent(&self) -> bool {
        let moment = if matches!(self.data, Ok(Some(_))) { MOMENT } else { MISSING };
        self.at.elapsed() < moment
    }
}

impl SecretCache {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    /// The data of a Secret, or `None` if it does not exist. `field` names it in the Machine.
    pub(crate) async fn get(&self, namespace: &str, name: &str, field: &str) -> Result<Option<SecretData>, Error> {
        let entry = {
            let mut known = self.known.lock();
            known.retain(|_, entry| entry.get().is_none_or(Read::is_recent));
            known.entry((namespace.to_owned(), name.to_owned())).or_default().clone()
        };
        let read = entry.get_or_init(|| self.read(namespace, name)).await;
        read.data.clone().map_err(|why| {
            let message = format!("cannot read secret {namespace}/{name}, which {field} names: {why}");
            Error::new(ErrorKind::Unreachable, message)
        })
    }

    async fn read(&self, namespace: &str, name: &str) -> Read {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let data = match read::get(&api, name).await {
            Reading::Known { value, .. } => Ok(value.map(data)),
            Reading::NotInstalled => Ok(None),
            Reading::Unknown(why) => Err(why),
        };
        Read { at: Instant::now(), data }
    }
}

fn data(secret: Secret) -> SecretData {
    SecretData(secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect())
}
