//! TLS with a certificate that is read again when its file changes, and that may come later than the process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// How stale a certificate may be; asking the file system at each handshake would cost more than it gains.
const FRESH: Duration = Duration::from_secs(1);

pub(super) fn config(folder: &Path) -> ServerConfig {
    let resolver = Resolver { folder: folder.to_owned(), current: Mutex::default() };
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("ring has the suites of TLS 1.2 and 1.3");
    let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

#[derive(Debug)]
struct Resolver {
    folder: PathBuf,
    current: Mutex<Current>,
}

#[derive(Debug, Default)]
struct Current {
    key: Option<Arc<CertifiedKey>>,
    changed: Option<SystemTime>,
    checked: Option<Instant>,
}

impl ResolvesServerCert for Resolver {
    /// Nothing while there is no certificate: the handshake fails, and the API server goes by its failure policy.
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut current = self.current.lock();
        if current.key.is_some() && current.checked.is_some_and(|at| at.elapsed() < FRESH) {
            return current.key.clone();
        }
        current.checked = Some(Instant::now());
        let changed = std::fs::metadata(self.folder.join("tls.crt")).and_then(|file| file.modified()).ok();
        if changed.is_some() && changed != current.changed {
            match load(&self.folder) {
                Ok(key) => (current.key, current.changed) = (Some(Arc::new(key)), changed),
                // Half a pair may be written yet; the old one stays until both fit.
                Err(error) => tracing::warn!(error, "the certificate of the webhook is not used"),
            }
        }
        current.key.clone()
    }
}

fn load(folder: &Path) -> Result<CertifiedKey, String> {
    let failed = |name: &str, error: &dyn std::fmt::Display| format!("{}: {error}", folder.join(name).display());
    let chain = CertificateDer::pem_file_iter(folder.join("tls.crt"))
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| failed("tls.crt", &error))?;
    let key = PrivateKeyDer::from_pem_file(folder.join("tls.key")).map_err(|error| failed("tls.key", &error))?;
    let key = CertifiedKey::from_der(chain, key, &ring::default_provider());
    key.map_err(|error| failed("tls.crt", &error))
}
