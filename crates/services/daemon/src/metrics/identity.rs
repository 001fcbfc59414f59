//! The certificate that metrics are served with: the kubelet's own, so that whoever trusts kubelets trusts this page, or one
//! that the daemon makes for itself.

use std::sync::{Arc, Mutex, PoisonError};

use change::host::{Files, HostPath};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use sha2::{Digest as _, Sha256};

/// Certificate and key of kubelets that serve: signed by the cluster, then those that a kubelet makes for itself.
const PLACES: [[&str; 2]; 2] = [
    ["/var/lib/kubelet/pki/kubelet-server-current.pem", "/var/lib/kubelet/pki/kubelet-server-current.pem"],
    ["/var/lib/kubelet/pki/kubelet.crt", "/var/lib/kubelet/pki/kubelet.key"],
];

#[derive(Default)]
pub struct Identity {
    node: String,
    made: Mutex<Option<Made>>,
}

/// The files that a configuration was made from, as a digest, and the configuration; no digest for our own certificate.
type Made = (Option<[u8; 32]>, Arc<ServerConfig>);

impl Identity {
    pub fn of(node: &str) -> Self {
        Self { node: node.to_owned(), made: Mutex::default() }
    }

    /// What to serve with now. Kubelets renew their certificates, so the files are read each time.
    pub fn now(&self, files: &dyn Files) -> Result<Arc<ServerConfig>, rustls::Error> {
        let found = PLACES.iter().find_map(|[certificate, key]| {
            let pair = (read(files, certificate)?, read(files, key)?);
            Some((Sha256::new_with_prefix(&pair.0).chain_update(&pair.1).finalize().into(), pair))
        });
        let print: Option<[u8; 32]> = found.as_ref().map(|(print, _)| *print);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, config)) = &*made
            && *known == print
        {
            return Ok(Arc::clone(config));
        }
        let kubelets = found.and_then(|(_, (certificate, key))| match config(&certificate, &key) {
            Ok(config) => Some(config),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the kubelet's certificate cannot be used");
                None
            }
        });
        let config = match kubelets {
            Some(config) => config,
            None => self.own()?,
        };
        let config = Arc::new(config);
        *made = Some((print, Arc::clone(&config)));
        Ok(config)
    }

    fn own(&self) -> Result<ServerConfig, rustls::Error> {
        let made = rcgen::generate_simple_self_signed(vec![self.node.clone()]);
        let made = made.map_err(|error| rustls::Error::General(error.to_string()))?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        serve_with(vec![made.cert.der().clone()], key.into())
    }
}

fn read(files: &dyn Files, path: &str) -> Option<Vec<u8>> {
    files.read(&HostPath::parse(path).ok()?).ok().flatten()
}

fn config(certificate: &[u8], key: &[u8]) -> Result<ServerConfig, rustls::Error> {
    let broken = |error: rustls::pki_types::pem::Error| rustls::Error::General(error.to_string());
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    serve_with(certificates.map_err(broken)?, PrivateKeyDer::from_pem_slice(key).map_err(broken)?)
}

fn serve_with(
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    versions.with_no_client_auth().with_single_cert(certificates, key)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use change::host::{Attributes, Host as _};
    use host::memory::Memory;

    use super::*;

    #[test]
    fn the_kubelets_certificate_is_taken_when_there_is_one_and_followed_when_it_is_renewed() {
        let host = Memory::new();
        let identity = Identity::of("n1");
        let own = identity.now(host.files()).unwrap();
        assert!(Arc::ptr_eq(&own, &identity.now(host.files()).unwrap()), "it is made once");
        let put = |path: &str, text: &str| {
            host.files().put(&HostPath::parse(path).unwrap(), text.as_bytes(), &Attributes::root(0o600)).unwrap();
        };
        let renew = || {
            let made = rcgen::generate_simple_self_signed(vec!["n1".to_owned()]).unwrap();
            put(PLACES[0][0], &(made.cert.pem() + &made.signing_key.serialize_pem()));
            identity.now(host.files()).unwrap()
        };
        let first = renew();
        assert!(!Arc::ptr_eq(&own, &first));
        let second = renew();
        assert!(!Arc::ptr_eq(&first, &second));
        put(PLACES[0][0], "half a file");
        identity.now(host.files()).unwrap();
    }
}
