//! What hosts of a role start from: the templates' files, or those of another controller where its MachineConfigs are kept.

use std::collections::BTreeMap;

use api::machineconfiguration::MachineConfig;
use serde_json::{Map, Value};

use crate::fragment::Fragment;
use crate::kubelet;
use crate::plan::{Existing, Standing};
use crate::templates::{Config, Error};

/// The templates of one role, filled in, or why they are not.
pub type Rendered = Result<BTreeMap<Config, Fragment>, Error>;

/// Where to look for what hosts of a role start from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// What templates make. A MachineConfig of another controller that is kept counts first: it is what nodes have.
    Templates(&'a Rendered),
    /// What templates have made, for those who do not have the templates.
    Cluster,
}

/// A file that hosts of a role start from.
pub fn file(machine_configs: &[MachineConfig], source: Source<'_>, role: &str, path: &str) -> Result<String, String> {
    let existing = Existing::new(machine_configs);
    let live = Config::ALL.into_iter().map(|config| config.name(role)).filter_map(|name| existing.get(&name));
    let mut live = live.filter(|live| match (source, crate::plan::standing(live)) {
        (_, Standing::Foreign) | (Source::Cluster, Standing::Ours) => true,
        (_, Standing::Ours | Standing::Users | Standing::Missing) => false,
    });
    if let Some(text) = live.find_map(|live| content(live, path)) {
        return Ok(text);
    }
    match source {
        Source::Cluster => Err(format!("no template of role {role} has made {path}")),
        Source::Templates(Ok(fragments)) => {
            let found = fragments.values().find_map(|fragment| fragment.file(path));
            found.map(str::to_owned).ok_or_else(|| format!("no template of role {role} makes {path}"))
        }
        Source::Templates(Err(error)) => Err(error.to_string()),
    }
}

/// The kubelet's configuration that hosts of a role start from.
pub fn kubelet_base(
    machine_configs: &[MachineConfig],
    source: Source<'_>,
    role: &str,
) -> Result<Map<String, Value>, String> {
    let text = file(machine_configs, source, role, kubelet::CONFIGURATION)?;
    let object: Map<String, Value> = serde_saphyr::from_str(&text)
        .map_err(|error| format!("{} of role {role} is not YAML: {error}", kubelet::CONFIGURATION))?;
    Ok(kubelet::base(&object))
}

/// A file of a MachineConfig, whichever version of Ignition it is in.
pub(crate) fn content(config: &MachineConfig, path: &str) -> Option<String> {
    let ignition = ignition::parse(config.spec.config.as_ref()?).ok()?;
    let files = ignition.storage?.files?;
    let contents = files.into_iter().find(|file| file.path == path)?.contents?;
    String::from_utf8(ignition::decode(&contents).ok()?).ok()
}
