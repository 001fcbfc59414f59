//! A pool's rollouts: time against nodes, with a bar for each phase, and a table that says the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use explain::{Phase, ago, span};
use jiff::Timestamp;
use maud::{Markup, html};

use proposal::{Comparison, Secrets};

use super::compare;
use super::frame::{self, config_link, entries, explanation, node_path};
use super::{Guest, State};
use crate::configs::Config;
use crate::rights::Kind;
use crate::scene::Scene;
use crate::timeline::{Rollout, Segment};

/// Heights and widths of the picture, in its own units.
const ROW: usize = 18;
const LEFT: usize = 180;
const WIDTH: usize = 800;

/// Rows of one picture. More nodes are in the table.
const ROWS: usize = 200;

/// What the newest rollout changes, and the fragments that this comes from.
pub(super) struct Cause {
    comparison: Comparison,
    fragments: BTreeMap<String, BTreeSet<String>>,
    /// Why fragments are not told.
    untold: Option<String>,
}

/// Why a rollout began, for visitors who may see that.
pub(super) async fn cause(state: &State, guest: &Guest, rollout: &Rollout) -> Option<Result<Cause, String>> {
    let from = rollout.from.as_deref()?;
    let comparison = match compare::two(state, guest, from, &rollout.target).await {
        Ok(comparison) => comparison,
        Err(why) => return Some(Err(why)),
    };
    let untold = guest.rights.why(Kind::Provenances);
    let mut fragments = BTreeMap::new();
    if untold.is_none() {
        let (old, new) =
            futures::join!(state.configs.get(&state.client, from), state.configs.get(&state.client, &rollout.target),);
        let [old, new] = [old, new].map(|config| config.ok().flatten());
        let spec = |config: &Option<Arc<Config>>| Some(config.as_ref()?.provenance.as_ref()?.spec.clone());
        let (old, new) = (spec(&old), spec(&new));
        fragments = proposal::comparison::causes(&comparison.diff, old.as_ref(), new.as_ref());
    }
    Some(Ok(Cause { comparison, fragments, untold }))
}

fn caused(cause: &Cause) -> Markup {
    html! {
        @if let Some(why) = &cause.untold { p.note { "Which fragments started it is not shown: " (why) } }
        @if !cause.fragments.is_empty() {
            p { "It was started by:" }
            ul #causes { @for (fragment, parts) in &cause.fragments {
                li { strong { (fragment) } ": " (parts.iter().map(String::as_str).collect::<Vec<_>>().join(", ")) }
            } }
        }
        details #changes { summary { "What it changes" }
            (entries(&proposal::comparison::entries(&cause.comparison.diff, Secrets::Masked)))
        }
    }
}

pub(super) fn page(
    scene: &Scene,
    pool: &str,
    rollouts: &Result<Vec<Rollout>, String>,
    cause: &Option<Result<Cause, String>>,
) -> Option<Markup> {
    let it = scene.fleet.pools.iter().find(|it| it.name == pool)?;
    let facts = scene.snapshot.pools.get(pool)?;
    let now = scene.snapshot.now;
    let main = html! {
        h1 { "Pool " (pool) }
        div #pool data-live="" {
            (explanation(&scene.snapshot, it))
            dl {
                dt { "Target" } dd { @if facts.target.is_empty() { "none yet" } @else { (config_link(&facts.target)) } }
                @if let Some(last) = &facts.last_good { dt { "Last config of all nodes" } dd { (config_link(last)) } }
            }
            @match rollouts {
                Ok(all) if all.is_empty() => p { "No rollout since the dashboard began to look." },
                Ok(_) => {},
                Err(lack) => p.note { (lack) },
            }
            @for (place, rollout) in rollouts.iter().flatten().enumerate() {
                section aria-label={ "Rollout of " (rollout.target) } {
                    h2 { (rollout.target) }
                    p { (state(rollout, now)) }
                    @if let Some(from) = &rollout.from {
                        p { a href={ "/compare?a=" (from) "&b=" (rollout.target) } { "What it changes" } ", in a terminal " code { "machinist diff " (from) " " (rollout.target) } }
                    }
                    @match cause {
                        Some(Ok(cause)) if place == 0 => (caused(cause)),
                        Some(Err(why)) if place == 0 => p.note { "What started it is not shown: " (why) },
                        Some(_) | None => {},
                    }
                    (bars(rollout, now, None))
                    (table(rollout, now))
                }
            }
        }
        p { "The same in a terminal: " code { "machinist why pool " (pool) } }
    };
    Some(frame::page(scene, pool, "", &main))
}

fn state(rollout: &Rollout, now: Timestamp) -> String {
    let Rollout { done, left, began, .. } = rollout;
    match (rollout.ended, rollout.forecast(now)) {
        (Some(ended), _) => {
            format!("It took {} and ended {} ago.", span(ended.duration_since(*began)), ago(ended, now))
        }
        (None, Some(more)) => format!("{done} nodes are done, {left} are left; about {} more.", span(more)),
        (None, None) => format!("{done} nodes are done, {left} are left."),
    }
}

/// The picture. It is drawn from left to right, one row for each node.
pub(super) fn bars(rollout: &Rollout, now: Timestamp, only: Option<&str>) -> Markup {
    let shown = rollout.nodes.iter().filter(|(name, _)| only.is_none_or(|only| only == *name)).take(ROWS);
    let rows: Vec<_> = shown.collect();
    if rows.is_empty() {
        return frame::none();
    }
    let first = rows.iter().filter_map(|(_, all)| Some(all.first()?.from)).min().unwrap_or(rollout.began);
    let last = rollout.ended.unwrap_or(now);
    let whole = last.duration_since(first).as_millis().max(1);
    let height = rows.len() * ROW;
    html! {
        svg.bars viewBox={ "0 0 " (LEFT + WIDTH) " " (height) } role="img" aria-label="Phases of each node over time; the table below says the same" {
            @for (row, (name, segments)) in rows.iter().enumerate() {
                text x=(LEFT - 8) y=(row * ROW + 13) text-anchor="end" { (name) }
                @for segment in *segments {
                    @let place = Place::of(segment, first, last, whole);
                    rect class={ "phase-" (segment.phase.word()) } x=(LEFT + place.x) y=(row * ROW + 2) width=(place.width) height=(ROW - 4) {
                        title { (name) ": " (segment.phase.word()) ", " (length(segment, last)) }
                    }
                }
            }
        }
        p.legend {
            @for phase in Phase::ALL.into_iter().filter(|phase| *phase != Phase::Resting) {
                span class={ "key phase-" (phase.word()) } { (phase.word()) } " "
            }
        }
    }
}

/// Where a bar begins and how wide it is.
struct Place {
    x: usize,
    width: usize,
}

impl Place {
    fn of(segment: &Segment, first: Timestamp, last: Timestamp, whole: i128) -> Self {
        let at = |time: Timestamp| {
            let part =
                time.duration_since(first).as_millis().clamp(0, whole) * i128::try_from(WIDTH).unwrap_or(1) / whole;
            usize::try_from(part).unwrap_or(0)
        };
        let (from, to) = (at(segment.from), at(segment.to.unwrap_or(last)));
        // A phase that was too short for the picture is still seen.
        Self { x: from.min(WIDTH - 2), width: to.saturating_sub(from).max(2) }
    }
}

fn length(segment: &Segment, last: Timestamp) -> String {
    span(segment.to.unwrap_or(last).duration_since(segment.from))
}

fn table(rollout: &Rollout, now: Timestamp) -> Markup {
    let last = rollout.ended.unwrap_or(now);
    html! {
        @if !rollout.nodes.is_empty() {
            details {
                summary { "As a table (" (rollout.nodes.len()) " nodes)" }
                div.wide tabindex="0" role="region" aria-label="Table of phases" {
                    table {
                        thead { tr { th scope="col" { "Node" } th scope="col" { "Phases" } } }
                        tbody {
                            @for (name, segments) in &rollout.nodes {
                                tr {
                                    th scope="row" { a href=(node_path(name)) { (name) } }
                                    td {
                                        @for (place, segment) in segments.iter().enumerate() {
                                            @if place > 0 { ", " }
                                            (segment.phase.word()) " " (length(segment, last))
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
