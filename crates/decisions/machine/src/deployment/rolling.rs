//! One step of a rolling update, and of one that waits for deletions.

use super::facts::{Child, Family};
use super::{Goal, naming};

/// Grows the new set as far as the surge allows, then shrinks the old ones as far as availability allows.
pub(super) fn step(goal: &Goal, family: &mut Family) {
    if family.new.is_none() {
        family.new = Some(naming::new_set(goal, family, 0));
    }
    grow_new(goal, family);
    shrink_old(goal, family);
}

/// The new set gets what the old ones no longer have. Old sets only forget machines that are gone.
pub(super) fn step_on_delete(goal: &Goal, family: &mut Family) {
    if family.new.is_none() {
        family.new = Some(naming::new_set(goal, family, 0));
    }
    let mut surplus = -goal.replicas;
    for child in &mut family.old {
        // A status that describes an earlier spec does not tell how many machines there are now.
        if child.is_observed() {
            child.replicas = child.replicas.min(child.present());
        }
        surplus = surplus.saturating_add(child.replicas);
    }
    // A smaller deployment takes old machines first.
    for child in &mut family.old {
        let less = child.replicas.min(surplus).max(0);
        child.replicas -= less;
        surplus -= less;
    }
    let left = family.old.iter().map(|child| child.replicas).fold(0, i32::saturating_add);
    if let Some(new) = &mut family.new {
        new.replicas = (goal.replicas - left).max(0);
    }
}

fn grow_new(goal: &Goal, family: &mut Family) {
    let total = family.total();
    let Some(new) = &mut family.new else { return };
    if new.replicas > goal.replicas {
        new.replicas = goal.replicas;
        return;
    }
    let room = goal.most().saturating_sub(total).min(goal.replicas - new.replicas);
    new.replicas += room.max(0);
}

fn shrink_old(goal: &Goal, family: &mut Family) {
    let min_available = goal.replicas - goal.allowance.unavailable;
    let new_unavailable = family.new.as_ref().map_or(0, |new| new.replicas - new.available());
    let allowed = family.total().saturating_sub(min_available).saturating_sub(new_unavailable);
    if allowed <= 0 {
        return;
    }
    // What does not serve goes first: nobody misses it.
    let mut left = allowed;
    for child in &mut family.old {
        let useless = (child.replicas - child.available()).max(0).min(left);
        child.replicas -= useless;
        left -= useless;
    }
    let available = family.all().map(Child::available).fold(0, i32::saturating_add);
    let mut left = (available - min_available).min(left);
    for child in &mut family.old {
        let less = child.replicas.min(left).max(0);
        child.replicas -= less;
        left -= less;
    }
}
