//! Built bodies: each (config, version) is composed once and shared by every machine that asks for it.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use ignition::Version;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;

use crate::source::{Materials, Missing};

/// One built answer, plain and compressed.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) plain: Bytes,
    pub(crate) gzip: Bytes,
    /// Strong, over the plain bytes.
    pub(crate) etag: String,
}

/// Why no body could be built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Missing(#[from] Missing),
    #[error(transparent)]
    Compose(#[from] serving::Error),
    #[error("building the answer was interrupted")]
    Interrupted,
}

/// Two configs of some dozen pools in every version fit; older ones are built again when asked for.
const KEPT: usize = 64;

/// Config, image and version.
type Key = (String, Option<String>, Version);

#[derive(Default)]
pub(crate) struct Bodies {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    stamp: Arc<str>,
    bodies: HashMap<Key, Arc<OnceCell<Arc<Body>>>>,
}

impl Bodies {
    /// The body for a config, built by `materials` when it is not there; those who ask meanwhile wait for the same one.
    pub(crate) async fn get(
        &self,
        config: &str,
        image: Option<&str>,
        version: Version,
        stamp: Arc<str>,
        materials: impl Future<Output = Result<Materials, Missing>>,
    ) -> Result<Arc<Body>, Error> {
        let cell = self.cell((config.to_owned(), image.map(str::to_owned), version), stamp);
        cell.get_or_try_init(|| async {
            let materials = materials.await?;
            let built = tokio::task::spawn_blocking(move || build(&materials, version)).await;
            built.map_err(|_| Error::Interrupted)?.map(Arc::new)
        })
        .await
        .cloned()
    }

    fn cell(&self, key: Key, stamp: Arc<str>) -> Arc<OnceCell<Arc<Body>>> {
        let mut kept = self.kept.lock();
        if kept.stamp != stamp || (kept.bodies.len() >= KEPT && !kept.bodies.contains_key(&key)) {
            *kept = Kept { stamp, bodies: HashMap::new() };
        }
        kept.bodies.entry(key).or_default().clone()
    }
}

fn build(materials: &Materials, version: Version) -> Result<Body, Error> {
    let parts = serving::Parts {
        machine_config: &materials.machine_config,
        image: materials.image.as_deref(),
        kubelet_ca: &materials.kubelet_ca,
        cloud_ca: &materials.cloud_ca,
        kubeconfig: &materials.kubeconfig,
        server_ca: &materials.server_ca,
        registries: &materials.registries,
    };
    let plain = serving::compose(&parts, version)?.to_string().into_bytes();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    let gzip = gzip.write_all(&plain).and_then(|()| gzip.finish()).map_err(|_| Error::Interrupted)?;
    let etag = format!("\"{}\"", hex::encode(&Sha256::digest(&plain)[..16]));
    Ok(Body { plain: plain.into(), gzip: gzip.into(), etag })
}
