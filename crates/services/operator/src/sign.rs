//! Makes keys and certificates. When and for what is decided in `operate::certificates`.

use jiff::{SignedDuration, Timestamp};
use operate::certificates::{AUTHORITY_LIFE, BACKDATE, Certificate, LEAF_LIFE, Pair};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, SanType,
};

/// A certificate and its key, both PEM.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) certificate: String,
    pub(crate) key: String,
    /// The authority signed by its predecessor, for those who know only that one.
    pub(crate) cross: Option<String>,
}

/// A new authority; with an `old` one, also signed by it.
pub(crate) fn authority(now: Timestamp, old: Option<(&str, &str)>) -> Result<Made, rcgen::Error> {
    let key = KeyPair::generate()?;
    let parameters = signing("machine-config-server-ca", now);
    let certificate = parameters.self_signed(&key)?.pem();
    let cross = match old {
        // A predecessor that cannot be used any more signs nothing; its machines get new user data.
        Some((certificate, old_key)) => issuer(certificate, old_key)
            .and_then(|issuer| parameters.signed_by(&key, &issuer))
            .map(|certificate| certificate.pem())
            .ok(),
        None => None,
    };
    Ok(Made { certificate, key: key.serialize_pem(), cross })
}

/// A new authority of this name without a predecessor.
pub(crate) fn authority_of(name: &str, now: Timestamp) -> Result<Made, rcgen::Error> {
    let key = KeyPair::generate()?;
    let certificate = signing(name, now).self_signed(&key)?.pem();
    Ok(Made { certificate, key: key.serialize_pem(), cross: None })
}

fn signing(name: &str, now: Timestamp) -> CertificateParams {
    // The name tells authorities apart: a leaf names its issuer.
    let mut parameters = parameters(&format!("{name}@{}", now.as_second()), now, AUTHORITY_LIFE);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
    parameters.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    parameters
}

/// The config server's certificate for `names`, signed by the authority.
pub(crate) fn leaf(authority: (&str, &str), names: &[String], now: Timestamp) -> Result<Made, rcgen::Error> {
    leaf_of("machine-config-server", authority, names, now)
}

/// A server's certificate for `names`, signed by the authority.
pub(crate) fn leaf_of(
    server: &str,
    authority: (&str, &str),
    names: &[String],
    now: Timestamp,
) -> Result<Made, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut parameters = parameters(server, now, LEAF_LIFE);
    parameters.subject_alt_names = names
        .iter()
        .map(|name| match name.parse() {
            Ok(address) => Ok(SanType::IpAddress(address)),
            Err(_) => name.as_str().try_into().map(SanType::DnsName),
        })
        .collect::<Result<_, _>>()?;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    parameters.use_authority_key_identifier_extension = true;
    let certificate = parameters.signed_by(&key, &issuer(authority.0, authority.1)?)?.pem();
    Ok(Made { certificate, key: key.serialize_pem(), cross: None })
}

fn parameters(name: &str, now: Timestamp, life: SignedDuration) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::OrganizationalUnitName, "machinist");
    parameters.distinguished_name.push(DnType::CommonName, name);
    // rcgen counts time in its own type; a day of 1970 and a number of seconds lead there.
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    parameters.not_before = epoch + std::time::Duration::from_secs(seconds(now - BACKDATE));
    parameters.not_after = epoch + std::time::Duration::from_secs(seconds(now + life));
    parameters
}

fn seconds(time: Timestamp) -> u64 {
    u64::try_from(time.as_second()).unwrap_or(0)
}

fn issuer(certificate: &str, key: &str) -> Result<Issuer<'static, KeyPair>, rcgen::Error> {
    Issuer::from_ca_cert_pem(certificate, KeyPair::from_pem(key)?)
}

/// What is in a Secret: its first certificate, and whether the key beside it is the certificate's.
pub(crate) fn pair(certificate: &str, key: &str) -> Option<Pair> {
    let read: Certificate = operate::certificates::read(certificate.as_bytes()).ok()?.into_iter().next()?;
    let key_fits = KeyPair::from_pem(key).is_ok_and(|key| {
        let public = key.subject_public_key_info();
        contains(&der(certificate), &public)
    });
    Some(Pair { certificate: read, key_fits })
}

/// A certificate holds its public key word for word.
fn contains(certificate: &[u8], public: &[u8]) -> bool {
    !public.is_empty() && certificate.windows(public.len()).any(|window| window == public)
}

fn der(pem: &str) -> Vec<u8> {
    use base64::Engine as _;
    let body = pem.lines().skip_while(|line| !line.starts_with("-----BEGIN")).skip(1);
    let body: String = body.take_while(|line| !line.starts_with("-----END")).collect();
    base64::engine::general_purpose::STANDARD.decode(body.trim()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_leaf_is_signed_by_its_authority_and_its_key_is_its_own() {
        let ca = authority(now(), None).unwrap();
        let names = ["10.0.0.1".to_owned(), "api.example.com".to_owned()];
        let leaf = leaf((&ca.certificate, &ca.key), &names, now()).unwrap();
        let (ca_pair, leaf_pair) =
            (pair(&ca.certificate, &ca.key).unwrap(), pair(&leaf.certificate, &leaf.key).unwrap());
        assert!(ca_pair.key_fits && leaf_pair.key_fits);
        assert_eq!(leaf_pair.certificate.issuer, ca_pair.certificate.subject);
        assert_eq!(leaf_pair.certificate.names, names);
        assert!(!pair(&leaf.certificate, &ca.key).unwrap().key_fits);
        assert!(!pair(&leaf.certificate, "garbage").unwrap().key_fits);
    }

    #[test]
    fn a_successor_is_signed_by_itself_and_by_its_predecessor() {
        let old = authority(now(), None).unwrap();
        let new = authority(now() + SignedDuration::from_hours(1), Some((&old.certificate, &old.key))).unwrap();
        let cross = operate::certificates::read(new.cross.as_ref().unwrap().as_bytes()).unwrap();
        let (old, new) = (pair(&old.certificate, &old.key).unwrap(), pair(&new.certificate, &new.key).unwrap());
        assert_eq!(cross[0].subject, new.certificate.subject);
        assert_eq!(cross[0].issuer, old.certificate.subject);
        assert_eq!(new.certificate.issuer, new.certificate.subject);
    }

    /// Whether a client that trusts only `trusted` speaks with a server that shows `chain`.
    fn is_trusted(trusted: &str, chain: &str, key: &str, name: &str) -> bool {
        use rustls::pki_types::pem::PemObject as _;
        use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let certificates =
            |pem: &str| CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::unwrap).collect::<Vec<_>>();
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(certificates(trusted));
        let client =
            rustls::ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let client = client.unwrap().with_root_certificates(roots).with_no_client_auth();
        let server =
            rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let server = server.with_no_client_auth().with_single_cert(certificates(chain), key).unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut client = rustls::ClientConnection::new(client.into(), name).unwrap();
        let mut server = rustls::ServerConnection::new(server.into()).unwrap();
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        while client.is_handshaking() || server.is_handshaking() {
            client.write_tls(&mut to_server).unwrap();
            server.read_tls(&mut &*std::mem::take(&mut to_server)).unwrap();
            let _ = server.process_new_packets();
            server.write_tls(&mut to_client).unwrap();
            client.read_tls(&mut &*std::mem::take(&mut to_client)).unwrap();
            if client.process_new_packets().is_err() {
                return false;
            }
        }
        true
    }

    #[test]
    fn machines_that_know_only_the_old_authority_and_those_that_know_only_the_new_one_trust_the_same_server() {
        let start = Timestamp::now();
        let old = authority(start, None).unwrap();
        let new = authority(start + SignedDuration::from_secs(1), Some((&old.certificate, &old.key))).unwrap();
        let names = ["10.0.0.1".to_owned(), "api.example.com".to_owned()];
        let leaf = leaf((&new.certificate, &new.key), &names, start).unwrap();
        let chain = leaf.certificate.clone() + new.cross.as_ref().unwrap();
        for name in ["10.0.0.1", "api.example.com"] {
            assert!(is_trusted(&old.certificate, &chain, &leaf.key, name), "by the old authority, as {name}");
            assert!(is_trusted(&new.certificate, &chain, &leaf.key, name), "by the new authority, as {name}");
        }
        let stranger = authority(start, None).unwrap();
        assert!(!is_trusted(&stranger.certificate, &chain, &leaf.key, "10.0.0.1"), "by a stranger's");
        assert!(
            !is_trusted(&old.certificate, &leaf.certificate, &leaf.key, "10.0.0.1"),
            "without the cross-signed one"
        );
        assert!(!is_trusted(&new.certificate, &chain, &leaf.key, "other.example.com"), "as somebody else");
    }
}
