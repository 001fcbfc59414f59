//! The lines of the controller's log that people follow a rollout by, in the words of upstream's runbooks.

use api::annotations;

use crate::node::NodeFacts;

/// What a node's change means for its rollout, one line for each step.
pub fn progress(pool: &str, old: &NodeFacts, new: &NodeFacts) -> Vec<String> {
    let mut steps = Vec::new();
    let mut changed = |key: &str, old: &Option<String>, new: &Option<String>| {
        if old != new {
            steps.push(format!("changed annotation {key} = {}", new.as_deref().unwrap_or_default()));
        }
    };
    changed(annotations::DESIRED_CONFIG, &old.desired, &new.desired);
    changed(annotations::CURRENT_CONFIG, &old.current, &new.current);
    if old.state != new.state {
        steps.push(format!("changed annotation {} = {}", annotations::STATE, new.state));
    }
    match (&old.unready, &new.unready) {
        (before, Some(now)) if before.as_ref() != Some(now) => {
            steps.push(format!("Reporting unready: node {} is reporting {now}", new.name));
        }
        (Some(_), None) => steps.push("Reporting ready".to_owned()),
        (_, _) => {}
    }
    if new.is_done() && !old.is_done() {
        steps.push(format!("Completed update to {}", new.desired.as_deref().unwrap_or_default()));
    }
    let zone = new.zone.as_ref().map(|zone| format!("[zone={zone}]")).unwrap_or_default();
    steps.iter().map(|step| format!("Pool {pool}{zone}: node {}: {step}", new.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{State, Unready};

    fn at(current: &str, desired: &str, state: State) -> NodeFacts {
        let (current, desired) = (Some(current.to_owned()), Some(desired.to_owned()));
        NodeFacts { name: "w1".to_owned(), current, desired, state, ..NodeFacts::default() }
    }

    #[test]
    fn each_step_of_a_node_is_one_line_in_the_words_of_runbooks() {
        let old = at("a", "a", State::Done);
        let asked = at("a", "b", State::Done);
        let key = "changed annotation machineconfiguration.openshift.io";
        assert_eq!(progress("worker", &old, &asked), [format!("Pool worker: node w1: {key}/desiredConfig = b")]);
        let away = NodeFacts {
            unready: Some(Unready::NotReady("Unknown".to_owned())),
            zone: Some("z1".to_owned()),
            ..at("a", "b", State::Working)
        };
        assert_eq!(
            progress("worker", &asked, &away),
            [
                format!("Pool worker[zone=z1]: node w1: {key}/state = Working"),
                "Pool worker[zone=z1]: node w1: Reporting unready: node w1 is reporting NotReady=Unknown".to_owned(),
            ]
        );
        assert_eq!(
            progress("worker", &away, &at("b", "b", State::Done)),
            [
                format!("Pool worker: node w1: {key}/currentConfig = b"),
                format!("Pool worker: node w1: {key}/state = Done"),
                "Pool worker: node w1: Reporting ready".to_owned(),
                "Pool worker: node w1: Completed update to b".to_owned(),
            ]
        );
        assert!(progress("worker", &old, &old.clone()).is_empty());
    }
}
