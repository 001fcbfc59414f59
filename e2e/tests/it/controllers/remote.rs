//! Remote file contents: which servers are asked and trusted, how much is downloaded, and for how long.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::machineconfiguration::ControllerConfig;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use controllers::Settings;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use sandbox::fleet::Behaviour;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use testkit::Kind;
use testkit::objects::{file_config, machine_config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::on_both;
use super::stage::Stage;

on_both!(remote_content_is_fetched_within_bounds_and_pinned);

const CONTENT: &str = "from afar";

/// A web server on loopback that records its requests.
struct Site {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Site {
    async fn start(acceptor: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let site = Self { address: listener.local_addr().unwrap(), asked: Arc::default() };
        let asked = site.asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, asked) = (acceptor.clone(), asked.clone());
                tokio::spawn(async move {
                    match acceptor {
                        Some(acceptor) => {
                            let Ok(stream) = acceptor.accept(stream).await else { return };
                            answer(stream, &asked).await;
                        }
                        None => answer(stream, &asked).await,
                    }
                });
            }
        });
        site
    }

    fn count(&self, path: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|asked| *asked == path).count()
    }
}

async fn answer(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin, asked: &Mutex<Vec<String>>) {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).await.is_ok_and(|read| read == 1) {
        request.push(byte[0]);
    }
    let request = String::from_utf8_lossy(&request);
    let path = request.split_whitespace().nth(1).unwrap_or_default().to_owned();
    asked.lock().unwrap().push(path.clone());
    let body = match path.as_str() {
        "/slow" => std::future::pending().await,
        "/big" => "x".repeat(2 << 20),
        _ => CONTENT.to_owned(),
    };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(body.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// Returns a server's TLS acceptor and the PEM of the CA that signed its certificate.
fn tls() -> (TlsAcceptor, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![certificate.der().clone()], key).unwrap();
    (TlsAcceptor::from(Arc::new(config)), authority.pem())
}

/// Creates a fragment with one remote file.
async fn far(stage: &Stage, source: &str, hash: Option<&str>) {
    let mut contents = json!({ "source": source });
    if let Some(hash) = hash {
        contents["verification"] = json!({ "hash": hash });
    }
    let config = json!({
        "ignition": { "version": "3.4.0" },
        "storage": { "files": [{ "path": "/etc/far", "mode": 0o644, "overwrite": true, "contents": contents }] },
    });
    stage.write(&machine_config("50-far", "worker", config)).await;
}

async fn trust(stage: &Stage, authority: &str) {
    let kind = ApiResource::erase::<ControllerConfig>(&());
    let api: Api<DynamicObject> = Api::all_with(stage.client.clone(), &kind);
    let object: Value = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "ControllerConfig",
        "metadata": { "name": "machine-config-controller" },
        "spec": {
            "additionalTrustBundle": STANDARD.encode(authority), "baseOSContainerImage": "example.org/os",
            "cloudProviderCAData": null, "cloudProviderConfig": "", "clusterDNSIP": "10.0.0.10",
            "dns": {
                "apiVersion": "config.openshift.io/v1", "kind": "DNS", "metadata": { "name": "cluster" },
                "spec": { "baseDomain": "example.org" },
            },
            "images": {},
            "infra": {
                "apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": { "name": "cluster" },
                "spec": { "platformSpec": { "type": "None" } },
            },
            "ipFamilies": "IPv4", "kubeAPIServerServingCAData": "Y2VydA==", "network": { "mtuMigration": null },
            "proxy": null, "releaseImage": "", "rootCAData": "Y2VydA==",
        },
    });
    api.patch("machine-config-controller", &PatchParams::apply("story").force(), &Patch::Apply(&object)).await.unwrap();
}

async fn allow_insecure(stage: &Stage) {
    let api: Api<api::machinist::PoolPolicy> = Api::all(stage.client.clone());
    let object = json!({
        "apiVersion": "machinist.dev/v1alpha1", "kind": "PoolPolicy", "metadata": { "name": "worker" },
        "spec": { "sources": { "allowInsecure": true } },
    });
    api.patch("worker", &PatchParams::apply("story").force(), &Patch::Apply(&object)).await.unwrap();
}

/// Returns the content of the remote file in a rendered config.
async fn embedded(stage: &Stage, config: &str) -> String {
    let files = stage.configs.get(config).await.unwrap().spec.config.unwrap()["storage"]["files"].clone();
    let file = files.as_array().unwrap().iter().find(|file| file["path"] == "/etc/far").cloned().unwrap();
    let source = file["contents"]["source"].as_str().unwrap_or_default();
    String::from_utf8(ignition::data_url::decode(source).unwrap()).unwrap()
}

async fn remote_content_is_fetched_within_bounds_and_pinned(kind: Kind) {
    let settings = Settings { fetch_timeout: Duration::from_secs(2), ..Settings::default() };
    let Some(stage) = Stage::start_with(kind, Behaviour::default(), settings).await else { return };
    let first = stage.settled_pool("worker", &["a"]).await;
    let (acceptor, authority) = tls();
    let (safe, open) = (Site::start(Some(acceptor)).await, Site::start(None).await);
    let (safe_url, open_url) = (format!("https://{}", safe.address), format!("http://{}", open.address));
    let hash = format!("sha256-{}", hex::encode(Sha256::digest(CONTENT)));

    far(&stage, &format!("{open_url}/content"), Some(&hash)).await;
    let words = ["50-far", "/etc/far", "only https is allowed", "allowInsecure"];
    stage.condition("worker", "RenderDegraded", &words).await;
    assert_eq!(open.count("/content"), 0, "it was not even asked");

    // A server with an unknown CA is not trusted until the cluster's trust bundle contains that CA.
    far(&stage, &format!("{safe_url}/content"), Some(&hash)).await;
    stage.condition("worker", "RenderDegraded", &["50-far", &safe_url, "certificate"]).await;
    assert_eq!(stage.target("worker").await, first, "the last good config is kept");
    trust(&stage, &authority).await;
    let second = stage.updated("worker", &first, 1).await;
    assert_eq!(embedded(&stage, &second).await, CONTENT);

    // Content is fetched once per version of a fragment, even across restarts.
    let mut stage = stage;
    stage.stop_controllers().await;
    stage.start_controllers();
    stage.write(&file_config("60-more", "worker", "/etc/more", "more")).await;
    let third = stage.updated("worker", &second, 1).await;
    assert_eq!((embedded(&stage, &third).await.as_str(), safe.count("/content")), (CONTENT, 1));

    far(&stage, &format!("{safe_url}/other"), Some(&format!("sha256-{}", "0".repeat(64)))).await;
    stage.condition("worker", "RenderDegraded", &["50-far", "/etc/far", "does not have the hash"]).await;
    far(&stage, &format!("{safe_url}/big"), None).await;
    stage.condition("worker", "RenderDegraded", &["50-far", "/etc/far", "larger than"]).await;
    far(&stage, &format!("{safe_url}/slow"), None).await;
    stage.condition("worker", "RenderDegraded", &["50-far", "/etc/far", "longer than 2 s"]).await;
    assert_eq!(stage.target("worker").await, third);

    allow_insecure(&stage).await;
    far(&stage, &format!("{open_url}/content"), None).await;
    let fourth = stage.updated("worker", &third, 1).await;
    assert_eq!(embedded(&stage, &fourth).await, CONTENT);
    stage.event("RenderWarning", &["has no hash"]).await;
}
