//! A rendered config: its files as a tree, each with its decoded contents and the fragments it comes from.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::known::Reading;
use axum::http::StatusCode;
use axum::response::Response;
use explain::{Input, ago};
use maud::{Markup, html};
use proposal::Secrets;
use proposal::comparison::Shown;
use proposal::config::{Part, PartKind, parts};
use serde::Deserialize;

use super::compare::{self, Pair};
use super::frame::{self, config_link};
use super::{Guest, State, problem};
use crate::configs::Config;
use crate::rights::Kind;
use crate::scene::Scene;

/// Contents that one page shows, in bytes; what is beyond is one click away.
const SHOWN: usize = 150_000;

/// What is looked for, and the part that is shown whole.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Search {
    #[serde(default)]
    q: String,
    #[serde(default)]
    part: String,
}

/// A config that a visitor may see.
pub(super) async fn read(state: &State, guest: &Guest, name: &str) -> Result<Arc<Config>, Response> {
    if let Some(lack) = guest.rights.lack("This page", &[Kind::Configs]) {
        return Err(problem(StatusCode::FORBIDDEN, &lack));
    }
    match state.configs.get(&state.client, name).await {
        Ok(Some(config)) if guest.rights.has(Kind::Provenances) => Ok(config),
        Ok(Some(config)) => Ok(Arc::new(Config { config: config.config.clone(), provenance: None })),
        Ok(None) => Err(problem(StatusCode::NOT_FOUND, "There is no config of that name any more, or never was.")),
        Err(why) => Err(problem(StatusCode::BAD_GATEWAY, &format!("The config cannot be read now: {why}"))),
    }
}

/// Every rendered config, with the pools that want it and the nodes that run it.
pub(super) fn list(scene: &Scene) -> Markup {
    let mut running: BTreeMap<&str, usize> = BTreeMap::new();
    for current in scene.snapshot.nodes.values().filter_map(|node| node.current.as_deref()) {
        *running.entry(current).or_default() += 1;
    }
    let wanted = |name: &str| {
        let pools = scene.snapshot.pools.values().filter(|pool| pool.target == name);
        pools.map(|pool| pool.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let names = compare::rendered(scene);
    let unread = |input| scene.snapshot.unread.why(input).is_some();
    let (hidden, no_pools) = (unread(Input::Nodes), unread(Input::Pools));
    let main = html! {
        h1 { "Configs" }
        (compare::form(scene, &Pair::default()))
        div #configs data-live="" {
            @match &scene.snapshot.configs {
                Reading::Unknown(why) => { h2 { "Rendered configs" } p.note { "They are not shown: " (why) "." } },
                Reading::Known { .. } | Reading::NotInstalled => h2 { "Rendered configs (" (names.len()) ")" },
            }
            div.wide tabindex="0" role="region" aria-label="Table of rendered configs" { table {
                thead { tr { th scope="col" { "Config" } th scope="col" { "Wanted by" } th scope="col" { "Nodes that run it" } } }
                tbody { @for name in &names { tr {
                    th scope="row" { (config_link(name)) }
                    td { @if no_pools { "not known" } @else { (wanted(name)) } }
                    td { @if hidden { "not known" } @else { (running.get(name).copied().unwrap_or_default()) } }
                } } }
            } }
        }
        p { "The same in a terminal: " code { "kubectl get machineconfigs" } }
    };
    frame::page(scene, "Configs", "/configs", &main)
}

pub(super) fn page(scene: &Scene, name: &str, config: &Config, search: &Search) -> Markup {
    let provenance = config.provenance.as_ref().map(|it| &it.spec);
    let all = parts(&config.config, provenance, Secrets::Masked);
    let created = config.config.metadata.creation_timestamp.as_ref();
    let main = html! {
        h1 { "Config " (name) }
        @if let Some(created) = created { p { "Rendered " (ago(created.0, scene.snapshot.now)) " ago." } }
        @if provenance.is_none() { p.note { "Where its parts come from is not recorded." } }
        form.filter method="get" action={ "/config/" (name) } {
            label { "Path " input type="search" name="q" value=(search.q); }
            button { "Search" }
        }
        @match &all {
            Err(error) => p.note { "The config cannot be read: " (error) },
            Ok(all) => (tree(name, all, search)),
        }
        p { "Where a file of a node comes from, in a terminal: " code { "machinist blame NODE PATH" } }
    };
    frame::page(scene, name, "/configs", &main)
}

fn tree(name: &str, all: &[Part], search: &Search) -> Markup {
    let needle = search.q.to_lowercase();
    let found: Vec<&Part> = all.iter().filter(|part| part.name.to_lowercase().contains(&needle)).collect();
    let mut groups: BTreeMap<(u8, String), Vec<&Part>> = BTreeMap::new();
    for part in &found {
        groups.entry(group(part)).or_default().push(part);
    }
    let mut left = SHOWN;
    html! {
        p { (found.len()) " of " (all.len()) " parts" @if !needle.is_empty() { " with " (search.q) " in their names" } "." }
        @for ((_, title), parts) in &groups {
            section.folder aria-label=(title) {
                h2 { (title) }
                @for part in parts { (entry(name, part, search, &mut left)) }
            }
        }
    }
}

/// The folder of a path, or the kind of anything else; files come first.
fn group(part: &Part) -> (u8, String) {
    match part.kind {
        PartKind::File | PartKind::Folder | PartKind::Link => {
            let folder = part.name.rsplit_once('/').map_or("", |(folder, _)| folder);
            (0, format!("{folder}/"))
        }
        PartKind::Unit | PartKind::Dropin => (1, "Units".to_owned()),
        PartKind::User => (2, "Users".to_owned()),
        PartKind::Setting => (3, "Settings".to_owned()),
    }
}

fn entry(config: &str, part: &Part, search: &Search, left: &mut usize) -> Markup {
    let text = match &part.contents {
        Some(Shown::Text(text) | Shown::Summary(text)) => text.as_str(),
        None => "",
    };
    let is_chosen = search.part == part.name;
    let fits = is_chosen || text.len() <= *left;
    *left = left.saturating_sub(if fits { text.len() } else { 0 });
    let short = match part.kind {
        PartKind::File | PartKind::Folder | PartKind::Link => part.name.rsplit('/').next().unwrap_or(&part.name),
        PartKind::Unit | PartKind::Dropin | PartKind::User | PartKind::Setting => &part.name,
    };
    let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("part", &part.name).finish();
    html! {
        details.part data-part=(part.name) open[is_chosen] {
            summary {
                strong { (short) } " " small { (part.kind.word())
                    @for (name, value) in &part.attributes { ", " (name) " " (value) } }
                @if let Some(source) = &part.source { " " span.from { "from " (source.from) } }
            }
            @if let Some(source) = &part.source {
                @if !source.overrode.is_empty() { p { "It overrode " (source.overrode.join(", ")) "." } }
                @for conflict in &source.conflicts { p.note { (conflict) } }
            }
            @if !fits { p { a href={ "/config/" (config) "?" (query) } { "Show its " (text.len()) " bytes" } } }
            @else if part.contents.is_some() {
                pre tabindex="0" role="region" aria-label={ "Contents of " (part.name) } { (text) }
            }
        }
    }
}
