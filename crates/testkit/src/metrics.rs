//! Asks a node's daemon for its metrics, as Prometheus does.

use std::net::SocketAddr;
use std::sync::Arc;

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::{ControlPlane, wait_until};

const READER: &str = r#"{"apiVersion": "v1", "kind": "List", "items": [
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reads-metrics"},
     "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]},
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "reads-metrics"},
     "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reads-metrics"},
     "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": "default"}]}
]}"#;

/// A token of an account with the right is answered with the page, no token and a wrong one with 401, one without the right
/// with 403.
pub async fn are_for_those_whom_the_cluster_lets_read_them(control_plane: &ControlPlane, address: SocketAddr) {
    control_plane.apply(READER);
    let (reader, other) = (token(control_plane, "prometheus").await, token(control_plane, "somebody").await);
    assert_eq!(ask(address, None).await.0, 401);
    assert_eq!(ask(address, Some("made up")).await.0, 401);
    let (status, body) = ask(address, Some(&other)).await;
    assert_eq!(status, 403, "{body}");
    // An API server learns of a role by a watch, and the daemon keeps a refusal for a while.
    let page = wait_until("the page", || async {
        let (status, body) = ask(address, Some(&reader)).await;
        (status == 200).then_some(body)
    });
    assert!(page.await.contains("mcd_host_os_and_version"));
}

async fn token(control_plane: &ControlPlane, name: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(control_plane.client().await, "default");
    let account = serde_json::from_value(json!({"metadata": {"name": name}})).expect("an account");
    accounts.create(&PostParams::default(), &account).await.expect("the account is made");
    let request = serde_json::from_value::<TokenRequest>(json!({"spec": {"audiences": []}})).expect("a request");
    let answer = accounts.create_token_request(name, &PostParams::default(), &request).await.expect("a token");
    answer.status.expect("a token").token
}

/// Asks for the page; returns the status and the body.
pub async fn ask(address: SocketAddr, token: Option<&str>) -> (u16, String) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let trusting = Arc::new(Trusting(provider));
    let config = versions.expect("TLS").dangerous().with_custom_certificate_verifier(trusting).with_no_client_auth();
    let stream = TcpStream::connect(address).await.expect("it listens");
    let name = ServerName::try_from("n1").expect("a name");
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("it speaks TLS");
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: n1\r\n{token}\r\n");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it answers");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, answer.split_once("\r\n\r\n").expect("a body").1.to_owned())
}

/// Believes any certificate, as a scraper does that is told to skip the check.
#[derive(Debug)]
struct Trusting(Arc<CryptoProvider>);

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
