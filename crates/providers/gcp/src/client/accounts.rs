//! One client for each set of credentials, made when it is first needed.
//!
//! A Secret that changes makes another client, so that credentials are rotated without a restart.

use std::sync::Arc;
use std::time::Duration;

use machine::provider::{Error, ErrorKind, SecretData, Secrets};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::throttle::Throttle;
use super::token::Login;
use super::{CONCURRENT, Client, Fault, words};
use crate::settings::Settings;
use crate::spec::{CREDENTIALS, GcpSpec};

/// Clients kept; a rotated Secret leaves one behind, and no cluster has as many accounts.
const MOST: usize = 32;
/// The key of a service account's file in its Secret.
const FILE: &str = "service_account.json";
/// Google answers in milliseconds; a connection that takes longer is going nowhere.
const CONNECT: Duration = Duration::from_secs(10);
const WHOLE: Duration = Duration::from_secs(60);

pub(crate) struct Accounts {
    http: reqwest::Client,
    settings: Settings,
    /// Those used last are last. `None` is the metadata service.
    clients: Mutex<Vec<(Option<SecretData>, Arc<Client>)>>,
}

impl Accounts {
    pub(crate) fn new(settings: Settings) -> Result<Self, Error> {
        let http = reqwest::Client::builder()
            .user_agent(concat!("machinist/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .timeout(WHOLE)
            // A redirect would carry the token elsewhere; Google sends none.
            .redirect(reqwest::redirect::Policy::none())
            .build();
        let http = http
            .map_err(|error| Error::new(ErrorKind::Other, format!("cannot make an HTTP client: {}", words(error))))?;
        Ok(Self { http, settings, clients: Mutex::default() })
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The client for a spec, or for what is left of one.
    pub(crate) fn client(&self, spec: &GcpSpec, secrets: &Secrets) -> Result<Arc<Client>, Error> {
        let key = secret(spec, secrets)?;
        let mut clients = self.clients.lock();
        if let Some(at) = clients.iter().position(|(other, _)| *other == key) {
            let entry = clients.remove(at);
            let client = entry.1.clone();
            clients.push(entry);
            return Ok(client);
        }
        let client = Arc::new(self.make(key.as_ref()).map_err(|fault| fault.error("cannot log in to Google"))?);
        if clients.len() == MOST {
            clients.remove(0);
        }
        clients.push((key, client.clone()));
        Ok(client)
    }

    fn make(&self, secret: Option<&SecretData>) -> Result<Client, Fault> {
        let (login, project) = match secret {
            None => (Login::from_metadata(&self.settings.metadata), String::new()),
            Some(secret) => {
                let file = secret
                    .text(FILE)
                    .ok_or_else(|| Fault::Login(format!("the credentials Secret has no key {FILE}")))?;
                Login::from_file(file)?
            }
        };
        Ok(Client {
            http: self.http.clone(),
            login,
            base: format!("{}/compute/v1/", self.settings.endpoint.trim_end_matches('/')),
            project,
            throttle: Throttle::default(),
            places: Semaphore::new(CONCURRENT),
        })
    }
}

/// The Secret to log in with. Clusters without OpenShift's credentials operator have no Secret of the default name; there the
/// metadata service is meant. Any other name that leads nowhere is a mistake, and nobody else's account is used for it.
fn secret(spec: &GcpSpec, secrets: &Secrets) -> Result<Option<SecretData>, Error> {
    if let Some(secret) = &secrets.credentials {
        return Ok(Some(secret.clone()));
    }
    match &spec.credentials_secret {
        Some(reference) if !matches!(reference.name.as_str(), "" | CREDENTIALS) => {
            let message = format!("providerSpec.credentialsSecret: there is no Secret {:?}", reference.name);
            Err(Error::new(ErrorKind::Credentials, message))
        }
        Some(_) | None => Ok(None),
    }
}
