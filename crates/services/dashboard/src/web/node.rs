//! One node: what it says, what moves it, its machine, and what happened to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::known::Reading;
use api::machineconfiguration::MachineConfigNode;
use explain::{Input, Phase, ago, span};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, Node};
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

/// Conditions of the Node and of its MachineConfigNode, or why they are not known.
pub(super) type Conditions = Result<Vec<Said>, String>;

/// One condition, in the words of whoever wrote it.
#[derive(Clone)]
pub(super) struct Said {
    type_: String,
    status: String,
    message: String,
    since: Option<Timestamp>,
}

/// What is asked of the API when somebody looks at a node. Each part is shown to those who may list it.
#[derive(Clone)]
pub(super) struct About {
    pub(super) events: Events,
    pub(super) conditions: Conditions,
    pub(super) report: Conditions,
}

/// What was read a moment ago, by node.
pub(super) type Recent = Mutex<BTreeMap<String, (Instant, Arc<About>)>>;

/// Reads what the cluster says about a node, at most once in a while.
async fn recent(state: &State, node: &str) -> Arc<About> {
    if let Some((_, about)) = state.events.lock().get(node).filter(|(at, _)| at.elapsed() < GOOD_FOR) {
        return about.clone();
    }
    let (events, conditions, report) =
        futures::join!(read(&state.client, node), conditions(&state.client, node), report(&state.client, node));
    let about = Arc::new(About { events, conditions, report });
    let mut recent = state.events.lock();
    recent.retain(|_, (at, _)| at.elapsed() < GOOD_FOR);
    if recent.len() < KEPT {
        recent.insert(node.to_owned(), (Instant::now(), about.clone()));
    }
    about
}

/// What a visitor may see of it.
pub(super) async fn about(state: &State, guest: &Guest, node: &str) -> About {
    let about = recent(state, node).await;
    let may = |kind| guest.rights.why(kind).map_or(Ok(()), Err);
    About {
        events: may(Kind::Events).and_then(|()| about.events.clone()),
        conditions: may(Kind::Nodes).and_then(|()| about.conditions.clone()),
        report: may(Kind::NodeReports).and_then(|()| about.report.clone()),
    }
}

async fn conditions(client: &Client, node: &str) -> Conditions {
    let node = match cluster::read::get::<Node>(&Api::all(client.clone()), node).await {
        Reading::Known { value, .. } => value,
        Reading::NotInstalled => None,
        Reading::Unknown(why) => return Err(why),
    };
    let all = node.and_then(|node| node.status).and_then(|status| status.conditions).unwrap_or_default();
    let said = all.into_iter().map(|it| Said {
        type_: it.type_,
        status: it.status,
        message: it.message.or(it.reason).unwrap_or_default(),
        since: it.last_transition_time.map(|time| time.0),
    });
    Ok(said.collect())
}

async fn report(client: &Client, node: &str) -> Conditions {
    let report = match cluster::read::get::<MachineConfigNode>(&Api::all(client.clone()), node).await {
        Reading::Known { value, .. } => value,
        Reading::NotInstalled => None,
        Reading::Unknown(why) => return Err(why),
    };
    let all = report.and_then(|report| report.status).map(|status| status.conditions).unwrap_or_default();
    let said = all.into_iter().map(|it| Said {
        type_: it.type_,
        status: it.status,
        message: it.message,
        since: Some(it.last_transition_time.0),
    });
    Ok(said.collect())
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
    let scene = state.live.scene(&guest.rights).await?;
    let facts = scene.snapshot.nodes.get(name)?;
    let (current, desired) = (facts.current.as_deref()?, facts.desired.as_deref()?);
    if current == desired {
        return None;
    }
    Some(super::compare::two(state, guest, current, desired).await)
}

pub(super) fn page(
    scene: &Scene,
    name: &str,
    rollouts: &Result<Vec<Rollout>, String>,
    about: &About,
    change: &Change,
) -> Option<Markup> {
    let facts = scene.snapshot.nodes.get(name)?;
    let it = scene.fleet.nodes.iter().find(|node| node.name == name)?;
    let pool = scene.pool_of(name);
    let no_pools = scene.snapshot.unread.why(Input::Pools).is_some();
    let machine = scene.snapshot.machines.iter().find(|(_, machine)| machine.node.as_deref() == Some(name));
    let main = html! {
        h1 { "Node " (name) }
        div #node data-live="" {
            (explanation(&scene.snapshot, it))
            h2 { "Facts" }
            dl {
                dt { "Pool" } dd { @if pool.is_empty() { (if no_pools { "not known" } else { "none" }) } @else { a href={ "/rollout/" (pool) } { (pool) } } }
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
            @if let Some(drift) = explain::drift(facts) {
                h2 { "Drift of its disk" }
                p.note #drift { (drift) }
            }
            @if let Some(machine) = machine.and_then(|(key, _)| scene.fleet.machines.iter().find(|it| it.name == *key)) {
                h2 { "Its machine" }
                (explanation(&scene.snapshot, machine))
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
            @match rollouts {
                Ok(rollouts) => (history(scene, name, rollouts)),
                Err(lack) => p.note { (lack) },
            }
            h2 { "Conditions" }
            (said("Node", &about.conditions, scene.snapshot.now))
            (said("MachineConfigNode", &about.report, scene.snapshot.now))
            h2 { "Events" }
            @match &about.events {
                Ok(events) if events.is_empty() => p { "None." },
                Ok(events) => ul { @for event in events { (told(scene, event)) } },
                Err(why) => p.note { "Events cannot be read: " (why) },
            }
        }
        p { "The same in a terminal: " code { "machinist why node " (name) } }
    };
    Some(frame::page(scene, name, "", &main))
}

fn said(what: &str, conditions: &Conditions, now: Timestamp) -> Markup {
    html! {
        @match conditions {
            Err(why) => p.note { "Conditions of the " (what) " cannot be shown: " (why) },
            Ok(all) if all.is_empty() => p { "The " (what) " has none." },
            Ok(all) => div.wide tabindex="0" role="region" aria-label={ "Conditions of the " (what) } { table {
                thead { tr { th scope="col" { (what) } th scope="col" { "Status" } th scope="col" { "Since" } th scope="col" { "What it says" } } }
                tbody { @for it in all { tr data-condition=(it.type_) {
                    th scope="row" { (it.type_) }
                    td { (it.status) }
                    td { @if let Some(since) = it.since { (ago(since, now)) } }
                    td { (it.message) }
                } } }
            } },
        }
    }
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
