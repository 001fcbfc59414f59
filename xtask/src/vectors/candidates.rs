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
            | Action::SetTaints { .. }
            | Action::SetTopology { .. }
            | Action::DegradeNode { .. } => None,
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
    Rule { name: "newest-wins-at-no-extra-cost", covers: |input| candidates(input).any(is_down), answer: newest_wins },
    // Upstream counts a node that failed and is down twice, as unavailable and as failing.
    Rule {
        name: "each-node-counts-once",
        covers: |input| list(&input["nodes"]).any(counts_twice),
        answer: newest_wins,
    },
    Rule {
        name: "foreign-daemons-finish-first",
        covers: |input| candidates(input).any(is_at_work),
        answer: finish_first,
    },
];

fn candidates(input: &Value) -> impl Iterator<Item = &Value> {
    let target = input["pool"]["spec"]["configuration"]["name"].as_str().unwrap_or_default();
    list(&input["nodes"]).filter(move |node| Seen(node).is_candidate(target))
}

/// Whether a node holds a share of the budget already.
fn is_down(node: &Value) -> bool {
    let seen = Seen(node);
    let rests = seen.says("state") == "Done" && seen.says("currentConfig") == seen.says("desiredConfig");
    !seen.is_ready() || !rests || seen.says("currentConfig").is_empty()
}

fn counts_twice(node: &Value) -> bool {
    Seen(node).is_failing() && !Seen(node).is_ready()
}

fn is_at_work(node: &Value) -> bool {
    matches!(Seen(node).says("state"), "Working" | "Rebooting")
}

fn is_negative(limit: &Value) -> bool {
    limit.as_i64().is_some_and(|number| number < 0)
        || limit.as_str().is_some_and(|text| text.starts_with('-') && text.ends_with('%'))
}

/// A node that is down or at work gets the target besides all others; one that serves although it is degraded gets it
/// while no more nodes are disrupted than the limit; the rest of the budget is for nodes that are well.
fn newest_wins(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let target = input["pool"]["spec"]["configuration"]["name"].as_str().unwrap_or_default();
    let limit = output["maxUnavailable"].as_u64().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(0);
    let mut nodes: Vec<_> = list(&input["nodes"]).collect();
    nodes.sort_by_key(|node| Seen(node).turn());
    let unavailable: Vec<_> = list(&output["unavailable"]).filter_map(Value::as_str).map(str::to_owned).collect();
    let is_unavailable = |node: &Value| unavailable.iter().any(|other| other == name(node));
    let serves_degraded = |node: &Value| Seen(node).is_ready() && Seen(node).is_degraded();

    let failing = nodes.iter().filter(|node| !is_unavailable(node) && Seen(node).is_failing()).count();
    let capacity = limit.saturating_sub(unavailable.len() + failing);
    let mut disrupted = nodes.iter().filter(|node| is_unavailable(node) && !serves_degraded(node)).count();
    let mut left = capacity;
    let mut selected = Vec::new();
    for node in nodes.iter().filter(|node| Seen(node).is_candidate(target)) {
        let gets = if serves_degraded(node) {
            disrupted += 1;
            disrupted <= limit
        } else if is_unavailable(node) {
            true
        } else if left > 0 {
            left -= 1;
            true
        } else {
            false
        };
        if gets {
            selected.push(name(node).to_owned());
        }
    }
    output["capacity"] = json!(capacity);
    output["selected"] = json!(ordered(input, selected));
    Expected::Output(output)
}

/// No node of the vectors runs our daemon, so one that is at work keeps its target until it is done with it.
fn finish_first(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let works = |selected: &Value| {
        let node = list(&input["nodes"]).find(|node| Some(name(node)) == selected.as_str());
        node.is_some_and(is_at_work)
    };
    let kept: Vec<_> = list(&output["selected"]).filter(|selected| !works(selected)).cloned().collect();
    output["selected"] = json!(kept);
    Expected::Output(output)
}

fn ordered(input: &Value, mut names: Vec<String>) -> Vec<String> {
    names.sort_by_key(|wanted| list(&input["nodes"]).find(|node| name(node) == wanted).map(|node| Seen(node).turn()));
    names
}
