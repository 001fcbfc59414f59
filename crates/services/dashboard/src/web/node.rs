//! One node: what it says, what moves it, its machine, and what happened to it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use explain::{Phase, ago};
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client};
use maud::{Markup, html};
use parking_lot::Mutex;

use super::State;
use super::frame::{self, explanation};
use super::rollout::bars;
use crate::live::Live;
use crate::scene::Scene;

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

pub(super) fn page(scene: &Scene, name: &str, live: &Live, events: &Events) -> Option<Markup> {
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
                dt { "Current config" } dd { (facts.current.as_deref().unwrap_or("none yet")) }
                dt { "Desired config" } dd { (facts.desired.as_deref().unwrap_or("none yet")) }
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
            h2 { "Rollouts seen here" }
            (history(scene, name, live))
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

fn history(scene: &Scene, name: &str, live: &Live) -> Markup {
    let rollouts = live.rollouts(scene.pool_of(name));
    let here: Vec<_> = rollouts.iter().filter(|rollout| rollout.nodes.contains_key(name)).collect();
    html! {
        @if here.is_empty() { p { "None since the dashboard began to look." } }
        @for rollout in here {
            h3 { (rollout.target) }
            (bars(rollout, scene.snapshot.now, Some(name)))
        }
    }
}
