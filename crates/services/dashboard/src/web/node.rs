//! One node: what it says, what moves it, its machine, and what happened to it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use explain::{Phase, ago, span};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client};
use maud::{Markup, html};
use parking_lot::Mutex;
use proposal::{Comparison, Secrets};

use super::frame::{self, config_link, entries, explanation, verdict};
use super::rollout::bars;
use super::{Guest, State};
use crate::rights::Kind;
use crate::scene::Scene;
use crate::timeline::{Rollout, Segment};

/// Events that a page shows.
const EVENTS: usize = 20;

/// What the cluster has noted about a node, newest first, or why that is not known.
pub(super) type Events = Result<Vec<Event>, String>;

/// How long the events of one node are good for: open pages of it share one list.
const GOOD_FOR: Duration = Duration::from_secs(5);

/// Nodes whose events are kept for that long.
const KEPT: usize = 100;

/// The events that were read a moment ago, by node.
pub(super) type Recent = Mutex<BTreeMap<String, (Instant, Events)>>;

/// Reads the events of a node, at most once in a while.
pub(super) async fn events(state: &State, node: &str) -> Events {
    if let Some((_, events)) = state.events.lock().get(node).filter(|(at, _)| at.elapsed() < GOOD_FOR) {
        return events.clone();
    }
    let events = read(&state.client, node).await;
    let mut recent = state.events.lock();
    recent.retain(|_, (at, _)| at.elapsed() < GOOD_FOR);
    if recent.len() < KEPT {
        recent.insert(node.to_owned(), (Instant::now(), events.clone()));
    }
    events
}

async fn read(client: &Client, node: &str) -> Events {
    let about = format!("involvedObject.kind=Node,involvedObject.name={node}");
    let api: Api<Event> = Api::all(client.clone());
    let list = cluster::write::in_time(api.list(&ListParams::default().fields(&about).limit(500))).await;
    let mut events = list.map_err(|error| cluster::error::chain(&error))?.items;
    let at = |event: &Event| {
        event.last_timestamp.as_ref().map(|time| time.0).or(event.event_time.as_ref().map(|time| time.0))
    };
    events.sort_by_key(|event| std::cmp::Reverse(at(event)));
    events.truncate(EVENTS);
    Ok(events)
}

/// The change that a node is on its way through, or the one that it should make.
pub(super) type Change = Option<Result<Comparison, String>>;

/// Compares what a node runs with what it should run, where the two differ.
pub(super) async fn drift(state: &State, guest: &Guest, name: &str) -> Change {
    let scene = state.live.scene(&guest.rights)?;
    let facts = scene.snapshot.nodes.get(name)?;
    let (current, desired) = (facts.current.as_deref()?, facts.desired.as_deref()?);
    if current == desired || !guest.rights.has(Kind::Configs) {
        return None;
    }
    Some(super::compare::two(state, current, desired).await)
}

pub(super) fn page(
    scene: &Scene,
    name: &str,
    rollouts: &[Rollout],
    events: &Events,
    change: &Change,
) -> Option<Markup> {
    let facts = scene.snapshot.nodes.get(name)?;
    let it = scene.fleet.nodes.iter().find(|node| node.name == name)?;
    let pool = scene.pool_of(name);
    let machine = scene.snapshot.machines.iter().find(|(_, machine)| machine.node.as_deref() == Some(name));
    let main = html! {
        h1 { "Node " (name) }
        div #node data-live="" {
            (explanation(&scene.snapshot, it))
            h2 { "Facts" }
            dl {
                dt { "Pool" } dd { @if pool.is_empty() { "none" } @else { a href={ "/rollout/" (pool) } { (pool) } } }
                dt { "Phase" } dd { (Phase::of(facts).word()) }
                dt { "Ready" } dd { (if facts.ready { "yes" } else { "no" }) @if facts.unschedulable { ", cordoned" } }
                dt { "Current config" } dd { @if let Some(name) = &facts.current { (config_link(name)) } @else { "none yet" } }
                dt { "Desired config" } dd { @if let Some(name) = &facts.desired { (config_link(name)) } @else { "none yet" } }
                @if let Some(zone) = &facts.zone { dt { "Zone" } dd { (zone) } }
                @if let Some(step) = &facts.step { dt { "Step" } dd { (step) } }
                @if let Some(reason) = &facts.reason { dt { "Reason" } dd { pre { (reason) } } }
                @if let Some((key, machine)) = machine {
                    dt { "Machine" } dd { (key) ", " (if machine.phase.is_empty() { "new" } else { &machine.phase }) }
                }
            }
            @if !facts.blockers.is_empty() {
                h2 { "Pods in the way of its drain" }
                ul { @for pod in &facts.blockers {
                    li { (pod.namespace) "/" (pod.pod)
                        @if let Some(owner) = &pod.owner { ", of " (owner) }
                        ", protected by " (pod.budgets.join(", ")) }
                } }
            }
            @match change {
                Some(Ok(it)) => {
                    h2 { "What changes on it" }
                    (verdict(it))
                    (entries(&proposal::comparison::entries(&it.diff, Secrets::Masked)))
                },
                Some(Err(why)) => { h2 { "What changes on it" } p.note { (why) } },
                None => {},
            }
            h2 { "Last configs" }
            (history(scene, name, rollouts))
            h2 { "Events" }
            @match events {
                Ok(events) if events.is_empty() => p { "None." },
                Ok(events) => ul { @for event in events { (told(scene, event)) } },
                Err(why) => p.note { "Events cannot be read: " (why) },
            }
        }
        p { "The same in a terminal: " code { "machinist why node " (name) } }
    };
    Some(frame::page(scene, name, "", &main))
}

fn told(scene: &Scene, event: &Event) -> Markup {
    let at = event.last_timestamp.as_ref().map(|time| time.0).or(event.event_time.as_ref().map(|time| time.0));
    html! {
        li {
            strong { (event.reason.as_deref().unwrap_or("Event")) } " "
            (event.message.as_deref().unwrap_or_default())
            @if let Some(at) = at { small { " " (ago(at, scene.snapshot.now)) } }
        }
    }
}

fn history(scene: &Scene, name: &str, rollouts: &[Rollout]) -> Markup {
    let here: Vec<_> = rollouts.iter().filter_map(|rollout| Some((rollout, rollout.nodes.get(name)?))).collect();
    html! {
        @if here.is_empty() { p { "None since the dashboard began to look." } }
        @for (rollout, segments) in here {
            h3 { (config_link(&rollout.target)) }
            @if let Some(took) = took(segments, rollout, scene.snapshot.now) { p { "It took " (span(took)) "." } }
            (bars(rollout, scene.snapshot.now, Some(name)))
        }
    }
}

/// How long a node was on its way, from its first phase to the end of its last.
fn took(segments: &[Segment], rollout: &Rollout, now: Timestamp) -> Option<SignedDuration> {
    let end = segments.last()?.to.or(rollout.ended).unwrap_or(now);
    Some(end.duration_since(segments.first()?.from))
}
