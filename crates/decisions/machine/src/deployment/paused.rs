//! Scaling a deployment that is paused: no set is made, and those that are there share the size.

use api::annotations::MAX_REPLICAS;

use super::Goal;
use super::facts::{Child, Family, name};

pub(super) fn step(goal: &Goal, family: &mut Family) {
    let active = family.all().filter(|child| child.replicas > 0).count();
    match active {
        // Nothing runs: the newest set takes everything.
        0 => {
            if let Some(child) = family.new.as_mut().or(family.old.last_mut()) {
                child.replicas = goal.replicas;
            }
        }
        1 => {
            if let Some(child) = children(family).find(|child| child.replicas > 0) {
                child.replicas = goal.replicas;
            }
        }
        _ if is_saturated(goal, family) => family.old.iter_mut().for_each(|child| child.replicas = 0),
        _ => share(goal, family),
    }
}

fn children(family: &mut Family) -> impl Iterator<Item = &mut Child> {
    family.new.iter_mut().chain(&mut family.old)
}

/// Whether the new set serves alone.
fn is_saturated(goal: &Goal, family: &Family) -> bool {
    let new = family.new.as_ref();
    new.is_some_and(|new| new.replicas == goal.replicas && new.available() == goal.replicas)
}

/// Spreads the change over the active sets in proportion to their sizes, largest first; what rounding leaves goes to the
/// first.
fn share(goal: &Goal, family: &mut Family) {
    let allowed = if goal.replicas > 0 { goal.most() } else { 0 };
    let to_add = allowed.saturating_sub(family.total());
    let mut active: Vec<&mut Child> = children(family).filter(|child| child.replicas > 0).collect();
    active.sort_by_key(|child| {
        let created = child.set.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
        // Equals: newer first when growing, older first when shrinking.
        (std::cmp::Reverse(child.replicas), if to_add > 0 { -created } else { created }, name(&child.set))
    });
    let mut left = to_add;
    for child in &mut active {
        let change = proportion(child, allowed).clamp(to_add.min(0), to_add.max(0));
        let change = if to_add > 0 { change.min(left) } else { change.max(left) };
        child.replicas += change;
        left -= change;
    }
    if let Some(first) = active.first_mut() {
        first.replicas = first.replicas.saturating_add(left).max(0);
    }
}

/// How much a set grows or shrinks when the whole becomes `allowed`.
fn proportion(child: &Child, allowed: i32) -> i32 {
    let annotation = child.set.metadata.annotations.as_ref().and_then(|all| all.get(MAX_REPLICAS));
    let before = annotation.and_then(|text| text.parse::<i32>().ok()).filter(|max| *max > 0).unwrap_or(allowed.max(1));
    let wanted = f64::from(child.replicas) * f64::from(allowed) / f64::from(before);
    // Within the range of the sizes it is computed from.
    wanted.round() as i32 - child.replicas
}
