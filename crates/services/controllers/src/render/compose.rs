//! Asks the decision crates for a pool's rendered config: what goes in, and what came of it.

use std::sync::Arc;

use api::machineconfiguration::{GROUP, MachineConfig, MachineConfigPool, MachineConfigPoolConfiguration, VERSION};
use change::content::Content;
use change::diff::Diff;
use change::reconcilable::{Allowances, reconcilable};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;
use render::{Error, Fetched, Need, Rendered, Settings};

/// Everything that a pool's rendering depends on.
pub(super) struct Input {
    pub(super) pool: Arc<MachineConfigPool>,
    pub(super) fragments: Vec<Arc<MachineConfig>>,
    /// The rendered config that the pool points at now.
    pub(super) present: Option<Arc<MachineConfig>>,
    pub(super) settings: Settings,
    pub(super) hosts: change::policy::Settings,
    pub(super) allowances: Allowances,
}

/// What rendering came to.
pub(super) enum Composed {
    Rendered(Box<Rendered>, MachineConfigPoolConfiguration),
    /// The pool never had a config and selects nothing yet: it waits.
    Nothing,
    /// These contents have to be fetched first.
    Needs(Vec<Need>),
    /// The pool keeps what it has, and this is why.
    Failed(String),
}

pub(super) fn compose(input: &Input, fetched: &Fetched) -> Composed {
    let Input { pool, fragments, present, settings, .. } = input;
    let all = || fragments.iter().map(|fragment| &**fragment);
    let never_had_one = pool.spec.configuration.as_ref().is_none_or(|configuration| configuration.name.is_none());
    if never_had_one && render::select(pool, all()).is_ok_and(|chosen| chosen.is_empty()) {
        return Composed::Nothing;
    }
    let mut rendered = match render::render(pool, all(), settings, fetched) {
        Ok(rendered) => rendered,
        Err(Error::Needs(needs)) => return Composed::Needs(needs),
        Err(error @ Error::Refused(_)) => return Composed::Failed(error.to_string()),
    };
    if let Some(present) = present
        && !render::keep_name(&mut rendered, present)
        && let Err(why) = check_change(input, present, &rendered.machine_config)
    {
        return Composed::Failed(format!("could not generate rendered MachineConfig: {why}"));
    }
    let configuration = configuration(&rendered);
    Composed::Rendered(Box::new(rendered), configuration)
}

/// A change that no running node can make is refused before any node gets it.
fn check_change(input: &Input, present: &MachineConfig, new: &MachineConfig) -> Result<(), String> {
    // What cannot be read cannot be compared, and a broken present config must not keep the pool from a good one.
    let Ok((before, after)) = Content::read_both(present, new) else { return Ok(()) };
    let names = (present.name_any(), new.name_any());
    let diff = Diff::between(&before, &after);
    reconcilable(&diff, &after, (&names.0, &names.1), &input.hosts, &input.allowances)
        .map_err(|refused| refused.to_string())
}

fn configuration(rendered: &Rendered) -> MachineConfigPoolConfiguration {
    let source = rendered.provenance.fragments.iter().map(|fragment| ObjectReference {
        api_version: Some(format!("{GROUP}/{VERSION}")),
        kind: Some("MachineConfig".to_owned()),
        name: Some(fragment.name.clone()),
        ..ObjectReference::default()
    });
    MachineConfigPoolConfiguration {
        name: rendered.machine_config.metadata.name.clone(),
        source: source.collect(),
        ..MachineConfigPoolConfiguration::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

    use super::*;

    /// A pool that selects fragments of a role that nobody has.
    fn compose_nothing(present: Option<&str>) -> Composed {
        let mut pool = MachineConfigPool::default();
        pool.metadata.name = Some("infra".to_owned());
        let labels = [(api::labels::ROLE.to_owned(), "infra".to_owned())].into();
        pool.spec.machine_config_selector =
            Some(LabelSelector { match_labels: Some(labels), ..LabelSelector::default() });
        pool.spec.configuration =
            present.map(|name| MachineConfigPoolConfiguration { name: Some(name.to_owned()), ..Default::default() });
        let input = Input {
            pool: Arc::new(pool),
            fragments: Vec::new(),
            present: None,
            settings: Settings::default(),
            hosts: change::policy::Settings::default(),
            allowances: Allowances::default(),
        };
        compose(&input, &Fetched::default())
    }

    #[test]
    fn a_pool_that_never_had_a_config_may_be_empty_and_one_that_had_says_what_it_misses() {
        assert!(matches!(compose_nothing(None), Composed::Nothing));
        let Composed::Failed(why) = compose_nothing(Some("rendered-infra-1")) else { panic!("it forgot its config") };
        assert!(why.contains("no MachineConfigs found matching selector"), "{why}");
    }
}
