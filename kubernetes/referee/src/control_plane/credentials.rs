//! One certificate authority per control plane, and kubeconfigs signed by it.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use serde_json::{Value, json};

/// A certificate authority and the folder that it writes to.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

/// Who a credential is for: the certificate's common name is the user, its organisation the group.
#[derive(Clone, Copy)]
pub struct Identity<'a> {
    pub user: &'a str,
    pub group: Option<&'a str>,
}

impl Authority {
    /// Makes an authority whose files live in `folder`: `ca.crt`, `ca.key`.
    pub fn create(folder: &Path) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "machinist test control plane");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        fs::write(folder.join("ca.crt"), issuer.pem())?;
        fs::write(folder.join("ca.key"), issuer.key().serialize_pem())?;
        Ok(Self { issuer, folder: folder.to_owned() })
    }

    /// Writes `serving.crt` and `serving.key` for the loopback names of the API server, and for these addresses.
    pub fn write_serving(&self, addresses: &[Ipv4Addr]) -> Result<()> {
        let names = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc"].map(String::from);
        let names: Vec<String> = names.into_iter().chain(addresses.iter().map(Ipv4Addr::to_string)).collect();
        let params = CertificateParams::new(names)?;
        let identity = Identity { user: "kube-apiserver", group: None };
        let pair = self.issue(params, identity, ExtendedKeyUsagePurpose::ServerAuth)?;
        self.write_pair("serving", pair)
    }

    /// Writes `NAME.crt` and `NAME.key` with which a client shows who it is.
    pub fn write_client(&self, name: &str, identity: Identity<'_>) -> Result<()> {
        let pair = self.issue(CertificateParams::default(), identity, ExtendedKeyUsagePurpose::ClientAuth)?;
        self.write_pair(name, pair)
    }

    /// Writes `service-account.key` and `service-account.pub`, with which service-account tokens are signed and checked.
    pub fn write_service_account_key(&self) -> Result<()> {
        let key = KeyPair::generate()?;
        fs::write(self.folder.join("service-account.key"), key.serialize_pem())?;
        fs::write(self.folder.join("service-account.pub"), key.public_key_pem())?;
        Ok(())
    }

    /// Writes a kubeconfig with a bearer token instead of a certificate.
    pub fn write_token_kubeconfig(&self, token: &str, server: &str, path: &Path) -> Result<()> {
        self.write_kubeconfig_of(json!({ "token": token }), server, path)
    }

    /// Writes a kubeconfig for `identity` that stands alone, so that it can be copied into a container.
    pub fn write_kubeconfig(&self, identity: Identity<'_>, server: &str, path: &Path) -> Result<()> {
        let usage = ExtendedKeyUsagePurpose::ClientAuth;
        let (certificate, key) = self.issue(CertificateParams::default(), identity, usage)?;
        let user = json!({
            "client-certificate-data": STANDARD.encode(certificate),
            "client-key-data": STANDARD.encode(key),
        });
        self.write_kubeconfig_of(user, server, path)
    }

    fn write_kubeconfig_of(&self, user: Value, server: &str, path: &Path) -> Result<()> {
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "test", "cluster": {
                "server": server,
                "certificate-authority-data": STANDARD.encode(self.issuer.pem()),
            }}],
            "users": [{ "name": "test", "user": user }],
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
            "current-context": "test",
        });
        fs::write(path, serde_json::to_vec_pretty(&kubeconfig)?)?;
        Ok(())
    }

    fn write_pair(&self, name: &str, (certificate, key): (String, String)) -> Result<()> {
        fs::write(self.folder.join(format!("{name}.crt")), certificate)?;
        fs::write(self.folder.join(format!("{name}.key")), key)?;
        Ok(())
    }

    fn issue(
        &self,
        mut params: CertificateParams,
        identity: Identity<'_>,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<(String, String)> {
        params.distinguished_name.push(DnType::CommonName, identity.user);
        if let Some(group) = identity.group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }
}
