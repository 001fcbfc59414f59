//! What holds for every fleet.

use proptest::prelude::*;
use rollout::node::State;
use rollout::{Action, NodeFacts, PoolNodes, Report, Snapshot, plan};
use serde_json::json;

use crate::world::{NEW, OLD, annotated, at, carry_out, change, node, workers};

fn any_config() -> impl Strategy<Value = String> {
    prop_oneof![Just(OLD.to_owned()), Just(NEW.to_owned()), Just(String::new()), "\\PC{0,8}"]
}

fn any_node(name: String) -> impl Strategy<Value = NodeFacts> {
    let state = prop_oneof![
        4 => Just("Done".to_owned()), 2 => Just("Working".to_owned()), 2 => Just("Degraded".to_owned()), 1 => Just("Unreconcilable".to_owned()),
        1 => Just(String::new()), 1 => "\\PC{0,8}",
    ];
    let zone = proptest::option::of("[a-c]");
    (any_config(), any_config(), state, any::<bool>(), any::<bool>(), any::<bool>(), zone, 1u64..50, "\\PC{0,6}")
        .prop_map(move |(current, desired, state, ready, cordoned, ours, zone, version, garbage)| {
            let mut more = annotated(&[
                ("currentConfig", &current),
                ("desiredConfig", &desired),
                ("state", &state),
                ("desiredDrain", &garbage),
                ("reason", &garbage),
                (if ours { "machinist.dev/daemon" } else { "machinist.dev/drain-started" }, &garbage),
            ]);
            if !ours {
                more["metadata"]["annotations"]["machinist.dev/daemon"] = serde_json::Value::Null;
            }
            more["metadata"]["resourceVersion"] = json!(version.to_string());
            if let Some(zone) = &zone {
                more["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": zone});
            }
            more["spec"] = json!({"unschedulable": cordoned});
            more["status"] = json!({"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]});
            if let Some(annotations) = more["metadata"]["annotations"].as_object_mut() {
                annotations.retain(|_, value| !value.is_null());
            }
            node(&name, OLD, more)
        })
}

fn any_nodes() -> impl Strategy<Value = Vec<NodeFacts>> {
    (0usize..9).prop_flat_map(|count| (0..count).map(|number| any_node(format!("n{number}"))).collect::<Vec<_>>())
}

/// Lets every daemon finish its change.
fn finish_all(world: &mut Snapshot) {
    let version = world.nodes.newest() + 1;
    let names: Vec<_> = world.nodes.iter().map(|facts| facts.name.clone()).collect();
    for name in names {
        change(world, &name, &version.to_string(), |facts| {
            facts.current.clone_from(&facts.desired);
            facts.state = State::Done;
            facts.unready = None;
            facts.kubelet_down = false;
            facts.unschedulable = false;
        });
    }
}

proptest! {
    #[test]
    fn never_more_nodes_are_targeted_than_the_limit_whatever_state_they_are_in(nodes in any_nodes(), limit in 1i32..4) {
        let mut world = workers(json!(limit), nodes);
        let limit = usize::try_from(limit).unwrap();
        let mut targeted = std::collections::BTreeSet::new();
        for _ in 0..3 {
            let next = plan(&world);
            targeted.extend(next.actions.iter().filter_map(|action| match action {
                Action::Target(target) => Some(target.node.clone()),
                _ => None,
            }));
            carry_out(&mut world, &next);
        }
        // Who runs the target anyway has nothing to do.
        targeted.retain(|node| !world.nodes.get(node).is_some_and(NodeFacts::is_done));
        prop_assert!(targeted.len() <= limit, "{targeted:?} at once, and the limit is {limit}");
    }

    #[test]
    fn a_fleet_whose_daemons_do_their_work_settles_and_then_nothing_is_planned(nodes in any_nodes(), limit in 1i32..4) {
        let mut world = workers(json!(limit), nodes);
        for round in 0..40 {
            world.now = at(round);
            finish_all(&mut world);
            let next = plan(&world);
            if next.actions.is_empty() && next.status == world.pool.status {
                prop_assert_eq!(world.nodes.counts().ready, world.nodes.counts().machines);
                prop_assert!(world.ledger.spec.claims.is_empty() && world.ledger.spec.next.is_empty());
                return Ok(());
            }
            carry_out(&mut world, &next);
        }
        prop_assert!(false, "still planning: {:?}", plan(&world).actions);
    }

    #[test]
    fn an_index_kept_up_to_date_is_an_index_built_from_scratch(
        first in any_nodes(), second in any_nodes(), gone in proptest::collection::vec(0usize..9, 0..3), other_goal: bool,
    ) {
        let mut kept = workers(json!(1), first);
        kept.observe_report("n1", Report { has_conditions: true, images_pinned: true, ..Report::default() });
        for facts in second {
            kept.observe_node(facts);
        }
        for number in gone {
            kept.nodes.forget(&format!("n{number}"));
        }
        if other_goal {
            let mut rules = kept.nodes.rules().clone();
            rules.goal.config = OLD.to_owned();
            kept.nodes.set_rules(rules);
        }
        let mut scratch = PoolNodes::new(kept.nodes.rules().clone());
        for facts in kept.nodes.iter() {
            scratch.observe_report(&facts.name, kept.nodes.report(&facts.name).cloned().unwrap_or_default());
            scratch.observe(facts.clone());
        }
        prop_assert_eq!(kept.nodes.index(), scratch.index());
    }

    #[test]
    fn only_nodes_that_want_it_get_the_target_and_each_is_claimed_first(nodes in any_nodes(), limit in 1i32..4) {
        let world = workers(json!(limit), nodes);
        let plan = plan(&world);
        let claims = plan.actions.iter().find_map(|action| match action {
            Action::WriteLedger { spec, .. } => Some(spec.claims.clone()),
            _ => None,
        }).unwrap_or_default();
        for action in &plan.actions {
            let Action::Target(target) = action else { continue };
            let facts = world.nodes.get(&target.node).unwrap();
            prop_assert!(facts.desired.as_deref() != Some(NEW) && !facts.is_foreign_and_working());
            let claimed = claims.iter().any(|claim| {
                claim.node == target.node && claim.node_resource_version.as_ref() == Some(&target.resource_version.text)
            });
            prop_assert!(claimed, "{} has no claim", target.node);
        }
    }
}
