//! From a pool's fragments to one rendered config: chosen, ordered, merged, named by content, with provenance.
//!
//! [`render`] is a function of its inputs alone. It fetches nothing: content behind a remote source is asked for with
//! [`Error::Needs`] and taken from [`Fetched`] on the next call. The order in which fragments arrive does not matter.

mod archive;
mod conflict;
mod error;
mod extract;
mod fragment;
mod name;
mod provenance;
mod remote;
mod selection;
mod spec;

use std::collections::BTreeMap;

use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use api::machinist::RenderedProvenanceSpec;
use api::{annotations, labels, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub use archive::{RestoreError, archive, restore};
use error::refuse_if_any;
pub use error::{Error, Problem};
pub use extract::extract;
pub use fragment::{EXTENSIONS, check};
pub use name::{Form, is_same_content, keep_name, name};
pub use remote::{Fetched, Need};
pub use selection::{order, select};

/// What the API server stores at most for one object: etcd's request limit.
pub const OBJECT_LIMIT: usize = 1_572_864;

/// What rendering takes from the cluster beside pool and fragments.
#[derive(Debug, Clone)]
pub struct Settings {
    /// OS image of nodes whose fragments name none.
    pub os_image: String,
    /// Image with the packages behind extensions, unless a fragment names another.
    pub extensions_image: String,
    /// Written to the rendered config as the version that generated it.
    pub controller_version: String,
    /// Written to the rendered config; empty for none.
    pub release_version: String,
    /// The largest object the API takes.
    pub object_limit: usize,
    /// The largest remote content that is embedded.
    pub remote_limit: usize,
    /// Leave remote sources as they are instead of asking for their content: for looking at a config offline.
    pub keep_remote: bool,
    /// How the result is written down and named; another one only where releases are compared.
    pub form: Form,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            os_image: String::new(),
            extensions_image: String::new(),
            controller_version: String::new(),
            release_version: String::new(),
            object_limit: OBJECT_LIMIT,
            remote_limit: 1 << 20,
            keep_remote: false,
            form: name::v1,
        }
    }
}

/// A pool's rendered config and all that is known about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    pub machine_config: MachineConfig,
    pub provenance: RenderedProvenanceSpec,
    /// What should be looked at but does not keep the pool from its config; conflicts are among them.
    pub warnings: Vec<Problem>,
}

/// Renders a pool from all MachineConfigs there are; those it does not select are left out.
pub fn render<'a>(
    pool: &MachineConfigPool,
    fragments: impl IntoIterator<Item = &'a MachineConfig>,
    settings: &Settings,
    fetched: &Fetched,
) -> Result<Rendered, Error> {
    let pool_name = pool.metadata.name.as_deref().unwrap_or_default();
    let fragments = select(pool, fragments)?;
    if fragments.is_empty() {
        let message = "no MachineConfigs found matching selector";
        return Err(Error::refused(Problem::pool(pool_name, "spec.machineConfigSelector", message)));
    }
    let fragments = order(fragments);
    let stream = pool.spec.os_image_stream.as_ref().is_some_and(|stream| !stream.name.is_empty());
    render_selected(pool_name, stream, &fragments, settings, fetched)
}

/// Renders fragments that are already chosen and in merge order.
fn render_selected(
    pool: &str,
    follows_stream: bool,
    fragments: &[&MachineConfig],
    settings: &Settings,
    fetched: &Fetched,
) -> Result<Rendered, Error> {
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    // What is wrong in one stage does not keep the others from being looked at: a person corrects everything at once.
    let parsed = fragment::parse_all(fragments, &mut problems, &mut warnings);
    problems.extend(spec::problems(pool, follows_stream, fragments));
    let traced = provenance::trace(fragments, &parsed);
    let mut config = fragment::merge(parsed);
    let embedded = remote::embed(&mut config, fragments, &traced, settings, fetched, &mut warnings);
    problems.extend(embedded.problems);
    problems.extend(fragment::finish(&mut config, pool));
    refuse_if_any(problems)?;
    if !embedded.needs.is_empty() {
        return Err(Error::Needs(embedded.needs));
    }
    let pins = embedded.pins;
    let mut spec = spec::merge(fragments, config, settings);

    let (name, spec_size) = (settings.form)(pool, &mut spec);
    let machine_config = MachineConfig { metadata: metadata(pool, name, fragments, settings), spec };
    check_size(&machine_config, spec_size, settings, &mut warnings)?;
    let mut provenance = traced.into_spec(pool, fragments);
    provenance.pins = pins;
    warnings.extend(provenance.conflicts.iter().map(|conflict| {
        Problem::pool(pool, &conflict.name, format!("{} ({})", conflict.message, conflict.fragments.join(", ")))
    }));
    Ok(Rendered { machine_config, provenance, warnings })
}

fn metadata(pool: &str, name: String, fragments: &[&MachineConfig], settings: &Settings) -> ObjectMeta {
    let mut notes = BTreeMap::new();
    let mut note = |key: &str, value: &str| {
        if !value.is_empty() {
            notes.insert(key.to_owned(), value.to_owned());
        }
    };
    note(annotations::GENERATED_BY_CONTROLLER_VERSION, &settings.controller_version);
    note(annotations::RELEASE_IMAGE_VERSION, &settings.release_version);
    if spec::overrides_os_image(fragments) {
        note(annotations::OS_IMAGE_URL_OVERRIDDEN, "true");
    }
    ObjectMeta {
        name: Some(name),
        labels: Some(BTreeMap::from([(labels::RENDERED_FOR.to_owned(), pool.to_owned())])),
        annotations: Some(notes).filter(|notes| !notes.is_empty()),
        ..ObjectMeta::default()
    }
}

/// Refuses what the API would refuse, and warns when little room is left.
fn check_size(
    config: &MachineConfig,
    spec_size: usize,
    settings: &Settings,
    warnings: &mut Vec<Problem>,
) -> Result<(), Error> {
    let metadata = name::serialized_size(&config.metadata);
    let frame = r#"{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"MachineConfig","metadata":,"spec":}"#;
    let (size, limit) = (frame.len() + metadata + spec_size, settings.object_limit);
    let name = config.metadata.name.as_deref().unwrap_or_default();
    if size > limit {
        let message = format!(
            "rendered MachineConfig {name} is too large ({size} bytes, max {limit} bytes): make fragments fewer or smaller"
        );
        return Err(Error::refused(Problem::config(name, "spec", message)));
    }
    if size > limit / 5 * 4 {
        let message = format!("rendered MachineConfig {name} takes {size} of {limit} bytes");
        warnings.push(Problem::config(name, "spec", message));
    }
    Ok(())
}

/// Whether a generating controller made this fragment, in contrast to a person.
pub(crate) fn is_generated(fragment: &MachineConfig) -> bool {
    let notes = fragment.metadata.annotations.as_ref();
    notes
        .and_then(|notes| notes.get(annotations::GENERATED_BY_CONTROLLER_VERSION))
        .is_some_and(|value| !value.is_empty())
}

pub(crate) fn role(fragment: &MachineConfig) -> Option<&str> {
    fragment.metadata.labels.as_ref().and_then(|labels| labels.get(labels::ROLE)).map(String::as_str)
}

pub(crate) fn name_of(fragment: &MachineConfig) -> &str {
    fragment.metadata.name.as_deref().unwrap_or_default()
}

/// Whether a fragment is for the role every worker has, which custom pools build upon.
pub(crate) fn is_base(fragment: &MachineConfig) -> bool {
    role(fragment) == Some(names::POOL_WORKER)
}
