//! TLS with a certificate that is reloaded when its files change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// How long a certificate may be outdated. Checking the files at every handshake would cost more than it gains.
const FRESH: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: rustls::pki_types::pem::Error },
    #[error("certificate {certificate} and key {key} cannot be used: {source}")]
    Use { certificate: PathBuf, key: PathBuf, source: rustls::Error },
}

/// TLS 1.2 and newer, and HTTP/1.1 only, because machines fetch one document.
pub(crate) fn config(certificate: &Path, key: &Path) -> Result<ServerConfig, Error> {
    let resolver = Resolver::new(certificate, key)?;
    let mut config = ServerConfig::builder().with_no_client_auth().with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.max_early_data_size = 0;
    // Machines do not come back soon enough to resume a session.
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

#[derive(Debug)]
struct Resolver {
    certificate: PathBuf,
    key: PathBuf,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    key: Arc<CertifiedKey>,
    changed: [Option<SystemTime>; 2],
    checked: Instant,
}

impl Resolver {
    fn new(certificate: &Path, key: &Path) -> Result<Self, Error> {
        let current =
            Current { key: load(certificate, key)?, changed: changed(certificate, key), checked: Instant::now() };
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), current: Mutex::new(current) })
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut current = self.current.lock();
        if current.checked.elapsed() >= FRESH {
            current.checked = Instant::now();
            let changed = changed(&self.certificate, &self.key);
            if changed != current.changed {
                match load(&self.certificate, &self.key) {
                    Ok(key) => {
                        (current.key, current.changed) = (key, changed);
                        tracing::info!("the certificate was read again");
                    }
                    // Only one of the two files may be written yet. The old certificate stays until both match.
                    Err(error) => {
                        tracing::warn!(error = &error as &dyn std::error::Error, "the new certificate is not used")
                    }
                }
            }
        }
        Some(current.key.clone())
    }
}

fn changed(certificate: &Path, key: &Path) -> [Option<SystemTime>; 2] {
    [certificate, key].map(|path| std::fs::metadata(path).and_then(|data| data.modified()).ok())
}

fn load(certificate: &Path, key: &Path) -> Result<Arc<CertifiedKey>, Error> {
    let read = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Read { path, source }
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(read(certificate))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(read(key))?;
    let using = |source| Error::Use { certificate: certificate.to_owned(), key: key.to_owned(), source };
    let signer = any_supported_type(&private).map_err(using)?;
    let pair = CertifiedKey::new(chain, signer);
    pair.keys_match().map_err(using)?;
    Ok(Arc::new(pair))
}
