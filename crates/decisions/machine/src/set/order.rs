//! Which Machines go first when a set shrinks.

use std::str::FromStr;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::Member;

/// What `spec.deletePolicy` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeletePolicy {
    /// Machines that are failed, asked to go, or without a node first; the rest by chance.
    #[default]
    Random,
    Newest,
    Oldest,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported delete policy {0}, must be one of 'Random', 'Newest', or 'Oldest'")]
pub struct UnknownPolicy(String);

impl FromStr for DeletePolicy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        match text {
            "" | "Random" => Ok(Self::Random),
            "Newest" => Ok(Self::Newest),
            "Oldest" => Ok(Self::Oldest),
            other => Err(UnknownPolicy(other.to_owned())),
        }
    }
}

/// Priorities of upstream, which users of the delete annotation rely on.
const MUST: f64 = 100.0;
const BETTER: f64 = 50.0;
const POSSIBLE: f64 = 20.0;
const WITHOUT_NODE: f64 = 40.0;
/// Nothing is lost with a Machine that the provider has no instance for.
const WITHOUT_INSTANCE: f64 = 45.0;

/// Age in seconds at which an `Oldest` priority has come 63 % of its way: 100 days.
const AGE_SCALE: f64 = 100.0 * 24.0 * 3600.0;

/// How willingly a Machine is deleted. Higher goes first.
pub fn priority(member: &Member, policy: DeletePolicy, now: Timestamp) -> f64 {
    if member.deleting {
        return MUST;
    }
    let marked = member.delete_me || member.failed;
    let waits = member.starved && !member.linked;
    match policy {
        DeletePolicy::Random if marked => BETTER,
        DeletePolicy::Random if waits => WITHOUT_INSTANCE,
        DeletePolicy::Random if !member.linked => WITHOUT_NODE,
        DeletePolicy::Random => POSSIBLE,
        DeletePolicy::Oldest | DeletePolicy::Newest if marked || waits => MUST,
        DeletePolicy::Oldest => age_priority(member.created, now),
        DeletePolicy::Newest => MUST - age_priority(member.created, now),
    }
}

/// From 0 for a new Machine towards 50, which it never reaches: marked Machines always go before old ones.
fn age_priority(created: Option<Timestamp>, now: Timestamp) -> f64 {
    let age = created.map_or(0.0, |created| now.duration_since(created).as_secs_f64());
    if age <= 0.0 { 0.0 } else { BETTER * (1.0 - (-age / AGE_SCALE).exp()) }
}

/// The `count` Machines to delete, most willing first. `kept` is sorted by name. Equals go by chance with the policy `Random`,
/// so that names, which often follow the age or the zone, decide nothing; else by name.
pub fn victims<'a>(kept: &[&'a Member], policy: DeletePolicy, count: usize, now: Timestamp) -> Vec<&'a Member> {
    if count >= kept.len() {
        return kept.to_vec();
    }
    let mut ordered: Vec<_> =
        kept.iter().map(|member| (priority(member, policy, now), chance(member, policy), *member)).collect();
    ordered.sort_by(|(one, lot, _), (other, other_lot, _)| other.total_cmp(one).then_with(|| lot.cmp(other_lot)));
    ordered.into_iter().take(count).map(|(_, _, member)| member).collect()
}

/// The lot that a Machine has drawn. It is always the same, so that a plan that is made twice chooses the same Machines.
fn chance(member: &Member, policy: DeletePolicy) -> Option<[u8; 32]> {
    (policy == DeletePolicy::Random && !member.uid.is_empty()).then(|| Sha256::digest(&member.uid).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_waits_for_capacity_goes_before_those_that_serve_whatever_the_policy() {
        let member = |name: &str, starved: bool, linked: bool| Member {
            name: name.to_owned(),
            starved,
            linked,
            created: Some(Timestamp::UNIX_EPOCH),
            ..Member::default()
        };
        // A condition that has not been cleared yet does not make a Machine with a node waste.
        let members = [member("a", false, true), member("b", true, true), member("c", true, false)];
        let kept: Vec<&Member> = members.iter().collect();
        let now = Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(24 * 365);
        for policy in [DeletePolicy::Random, DeletePolicy::Newest, DeletePolicy::Oldest] {
            assert_eq!(victims(&kept, policy, 1, now)[0].name, "c", "{policy:?}");
        }
    }

    #[test]
    fn random_machines_go_by_chance_and_always_the_same_ones() {
        let member = |number: usize| Member {
            name: format!("worker-{number:02}"),
            uid: format!("uid-{number}"),
            linked: true,
            ..Member::default()
        };
        let members: Vec<Member> = (0..20).map(member).collect();
        let kept: Vec<&Member> = members.iter().collect();
        let chosen = |policy| {
            let victims = victims(&kept, policy, 10, Timestamp::UNIX_EPOCH);
            victims.iter().map(|member| member.name.clone()).collect::<Vec<_>>()
        };
        let random = chosen(DeletePolicy::Random);
        assert_eq!(random, chosen(DeletePolicy::Random));
        let early = random.iter().filter(|name| name.as_str() < "worker-10").count();
        assert!((2..=8).contains(&early), "{random:?}");
        assert_eq!(chosen(DeletePolicy::Oldest)[0], "worker-00");
    }
}
