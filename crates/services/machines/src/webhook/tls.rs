//! TLS with a certificate that is read again when its file changes, and that may come later than the process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};

/// How stale a certificate may be; asking the file system at each handshake would cost more than it gains.
const FRESH: Duration = Duration::from_secs(1);

/// How connections are secured.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// The folder that holds `tls.crt` and `tls.key`, now or later. They are read again when they change.
    pub certificates: PathBuf,
    /// The oldest version, as a profile of OpenShift names it. None before TLS 1.2 is ever spoken.
    pub min_version: Option<String>,
    /// Suites of TLS 1.2 by the standard's names; empty for all that we have. Those of 1.3 cannot be chosen.
    pub suites: Vec<String>,
}

pub(super) fn config(tls: &Tls) -> ServerConfig {
    let resolver = Resolver { folder: tls.certificates.clone(), current: Mutex::default() };
    let builder = ServerConfig::builder_with_provider(Arc::new(provider(&tls.suites)));
    let builder = builder.with_protocol_versions(&versions(tls)).expect("there are suites for each of the versions");
    let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

/// Without any suite of TLS 1.2 that we have, only 1.3 is left.
fn versions(tls: &Tls) -> Vec<&'static SupportedProtocolVersion> {
    let has_old_suites = provider(&tls.suites).cipher_suites.iter().any(|suite| suite.tls13().is_none());
    if tls.min_version.as_deref() == Some("VersionTLS13") || !has_old_suites {
        return vec![&rustls::version::TLS13];
    }
    vec![&rustls::version::TLS13, &rustls::version::TLS12]
}

fn provider(suites: &[String]) -> CryptoProvider {
    let mut provider = ring::default_provider();
    // Those of TLS 1.2 are written as the standard has them.
    let is_chosen = |suite: &SupportedCipherSuite| suites.iter().any(|name| *name == format!("{:?}", suite.suite()));
    provider.cipher_suites.retain(|suite| suites.is_empty() || suite.tls13().is_some() || is_chosen(suite));
    provider
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

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken(min_version: Option<&str>, suites: &[&str]) -> (usize, usize) {
        let suites = suites.iter().map(|name| (*name).to_owned()).collect();
        let tls = Tls { min_version: min_version.map(str::to_owned), suites, ..Tls::default() };
        config(&tls);
        let old = provider(&tls.suites).cipher_suites.iter().filter(|suite| suite.tls13().is_none()).count();
        (versions(&tls).len(), old)
    }

    #[test]
    fn a_profile_narrows_what_is_spoken() {
        assert_eq!(spoken(None, &[]).0, 2);
        assert_eq!(spoken(Some("VersionTLS10"), &[]).0, 2);
        assert_eq!(spoken(Some("VersionTLS13"), &[]).0, 1);
        let one = ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA"];
        assert_eq!(spoken(Some("VersionTLS12"), &one), (2, 1));
        assert_eq!(spoken(Some("VersionTLS12"), &one[1..]), (1, 0), "nothing of TLS 1.2 is left");
    }
}
