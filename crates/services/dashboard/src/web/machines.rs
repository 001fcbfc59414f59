//! MachineSets and Machines: what there is, what there should be, and what each new machine waits for.

use std::collections::{BTreeMap, BTreeSet};

use explain::{HealthCheckFacts, Input, MachineFacts, Snapshot, ago};
use maud::{Markup, html};

use super::frame::{self, badge, class, node_path};
use crate::scene::Scene;

/// Machines that get a row; the rest is counted.
const ROWS: usize = 500;

pub(super) fn page(scene: &Scene) -> Markup {
    let (sets, machines) = (&scene.fleet.machine_sets, &scene.fleet.machines);
    let main = html! {
        h1 { "Machines" }
        div #machines data-live="" {
            @for (input, what) in [(Input::Machines, "Machines"), (Input::MachineSets, "MachineSets"), (Input::HealthChecks, "MachineHealthChecks")] {
                @if let Some(why) = scene.snapshot.unread.why(input) { p.note { "Not all " (what) " are shown: " (why) "." } }
            }
            @if machines.is_empty() && sets.is_empty() && scene.snapshot.unread.why(Input::Machines).is_none() { p { "There are no Machines." } }
            (summary(&scene.snapshot))
            (health(&scene.snapshot))
            @if !sets.is_empty() {
                h2 { "MachineSets (" (sets.len()) ")" }
                div.wide tabindex="0" role="region" aria-label="Table of MachineSets" { table {
                    thead { tr { th scope="col" { "Set" } th scope="col" { "State" } th scope="col" { "Wanted" } th scope="col" { "Ready" } th scope="col" { "What it says" } } }
                    tbody { @for set in sets {
                        @let facts = scene.snapshot.machine_sets.get(&set.name);
                        tr class=(class(set.state)) {
                            th scope="row" { (set.name) }
                            td { (badge(set.state)) }
                            td { @if let Some(facts) = facts { (facts.desired) } }
                            td { @if let Some(facts) = facts { (facts.ready) } }
                            td { (set.summary) @if let Some(wait) = set.waiting_for.first() { "; waits for " (wait) } }
                        }
                    } }
                } }
            }
            @if !machines.is_empty() {
                h2 { "Machines (" (machines.len()) ")" }
                div.wide tabindex="0" role="region" aria-label="Table of Machines" { table {
                    thead { tr { th scope="col" { "Machine" } th scope="col" { "State" } th scope="col" { "Phase" } th scope="col" { "Zone" } th scope="col" { "Node" } th scope="col" { "Since" } th scope="col" { "What it says" } } }
                    tbody { @for machine in machines.iter().take(ROWS) {
                        @let facts = scene.snapshot.machines.get(&machine.name);
                        tr class=(class(machine.state)) {
                            th scope="row" { (machine.name) }
                            td { (badge(machine.state)) }
                            td { (facts.map_or("new", phase)) }
                            td { (facts.and_then(MachineFacts::zone).unwrap_or_default()) }
                            td { @if let Some(node) = facts.and_then(|facts| facts.node.as_deref()) { a href=(node_path(node)) { (node) } } }
                            td { @if let Some(since) = machine.since { (ago(since, scene.snapshot.now)) } }
                            td { (machine.summary) @if let Some(wait) = machine.waiting_for.first() { "; waits for " (wait) } }
                        }
                    } }
                } }
                @if machines.len() > ROWS { p { "and " (machines.len() - ROWS) " more" } }
            }
        }
        p { "The same in a terminal: " code { "machinist status --all" } }
    };
    frame::page(scene, "Machines", "/machines", &main)
}

fn phase(facts: &MachineFacts) -> &str {
    if facts.phase.is_empty() { "new" } else { &facts.phase }
}

/// How many machines are in which phase, in each zone.
fn summary(snapshot: &Snapshot) -> Markup {
    let phases: BTreeSet<&str> = snapshot.machines.values().map(phase).collect();
    let mut zones: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for facts in snapshot.machines.values() {
        *zones.entry(facts.zone().unwrap_or("not known")).or_default().entry(phase(facts)).or_default() += 1;
    }
    html! {
        @if !zones.is_empty() {
            h2 { "By zone and phase" }
            div.wide tabindex="0" role="region" aria-label="Machines by zone and phase" { table {
                thead { tr { th scope="col" { "Zone" } @for phase in &phases { th scope="col" { (phase) } } } }
                tbody { @for (zone, counts) in &zones { tr data-zone=(zone) {
                    th scope="row" { (zone) }
                    @for phase in &phases { td { (counts.get(phase).copied().unwrap_or_default()) } }
                } } }
            } }
        }
    }
}

/// What each health check looks for, and whether something keeps it from acting.
fn health(snapshot: &Snapshot) -> Markup {
    let chosen = |check: &HealthCheckFacts| snapshot.machines.values().filter(|machine| check.chooses(machine)).count();
    html! {
        @if !snapshot.health_checks.is_empty() {
            h2 { "Health checks (" (snapshot.health_checks.len()) ")" }
            div.wide tabindex="0" role="region" aria-label="Table of health checks" { table {
                thead { tr { th scope="col" { "Check" } th scope="col" { "Machines" } th scope="col" { "Unhealthy when" } th scope="col" { "At most" } th scope="col" { "Brake" } } }
                tbody { @for check in &snapshot.health_checks { tr data-check=(check.name) {
                    th scope="row" { (check.namespace) "/" (check.name) }
                    td { (chosen(check)) }
                    td { ul { @for it in &check.symptoms { li { (it.type_) " is " (it.status) " for " (it.timeout) } } } }
                    td { (check.max_unhealthy.as_deref().unwrap_or("100%")) }
                    td { @match &check.held {
                        Some(held) => { strong { "! held: " } (held.message) @if let Some(since) = held.since { ", for " (ago(since, snapshot.now)) } },
                        None => "not held",
                    } }
                } } }
            } }
        }
    }
}
