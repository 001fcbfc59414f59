//! One client for each vCenter and set of credentials, made when it is first needed.
//!
//! A Secret that changes makes another client, so that credentials are rotated without a restart.

use std::sync::Arc;

use machine::provider::{Error, ErrorKind, SecretData, Secrets};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::tls::{Thumbprint, Trust};
use super::{CONCURRENT, Client, Fault, http};
use crate::settings::Settings;
use crate::spec::VsphereSpec;

/// Clients kept; a rotated Secret leaves one behind, and no cluster has as many vCenters.
const MOST: usize = 32;

pub(crate) struct Accounts {
    settings: Settings,
    /// Those used last are last.
    clients: Mutex<Vec<(Key, Arc<Client>)>>,
}

#[derive(Clone, PartialEq, Eq)]
struct Key {
    server: String,
    user: String,
    password: String,
    trust: Trust,
}

impl Accounts {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, clients: Mutex::default() }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The client for a spec, or for what is left of one.
    pub(crate) fn client(&self, spec: &VsphereSpec, secrets: &Secrets) -> Result<Arc<Client>, Error> {
        let server = spec.workspace.as_ref().map(|workspace| workspace.server.as_str()).unwrap_or_default();
        if !is_server(server) {
            let message =
                format!("providerSpec.workspace.server: {server:?} is no host; write one such as vcenter.example.org");
            return Err(Error::new(ErrorKind::InvalidSpec, message));
        }
        let key = self.key(server, spec, secrets)?;
        let mut clients = self.clients.lock();
        if let Some(at) = clients.iter().position(|(other, _)| *other == key) {
            let entry = clients.remove(at);
            let client = entry.1.clone();
            clients.push(entry);
            return Ok(client);
        }
        let client = Arc::new(self.make(&key).map_err(|fault| fault.error("cannot speak to vCenter"))?);
        if clients.len() == MOST {
            clients.remove(0);
        }
        clients.push((key, client.clone()));
        Ok(client)
    }

    fn key(&self, server: &str, spec: &VsphereSpec, secrets: &Secrets) -> Result<Key, Error> {
        let name = spec.credentials_secret.as_ref().map(|reference| reference.name.as_str()).unwrap_or_default();
        let missing = |what: &str| {
            let message = format!("providerSpec.credentialsSecret: {what}");
            Error::new(ErrorKind::Credentials, message)
        };
        let secret = secrets.credentials.as_ref();
        let secret = secret.ok_or_else(|| missing(&format!("there is no Secret {name:?}")))?;
        let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
        let needed = |key: &str| {
            let value = entry(secret, server, key).ok_or_else(|| {
                missing(&format!(
                    "Secret {name:?} has no text under {host}.{key}; add it, with the server's name as the spec has it"
                ))
            })?;
            Ok::<_, Error>(value.to_owned())
        };
        let thumbprint = match entry(secret, server, "thumbprint") {
            None => None,
            Some(text) => Some(Thumbprint::parse(text).ok_or_else(|| {
                missing(&format!(
                    "Secret {name:?}: {host}.thumbprint is no SHA-256 or SHA-1 of a certificate in hexadecimal digits"
                ))
            })?),
        };
        let authorities = entry(secret, server, "ca").map(|text| text.as_bytes().to_vec());
        let trust = Trust { authorities: authorities.or_else(|| self.settings.authorities.clone()), thumbprint };
        Ok(Key { server: server.to_owned(), user: needed("username")?, password: needed("password")?, trust })
    }

    fn make(&self, key: &Key) -> Result<Client, Fault> {
        let Key { server, user, password, trust } = key;
        let http = http::client(trust).map_err(|words| Fault::Login(format!("cannot make an HTTP client: {words}")))?;
        let url = self.settings.endpoints.get(server).cloned().unwrap_or_else(|| format!("https://{server}"));
        Ok(Client {
            http,
            url,
            user: user.clone(),
            password: password.clone(),
            session: tokio::sync::Mutex::default(),
            rest: tokio::sync::Mutex::default(),
            places: Semaphore::new(CONCURRENT),
        })
    }
}

/// The server with its port cannot be a key of a Secret, so its host alone counts too.
fn entry<'a>(secret: &'a SecretData, server: &str, key: &str) -> Option<&'a str> {
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
    let found = [server, host].iter().find_map(|server| secret.text(&format!("{server}.{key}")));
    found.filter(|text| !text.is_empty())
}

/// The server becomes part of an address, so nothing else may be in it.
fn is_server(server: &str) -> bool {
    let is_good = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | ':' | '[' | ']');
    !server.is_empty() && server.len() <= 255 && server.chars().all(is_good)
}

#[cfg(test)]
mod tests {
    use machine::spec::LocalReference;

    use super::*;
    use crate::spec::Workspace;

    fn spec(server: &str) -> VsphereSpec {
        let workspace = Workspace { server: server.to_owned(), ..Workspace::default() };
        let secret = LocalReference { name: "keys".to_owned() };
        VsphereSpec { workspace: Some(workspace), credentials_secret: Some(secret), ..VsphereSpec::default() }
    }

    fn secrets(entries: &[(&str, &str)]) -> Secrets {
        let data = entries.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()));
        Secrets { credentials: Some(SecretData(data.collect())), user_data: None }
    }

    #[test]
    fn machines_of_one_account_share_a_client_and_a_rotated_secret_makes_another() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let accounts = Accounts::new(Settings::default());
        let client = |password| {
            let secrets = secrets(&[("vc.example.username", "u"), ("vc.example.password", password)]);
            accounts.client(&spec("vc.example"), &secrets).unwrap()
        };
        assert!(Arc::ptr_eq(&client("one"), &client("one")));
        assert!(!Arc::ptr_eq(&client("one"), &client("two")));
    }

    #[test]
    fn what_is_missing_in_a_secret_is_told_by_its_key() {
        let accounts = Accounts::new(Settings::default());
        let told = |secrets: &Secrets| accounts.client(&spec("vc.example:443"), secrets).err().unwrap();
        let error = told(&secrets(&[("vc.example.username", "u")]));
        assert_eq!(error.kind, ErrorKind::Credentials);
        assert!(error.message.contains("vc.example.password"), "{error}");
        assert!(told(&Secrets::default()).message.contains("no Secret \"keys\""));
        let entries = [("vc.example.username", "u"), ("vc.example.password", "p"), ("vc.example.thumbprint", "no")];
        assert!(told(&secrets(&entries)).message.contains("vc.example.thumbprint"));
    }

    #[test]
    fn a_server_that_is_no_host_is_refused() {
        let accounts = Accounts::new(Settings::default());
        for bad in ["", "vc.example/path", "user@vc.example", "vc example"] {
            let error = accounts.client(&spec(bad), &Secrets::default()).err().unwrap();
            assert_eq!(error.kind, ErrorKind::InvalidSpec, "{bad}");
        }
    }
}
