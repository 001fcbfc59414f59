//! Caches response bodies: each (config, version) is composed once and shared by all machines that ask for it.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::future::BoxFuture;
use ignition::Version;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;

use crate::source::{Materials, Missing};

/// One response body, plain and compressed.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) plain: Bytes,
    pub(crate) gzip: Bytes,
    /// A strong ETag over the plain bytes.
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

/// Enough for two configs of several pools in the common versions. The least recently used bodies are dropped, and
/// built again on demand.
const ROOM: usize = 8 * 1024 * 1024;

/// Config, image and version.
type Key = (String, Option<String>, Version);

type Cell = Arc<OnceCell<Arc<Body>>>;

#[derive(Default)]
pub(crate) struct Bodies {
    kept: Mutex<Kept>,
    /// Building a config takes many times its size in memory, so only one is built at a time.
    building: tokio::sync::Mutex<()>,
    /// Where machines download the daemon's binary.
    daemon: Option<Arc<serving::daemon::Fetched>>,
}

#[derive(Default)]
struct Kept {
    stamp: Arc<str>,
    bodies: HashMap<Key, Seat>,
    /// Number of requests so far; the clock of the least-recently-used order.
    asked: u64,
}

struct Seat {
    cell: Cell,
    /// The number of the last request for this body.
    asked: u64,
}

impl Bodies {
    pub(crate) fn new(daemon: Option<serving::daemon::Fetched>) -> Self {
        Self { daemon: daemon.map(Arc::new), ..Self::default() }
    }

    /// Returns the body for a config and builds it from `materials` if it is not cached. Concurrent requests wait for
    /// the same build.
    ///
    /// The future that reads from the cluster is large. It is created only if something is built, so that connections
    /// do not carry it otherwise.
    pub(crate) async fn get<'a>(
        &self,
        config: &str,
        image: Option<&str>,
        version: Version,
        stamp: Arc<str>,
        materials: impl FnOnce() -> BoxFuture<'a, Result<Materials, Missing>>,
    ) -> Result<Arc<Body>, Error> {
        let cell = self.cell((config.to_owned(), image.map(str::to_owned), version), stamp);
        if let Some(body) = cell.get() {
            return Ok(Arc::clone(body));
        }
        let built = cell.get_or_try_init(|| async {
            let _one = self.building.lock().await;
            let materials = materials().await?;
            let daemon = self.daemon.clone();
            let built = tokio::task::spawn_blocking(move || build(&materials, daemon.as_deref(), version)).await;
            built.map_err(|_| Error::Interrupted)?.map(Arc::new)
        });
        Box::pin(built).await.cloned()
    }

    fn cell(&self, key: Key, stamp: Arc<str>) -> Cell {
        let mut kept = self.kept.lock();
        if kept.stamp != stamp {
            *kept = Kept { stamp, ..Kept::default() };
        }
        if !kept.bodies.contains_key(&key) {
            kept.make_room(ROOM);
        }
        kept.asked += 1;
        let asked = kept.asked;
        let seat = kept.bodies.entry(key).or_insert_with(|| Seat { cell: Cell::default(), asked });
        seat.asked = asked;
        Arc::clone(&seat.cell)
    }
}

impl Kept {
    /// Drops the least recently used bodies until the rest fits.
    fn make_room(&mut self, room: usize) {
        let size = |seat: &Seat| seat.cell.get().map_or(0, |body| body.plain.len() + body.gzip.len());
        let mut total: usize = self.bodies.values().map(size).sum();
        while total > room {
            let built = self.bodies.iter().filter(|(_, seat)| size(seat) > 0);
            let Some(oldest) = built.min_by_key(|(_, seat)| seat.asked).map(|(key, _)| key.clone()) else { return };
            total -= self.bodies.remove(&oldest).map_or(0, |seat| size(&seat));
        }
    }
}

fn build(materials: &Materials, daemon: Option<&serving::daemon::Fetched>, version: Version) -> Result<Body, Error> {
    let parts = serving::Parts {
        machine_config: &materials.machine_config,
        image: materials.image.as_deref(),
        kubelet_ca: &materials.kubelet_ca,
        cloud_ca: &materials.cloud_ca,
        kubeconfig: &materials.kubeconfig,
        server_ca: &materials.server_ca,
        registries: &materials.registries,
        daemon,
    };
    let plain = serving::compose(&parts, version)?.to_string().into_bytes();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    let gzip = gzip.write_all(&plain).and_then(|()| gzip.finish()).map_err(|_| Error::Interrupted)?;
    let etag = format!("\"{}\"", hex::encode(&Sha256::digest(&plain)[..16]));
    Ok(Body { plain: plain.into(), gzip: gzip.into(), etag })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(bodies: &Bodies, config: &str, builds: &mut usize) {
        let body = async {
            *builds += 1;
            let plain = Bytes::from(vec![b'x'; ROOM / 4]);
            Ok::<_, Error>(Arc::new(Body { plain, gzip: Bytes::new(), etag: String::new() }))
        };
        let cell = bodies.cell((config.to_owned(), None, Version::SERVED[0]), Arc::from(""));
        cell.get_or_try_init(|| body).await.expect("it is built");
    }

    #[tokio::test]
    async fn recently_used_bodies_are_kept_and_the_cache_stays_within_its_limit() {
        let (bodies, mut hot, mut cold) = (Bodies::default(), 0, 0);
        for number in 0..40 {
            ask(&bodies, "hot", &mut hot).await;
            ask(&bodies, &format!("cold-{number}"), &mut cold).await;
            let kept: usize = bodies.kept.lock().bodies.values().filter_map(|seat| seat.cell.get()).count();
            assert!(kept <= 5, "{kept} are kept");
        }
        assert_eq!((hot, cold), (1, 40));
    }
}
