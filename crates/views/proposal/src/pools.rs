//! Renders the pools of an input, offline, and tells each problem with the place of the object it is about.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use render::{Fetched, Problem, Rendered, Settings};
use serde_json::Value;

use crate::inputs::{Inputs, Source, selects};

/// Problems of an input, one line each. There is at least one.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\nerror: "))]
pub struct Refused(Vec<String>);

/// One pool's config and its warnings as lines.
pub struct Pool {
    pub name: String,
    pub rendered: Rendered,
    pub warnings: Vec<String>,
}

/// Renders every pool that selects a fragment, or the one that is asked for.
///
/// # Errors
/// Every problem of every pool, each once; then nothing is rendered.
pub fn render_all(inputs: &Inputs, only: Option<&str>) -> Result<Vec<Pool>, Refused> {
    let mut problems = BTreeSet::new();
    let mut pools = Vec::new();
    if let Some(only) = only
        && !inputs.pools.iter().any(|pool| pool.name_any() == only)
    {
        return Err(Refused(vec![format!("no MachineConfigPool {only:?}, and no fragment is for that role")]));
    }
    // A fragment that no pool selects is looked at too: its mistakes would wait for the pool.
    for fragment in &inputs.fragments {
        if let Err(render::Error::Refused(found)) = render::check(&fragment.config) {
            problems.extend(found.iter().map(|problem| with_place(inputs, problem)));
        }
        problems.extend(undecodable(fragment));
    }
    if !problems.is_empty() {
        return Err(Refused(problems.into_iter().collect()));
    }
    for pool in &inputs.pools {
        let name = pool.name_any();
        let selected = inputs.fragments.iter().any(|fragment| selects(pool, fragment.config.labels()));
        if only.map_or(!selected, |only| only != name) {
            continue;
        }
        let fragments = inputs.fragments.iter().map(|fragment| &fragment.config);
        match render::render(pool, fragments, &settings(inputs), &Fetched::default()) {
            Ok(rendered) => {
                let warnings = rendered.warnings.iter().map(|warning| with_place(inputs, warning)).collect();
                pools.push(Pool { name, rendered, warnings });
            }
            Err(render::Error::Refused(found)) => {
                problems.extend(found.iter().map(|problem| with_place(inputs, problem)));
            }
            Err(error) => {
                problems.insert(format!("MachineConfigPool {name:?}: {error}"));
            }
        }
    }
    if problems.is_empty() { Ok(pools) } else { Err(Refused(problems.into_iter().collect())) }
}

/// Contents of a fragment that cannot be unpacked: rendering would find them too, but no longer knows whose they are.
fn undecodable(fragment: &Source) -> Vec<String> {
    let Some(Ok(config)) = fragment.config.spec.config.as_ref().map(ignition::parse) else { return Vec::new() };
    let files = config.storage.into_iter().flat_map(|storage| storage.files.unwrap_or_default());
    let mut problems = Vec::new();
    for file in files {
        let resources = file.contents.iter().chain(file.append.iter().flatten());
        for error in resources.filter_map(|resource| ignition::decode_limited(resource, ignition::DECODED_LIMIT).err())
        {
            if !matches!(error, ignition::DecodeError::Remote(_)) {
                let field = field_of(fragment, &file.path);
                problems.push(fragment.manifest.error(format!("{field}: {}: {error}", file.path)).to_string());
            }
        }
    }
    problems
}

/// Where a fragment gives the contents of a file.
fn field_of(fragment: &Source, path: &str) -> String {
    let files = fragment.manifest.value.pointer("/spec/config/storage/files").and_then(Value::as_array);
    let index = files.and_then(|files| files.iter().rposition(|file| file["path"] == path)).unwrap_or_default();
    format!("spec.config.storage.files[{index}].contents")
}

fn settings(inputs: &Inputs) -> Settings {
    Settings {
        os_image: inputs.os_image.clone(),
        extensions_image: inputs.extensions_image.clone(),
        // Nothing is fetched while somebody only looks.
        keep_remote: true,
        ..Settings::default()
    }
}

/// `worker.yaml, document 2: MachineConfig "50-x": spec.config…: what is wrong`.
fn with_place(inputs: &Inputs, problem: &Problem) -> String {
    let Problem { kind, object, field, message } = problem;
    let origin = match *kind {
        "MachineConfig" => inputs.fragments.iter().find(|fragment| fragment.manifest.name == *object),
        _ => None,
    };
    let place = origin.map(|fragment| format!("{}: ", fragment.manifest.origin)).unwrap_or_default();
    format!("{place}{kind} {object:?}: {field}: {message}")
}
