//! One client for each region and set of credentials, made when it is first needed.
//!
//! A Secret that changes makes another client, so that credentials are rotated without a restart.

use std::sync::{Arc, Mutex, PoisonError};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use machine::provider::{Error, ErrorKind, SecretData, Secrets};
use tokio::sync::Semaphore;

use super::credentials::Login;
use super::endpoint::{Endpoints, Service};
use super::http::{self, Connector};
use super::throttle::Throttle;
use super::{CONCURRENT, Client, Fault};
use crate::Settings;
use crate::spec::{AwsSpec, CREDENTIALS};

/// Clients kept; a rotated Secret leaves one behind, and no cluster has as many accounts.
const MOST: usize = 32;

pub(crate) struct Accounts {
    connector: Connector,
    settings: Settings,
    /// Those used last are last.
    clients: Mutex<Vec<(Key, Arc<Client>)>>,
}

#[derive(Clone, PartialEq, Eq)]
struct Key {
    region: String,
    /// `None` is the official chain.
    secret: Option<SecretData>,
}

impl Accounts {
    pub(crate) fn new(settings: Settings) -> Result<Self, Error> {
        let http = http::client(settings.authorities.as_deref());
        let http =
            http.map_err(|words| Error::new(ErrorKind::Other, format!("cannot make an HTTP client: {words}")))?;
        Ok(Self { connector: Connector::new(http), settings, clients: Mutex::default() })
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The client for a spec, or for what is left of one.
    pub(crate) async fn client(&self, spec: &AwsSpec, secrets: &Secrets) -> Result<Arc<Client>, Error> {
        let region = spec.placement.region.clone();
        if !is_region(&region) {
            let message =
                format!("providerSpec.placement.region: {region:?} is no region; write one such as us-east-1");
            return Err(Error::new(ErrorKind::InvalidSpec, message));
        }
        let key = Key { region, secret: secret(spec, secrets)? };
        if let Some(client) = self.kept(&key) {
            return Ok(client);
        }
        let client = Arc::new(self.make(&key).await.map_err(|fault| fault.error("cannot log in to AWS"))?);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
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
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let at = clients.iter().position(|(other, _)| other == key)?;
        let entry = clients.remove(at);
        let client = entry.1.clone();
        clients.push(entry);
        Some(client)
    }

    async fn make(&self, key: &Key) -> Result<Client, Fault> {
        let config = self.config(&key.region).await;
        let login = match &key.secret {
            Some(secret) => Login::from_secret(secret, &key.region, &self.connector)?,
            None => Login::from_chain(&config)?,
        };
        Ok(Client {
            http: self.connector.http.clone(),
            login,
            region: key.region.clone(),
            endpoints: self.endpoints(&config),
            throttle: Throttle::default(),
            places: Semaphore::new(CONCURRENT),
        })
    }

    /// What the environment and the profile say, as AWS's own tools read them.
    async fn config(&self, region: &str) -> SdkConfig {
        let loader = aws_config::defaults(BehaviorVersion::latest());
        loader.region(Region::new(region.to_owned())).http_client(self.connector.clone()).load().await
    }

    fn endpoints(&self, config: &SdkConfig) -> Endpoints {
        let of_service = Service::ALL.into_iter().filter_map(|service| {
            let url = std::env::var(service.variable()).ok().filter(|url| !url.is_empty())?;
            Some((service.variable(), url))
        });
        Endpoints {
            configured: self.settings.endpoints.clone(),
            of_service: of_service.collect(),
            of_all: config.endpoint_url().map(str::to_owned),
            fips: config.use_fips().unwrap_or_default(),
            dual_stack: config.use_dual_stack().unwrap_or_default(),
        }
    }
}

/// The Secret to log in with. Clusters without OpenShift's credentials operator have no Secret of the default name; there the
/// official chain is meant. Any other name that leads nowhere is a mistake, and nobody else's account is used for it.
fn secret(spec: &AwsSpec, secrets: &Secrets) -> Result<Option<SecretData>, Error> {
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

/// The region becomes part of a host's name, so nothing else may be in it.
fn is_region(region: &str) -> bool {
    let is_good = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    !region.is_empty() && region.len() <= 32 && region.chars().all(is_good)
}

#[cfg(test)]
mod tests {
    use machine::spec::LocalReference;

    use super::*;

    fn accounts() -> Accounts {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Accounts::new(Settings::default()).expect("a client can be made")
    }

    fn spec(region: &str, secret: Option<&str>) -> AwsSpec {
        let mut spec = AwsSpec::default();
        spec.placement.region = region.to_owned();
        spec.credentials_secret = secret.map(|name| LocalReference { name: name.to_owned() });
        spec
    }

    fn keys(id: &str) -> Secrets {
        let entries = [("aws_access_key_id", id), ("aws_secret_access_key", "s")];
        let data = entries.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
        Secrets { credentials: Some(SecretData(data.into())), user_data: None }
    }

    #[tokio::test]
    async fn machines_of_one_account_share_a_client_and_a_rotated_secret_makes_another() {
        let accounts = accounts();
        let here = spec("us-east-1", Some("keys"));
        let client = async |secrets| accounts.client(&here, &secrets).await.expect("a client");
        let first = client(keys("AKIA1")).await;
        assert!(Arc::ptr_eq(&first, &client(keys("AKIA1")).await));
        assert!(!Arc::ptr_eq(&first, &client(keys("AKIA2")).await));
        let there = accounts.client(&spec("eu-west-1", Some("keys")), &keys("AKIA1")).await.expect("a client");
        assert!(!Arc::ptr_eq(&first, &there));
        assert_eq!(there.region(), "eu-west-1");
    }

    #[tokio::test]
    async fn old_clients_are_let_go() {
        let accounts = accounts();
        for number in 0..=MOST {
            accounts.client(&spec("us-east-1", None), &keys(&format!("AKIA{number}"))).await.expect("a client");
        }
        assert_eq!(accounts.clients.lock().expect("whole").len(), MOST);
    }

    #[test]
    fn only_the_default_secret_may_be_absent() {
        assert_eq!(secret(&spec("r", None), &Secrets::default()), Ok(None));
        assert_eq!(secret(&spec("r", Some(CREDENTIALS)), &Secrets::default()), Ok(None));
        let error = secret(&spec("r", Some("mine")), &Secrets::default()).expect_err("it is missing");
        assert_eq!(error.kind, ErrorKind::Credentials);
        assert!(error.message.contains("mine"));
    }

    #[tokio::test]
    async fn a_region_that_is_no_host_name_is_refused() {
        for bad in ["", "us-east-1.evil.example/", "US-EAST-1", "us east"] {
            let error = accounts().client(&spec(bad, None), &Secrets::default()).await.err().expect("refused");
            assert_eq!(error.kind, ErrorKind::InvalidSpec, "{bad}");
        }
    }
}
