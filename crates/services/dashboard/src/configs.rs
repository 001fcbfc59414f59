//! Reads rendered configs and where their parts come from. A rendered config never changes under its name, so what was read a
//! moment ago is good.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::known::Reading;
use api::machineconfiguration::MachineConfig;
use api::machinist::RenderedProvenance;
use kube::{Api, Client};
use parking_lot::Mutex;

/// How long a config is kept: somebody who reads one clicks through it.
const GOOD_FOR: Duration = Duration::from_secs(60);

/// Configs that are kept at once; each may be megabytes.
const KEPT: usize = 8;

/// A config with its provenance, where that can be read.
pub(crate) struct Config {
    pub(crate) config: MachineConfig,
    pub(crate) provenance: Option<RenderedProvenance>,
}

#[derive(Clone, Default)]
pub(crate) struct Configs {
    recent: Arc<Mutex<BTreeMap<String, Recent>>>,
}

/// When a config was read, and the config.
type Recent = (Instant, Arc<Config>);

impl Configs {
    /// A config by name; absent if there is none.
    ///
    /// # Errors
    /// Why it cannot be read, in one sentence.
    pub(crate) async fn get(&self, client: &Client, name: &str) -> Result<Option<Arc<Config>>, String> {
        if let Some((_, config)) = self.recent.lock().get(name).filter(|(at, _)| at.elapsed() < GOOD_FOR) {
            return Ok(Some(config.clone()));
        }
        let config = match cluster::read::get::<MachineConfig>(&Api::all(client.clone()), name).await {
            Reading::Known { value, .. } => value,
            Reading::NotInstalled => None,
            Reading::Unknown(why) => return Err(why),
        };
        let Some(config) = config else { return Ok(None) };
        let provenance = cluster::read::get::<RenderedProvenance>(&Api::all(client.clone()), name).await;
        let provenance = match provenance {
            Reading::Known { value, .. } => value,
            Reading::NotInstalled | Reading::Unknown(_) => None,
        };
        let read = Arc::new(Config { config, provenance });
        let mut recent = self.recent.lock();
        recent.retain(|_, (at, _)| at.elapsed() < GOOD_FOR);
        if recent.len() < KEPT {
            recent.insert(name.to_owned(), (Instant::now(), read.clone()));
        }
        Ok(Some(read))
    }
}
