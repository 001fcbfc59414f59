//! The fleet: every pool as a band of cells, and a table that says the same.

use std::collections::BTreeSet;

use explain::{Input, State, ago, span};
use maud::{Markup, html};
use serde::Serialize;

use super::filter::{Filter, ROWS};
use super::frame::{self, badge, class, count, node_path};
use crate::scene::{Band, Cells, Scene, letter};
use crate::timeline::Rollout;

/// The states that a node can be in, in the order in which people look for them.
const STATES: [State; 8] = [
    State::Degraded,
    State::Blocked,
    State::Updating,
    State::Waiting,
    State::Paused,
    State::Updated,
    State::Unmanaged,
    State::Unknown,
];

pub(super) fn page(scene: &Scene, filter: &Filter, rollouts: impl Fn(&str) -> Vec<Rollout>) -> Markup {
    let main = html! {
        h1 { "Fleet" }
        (form(scene, filter))
        div #bands {
            @if let Some(why) = scene.snapshot.unread.why(Input::Pools) { p.note { "Pools are not shown: " (why) "." } }
            @for band in scene.bands() {
                @if filter.pool.is_empty() || filter.pool == band.name { (pool(scene, &band, &rollouts(&band.name))) }
            }
        }
        (legend())
        (table(scene, filter))
    };
    frame::page(scene, "Fleet", "/", &main)
}

/// The cells that a filter lets through, compact: ten thousand of them are one answer.
pub(super) fn cells(scene: &Scene, filter: &Filter) -> impl Serialize + use<> {
    #[derive(Serialize)]
    struct Answer {
        version: u64,
        pools: Vec<serde_json::Value>,
    }
    let bands = scene.bands();
    let pools = bands.iter().map(|band| {
        let nodes: Vec<_> = scene.members(&band.name).filter(|node| filter.matches(scene, node)).collect();
        let cells = Cells {
            band,
            names: nodes.iter().map(|node| node.name.as_str()).collect(),
            states: nodes.iter().map(|node| letter(node.state)).collect(),
        };
        serde_json::to_value(cells).unwrap_or_default()
    });
    Answer { version: scene.version, pools: pools.collect() }
}

fn pool(scene: &Scene, band: &Band, rollouts: &[Rollout]) -> Markup {
    let name = match (band.name.is_empty(), band.state) {
        (true, State::Unknown) => "Pool not known",
        (true, _) => "No pool",
        (false, _) => &band.name,
    };
    let forecast = rollouts.first().and_then(|rollout| rollout.forecast(scene.snapshot.now));
    html! {
        section.band data-pool=(band.name) aria-label=(name) {
            h2 {
                @if band.name.is_empty() { (name) } @else { a href={ "/rollout/" (band.name) } { (name) } }
                " " span data-field="state" { (badge(band.state)) }
            }
            p {
                span data-field="count" { (count(band)) }
                @if let Some(left) = forecast { " · about " (span(left)) " left" }
            }
            progress max=(band.nodes.max(1)) value=[band.counted.then_some(band.updated)] aria-label={ "Updated nodes of " (name) } {}
            p data-field="waits" { (band.waits.first().unwrap_or(&band.summary)) }
            canvas role="img" aria-label={ "Nodes of " (name) ", one cell each; the table below says the same" } tabindex="0" hidden {}
        }
    }
}

fn legend() -> Markup {
    html! {
        p.legend {
            @for state in STATES { (badge(state)) " " }
        }
        p #told role="status" {}
    }
}

fn form(scene: &Scene, filter: &Filter) -> Markup {
    let zones: BTreeSet<&str> = scene.snapshot.nodes.values().filter_map(|node| node.zone.as_deref()).collect();
    let pools = scene.fleet.pools.iter().map(|pool| pool.name.as_str());
    let states = STATES.map(|state| state.to_string());
    html! {
        form.filter method="get" action="/" {
            (choice("pool", "Pool", pools, &filter.pool))
            (choice("state", "State", states.iter().map(String::as_str), &filter.state))
            @if !zones.is_empty() { (choice("zone", "Zone", zones.into_iter(), &filter.zone)) }
            label { "Text " input type="search" name="q" value=(filter.q); }
            button { "Show" }
        }
    }
}

fn choice<'a>(name: &str, label: &str, values: impl Iterator<Item = &'a str>, chosen: &str) -> Markup {
    html! {
        label {
            (label) " "
            select name=(name) {
                option value="" { "all" }
                @for value in values { option value=(value) selected[value == chosen] { (value) } }
            }
        }
    }
}

fn table(scene: &Scene, filter: &Filter) -> Markup {
    let nodes: Vec<_> = scene.fleet.nodes.iter().filter(|node| filter.matches(scene, node)).collect();
    let pages = nodes.len().div_ceil(ROWS).max(1);
    let page = filter.page().min(pages);
    let rows = nodes.iter().skip((page - 1) * ROWS).take(ROWS);
    html! {
        section #nodes data-live="" {
            @if let Some(why) = scene.snapshot.unread.why(Input::Nodes) { h2 { "Nodes" } p.note { "They are not shown: " (why) "." } }
            @else { h2 { "Nodes (" (nodes.len()) ")" } }
            div.wide tabindex="0" role="region" aria-label="Table of nodes" {
                table {
                    thead { tr { th scope="col" { "Node" } th scope="col" { "Pool" } th scope="col" { "State" } th scope="col" { "Since" } th scope="col" { "What it says" } } }
                    tbody {
                        @for node in rows {
                            tr data-node=(node.name) class=(class(node.state)) {
                                th scope="row" { a href=(node_path(&node.name)) { (node.name) } }
                                td { (scene.pool_of(&node.name)) }
                                td { (badge(node.state)) }
                                td { @if let Some(since) = node.since { (ago(since, scene.snapshot.now)) } }
                                td { (node.summary) @if let Some(wait) = node.waiting_for.first() { "; waits for " (wait) } }
                            }
                        }
                    }
                }
            }
            @if pages > 1 {
                nav.pages aria-label="Pages of the table" {
                    @if page > 1 { a href=(filter.at(page - 1)) rel="prev" { "Earlier" } " " }
                    "Page " (page) " of " (pages)
                    @if page < pages { " " a href=(filter.at(page + 1)) rel="next" { "Later" } }
                }
            }
        }
    }
}
