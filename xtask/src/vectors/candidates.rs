//! `candidates`: how many nodes may be down, and which of them get the target now.

use rollout::{Action, plan};
use serde_json::{Value, json};

use super::fleet::{Seen, list, name, snapshot};
use super::judge::{Expected, Judge, Rule};

pub(crate) struct Candidates;

impl Judge for Candidates {
    fn file(&self) -> &'static str {
        "candidates"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let snapshot = snapshot(input)?;
        let nodes = snapshot.nodes.counts().machines;
        rollout::budget::limit(snapshot.pool.max_unavailable.as_ref(), nodes).map_err(|error| error.to_string())?;
        let plan = plan(&snapshot);
        let selected = plan.actions.iter().filter_map(|action| match action {
            Action::Target(target) => Some(target.node.clone()),
            Action::WriteLedger { .. }
            | Action::Fence { .. }
            | Action::Hold { .. }
            | Action::SetTaints { .. }
            | Action::SetTopology { .. }
            | Action::TellContested { .. } => None,
        });
        let unavailable = snapshot.nodes.iter().filter(|node| node.is_unavailable()).map(|node| node.name.clone());
        let spending = plan.spending;
        Ok(json!({
            "maxUnavailable": spending.limit,
            "capacity": spending.limit.saturating_sub(spending.used),
            "selected": ordered(input, selected.collect()),
            "unavailable": ordered(input, unavailable.collect()),
        }))
    }

    fn rules(&self) -> &'static [Rule] {
        RULES
    }

    fn phrases(&self, error: &str) -> Vec<String> {
        vec![error.rsplit(": ").next().unwrap_or(error).to_owned()]
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "negative-limits-are-refused",
        covers: |input| is_negative(&input["pool"]["spec"]["maxUnavailable"]),
        answer: |_, _| Expected::Refusal(vec!["negative".to_owned()]),
    },
    // Upstream counts a failed node that is down twice, as unavailable and as failing; here each node counts once.
    Rule {
        name: "newest-wins-within-the-limit",
        covers: |input| candidates(input).any(is_down) || list(&input["nodes"]).any(is_in_motion),
        answer: newest_wins,
    },
];

fn candidates(input: &Value) -> impl Iterator<Item = &Value> {
    let target = input["pool"]["spec"]["configuration"]["name"].as_str().unwrap_or_default();
    list(&input["nodes"]).filter(move |node| Seen(node).is_candidate(target))
}

/// Whether a node already uses part of the budget.
fn is_down(node: &Value) -> bool {
    let seen = Seen(node);
    let rests = seen.says("state") == "Done" && seen.says("currentConfig") == seen.says("desiredConfig");
    !seen.is_ready() || !rests || seen.says("currentConfig").is_empty()
}

fn is_at_work(node: &Value) -> bool {
    matches!(Seen(node).says("state"), "Working" | "Rebooting")
}

/// Whether a daemon is working and may request a drain at any moment; no node of the vectors has been drained. A daemon
/// that runs its target only has to report that it is done.
fn works_undrained(node: &Value) -> bool {
    let seen = Seen(node);
    is_at_work(node) && seen.says("currentConfig") != seen.says("desiredConfig")
}

/// Whether a daemon fails at its target, or has refused it, and waits for a better one. It serves, and it is healed beside dead
/// nodes.
fn waits_for_a_fix(node: &Value) -> bool {
    let seen = Seen(node);
    seen.is_failing() && (is_in_motion(node) || seen.says("state") == "Unreconcilable")
}

fn is_negative(limit: &Value) -> bool {
    limit.as_i64().is_some_and(|number| number < 0)
        || limit.as_str().is_some_and(|text| text.starts_with('-') && text.ends_with('%'))
}

/// Whether a daemon is working on a node, or may start at any moment. None of the vectors' daemons is ours.
fn is_in_motion(node: &Value) -> bool {
    let seen = Seen(node);
    let asked = seen.annotation("desiredConfig").filter(|desired| !desired.is_empty());
    let image = |key: &str| seen.annotation(key);
    let same_image = match (image("currentImage"), image("desiredImage")) {
        (None, None) => true,
        (Some(current), Some(desired)) => !desired.is_empty() && current == desired,
        (Some(_), None) | (None, Some(_)) => false,
    };
    is_at_work(node) || (asked.is_some() && (seen.says("currentConfig") != seen.says("desiredConfig") || !same_image))
}

/// Whether the kubelet does not report that it is ready.
fn is_unreachable(node: &Value) -> bool {
    list(&node["status"]["conditions"]).any(|it| it["type"] == json!("Ready") && it["status"] != json!("True"))
}

/// Every target takes a place, and the limit is the number of places. First come nodes that are already changing,
/// whether or not they get another target; then reachable nodes that do not serve pods; then nodes that serve but are
/// not healthy, while fewer nodes than the limit are out of service. The rest of the budget is for healthy nodes.
fn newest_wins(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let target = input["pool"]["spec"]["configuration"]["name"].as_str().unwrap_or_default();
    let limit = output["maxUnavailable"].as_u64().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(0);
    let unavailable: Vec<_> = list(&output["unavailable"]).filter_map(Value::as_str).map(str::to_owned).collect();
    let is_unavailable = |node: &Value| unavailable.iter().any(|other| other == name(node));
    let serves = |node: &Value| Seen(node).is_ready();
    let is_well = |node: &Value| !is_unavailable(node) && !Seen(node).is_failing();

    let mut by_name: Vec<_> = list(&input["nodes"]).collect();
    by_name.sort_by_key(|node| name(node));
    let mut by_turn = by_name.clone();
    by_turn.sort_by_key(|node| Seen(node).turn());
    let moving = by_name.iter().filter(|node| is_in_motion(node));
    let rest = || by_turn.iter().filter(|node| !is_in_motion(node) && Seen(node).is_candidate(target));
    let away = rest().filter(|node| !serves(node));
    let impaired = rest().filter(|node| serves(node) && !is_well(node));

    let capacity = limit.saturating_sub(by_name.iter().filter(|node| !is_well(node)).count());
    let (mut places, mut gone) = (0, by_name.iter().filter(|node| !serves(node)).count());
    let (mut selected, mut placed) = (Vec::new(), Vec::new());
    for node in moving.chain(away).chain(impaired).filter(|node| !is_unreachable(node)) {
        let is_spared = serves(node) && !waits_for_a_fix(node) && Seen(node).says("currentConfig") != target;
        // A node that works without a place may request a drain, so other nodes wait for it.
        let is_unplaced = |other: &&&Value| !placed.contains(&name(other)) && name(other) != name(node);
        let at_it = by_name.iter().filter(|other| works_undrained(other) && !is_unreachable(other));
        let working = if works_undrained(node) { 0 } else { at_it.filter(is_unplaced).count() };
        if places + working < limit && (!is_spared || gone < limit) {
            places += 1;
            placed.push(name(node));
            gone += usize::from(serves(node));
            // A daemon that is not ours keeps its target until it is done with it.
            if Seen(node).is_candidate(target) && !is_at_work(node) {
                selected.push(name(node).to_owned());
            }
        }
    }
    let well = rest().filter(|node| serves(node) && is_well(node));
    selected.extend(well.take(capacity).map(|node| name(node).to_owned()));
    output["capacity"] = json!(capacity);
    output["selected"] = json!(ordered(input, selected));
    Expected::Output(output)
}

fn ordered(input: &Value, mut names: Vec<String>) -> Vec<String> {
    names.sort_by_key(|wanted| list(&input["nodes"]).find(|node| name(node) == wanted).map(|node| Seen(node).turn()));
    names
}
