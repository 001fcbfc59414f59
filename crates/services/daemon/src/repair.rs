//! Writes again what no longer is as the config says. Everything else stays untouched.

use api::machineconfiguration::MachineConfig;
use change::host::Host;

use crate::engine::{self, Engine, Prepared};
use crate::prepare::everything;

/// The journal goes from the config to itself: a repair that is interrupted is finished like any update.
pub fn repair(host: &dyn Host, config: &MachineConfig) -> Result<(), engine::Error> {
    let engine = Engine::new(host);
    let steps = everything(&engine::read(config)?, Vec::new());
    let prepared = Prepared { from: config.clone(), to: config.clone(), steps, actions: Vec::new(), trial: None };
    engine.execute(&prepared)?;
    engine.finish()
}
