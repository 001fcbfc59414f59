//! Two rendered configs, compared, with the disruption that the change means.

use std::collections::BTreeSet;

use api::known::Reading;
use maud::{Markup, html};
use proposal::inputs::Inputs;
use proposal::{Comparison, Manifest, Secrets};
use serde::Deserialize;

use super::frame::{self, config_link, entries, verdict};
use super::{Guest, State};
use crate::rights::Kind;
use crate::scene::Scene;

/// Which two.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Pair {
    #[serde(default)]
    a: String,
    #[serde(default)]
    b: String,
}

/// Nothing before two were chosen.
pub(super) async fn read(state: &State, guest: &Guest, pair: &Pair) -> Option<Result<Comparison, String>> {
    if pair.a.is_empty() || pair.b.is_empty() {
        return None;
    }
    Some(two(state, guest, &pair.a, &pair.b).await)
}

/// Compares two configs by name, under the cluster's policies, for a visitor who may list both.
///
/// # Errors
/// What is missing or cannot be read, in one sentence.
pub(super) async fn two(state: &State, guest: &Guest, old: &str, new: &str) -> Result<Comparison, String> {
    if let Some(lack) = guest.rights.lack("A comparison", &[Kind::Configs, Kind::Settings, Kind::Policies]) {
        return Err(lack);
    }
    let config = async |name: &str| match state.configs.get(&state.client, name).await {
        Ok(Some(config)) => Ok(config),
        Ok(None) => Err(format!("There is no MachineConfig {name} any more.")),
        Err(why) => Err(format!("{name} cannot be read: {why}")),
    };
    let (old, new) = (config(old).await?, config(new).await?);
    let inputs = policies(state).await?;
    Comparison::of(None, &old.config, &new.config, &inputs).map_err(|error| cluster::error::chain(&error))
}

/// What decides how much a change disrupts.
async fn policies(state: &State) -> Result<Inputs, String> {
    use api::machinist::ClusterSettings;
    use api::operator::MachineConfiguration;
    use kube::Api;
    use kube::api::ListParams;

    fn manifests<K>(reading: Reading<Vec<K>>) -> Result<Vec<Manifest>, String>
    where
        K: kube::Resource<DynamicType = ()> + serde::Serialize,
    {
        let objects = match reading {
            Reading::Known { value, .. } => value,
            Reading::NotInstalled => Vec::new(),
            Reading::Unknown(why) => return Err(format!("{} cannot be read: {why}", K::plural(&()))),
        };
        objects.iter().map(Manifest::of).collect::<Result<_, _>>().map_err(|error| error.to_string())
    }
    let settings: Api<ClusterSettings> = Api::all(state.client.clone());
    let mut all = manifests(cluster::read::list(&settings, ListParams::default()).await)?;
    let policies: Api<MachineConfiguration> = Api::all(state.client.clone());
    all.extend(manifests(cluster::read::list(&policies, ListParams::default()).await)?);
    Inputs::sort(all, false).map_err(|error| error.to_string())
}

pub(super) fn page(scene: &Scene, pair: &Pair, compared: &Option<Result<Comparison, String>>) -> Markup {
    let main = html! {
        h1 { "Compare configs" }
        (form(scene, pair))
        @match compared {
            None => p { "Choose two configs." },
            Some(Err(why)) => p.note role="alert" { (why) },
            Some(Ok(it)) => {
                p { "From " (config_link(&it.old)) " to " (config_link(&it.new)) "." }
                @if it.diff.is_empty() { p.lead { "No difference." } } @else {
                    h2 { "What it means for a node" }
                    (verdict(it))
                    h2 { "What differs" }
                    (entries(&proposal::comparison::entries(&it.diff, Secrets::Masked)))
                }
                p { "The same in a terminal: " code { "machinist diff " (it.old) " " (it.new) } }
            },
        }
    };
    frame::page(scene, "Compare", "/configs", &main)
}

/// The names of the rendered configs that exist.
pub(super) fn rendered(scene: &Scene) -> BTreeSet<&str> {
    let Reading::Known { value: all, .. } = &scene.snapshot.configs else { return BTreeSet::new() };
    all.iter().map(String::as_str).filter(|name| name.starts_with(api::names::RENDERED_PREFIX)).collect()
}

pub(super) fn form(scene: &Scene, pair: &Pair) -> Markup {
    let names = rendered(scene);
    html! {
        form.filter method="get" action="/compare" {
            @for (field, label, chosen) in [("a", "From", &pair.a), ("b", "To", &pair.b)] {
                label { (label) " " select name=(field) {
                    @for name in &names { option value=(name) selected[name == chosen] { (name) } }
                } }
            }
            button { "Compare" }
        }
    }
}
