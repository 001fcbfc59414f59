//! Which fragments a pool gets, and in which order they are merged.

use std::collections::BTreeMap;

use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use api::selector::Selector;

use crate::error::{Error, Problem};
use crate::{is_base, name_of};

/// The fragments a pool's selector accepts. No selector accepts none; an empty one is refused, as it would accept all.
pub fn select<'a>(
    pool: &MachineConfigPool,
    fragments: impl IntoIterator<Item = &'a MachineConfig>,
) -> Result<Vec<&'a MachineConfig>, Error> {
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let refuse = |message: String| Error::refused(Problem::pool(name, "spec.machineConfigSelector", message));
    let Some(selector) = &pool.spec.machine_config_selector else { return Ok(Vec::new()) };
    let selector = Selector::parse(selector).map_err(|error| refuse(format!("invalid label selector: {error}")))?;
    if selector.is_empty() {
        return Err(refuse("an empty selector would select every MachineConfig".to_owned()));
    }
    let unlabelled = BTreeMap::new();
    let chosen = fragments
        .into_iter()
        .filter(|fragment| selector.matches(fragment.metadata.labels.as_ref().unwrap_or(&unlabelled)));
    Ok(chosen.collect())
}

/// Merge order: what every worker has comes first, then what is for this pool, each by name.
pub fn order(mut fragments: Vec<&MachineConfig>) -> Vec<&MachineConfig> {
    fragments.sort_by(|a, b| (!is_base(a), name_of(a)).cmp(&(!is_base(b), name_of(b))));
    fragments
}
