//! What every controller of this process shares.

use std::collections::HashMap;

use api::machineconfiguration::MachineConfigPoolCondition;
use api::names::{pool_condition, status};
use parking_lot::Mutex;
use std::sync::Arc;

use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::world::World;

/// How much of a failed rendering a pool's status repeats, in characters. A folder of broken fragments has a sentence for
/// each of them; the log has all.
const RENDERING: usize = 16 * 1024;

pub(crate) struct Context {
    pub(crate) world: World,
    pub(crate) settings: Settings,
    pub(crate) metrics: Arc<Metrics>,
    /// What rendering each pool last came to. The rollout controller is the only writer of a pool's status, because
    /// conditions are one atomic list.
    renderings: Mutex<HashMap<String, Option<String>>>,
}

impl Context {
    pub(crate) fn new(world: World, settings: Settings, metrics: Arc<Metrics>) -> Self {
        Self { world, settings, metrics, renderings: Mutex::default() }
    }

    /// Notes what rendering a pool came to; true if that is news.
    pub(crate) fn rendered(&self, pool: &str, failure: Option<String>) -> bool {
        let mut renderings = self.renderings.lock();
        let is_news = renderings.get(pool) != Some(&failure);
        renderings.insert(pool.to_owned(), failure);
        is_news
    }

    pub(crate) fn forget_rendering(&self, pool: &str) {
        self.renderings.lock().remove(pool);
    }

    /// The condition `RenderDegraded` of a pool, or nothing before it was first rendered by this process: until then the
    /// condition that an earlier process wrote stays.
    pub(crate) fn rendering(&self, pool: &str) -> Option<MachineConfigPoolCondition> {
        let failure = self.renderings.lock().get(pool)?.clone();
        Some(MachineConfigPoolCondition {
            type_: pool_condition::RENDER_DEGRADED.to_owned(),
            status: if failure.is_some() { status::TRUE } else { status::FALSE }.to_owned(),
            message: failure.map(|message| message.chars().take(RENDERING).collect()).unwrap_or_default(),
            ..MachineConfigPoolCondition::default()
        })
    }
}
