//! What every page has around it, and the small pieces that pages share.

use explain::{Explanation, Move, Snapshot, State, ago};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use proposal::comparison::{Comparison, Entry, Tag, because, verb};

use super::assets::{SCRIPT, STYLE};
use crate::scene::{Band, Scene, sign};

/// The pages that are named at the top of each.
const PLACES: [(&str, &str); 5] =
    [("/", "Fleet"), ("/configs", "Configs"), ("/plan", "Plan"), ("/machines", "Machines"), ("/doctor", "Doctor")];

/// Where a page says who is signed in. No text of the cluster has it in it: `<` is escaped there.
const SIGNED: &str = "<!--signed-->";

/// The page with the name of whoever is signed in, and the way out.
pub(super) fn signed(page: String, name: Option<&str>) -> String {
    let who = name.map(|name| {
        html! { form.who method="post" action="/logout" { span { (name) } " " button { "Sign out" } } }.into_string()
    });
    page.replacen(SIGNED, &who.unwrap_or_default(), 1)
}

/// A page with its place at the top.
pub(super) fn page(scene: &Scene, title: &str, here: &str, main: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" data-version=(scene.version) {
            (head(title, None))
            body {
                a.skip href="#main" { "Skip to content" }
                header {
                    strong { "Machinist" }
                    nav aria-label="Pages" {
                        @for (path, name) in PLACES {
                            a href=(path) aria-current=[(path == here).then_some("page")] { (name) }
                        }
                    }
                    span #contact role="status" {}
                    (PreEscaped(SIGNED))
                }
                main #main tabindex="-1" {
                    div #notes data-live="" {
                        @for note in &scene.notes { p.note { (note) } }
                    }
                    (main)
                }
            }
        }
    }
}

/// A page for people who are not let in yet, or before there is anything to show. `again` is where to look next.
pub(super) fn bare(title: &str, main: Markup, again: Option<&str>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" { (head(title, again)) body { main #main { h1 { (title) } (main) } } }
    }
}

fn head(title: &str, again: Option<&str>) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            @if let Some(again) = again {
                meta http-equiv="refresh" content=(if again.is_empty() { "1".to_owned() } else { format!("0; url={again}") });
            }
            title { (title) " · Machinist" }
            link rel="icon" href="data:,";
            link rel="stylesheet" href=(STYLE.path());
            @if again.is_none() { script src=(SCRIPT.path()) defer {} }
        }
    }
}

/// A state as sign, colour and word.
pub(super) fn badge(state: State) -> Markup {
    html! { span class={ "state " (class(state)) } { span aria-hidden="true" { (sign(state)) } " " (state) } }
}

/// The class that gives a state its colour.
pub(super) fn class(state: State) -> &'static str {
    match state {
        State::Updated | State::Running => "well",
        State::Updating | State::Provisioning | State::Deleting => "moving",
        State::Waiting | State::Unmanaged | State::Unknown => "quiet",
        State::Paused => "paused",
        State::Blocked => "blocked",
        State::Degraded | State::Failed => "failed",
    }
}

/// State, sentence, what it waits for and what would move it.
pub(super) fn explanation(snapshot: &Snapshot, it: &Explanation) -> Markup {
    html! {
        p.lead {
            (badge(it.state)) " " (it.summary)
            @if let Some(since) = it.since { small { " for " (ago(since, snapshot.now)) } }
        }
        @if !it.waiting_for.is_empty() {
            h2 { "Waits for" }
            ul { @for wait in &it.waiting_for { li { (wait) } } }
        }
        @if !it.moves.is_empty() {
            h2 { "What would move it" }
            (moves(&it.moves))
        }
    }
}

/// What a person can do, with the command to copy.
pub(super) fn moves(all: &[Move]) -> Markup {
    html! {
        ul.moves {
            @for it in all { li { (it.what) ": " code { (it.command) } } }
        }
    }
}

/// The path of a node's page. Names of nodes have no characters that a path could not carry.
pub(super) fn node_path(name: &str) -> String {
    format!("/node/{name}")
}

/// The name of a rendered config, as a link to its page.
pub(super) fn config_link(name: &str) -> Markup {
    html! { a href={ "/config/" (name) } { (name) } }
}

/// What differs between two configs, line by line, with a sign for each line.
pub(super) fn entries(all: &[Entry]) -> Markup {
    html! {
        @for it in all {
            section.change aria-label=(it.what) {
                h3 { span class={ "verb " (verb(it.kind)) } { (verb(it.kind)) } " " (it.what) @if !it.attributes.is_empty() { small { " " (it.attributes) } } }
                @if !it.lines.is_empty() {
                    pre.diff tabindex="0" role="region" aria-label={ "Lines of " (it.what) } {
                        @for line in &it.lines { span class=(tag(line.tag)) { (line.text) "\n" } }
                    }
                }
            }
        }
    }
}

fn tag(tag: Tag) -> &'static str {
    match tag {
        Tag::Added => "added",
        Tag::Removed => "removed",
        Tag::Place => "place",
        Tag::Context => "context",
    }
}

/// What a comparison means for a running node.
pub(super) fn verdict(it: &Comparison) -> Markup {
    let disruption = &it.disruption;
    let actions: Vec<String> = disruption.actions.iter().map(ToString::to_string).collect();
    html! {
        dl.verdict {
            dt { "In place" } dd {
                @if it.obstacles.is_empty() { "yes" } @else {
                    strong { "no" } ul { @for obstacle in &it.obstacles { li { (obstacle) } } }
                }
            }
            dt { "Disruption" } dd { strong { (disruption.class()) } @if disruption.drain { ", after the node is drained" } }
            @if !disruption.reasons.is_empty() {
                dt { "Because" } dd { ul { @for reason in &disruption.reasons { li { (reason.subject) ": " (because(reason)) } } } }
            }
            @if !actions.is_empty() { dt { "Actions" } dd { (actions.join(", ")) } }
        }
    }
}

/// How many nodes of a band have what they should have, where that is known.
pub(super) fn count(band: &Band) -> String {
    if band.counted { format!("{} of {} nodes updated", band.updated, band.nodes) } else { "not counted".to_owned() }
}

/// Nothing.
pub(super) fn none() -> Markup {
    PreEscaped(String::new())
}
