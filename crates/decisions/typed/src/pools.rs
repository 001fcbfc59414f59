//! What planners have to know of pools.

use std::collections::BTreeMap;

use api::labels;
use api::machineconfiguration::MachineConfigPool;
use api::names::{POOL_ARBITER, POOL_MASTER, POOL_WORKER};
use api::selector::Selector;

/// Workers come first, because custom pools start from what they have.
pub(crate) fn ordered(pools: &[MachineConfigPool]) -> Vec<&MachineConfigPool> {
    let mut pools: Vec<_> = pools.iter().collect();
    pools.sort_by_key(|pool| (name_of(pool) != POOL_WORKER, name_of(pool)));
    pools
}

pub(crate) fn name_of(pool: &MachineConfigPool) -> String {
    pool.metadata.name.clone().unwrap_or_default()
}

pub(crate) fn is_custom(pool: &MachineConfigPool) -> bool {
    ![POOL_MASTER, POOL_WORKER, POOL_ARBITER].contains(&name_of(pool).as_str())
}

/// Whether a custom pool gets the workers' MachineConfigs too.
pub(crate) fn inherits(pool: &MachineConfigPool) -> bool {
    let workers = BTreeMap::from([(labels::ROLE.to_owned(), POOL_WORKER.to_owned())]);
    let selector = pool.spec.machine_config_selector.as_ref().and_then(|selector| Selector::parse(selector).ok());
    is_custom(pool) && selector.is_some_and(|selector| !selector.is_empty() && selector.matches(&workers))
}

/// Whether a pool takes the MachineConfigs that are generated for it, which have its own name as their role.
pub(crate) fn takes_its_own(pool: &MachineConfigPool) -> bool {
    let own = BTreeMap::from([(labels::ROLE.to_owned(), name_of(pool))]);
    let selector = pool.spec.machine_config_selector.as_ref().and_then(|selector| Selector::parse(selector).ok());
    selector.is_some_and(|selector| !selector.is_empty() && selector.matches(&own))
}

/// The pools whose nodes get what is generated for these pools: they themselves, and those that take the workers' with them.
pub(crate) fn reached<'a>(all: &'a [MachineConfigPool], pools: &[&'a MachineConfigPool]) -> Vec<&'a MachineConfigPool> {
    let mut reached = pools.to_vec();
    if pools.iter().any(|pool| name_of(pool) == POOL_WORKER) {
        let is_new = |pool: &&MachineConfigPool| !pools.iter().any(|known| known.metadata.name == pool.metadata.name);
        reached.extend(all.iter().filter(|pool| inherits(pool)).filter(is_new));
    }
    reached
}

/// The role whose templates a pool's hosts start from.
pub(crate) fn template_role(pool: &MachineConfigPool) -> String {
    if is_custom(pool) { POOL_WORKER.to_owned() } else { name_of(pool) }
}
