//! The way back to an earlier config of a pool.
//!
//! A pool follows its fragments, so going back means giving the fragments back what they said: those that are new go, those
//! that changed or went are made again from the archive of the config. The result is rendered here first; only a way that
//! leads to the wanted config to the letter is a way.

use api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use api::machinist::RenderedProvenance;
use kube::ResourceExt;
use render::Fetched;

/// What going back takes.
#[derive(Debug)]
pub struct Way {
    pub pool: String,
    pub config: String,
    /// Fragments that came since.
    pub deletes: Vec<MachineConfig>,
    /// Fragments as they were.
    pub writes: Vec<MachineConfig>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "every node of pool {pool} has reached what the pool wants, {config}; to go further back, choose with --to"
    )]
    Reached { pool: String, config: String },
    #[error("pool {0} has never had a config that every node reached; choose one with --to")]
    NeverReached(String),
    #[error("{0} has no archive")]
    NoArchive(String),
    #[error("{name} is generated from {kind} {owner}; change or delete that, and the pool goes back by itself")]
    Generated { name: String, kind: String, owner: String },
    #[error(
        "nothing was changed: from what is known, the fragments of {wanted} cannot be made again exactly (it would come to {found})"
    )]
    OtherContent { wanted: String, found: String },
    #[error(transparent)]
    Restore(#[from] render::RestoreError),
    #[error(transparent)]
    Render(#[from] render::Error),
}

/// The config to go back to: the one that is asked for, or the last that every node of the pool had.
///
/// # Errors
/// When none is asked for and the pool has no earlier one.
pub fn destination(pool: &MachineConfigPool, asked: Option<&str>) -> Result<String, Error> {
    let target = pool.spec.configuration.as_ref().and_then(|configuration| configuration.name.as_ref());
    let reached = pool.status.as_ref().and_then(|status| status.configuration.as_ref());
    match (asked, reached.and_then(|configuration| configuration.name.clone())) {
        (Some(asked), _) => Ok(asked.to_owned()),
        (None, Some(reached)) if Some(&reached) != target => Ok(reached),
        (None, Some(config)) => Err(Error::Reached { pool: pool.name_any(), config }),
        (None, None) => Err(Error::NeverReached(pool.name_any())),
    }
}

/// Finds the way back to the config that `provenance` is about, and proves that it leads there.
///
/// # Errors
/// When there is none: what is in the way, in one sentence.
pub fn find(
    pool: &MachineConfigPool,
    provenance: &RenderedProvenance,
    configs: &[MachineConfig],
    controller: Option<&ControllerConfig>,
) -> Result<Way, Error> {
    let (name, config) = (pool.name_any(), provenance.name_any());
    let archive = provenance.spec.archive.as_ref().ok_or_else(|| Error::NoArchive(config.clone()))?;
    let rendered = render::restore(archive, &name, &config)?;
    let fragments = configs.iter().filter(|it| !it.name_any().starts_with(api::names::RENDERED_PREFIX));
    let selected = render::select(pool, fragments)?;
    let before = &provenance.spec.fragments;
    let unchanged = |now: &MachineConfig| {
        before.iter().any(|then| {
            then.name == now.name_any() && then.uid == now.metadata.uid && then.generation == now.metadata.generation
        })
    };
    let is_new = |now: &&&MachineConfig| !before.iter().any(|then| then.name == now.name_any());
    let deletes: Vec<MachineConfig> = selected.iter().filter(is_new).map(|now| (*now).clone()).collect();
    if let Some((now, owner)) = deletes.iter().find_map(|now| Some((now, now.owner_references().first()?))) {
        return Err(Error::Generated { name: now.name_any(), kind: owner.kind.clone(), owner: owner.name.clone() });
    }
    let is_kept = |name: &str| selected.iter().any(|now| now.name_any() == name && unchanged(now));
    let lost = before.iter().filter(|then| !is_kept(&then.name));
    let writes: Vec<_> = lost.map(|then| as_it_was(&then.name, &name, &selected, &rendered, provenance)).collect();
    let kept = selected.iter().filter(|now| unchanged(now)).map(|now| (*now).clone());
    let after: Vec<MachineConfig> = kept.chain(writes.iter().cloned()).collect();
    prove(pool, &after, &rendered, controller)?;
    Ok(Way { pool: name, config, deletes, writes })
}

/// A fragment as the archive has it, under the labels it has now.
fn as_it_was(
    fragment: &str,
    pool: &str,
    now: &[&MachineConfig],
    rendered: &MachineConfig,
    provenance: &RenderedProvenance,
) -> MachineConfig {
    let mut config = MachineConfig::default();
    config.metadata.name = Some(fragment.to_owned());
    let present = now.iter().find(|now| now.name_any() == fragment);
    config.metadata.labels = match present.and_then(|present| present.metadata.labels.clone()) {
        Some(labels) => Some(labels),
        None => Some([(api::labels::ROLE.to_owned(), pool.to_owned())].into()),
    };
    config.spec = render::extract(rendered, &provenance.spec, fragment);
    config
}

/// The way back must lead to exactly the config that is wanted.
fn prove(
    pool: &MachineConfigPool,
    fragments: &[MachineConfig],
    wanted: &MachineConfig,
    controller: Option<&ControllerConfig>,
) -> Result<(), Error> {
    let mut settings = render::Settings { keep_remote: true, ..render::Settings::default() };
    if let Some(config) = controller {
        settings.os_image.clone_from(&config.spec.base_os_container_image);
        settings.extensions_image = config.spec.base_os_extensions_container_image.clone().unwrap_or_default();
    }
    let again = render::render(pool, fragments, &settings, &Fetched::default())?.machine_config;
    if !render::is_same_content(&again.spec, &wanted.spec) {
        return Err(Error::OtherContent { wanted: wanted.name_any(), found: again.name_any() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use api::machinist::{Fragment, RenderedProvenanceSpec};
    use serde_json::{Value, json};

    use super::*;

    fn fragment(name: &str, generation: i64, text: &str) -> MachineConfig {
        let file = json!({"path": "/etc/motd", "mode": 420, "contents": {"source": format!("data:,{text}")}});
        let config = json!({"ignition": {"version": "3.5.0"}, "storage": {"files": [file]}});
        let labels = json!({"machineconfiguration.openshift.io/role": "worker"});
        serde_json::from_value(json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": {"name": name, "uid": name, "generation": generation, "labels": labels}, "spec": {"config": config},
        }))
        .unwrap()
    }

    fn pool(target: &str, reached: &Value) -> MachineConfigPool {
        let selector = json!({"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}});
        serde_json::from_value(json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "metadata": {"name": "worker"},
            "spec": {"machineConfigSelector": selector, "configuration": {"name": target}},
            "status": {"configuration": reached},
        }))
        .unwrap()
    }

    /// A rendered config of these fragments, with its archive.
    fn rendered(pool: &MachineConfigPool, fragments: &[MachineConfig]) -> RenderedProvenance {
        let settings = render::Settings { keep_remote: true, ..render::Settings::default() };
        let rendered = render::render(pool, fragments, &settings, &Fetched::default()).unwrap();
        let seen = |config: &MachineConfig| Fragment {
            name: config.name_any(),
            uid: config.metadata.uid.clone(),
            generation: config.metadata.generation,
        };
        let spec = RenderedProvenanceSpec {
            fragments: fragments.iter().map(seen).collect(),
            archive: Some(render::archive(&rendered.machine_config)),
            pool: "worker".to_owned(),
            ..rendered.provenance
        };
        RenderedProvenance::new(&rendered.machine_config.name_any(), spec)
    }

    #[test]
    fn what_came_since_goes_and_what_changed_is_made_again() {
        let pool = pool("new", &json!({"name": "old"}));
        let provenance = rendered(&pool, &[fragment("10-motd", 1, "hello")]);
        let now = [fragment("10-motd", 2, "changed"), fragment("50-new", 1, "other")];
        let way = find(&pool, &provenance, &now, None).unwrap();
        let names = |configs: &[MachineConfig]| configs.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
        assert_eq!((names(&way.deletes), names(&way.writes)), (vec!["50-new".to_owned()], vec!["10-motd".to_owned()]));
        let restored = serde_json::to_string(&way.writes[0].spec).unwrap();
        assert!(restored.contains("data:,hello"), "{restored}");
    }

    #[test]
    fn a_generated_fragment_is_in_the_way_and_its_source_is_named() {
        let pool = pool("new", &json!({"name": "old"}));
        let provenance = rendered(&pool, &[fragment("10-motd", 1, "hello")]);
        let mut generated = fragment("99-generated", 1, "other");
        let owner = json!([{"apiVersion": "v1", "kind": "KubeletConfig", "name": "big", "uid": "u"}]);
        generated.metadata.owner_references = serde_json::from_value(owner).unwrap();
        let error = find(&pool, &provenance, &[fragment("10-motd", 1, "hello"), generated], None).unwrap_err();
        assert!(error.to_string().starts_with("99-generated is generated from KubeletConfig big;"), "{error}");
    }

    #[test]
    fn a_pool_goes_back_to_what_every_node_had_unless_it_is_there() {
        let asked = |reached: Value| destination(&pool("new", &reached), None).map_err(|error| error.to_string());
        assert_eq!(asked(json!({"name": "old"})), Ok("old".to_owned()));
        assert!(asked(json!({"name": "new"})).unwrap_err().starts_with("every node of pool worker has reached"));
        assert!(asked(json!({})).unwrap_err().starts_with("pool worker has never had"));
        assert_eq!(destination(&pool("new", &json!({})), Some("x")).unwrap(), "x");
    }
}
