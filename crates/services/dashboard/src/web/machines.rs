//! MachineSets and Machines: what there is, what there should be, and what each new machine waits for.

use explain::ago;
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
            @if machines.is_empty() && sets.is_empty() { p { "There are no Machines." } }
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
                    thead { tr { th scope="col" { "Machine" } th scope="col" { "State" } th scope="col" { "Phase" } th scope="col" { "Node" } th scope="col" { "Since" } th scope="col" { "What it says" } } }
                    tbody { @for machine in machines.iter().take(ROWS) {
                        @let facts = scene.snapshot.machines.get(&machine.name);
                        tr class=(class(machine.state)) {
                            th scope="row" { (machine.name) }
                            td { (badge(machine.state)) }
                            td { (facts.map(|facts| facts.phase.as_str()).filter(|phase| !phase.is_empty()).unwrap_or("new")) }
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
