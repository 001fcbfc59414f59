//! A plan of machines in words.

use std::fmt::Write as _;

use super::{Departure, Plan};

/// So many pods are named; the rest is a number.
const NAMED: usize = 5;

/// The plan for people.
#[must_use]
pub fn report(plan: &Plan) -> String {
    let mut text = String::new();
    if plan.is_empty() {
        text.push_str("No machine is created or deleted.\n");
    }
    for (number, round) in plan.rounds.iter().enumerate() {
        let after = if number == 0 { "" } else { ", when the machines before are there or gone" };
        let _ = writeln!(text, "{}.{after}", number + 1);
        for arrival in &round.create {
            let _ = writeln!(text, "   + {} is created by {}", arrival.machine, arrival.by);
        }
        round.delete.iter().for_each(|leaving| tell(&mut text, leaving));
    }
    plan.notes.iter().for_each(|note| {
        let _ = writeln!(text, "{note}");
    });
    text
}

fn tell(text: &mut String, leaving: &Departure) {
    let Departure { machine, by, why, node, drains, pods, blocked, hooks } = leaving;
    let _ = writeln!(text, "   - {machine} is deleted by {by}: {why}");
    match (node, drains, pods) {
        (None, _, _) => text.push_str("       it has no node\n"),
        (Some(node), false, _) => {
            let _ = writeln!(text, "       node {node} is not drained");
        }
        (Some(node), true, None) => {
            let _ = writeln!(text, "       node {node} is drained; its pods could not be read");
        }
        (Some(node), true, Some(pods)) if pods.is_empty() => {
            let _ = writeln!(text, "       node {node} is drained; no pod moves");
        }
        (Some(node), true, Some(pods)) => {
            let named = pods.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
            let more = if pods.len() > NAMED { ", …" } else { "" };
            let _ = writeln!(text, "       node {node} is drained; {} pods move: {named}{more}", pods.len());
        }
    }
    for held in blocked {
        let _ = writeln!(text, "       held now: {}: {}", held.pod, held.why);
    }
    for hook in hooks {
        let _ = writeln!(text, "       held by hook {hook}");
    }
}
