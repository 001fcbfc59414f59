//! What a manifest would do, before anybody applies it. Nothing is applied from here.

use explain::span;
use jiff::SignedDuration;
use maud::{Markup, html};
use proposal::machines::{Arrival, Departure};
use proposal::plan::{NodePlan, PoolPlan};
use proposal::{Proposal, Secrets, machines};

use super::frame::{self, entries, node_path, verdict};
use crate::planning::Answer;
use crate::scene::Scene;

/// Nodes that get a row; the rest is counted.
const ROWS: usize = 200;

pub(super) fn page(scene: &Scene, text: &str, answer: Option<&Result<Answer, String>>) -> Markup {
    let main = html! {
        h1 { "Plan" }
        form.plan method="post" action="/plan" {
            label for="manifest" { "Manifests that would be applied: paste them, or drop a file here" }
            textarea #manifest name="manifest" rows="10" spellcheck="false" required data-drop="" { "\n" (text) }
            p { button { "Show what they would do" } }
        }
        @match answer {
            None => p { "Nothing is applied from here." },
            Some(Err(why)) => p.note #refused role="alert" { (why) },
            Some(Ok(answer)) => {
                @for note in &answer.notes { p.note { (note) } }
                @if let Some(plan) = &answer.machines { (of_machines(plan)) }
                @if let Some(proposal) = &answer.configs { (report(proposal)) }
            },
        }
    };
    frame::page(scene, "Plan", "/plan", &main)
}

fn report(proposal: &Proposal) -> Markup {
    let plan = &proposal.plan;
    let nodes: usize = plan.pools.iter().map(|pool| pool.nodes.len()).sum();
    let blocked: usize = plan.pools.iter().flat_map(|pool| &pool.nodes).map(|node| node.blocked.len()).sum();
    html! {
        div #plan {
            @for note in &proposal.notes { p.note { (note) } }
            @if plan.is_empty() {
                p.lead { (proposal::plan::nothing_to_do(&proposal.unwell)) }
                @if !proposal.unwell.is_empty() { ul #unwell {
                    @for left in proposal.unwell.iter().take(ROWS) { li { a href=(node_path(&left.node)) { (left.node) } " " (left.why) } }
                    @if proposal.unwell.len() > ROWS { li { "and " (proposal.unwell.len() - ROWS) " more" } }
                } }
            }
            @else {
                p.lead {
                    (count(nodes, "node")) ", about " strong { (time(plan.estimate_seconds)) }
                    @if blocked > 0 { ", and longer while " (count(blocked, "pod")) " " (if blocked == 1 { "is" } else { "are" }) " kept by their budgets" }
                    "."
                }
                p { "To do it: save the manifests as " code { "change.yaml" } ", then " code { "machinist plan -f change.yaml --save change.plan && machinist apply change.plan" }
                    ", which refuses if the world has changed in between; or " code { "kubectl apply -f change.yaml" } "." }
            }
            @for pool in &plan.pools { (of_pool(proposal, pool)) }
        }
    }
}

/// Which machines come and go, in which order.
fn of_machines(plan: &machines::Plan) -> Markup {
    html! {
        section #machines-plan aria-label="Machines" {
            h2 { "Machines" }
            @if plan.is_empty() { p.lead { "No machine is created or deleted." } }
            @else { p { "To do it: save the manifests as " code { "change.yaml" } ", then " code { "kubectl apply -f change.yaml" } "." } }
            ol { @for (number, round) in plan.rounds.iter().take(ROWS).enumerate() { li {
                @if number > 0 { "When the machines before are there or gone:" } @else { "At once:" }
                ul {
                    @for it in &round.create { (arrival(it)) }
                    @for it in &round.delete { (departure(it)) }
                }
            } } }
            @if plan.rounds.len() > ROWS { p { "and " (plan.rounds.len() - ROWS) " more rounds; " code { "machinist plan -o json" } " lists them" } }
            @for note in &plan.notes { p.note { (note) } }
        }
    }
}

fn arrival(it: &Arrival) -> Markup {
    html! { li data-arrival=(it.machine) { strong { (it.machine) } " is created by " (it.by) } }
}

fn departure(it: &Departure) -> Markup {
    html! {
        li data-departure=(it.machine) {
            strong { (it.machine) } " is deleted by " (it.by) ": " (it.why) ". "
            @match (&it.node, it.drains, it.pods.as_deref()) {
                (None, _, _) => "It has no node.",
                (Some(node), false, _) => { "Node " (node) " is not drained." },
                (Some(node), true, None) => { "Node " (node) " is drained; which pods move is not known." },
                (Some(node), true, Some([])) => { "Node " (node) " is drained; no pod moves." },
                (Some(node), true, Some(pods)) => {
                    "Node " (node) " is drained: "
                    details { summary { (count(pods.len(), "pod")) } ul { @for pod in pods { li { (pod) } } } }
                },
            }
            @if !it.blocked.is_empty() { ul { @for pod in &it.blocked { li { "kept now: " (pod.pod) ": " (pod.why) } } } }
            @if !it.hooks.is_empty() { ul { @for hook in &it.hooks { li { "held by hook " (hook) } } } }
        }
    }
}

fn of_pool(proposal: &Proposal, pool: &PoolPlan) -> Markup {
    html! {
        section.band aria-label={ "Pool " (pool.pool) } data-pool-plan=(pool.pool) {
            h2 { "Pool " (pool.pool) }
            p { "From " (pool.from.as_deref().unwrap_or("nothing")) " to " (pool.to) ", " (count(pool.waves.len(), "wave")) ", about " (time(pool.estimate_seconds)) "." }
            @if pool.paused { p.note { "The pool is paused" @if let Some(pause) = &pool.pause { (pause) } "; nothing below happens until it is not." } }
            @for obstacle in &pool.obstacles { p.note { "Refused: " (obstacle) } }
            @if let Some(comparison) = proposal.comparisons.get(&pool.pool) {
                (verdict(comparison))
                details { summary { "What changes" } (entries(&proposal::comparison::entries(&comparison.diff, Secrets::Masked))) }
            }
            div.wide tabindex="0" role="region" aria-label={ "Nodes of pool " (pool.pool) } { table {
                thead { tr { th scope="col" { "Node" } th scope="col" { "Wave" } th scope="col" { "What it would do" } th scope="col" { "Pods that move" } th scope="col" { "Kept by budgets" } } }
                tbody { @for node in pool.nodes.iter().take(ROWS) { (row(pool, node)) } }
            } }
            @if pool.nodes.len() > ROWS { p { "and " (pool.nodes.len() - ROWS) " more nodes; " code { "machinist plan -o json" } " lists them" } }
        }
    }
}

fn row(pool: &PoolPlan, node: &NodePlan) -> Markup {
    let wave = pool.waves.iter().position(|wave| wave.contains(&node.node));
    let left = pool.left.iter().find(|left| left.node == node.node);
    let changes = [&node.files, &node.units, &node.other];
    let changes: Vec<&str> = changes.into_iter().flatten().map(String::as_str).collect();
    let actions: Vec<&str> = node.actions.iter().map(String::as_str).filter(|action| *action != "none").collect();
    html! {
        tr data-node-plan=(node.node) {
            th scope="row" { a href=(node_path(&node.node)) { (node.node) } }
            td { @if let Some(wave) = wave { (wave + 1) } @else if let Some(left) = left { "not reached: " (left.why) } }
            td {
                (if changes.is_empty() { "no change on disk".to_owned() } else { changes.join(", ") }) "; "
                (if actions.is_empty() { "no disruption".to_owned() } else { actions.join(", ") })
                @if node.drains { "; drained first" }
            }
            td { @match node.pods.as_deref() {
                None => "could not be read",
                Some([]) => "none",
                Some(pods) => details { summary { (count(pods.len(), "pod")) } ul { @for pod in pods { li { (pod) } } } },
            } }
            td { @if node.blocked.is_empty() { "none" } @else { ul { @for pod in &node.blocked { li { (pod.pod) ": " (pod.why) } } } } }
        }
    }
}

fn count(number: usize, word: &str) -> String {
    if number == 1 { format!("1 {word}") } else { format!("{number} {word}s") }
}

fn time(seconds: i64) -> String {
    span(SignedDuration::from_secs(seconds))
}
