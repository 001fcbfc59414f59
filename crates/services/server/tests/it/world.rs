//! A server on free ports with its own certificate and a folder of manifests.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};
use server::{Daemon, FolderSource, Listener, Settings, Source};
use testkit::certify;

pub(crate) const ACCEPT: &str = "application/vnd.coreos.ignition+json;version=";

pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) secure: SocketAddr,
    pub(crate) plain: SocketAddr,
}

impl World {
    /// Serves a pool `master` whose rendered config is `config`.
    pub(crate) fn start(config: &Value) -> World {
        World::start_with(config, true, None)
    }

    /// Like [`World::start`], with a daemon binary that `daemon` creates in the folder.
    pub(crate) fn start_with_daemon(config: &Value, daemon: &dyn Fn(&Path) -> Daemon) -> World {
        World::start_with(config, true, Some(daemon))
    }

    /// Like [`World::start`], but a token is required.
    pub(crate) fn start_closed(config: &Value) -> World {
        World::start_with(config, false, None)
    }

    fn start_with(config: &Value, open: bool, daemon: Option<&dyn Fn(&Path) -> Daemon>) -> World {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        certify(folder.path(), "first");
        let manifest = |name: &str, value: Value| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, value.to_string()).unwrap();
        };
        manifest(
            "machine-pools/master.yaml",
            json!({"metadata": {"name": "master"}, "spec": {}, "status": {"configuration": {"name": "rendered-master-1"}}}),
        );
        manifest(
            "machine-configs/rendered-master-1.yaml",
            json!({"metadata": {"name": "rendered-master-1"}, "spec": {"config": config}}),
        );
        let images = json!({"machine-config-operator": "x"});
        manifest(
            "controller-config/machine-config-controller.yaml",
            json!({"metadata": {"name": "machine-config-controller"}, "spec": {
                "images": images, "baseOSContainerImage": "", "kubeAPIServerServingCAData": "Q0EK", "rootCAData": "Q0EK", "cloudProviderConfig": "",
                "clusterDNSIP": "", "ipFamilies": "IPv4", "releaseImage": "",
                "additionalTrustBundle": "", "cloudProviderCAData": "", "osImageURL": "",
            }}),
        );
        std::fs::write(folder.path().join("kubeconfig"), "clusters: []\n").unwrap();
        let daemon = daemon.map(|make| make(folder.path()));
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let settings = Settings {
            secure: any,
            insecure: Some(any),
            certificate: folder.path().join("tls.crt"),
            key: folder.path().join("tls.key"),
            daemon,
            host: Some("config.example.com".to_owned()),
        };
        let source = FolderSource::new(folder.path().to_owned(), folder.path().join("kubeconfig")).open(open);
        let listener = Listener::bind(settings, Source::Folder(source)).unwrap();
        let (secure, plain) = (listener.address().unwrap(), listener.insecure_address().unwrap());
        tokio::spawn(listener.run());
        World { folder, secure, plain }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.secure)
    }

    /// Returns a client that trusts the certificate in the folder.
    pub(crate) fn client(&self) -> reqwest::Client {
        let certificate = std::fs::read(self.folder.path().join("tls.crt")).unwrap();
        let certificate = reqwest::Certificate::from_pem(&certificate).unwrap();
        reqwest::Client::builder().tls_certs_only([certificate]).build().unwrap()
    }

    pub(crate) async fn get(&self, path: &str, version: &str) -> reqwest::Response {
        self.client().get(self.url(path)).header("accept", format!("{ACCEPT}{version}")).send().await.unwrap()
    }
}

/// A config with one file, in the newest spec.
pub(crate) fn plain_config() -> Value {
    json!({
        "ignition": {"version": "3.5.0"},
        "storage": {"files": [{"path": "/etc/motd", "mode": 420, "overwrite": true, "contents": {"source": "data:,hello"}}]},
    })
}
