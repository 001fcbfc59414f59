//! A pool's status: every count, condition, reason and message that people and scripts read.
//!
//! The texts are upstream's. What is different on purpose is noted where it is decided.

mod conditions;
mod image_build;
mod progress;

use api::machineconfiguration::{MachineConfigPoolStatus, PoolSynchronizerStatus};
use api::names::{self, pool_condition};

use crate::plan::{About, Event, Waiting};
use crate::quote::{cut, quoted};
use crate::snapshot::{SelectorFacts, Snapshot};
use conditions::Conditions;

/// How much a status says of one degraded node, in characters, and of all of them, in bytes. It is stored twice and read
/// with every write of the pool; the rest is on the nodes themselves.
const TEXT: usize = 500;
const TEXTS: usize = 8 * 1024;

/// Why a pool is degraded whose target no host can take.
pub const REFUSED: &str = "RefusedByHosts";

/// The status that the pool should have.
pub(crate) fn of(snapshot: &Snapshot, problem: Option<&str>, waiting: &Waiting) -> MachineConfigPoolStatus {
    let (pool, counts) = (&snapshot.pool, snapshot.nodes.counts());
    let layering = snapshot.nodes.goal().layering.as_ref();
    let is_unsettled = layering.is_some_and(crate::goal::Layering::is_unsettled);
    let all_updated = counts.updated == counts.machines
        && counts.ready == counts.machines
        && counts.unavailable == 0
        && !is_unsettled
        // A pool whose selector cannot be used has no nodes that could be updated.
        && pool.selector == SelectorFacts::Fine;

    let mut conditions = Conditions::new(&pool.status.conditions, snapshot.now);
    set_updated(&mut conditions, snapshot, all_updated, waiting);
    image_build::set_updating(&mut conditions, snapshot, all_updated);
    let node_message = set_node_degraded(&mut conditions, snapshot);
    image_build::clear_degraded(&mut conditions, layering);
    let refused = refused(snapshot);
    set_degraded(&mut conditions, node_message, problem, refused);
    set_images(&mut conditions, snapshot);
    set_open(&mut conditions, snapshot);

    let configuration = if all_updated && !pool.target().is_empty() {
        pool.configuration.clone()
    } else {
        pool.status.configuration.clone()
    };
    MachineConfigPoolStatus {
        observed_generation: pool.generation,
        configuration,
        machine_count: count(counts.machines),
        updated_machine_count: count(counts.updated),
        ready_machine_count: count(counts.ready),
        unavailable_machine_count: count(counts.unavailable),
        degraded_machine_count: count(snapshot.nodes.index().degraded.len()),
        conditions: conditions.finish(),
        cert_expirys: snapshot.certificates.clone(),
        pool_synchronizers_status: vec![pinned_images(snapshot)],
        // Written by the controller of OS image streams.
        os_image_stream: pool.status.os_image_stream.clone(),
    }
}

/// What people hear when the status becomes this.
pub(crate) fn events(snapshot: &Snapshot, status: &MachineConfigPoolStatus, problem: Option<&str>) -> Vec<Event> {
    let pool = &snapshot.pool;
    let mut events = Vec::new();
    let name = |status: &MachineConfigPoolStatus| status.configuration.as_ref().and_then(|it| it.name.clone());
    if name(status) != name(&pool.status)
        && let Some(config) = name(status)
    {
        let message = format!("Pool {} has completed update to MachineConfig {config}", pool.name);
        events.push(Event { about: About::Pool, warning: false, reason: "Completed", message });
    }
    let is_true = |status: &MachineConfigPoolStatus| {
        let open = status.conditions.iter().rfind(|condition| condition.type_ == pool_condition::CONFIG_SERVER_OPEN);
        open.is_some_and(|condition| condition.status == names::status::TRUE)
    };
    if is_true(status) && !is_true(&pool.status) {
        let message = open_line(&pool.name);
        events.push(Event { about: About::Pool, warning: true, reason: "ConfigServerOpened", message });
    }
    let is_known = |problem: &str| {
        let degraded = pool.status.conditions.iter().find(|condition| condition.type_ == pool_condition::DEGRADED);
        degraded.is_some_and(|condition| condition.message.contains(problem))
    };
    if let Some(problem) = problem.filter(|problem| !is_known(problem)) {
        let (reason, message) = match pool.selector {
            SelectorFacts::Everything => (
                "SelectingAll",
                "This machineconfigpool is selecting all nodes. A non-empty selector is required.".to_owned(),
            ),
            SelectorFacts::Missing | SelectorFacts::Broken(_) => ("InvalidNodeSelector", problem.to_owned()),
            SelectorFacts::Fine => ("InvalidMaxUnavailable", problem.to_owned()),
        };
        events.push(Event { about: About::Pool, warning: true, reason, message });
    }
    let said = |status: &MachineConfigPoolStatus| {
        let degraded = status.conditions.iter().rfind(|condition| condition.type_ == pool_condition::DEGRADED);
        degraded.filter(|condition| condition.reason == REFUSED).map(|condition| condition.message.clone())
    };
    if let Some(message) = said(status).filter(|now| said(&pool.status).as_ref() != Some(now)) {
        events.push(Event { about: About::Pool, warning: true, reason: REFUSED, message });
    }
    events
}

/// How upstream names a pool's target.
fn target_line(snapshot: &Snapshot) -> String {
    let config = snapshot.pool.target();
    match snapshot.nodes.goal().image() {
        Some(image) => format!("MachineConfig {config} / Image {image}"),
        None => format!("MachineConfig {config}"),
    }
}

fn set_updated(conditions: &mut Conditions, snapshot: &Snapshot, all_updated: bool, waiting: &Waiting) {
    let target = target_line(snapshot);
    if all_updated {
        conditions.set(pool_condition::UPDATED, true, "", &format!("All nodes are updated with {target}"));
        conditions.set(pool_condition::UPDATING, false, "", "");
        return;
    }
    conditions.set(pool_condition::UPDATED, false, "", "");
    if snapshot.pool.paused {
        let said = snapshot.pool.pause.as_ref().map(|pause| format!("; paused{pause}")).unwrap_or_default();
        let message = format!("Pool is paused; will not update to {target}{said}");
        conditions.set(pool_condition::UPDATING, false, "", &message);
    } else {
        let progress = progress::sentence(snapshot, waiting);
        let message = format!("All nodes are updating to {target}{progress}");
        conditions.set(pool_condition::UPDATING, true, "", &message);
    }
}

/// Upstream counts by annotation and words by MachineConfigNode, so that the two can disagree, and tells a node's
/// trouble twice. Here each node that is counted has one text.
fn set_node_degraded(conditions: &mut Conditions, snapshot: &Snapshot) -> Option<String> {
    let degraded = &snapshot.nodes.index().degraded;
    if degraded.is_empty() {
        conditions.set(pool_condition::NODE_DEGRADED, false, "", "");
        return None;
    }
    let reason = format!("{} nodes are reporting degraded status on sync", degraded.len());
    let message = node_texts(snapshot);
    conditions.set(pool_condition::NODE_DEGRADED, true, &reason, &message);
    Some(message)
}

/// Texts of degraded nodes.
fn node_texts(snapshot: &Snapshot) -> String {
    together(snapshot.nodes.index().degraded.iter().filter_map(|node| node_text(snapshot, node)))
}

/// As many texts as people would read.
fn together(mut texts: impl Iterator<Item = String>) -> String {
    let mut told = texts.next().unwrap_or_default();
    for text in texts.by_ref() {
        if told.len() + text.len() > TEXTS {
            let more = 1 + texts.count();
            return format!("{told} and {more} more");
        }
        told = format!("{told}, {text}");
    }
    told
}

fn node_text(snapshot: &Snapshot, node: &str) -> Option<String> {
    let report = snapshot.nodes.report(node).and_then(|report| report.degraded.as_ref());
    let reason = snapshot.nodes.get(node).and_then(|facts| facts.reason.as_ref());
    let text = report.filter(|text| !text.is_empty()).or(reason)?;
    Some(format!("Node {node} is reporting: {}", quoted(&cut(text, TEXT))))
}

/// Why the hosts of nodes cannot take the target, each reason once.
pub(crate) fn unfit(snapshot: &Snapshot) -> Option<String> {
    let (nodes, rules) = (&snapshot.nodes, snapshot.nodes.rules());
    let facts = nodes.index().unfit.iter().filter_map(|node| nodes.get(node));
    let whys: std::collections::BTreeSet<&str> = facts.filter_map(|facts| rules.refusal(facts)).collect();
    (!whys.is_empty()).then(|| whys.into_iter().collect::<Vec<_>>().join("; "))
}

/// What to say of a target that no host of the pool can take: then nobody is asked.
fn refused(snapshot: &Snapshot) -> Option<String> {
    let index = snapshot.nodes.index();
    let why = unfit(snapshot).filter(|_| index.unfit.len() + index.held.len() == index.counts.machines)?;
    Some(format!("no node of the pool can take {}, and none is asked to: {why}", target_line(snapshot)))
}

/// Upstream leaves `Degraded` without a text when rendering is the cause.
fn set_degraded(
    conditions: &mut Conditions,
    node_message: Option<String>,
    problem: Option<&str>,
    refused: Option<String>,
) {
    let render = conditions.message_if_true(pool_condition::RENDER_DEGRADED);
    let build = conditions.message_if_true(pool_condition::IMAGE_BUILD_DEGRADED);
    let (reason, message) = match (node_message, render, build, problem, refused) {
        (Some(nodes), ..) => ("", nodes),
        (None, _, Some(_), ..) => ("", "Custom OS image build failed".to_owned()),
        (None, Some(render), None, ..) => ("", render),
        (None, None, None, Some(problem), _) => ("InvalidSpec", problem.to_owned()),
        (None, None, None, None, Some(refused)) => (REFUSED, refused),
        (None, None, None, None, None) => {
            conditions.set(pool_condition::DEGRADED, false, "", "");
            return;
        }
    };
    conditions.set(pool_condition::DEGRADED, true, reason, &message);
}

/// Images that nodes cannot pull or pin. As upstream has it, the pool is not degraded by that.
fn set_images(conditions: &mut Conditions, snapshot: &Snapshot) {
    const TYPE: &str = pool_condition::PINNED_IMAGE_SETS_DEGRADED;
    let failed = &snapshot.nodes.index().images_failed;
    if !failed.is_empty() {
        let text = |node: &String| {
            let why = snapshot.nodes.report(node)?.images_failed.as_ref()?;
            Some(format!("node {node}: {}", quoted(&cut(why, TEXT))))
        };
        conditions.set(TYPE, true, "PrefetchFailed", &together(failed.iter().filter_map(text)));
    } else if conditions.has(TYPE) {
        conditions.set(TYPE, false, "", "");
    }
}

/// Upstream's config server is always open; here that is worth saying. Pools that never were open do not say it.
fn set_open(conditions: &mut Conditions, snapshot: &Snapshot) {
    if snapshot.is_open {
        conditions.set(pool_condition::CONFIG_SERVER_OPEN, true, "OpenedByPolicy", &open_line(&snapshot.pool.name));
    } else if conditions.has(pool_condition::CONFIG_SERVER_OPEN) {
        conditions.set(pool_condition::CONFIG_SERVER_OPEN, false, "", "");
    }
}

fn open_line(pool: &str) -> String {
    format!(
        "The config server gives this pool's config and every secret in it to anyone who can reach it; remove spec.configServer.open from PoolPolicy {pool} to ask for tokens again"
    )
}

fn pinned_images(snapshot: &Snapshot) -> PoolSynchronizerStatus {
    let counts = snapshot.nodes.counts();
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let previous = snapshot.pool.status.pool_synchronizers_status.iter();
    PoolSynchronizerStatus {
        pool_synchronizer_type: "PinnedImageSets".to_owned(),
        machine_count: count(counts.machines),
        updated_machine_count: count(counts.images_pinned),
        ready_machine_count: count(counts.ready),
        available_machine_count: count(counts.machines - counts.unavailable),
        unavailable_machine_count: count(counts.unavailable),
        observed_generation: previous.filter_map(|status| status.observed_generation).next(),
    }
}

fn count(number: usize) -> Option<i32> {
    Some(i32::try_from(number).unwrap_or(i32::MAX))
}
