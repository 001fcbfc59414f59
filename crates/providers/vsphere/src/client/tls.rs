//! Which certificate of a vCenter is believed: one that a known authority signed, or one with a known thumbprint.
//!
//! vCenters are often installed with a certificate that nobody outside has heard of, so that a thumbprint is the only way
//! to know them. Nothing here accepts any certificate whatever.

use std::sync::Arc;

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

/// Whom to believe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Trust {
    /// Certificates of authorities besides the system's, in PEM.
    pub(super) authorities: Option<Vec<u8>>,
    /// The certificate itself, by its SHA-256 or SHA-1.
    pub(super) thumbprint: Option<Thumbprint>,
}

/// The digest of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Thumbprint(Vec<u8>);

impl Thumbprint {
    /// Hexadecimal digits, with or without colons: 40 of them for SHA-1, as older tools print it, or 64 for SHA-256.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits: String = text.trim().chars().filter(|letter| *letter != ':').collect();
        let bytes = hex::decode(digits).ok()?;
        matches!(bytes.len(), 20 | 32).then_some(Self(bytes))
    }

    fn matches(&self, certificate: &[u8]) -> bool {
        let algorithm = if self.0.len() == 20 { &SHA1_FOR_LEGACY_USE_ONLY } else { &SHA256 };
        digest(algorithm, certificate).as_ref() == self.0
    }
}

impl Trust {
    pub(super) fn apply(&self, mut builder: reqwest::ClientBuilder) -> Result<reqwest::ClientBuilder, String> {
        if let Some(thumbprint) = &self.thumbprint {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let verifier = Pinned { thumbprint: thumbprint.clone(), provider: provider.clone() };
            let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
            let config = config.map_err(|error| error.to_string())?;
            let config = config.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth();
            return Ok(builder.tls_backend_preconfigured(config));
        }
        if let Some(authorities) = &self.authorities {
            let certificates = reqwest::Certificate::from_pem_bundle(authorities).map_err(super::http::words)?;
            builder = builder.tls_certs_merge(certificates);
        }
        Ok(builder)
    }
}

#[derive(Debug)]
struct Pinned {
    thumbprint: Thumbprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.thumbprint.matches(end_entity) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thumbprint_is_that_of_one_certificate() {
        let text = "BA:78:16:BF:8F:01:CF:EA:41:41:40:DE:5D:AE:22:23:B0:03:61:A3:96:17:7A:9C:B4:10:FF:61:F2:00:15:AD";
        let thumbprint = Thumbprint::parse(text).unwrap();
        assert!(thumbprint.matches(b"abc") && !thumbprint.matches(b"abd"));
        assert!(Thumbprint::parse("a9993e364706816aba3e25717850c26c9cd0d89d").unwrap().matches(b"abc"));
        for bad in ["", "abc", "zz:zz", &"ab".repeat(21)] {
            assert_eq!(Thumbprint::parse(bad), None, "{bad}");
        }
    }
}
