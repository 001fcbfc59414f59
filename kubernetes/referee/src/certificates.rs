//! Certificates for servers of tests.

use std::path::{Path, PathBuf};

/// Writes a fresh pair that is its own authority, for the loopback: `tls.key`, then `tls.crt`, as a rotation would.
///
/// Returns the certificate's path. `name` is its common name.
pub fn certify(folder: &Path, name: &str) -> PathBuf {
    let mut parameters = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    std::fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
    let path = folder.join("tls.crt");
    std::fs::write(&path, certificate.pem()).unwrap();
    path
}
