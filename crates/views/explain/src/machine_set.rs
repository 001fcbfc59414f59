//! Explains one MachineSet.

use crate::machine::{machine, missing_controllers};
use crate::snapshot::{MachineSetFacts, Snapshot};
use crate::{Explanation, Input, Move, State};

/// Explains the MachineSet of that name, if there is one.
pub fn machine_set(snapshot: &Snapshot, name: &str) -> Option<Explanation> {
    let facts = snapshot.machine_sets.get(name)?;
    let MachineSetFacts { name: own, namespace, desired, available, .. } = facts;
    let mut it = Explanation {
        name: name.to_owned(),
        state: State::Running,
        since: None,
        summary: format!("{available} of {desired} machines are available"),
        waiting_for: Vec::new(),
        moves: Vec::new(),
    };
    if let Some(problem) = &facts.error {
        it.state = State::Blocked;
        it.waiting_for.push(format!("a correction: {problem}"));
        it.moves.push(Move::new("correct it", format!("kubectl -n {namespace} edit machineset {own}")));
        return Some(it);
    }
    let members: Vec<_> = snapshot.machines_of(facts).filter_map(|member| machine(snapshot, member)).collect();
    let settled = available == desired && facts.replicas == *desired;
    // A machine whose node was not read is counted by the set's own status.
    let is_well = |member: &Explanation| matches!(member.state, State::Running | State::Unknown);
    if settled && members.iter().all(is_well) {
        return Some(it);
    }
    let is_updating = |member: &Explanation| matches!(member.state, State::Running | State::Updating | State::Unknown);
    it.state = match members.iter().all(is_updating) && facts.replicas == *desired && !members.is_empty() {
        true => State::Updating,
        false => State::Provisioning,
    };
    if let Some(controllers) = missing_controllers(snapshot) {
        it.state = State::Blocked;
        it.waiting_for.push(controllers.lack());
        it.moves.push(controllers.look());
        return Some(it);
    }
    if let Some(why) = snapshot.unread.why_in(Input::Machines, namespace) {
        it.state = State::Unknown;
        it.waiting_for.push(format!("machines that are not known: {why}"));
        return Some(it);
    }
    for member in members.iter().filter(|member| !is_well(member)) {
        if matches!(member.state, State::Blocked | State::Failed) {
            it.state = it.state.max(member.state);
        }
        let what = member.waiting_for.first().unwrap_or(&member.summary);
        it.waiting_for.push(format!("machine {}: {what}", member.name));
        it.moves.push(Move::new(
            format!("see why {} is not ready", member.name),
            format!("machinist why machine {}", member.name),
        ));
    }
    if it.waiting_for.is_empty() {
        it.waiting_for.push(if facts.replicas < *desired {
            "its controller to make the machines that are missing".to_owned()
        } else if facts.replicas > *desired {
            "its controller to take away the machines that are too many".to_owned()
        } else {
            "its nodes to have been ready for as long as it asks".to_owned()
        });
    }
    Some(it)
}
