//! Whether a new config works on this node, and whether it may stay.
//!
//! A local failure (a unit of the config, the kubelet, a check) reverts when the deadline has passed, or at once when a unit
//! has plainly failed. A silent API alone only extends the deadline; an API that is silent together with a witness that
//! could be reached before means that this config has cut the node off. So does one that is silent to another kubeconfig than
//! before, or that cannot be asked at all because the kubeconfig is broken. All are looked at anew at every look: what was
//! heard before the change says nothing about it.

use serde::{Deserialize, Serialize};

mod clock;

pub use clock::Clock;

/// How long a config must stay well that has units or checks of its own or took effect without a reboot. Services that crash
/// do it soon after their start, and a network is often gone only seconds after it was told to change.
const SETTLE: i64 = 5;
/// A unit that failed is given this long to be restarted by its manager.
const FAILED_FOR: i64 = 10;

/// How to tell whether the new config works.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trial {
    pub deadline_seconds: u32,
    /// Units that must not have failed.
    pub units: Vec<String>,
    /// The kubelet answered before, so it must answer again.
    pub kubelet: bool,
    /// Could be reached before: `host:port`.
    pub witness: Option<String>,
    pub checks: Vec<Check>,
    /// It takes effect without a reboot.
    #[serde(default)]
    pub live: bool,
    /// How the API was reached before, as a digest. Journals of older daemons do not know.
    #[serde(default)]
    pub way: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Check {
    Unit { name: String, unit: String },
    Tcp { name: String, address: String },
    Http { name: String, url: String },
}

/// What was seen at one look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub failed_units: Vec<String>,
    pub failed_checks: Vec<String>,
    pub kubelet_is_well: bool,
    pub api_is_heard: bool,
    pub witness_answers: bool,
    pub credential: Credential,
}

/// The host's way to the API, next to the one before the change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credential {
    #[default]
    Same,
    /// It names another cluster or trusts other authorities.
    Other,
    /// It cannot be used, for this reason.
    Broken(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    Waiting,
    Failed(String),
}

/// `elapsed` is in seconds since the config took effect, as [`Clock`] counts them.
pub fn judge(trial: &Trial, seen: &Seen, elapsed: i64) -> Verdict {
    let mut problems: Vec<String> = Vec::new();
    problems.extend(seen.failed_units.iter().map(|unit| format!("unit {unit} has failed")));
    problems.extend(seen.failed_checks.iter().cloned());
    if !seen.kubelet_is_well {
        problems.push("the kubelet is not healthy".into());
    }
    let is_cut_off = !seen.api_is_heard && !seen.witness_answers;
    if is_cut_off {
        problems.push("neither the API nor the witness can be reached, and both could before".into());
    }
    match &seen.credential {
        Credential::Same => {}
        Credential::Other if seen.api_is_heard => {}
        Credential::Other => {
            problems
                .push("the API is not heard with the kubeconfig that came with it, and was with the one before".into());
        }
        Credential::Broken(reason) => problems.push(format!("the API cannot be asked any more: {reason}")),
    }
    let deadline = i64::from(trial.deadline_seconds);
    let failed =
        |problems: &[String]| Verdict::Failed(format!("the new config failed its trial: {}", problems.join("; ")));
    if !seen.failed_units.is_empty() && elapsed >= FAILED_FOR.min(deadline) {
        return failed(&problems);
    }
    if !problems.is_empty() {
        return if elapsed >= deadline { failed(&problems) } else { Verdict::Waiting };
    }
    if !seen.api_is_heard {
        return Verdict::Waiting;
    }
    let settles = trial.live || !trial.units.is_empty() || !trial.checks.is_empty();
    let settle = if settles { SETTLE.min(deadline) } else { 0 };
    if elapsed >= settle { Verdict::Passed } else { Verdict::Waiting }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial() -> Trial {
        Trial { deadline_seconds: 60, units: vec!["a.service".into()], kubelet: true, ..Trial::default() }
    }

    fn well() -> Seen {
        Seen { kubelet_is_well: true, api_is_heard: true, witness_answers: true, ..Seen::default() }
    }

    #[test]
    fn a_config_that_stays_well_passes() {
        assert_eq!(judge(&trial(), &well(), 0), Verdict::Waiting);
        assert_eq!(judge(&trial(), &well(), 6), Verdict::Passed);
    }

    #[test]
    fn a_change_without_a_reboot_must_stay_well_for_a_while() {
        let trial = Trial { deadline_seconds: 60, live: true, ..Trial::default() };
        assert_eq!(judge(&trial, &well(), 0), Verdict::Waiting, "the network may go in a moment");
        assert_eq!(judge(&trial, &well(), 5), Verdict::Passed);
        let rebooted = Trial { live: false, ..trial };
        assert_eq!(judge(&rebooted, &well(), 0), Verdict::Passed);
    }

    #[test]
    fn a_failed_unit_ends_the_trial_before_its_deadline() {
        let seen = Seen { failed_units: vec!["a.service".into()], ..well() };
        assert_eq!(judge(&trial(), &seen, 3), Verdict::Waiting);
        let verdict = Verdict::Failed("the new config failed its trial: unit a.service has failed".into());
        assert_eq!(judge(&trial(), &seen, 11), verdict);
    }

    #[test]
    fn a_silent_api_alone_only_extends_the_deadline() {
        let seen = Seen { api_is_heard: false, ..well() };
        assert_eq!(judge(&trial(), &seen, 100_000), Verdict::Waiting);
    }

    #[test]
    fn a_silent_api_with_a_lost_witness_reverts_at_the_deadline() {
        let seen = Seen { api_is_heard: false, witness_answers: false, ..well() };
        assert_eq!(judge(&trial(), &seen, 59), Verdict::Waiting);
        assert!(matches!(judge(&trial(), &seen, 60), Verdict::Failed(_)));
    }

    #[test]
    fn a_silent_api_reverts_at_the_deadline_when_the_way_to_it_has_changed() {
        let seen = Seen { api_is_heard: false, credential: Credential::Other, ..well() };
        assert_eq!(judge(&trial(), &seen, 59), Verdict::Waiting);
        assert!(matches!(judge(&trial(), &seen, 60), Verdict::Failed(_)));
        let heard = Seen { api_is_heard: true, ..seen };
        assert_eq!(judge(&trial(), &heard, 60), Verdict::Passed, "it may have moved for a reason");
    }

    #[test]
    fn a_kubeconfig_that_cannot_be_used_reverts_at_the_deadline() {
        let broken = Credential::Broken("/etc/kubernetes/kubelet.conf cannot be read".into());
        let seen = Seen { api_is_heard: false, credential: broken, ..well() };
        assert_eq!(judge(&trial(), &seen, 59), Verdict::Waiting, "a kubelet may be about to write it");
        let Verdict::Failed(reason) = judge(&trial(), &seen, 60) else { panic!("it stays") };
        assert!(reason.contains("/etc/kubernetes/kubelet.conf"), "{reason}");
    }

    #[test]
    fn a_kubelet_that_was_well_must_be_well_again() {
        let seen = Seen { kubelet_is_well: false, ..well() };
        assert_eq!(judge(&trial(), &seen, 59), Verdict::Waiting);
        assert!(matches!(judge(&trial(), &seen, 60), Verdict::Failed(_)));
    }
}
