//! Prints a plan as people read it.

use std::fmt::Write as _;

use change::disruption::Class;
use explain::span;
use jiff::SignedDuration;
use owo_colors::OwoColorize as _;
use proposal::Secrets;
use proposal::plan::{Left, NodePlan, PoolPlan};

use super::Proposed;

/// Of more waves or nodes than this the rest is counted, not listed; `-o json` has everything.
const LISTED: usize = 20;

pub(crate) fn report(proposal: &Proposed, secrets: Secrets) -> String {
    let plan = &proposal.plan;
    if plan.is_empty() {
        return at_rest(&proposal.unwell);
    }
    let mut text = String::new();
    for pool in &plan.pools {
        if let Some(comparison) = proposal.comparisons.get(&pool.pool) {
            text.push_str(&crate::diff::describe(comparison, secrets));
        }
        describe(&mut text, pool);
        text.push('\n');
    }
    let blocked: usize = plan.pools.iter().flat_map(|pool| &pool.nodes).map(|node| node.blocked.len()).sum();
    let nodes: usize = plan.pools.iter().map(|pool| pool.nodes.len()).sum();
    let waits = if blocked > 0 {
        format!(", and longer while {blocked} pods are kept by their budgets")
    } else {
        String::new()
    };
    let _ = writeln!(text, "{}, about {}{waits}.", count(nodes, "node"), seconds(plan.estimate_seconds).bold());
    text
}

/// Nobody moves; which nodes are not as they should be all the same.
fn at_rest(unwell: &[Left]) -> String {
    let mut text = format!("{}\n", proposal::plan::nothing_to_do(unwell));
    for left in unwell.iter().take(LISTED) {
        let _ = writeln!(text, "{:<11} {} {}", "not so".yellow(), left.node.bold(), left.why);
    }
    if unwell.len() > LISTED {
        let _ = writeln!(text, "{:<11} and {} more; `machinist status` lists them", "", unwell.len() - LISTED);
    }
    text
}

fn describe(text: &mut String, pool: &PoolPlan) {
    if pool.paused {
        let pause = pool.pause.as_ref().map(ToString::to_string).unwrap_or_default();
        let label = "paused     ".yellow();
        let _ = writeln!(text, "{label} the pool is paused{pause}; nothing below happens until it is not");
    }
    let label = |index: usize, word: &'static str| if index == 0 { word } else { "" };
    for (index, obstacle) in pool.obstacles.iter().enumerate() {
        let _ = writeln!(text, "{:<11} {}", label(index, "refused").red(), obstacle);
    }
    if !pool.obstacles.is_empty() {
        return;
    }
    if let Some(settle) = pool.settle_seconds {
        let _ =
            writeln!(text, "{:<11} the target stays the same for {} before a node gets it", "settles", seconds(settle));
    }
    if let Some(trial) = &pool.trial {
        let _ = writeln!(text, "{:<11} {trial}", "on trial");
    }
    for (index, wave) in pool.waves.iter().enumerate().take(LISTED) {
        let _ = writeln!(text, "{:<11} {}. {}", label(index, "order"), index + 1, wave.join(", "));
    }
    if pool.waves.len() > LISTED {
        let _ = writeln!(text, "{:<11} and {} more waves", "", pool.waves.len() - LISTED);
    }
    for (index, left) in pool.left.iter().enumerate().take(LISTED) {
        let _ = writeln!(text, "{:<11} {}: {}", label(index, "not reached").yellow(), left.node, left.why);
    }
    for (index, node) in pool.nodes.iter().enumerate().take(LISTED) {
        let _ = writeln!(text, "{:<11} {}", label(index, "nodes"), line(node));
        for pod in &node.blocked {
            let _ = writeln!(text, "{:<11}   {} {}: {}", "", "kept".red(), pod.pod, pod.why);
        }
    }
    if pool.nodes.len() > LISTED {
        let _ = writeln!(text, "{:<11} and {} more nodes; -o json lists them", "", pool.nodes.len() - LISTED);
    }
    let _ = writeln!(
        text,
        "{:<11} about {} in {}",
        "time",
        seconds(pool.estimate_seconds),
        count(pool.waves.len(), "wave")
    );
}

fn line(node: &NodePlan) -> String {
    let what = [(&node.files, "file"), (&node.units, "unit"), (&node.other, "other setting")];
    let what = what.iter().filter(|(list, _)| !list.is_empty());
    let what: Vec<_> = what.map(|(list, word)| count(list.len(), word)).collect();
    let what = if what.is_empty() { "no change on disk".to_owned() } else { what.join(", ") };
    let act = match node.disruption {
        Class::None => "no disruption".to_owned(),
        _ => node.actions.iter().filter(|action| *action != "none").cloned().collect::<Vec<_>>().join(", "),
    };
    let pods = match (node.drains, node.pods.as_deref()) {
        (false, _) => String::new(),
        (true, None) => "; drained first, and which pods would move could not be read".to_owned(),
        (true, Some([])) => "; drained first, no pods to move".to_owned(),
        (true, Some(pods)) => format!("; drained first, {} to move: {}", count(pods.len(), "pod"), some(pods)),
    };
    format!("{}: {what}; {act}{pods}", node.node.bold())
}

fn count(number: usize, word: &str) -> String {
    if number == 1 { format!("1 {word}") } else { format!("{number} {word}s") }
}

fn some(list: &[String]) -> String {
    const SHOWN: usize = 4;
    let head = list.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if list.len() > SHOWN { format!("{head} and {} more", list.len() - SHOWN) } else { head }
}

fn seconds(seconds: i64) -> String {
    span(SignedDuration::from_secs(seconds))
}
