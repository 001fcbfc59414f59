//! Joins a pool's fragments into one rendered config.

use std::sync::Arc;

use api::machineconfiguration::{
    GROUP, MachineConfig, MachineConfigPool, MachineConfigPoolConfiguration, MachineConfigSpec, VERSION,
};
use api::selector::Selector;
use api::{annotations, labels};
use ignition::merge::Merger;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;

use sha2::{Digest, Sha256};

pub(super) struct Rendered {
    pub(super) config: MachineConfig,
    pub(super) configuration: MachineConfigPoolConfiguration,
}

pub(super) fn selects(pool: &MachineConfigPool, config: &MachineConfig) -> bool {
    let selector = pool.spec.machine_config_selector.as_ref().and_then(|selector| Selector::parse(selector).ok());
    selector.is_some_and(|selector| {
        !selector.is_empty()
            && !super::is_rendered(&config.name_any(), Some(config))
            && selector.matches(&config.metadata.labels.clone().unwrap_or_default())
    })
}

pub(super) fn compose(
    pool: &MachineConfigPool,
    configs: &[Arc<MachineConfig>],
    version: &str,
) -> Result<Option<Rendered>, String> {
    let mut fragments: Vec<_> = configs.iter().filter(|config| selects(pool, config)).collect();
    let is_worker = |config: &MachineConfig| config.labels().get(labels::ROLE).is_some_and(|role| role == "worker");
    fragments.sort_by_key(|config| (!is_worker(config), config.name_any()));
    if fragments.is_empty() {
        return Ok(None);
    }
    let mut merger = Merger::new(ignition::empty());
    let mut spec = MachineConfigSpec::default();
    for fragment in &fragments {
        if let Some(config) = &fragment.spec.config {
            let config =
                ignition::parse(config).map_err(|error| format!("MachineConfig {}: {error}", fragment.name_any()))?;
            merger.add(config);
        }
        spec.kernel_arguments.extend(fragment.spec.kernel_arguments.iter().cloned());
        spec.extensions.extend(fragment.spec.extensions.iter().cloned());
    }
    spec.config = Some(ignition::to_value(merger.finish()));
    let text = serde_json::to_vec(&spec).map_err(|error| error.to_string())?;
    let hash = hex::encode(Sha256::digest(&text));
    let pool_name = pool.name_any();
    let name = format!("rendered-{pool_name}-{}", &hash[..32]);
    let mut config = MachineConfig::new(&name, spec);
    config.labels_mut().insert(labels::RENDERED_FOR.to_owned(), pool_name);
    config.annotations_mut().insert(annotations::GENERATED_BY_CONTROLLER_VERSION.to_owned(), version.to_owned());
    let source = fragments.iter().map(|fragment| ObjectReference {
        api_version: Some(format!("{GROUP}/{VERSION}")),
        kind: Some("MachineConfig".to_owned()),
        name: Some(fragment.name_any()),
        ..ObjectReference::default()
    });
    let configuration =
        MachineConfigPoolConfiguration { name: Some(name), source: source.collect(), ..Default::default() };
    Ok(Some(Rendered { config, configuration }))
}
