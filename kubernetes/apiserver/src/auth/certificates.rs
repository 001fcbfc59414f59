//! The server's own certificate authority: made at the first start, kept in the data folder.

use std::{
    fs, io,
    io::Write as _,
    net::IpAddr,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};
use sha2::{Digest, Sha256};
use x509_parser::{
    certification_request::X509CertificationRequest,
    prelude::{FromDer, X509Certificate},
};

use super::User;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot use {path}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("cannot make or read a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error("cannot verify client certificates: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pub pem: String,
}

/// A certificate and its key, both PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl Authority {
    pub(crate) fn new() -> Result<Self, Error> {
        let key = KeyPair::generate()?;
        Self::make(key)
    }

    /// Reads the authority of a data folder, or makes it there.
    pub(crate) fn open(folder: &Path) -> Result<Self, Error> {
        let (key_path, certificate_path) = (folder.join("ca.key"), folder.join("ca.crt"));
        match (fs::read_to_string(&key_path), fs::read_to_string(&certificate_path)) {
            (Ok(key), Ok(pem)) => {
                let key = KeyPair::from_pem(&key)?;
                let certificate = from_pem(&pem).ok_or(rcgen::Error::CouldNotParseCertificate)?;
                let issuer = Issuer::from_ca_cert_der(&certificate, key)?;
                Ok(Self { issuer, certificate, pem })
            }
            _ => {
                let key = KeyPair::generate()?;
                let key_pem = key.serialize_pem();
                let made = Self::make(key)?;
                write_private(&key_path, key_pem.as_bytes())?;
                write_private(&certificate_path, made.pem.as_bytes())?;
                Ok(made)
            }
        }
    }

    fn make(key: KeyPair) -> Result<Self, Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name("machinist-ca", &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?;
        let (pem, der) = (certificate.pem(), certificate.der().clone());
        Ok(Self { issuer: Issuer::new(params, key), certificate: der, pem })
    }

    /// A client certificate: the common name is the user, the organisations are the groups.
    pub(crate) fn client(&self, user: &str, groups: &[&str]) -> Result<Identity, Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name(user, groups);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        self.sign(&params)
    }

    fn server(&self, addresses: &[IpAddr]) -> Result<(CertificateDer<'static>, KeyPair), Error> {
        let hosts = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let mut params = CertificateParams::new(hosts.map(str::to_owned).to_vec())?;
        params.subject_alt_names.extend(addresses.iter().map(|address| SanType::IpAddress(*address)));
        params.distinguished_name = name("machinist-apiserver", &[]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        Ok((params.signed_by(&key, &self.issuer)?.der().clone(), key))
    }

    /// Signs a client's certificate request (PEM): its names and key, and client authentication as the only use.
    pub(crate) fn sign_request(&self, request: &str) -> Result<String, String> {
        let mut request = CertificateSigningRequestParams::from_pem(request).map_err(|error| error.to_string())?;
        request.params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        request.params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        request.params.is_ca = IsCa::NoCa;
        request.signed_by(&self.issuer).map(|certificate| certificate.pem()).map_err(|error| error.to_string())
    }

    /// The user a certificate request (PEM) names.
    pub(crate) fn subject(&self, request: &str) -> Option<User> {
        let (_, pem) = x509_parser::pem::parse_x509_pem(request.as_bytes()).ok()?;
        let (_, parsed) = X509CertificationRequest::from_der(&pem.contents).ok()?;
        let subject = &parsed.certification_request_info.subject;
        let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
        let groups = subject.iter_organization().filter_map(|group| group.as_str().ok()).map(str::to_owned).collect();
        Some(User { name, groups, ..User::default() })
    }

    fn sign(&self, params: &CertificateParams) -> Result<Identity, Error> {
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// TLS for the listener: client certificates are optional, but one that is shown must be ours.
    pub(crate) fn tls(&self, addresses: &[IpAddr]) -> Result<ServerConfig, Error> {
        let (leaf, key) = self.server(addresses)?;
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![leaf, self.certificate.clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// Which credential a request came with, for audit logs and reviews.
pub(crate) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

fn name(common: &str, organisations: &[&str]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    // A distinguished name of rcgen holds each type once; spelling the type in numbers gives a second place.
    for (position, organisation) in organisations.iter().enumerate() {
        match position {
            0 => name.push(DnType::OrganizationName, *organisation),
            _ => name.push(DnType::CustomDnType(vec![2, 5, 4, 10]), *organisation),
        }
    }
    name
}

/// The user a verified client certificate stands for.
pub(crate) fn user(certificate: &CertificateDer<'_>) -> Option<User> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let subject = parsed.subject();
    let common = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups: Vec<&str> = subject.iter_organization().filter_map(|group| group.as_str().ok()).collect();
    let mut user = User::new(&common, &groups);
    let fingerprint = format!("X509SHA256={}", hex::encode(Sha256::digest(certificate)));
    user.extra.insert(CREDENTIAL_ID.to_owned(), vec![fingerprint]);
    Some(user)
}

fn from_pem(pem: &str) -> Option<CertificateDer<'static>> {
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    STANDARD.decode(body.trim()).ok().map(CertificateDer::from)
}

/// Writes a file only its owner can read, whole or not at all.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> Result<(), Error> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    let temporary = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary).map_err(failed)?;
    file.write_all(content).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    fs::rename(&temporary, path).map_err(failed)
}
