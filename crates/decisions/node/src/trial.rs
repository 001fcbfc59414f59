//! Whether a new config works on this node, and whether it may stay.
//!
//! A local failure (a unit of the config, the kubelet, a check) reverts when the deadline has passed, or at once when a unit
//! has plainly failed. A silent API alone only extends the deadline; an API that is silent together with a witness that
//! could be reached before means that this config has cut the node off. So does one that is silent to another kubeconfig than
//! before, or that cannot be asked at all because the kubeconfig is broken. All are looked at anew at every look: what was
//! heard before the change says nothing about it.
//!
//! Where no witness could be reached before the change, nobody can tell a node that is cut off from an API that is down.
//! Then a silent API reverts too, after several deadlines: it was heard just before the change. A change that nothing is told
//! of hardly cuts a node off, so it is not taken back for that; it waits for the API.

use serde::{Deserialize, Deserializer, Serialize};

mod clock;

pub use clock::Clock;

/// How long a config must stay well that has units or checks of its own or took effect without a reboot. Services that crash
/// do it soon after their start, and a network is often gone only seconds after it was told to change.
const SETTLE: i64 = 5;
/// A unit that failed is given this long to be restarted by its manager.
const FAILED_FOR: i64 = 10;
/// How many deadlines a silent API is waited for where nobody else tells whether the network is there: half an hour by
/// default. Most outages of an API are shorter, and a node that cut itself off must come back without a person.
const UNWITNESSED: i64 = 3;

/// How to tell whether the new config works.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trial {
    pub deadline_seconds: u32,
    /// Units that must not have failed.
    pub units: Vec<String>,
    /// The kubelet answered before, so it must answer again.
    pub kubelet: bool,
    /// Could be reached before. While one of them answers, the network is there.
    #[serde(default, alias = "witness", deserialize_with = "witnesses")]
    pub witnesses: Vec<Witness>,
    pub checks: Vec<Check>,
    /// It takes effect without a reboot.
    #[serde(default)]
    pub live: bool,
    /// Nothing is told of it, so one answer of the API is enough.
    #[serde(default)]
    pub look: bool,
    /// How the API was reached before, as a digest. Journals of older daemons do not know.
    #[serde(default)]
    pub way: Option<String>,
}

/// Who tells whether the network is there when the API is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// `host:port`.
    pub address: String,
    /// It took the connection, and did not merely refuse it. A firewall of this host refuses in its name, so a refusal is
    /// an answer only of one that refused before.
    pub accepts: bool,
    /// It is the config server, which stands with the API on one host or behind one balancer: its answer proves the network,
    /// and its silence says no more than that of the API.
    #[serde(default)]
    pub beside_api: bool,
}

/// Journals of older daemons name one at most.
fn witnesses<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Witness>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        All(Vec<Witness>),
        One(String),
    }
    Ok(match Option::deserialize(from)? {
        None => Vec::new(),
        Some(Stored::All(all)) => all,
        Some(Stored::One(address)) => vec![Witness { address, accepts: false, beside_api: false }],
    })
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
    let only_beside_api = !trial.witnesses.is_empty() && trial.witnesses.iter().all(|witness| witness.beside_api);
    let is_cut_off = !seen.api_is_heard && !seen.witness_answers && !only_beside_api;
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
        let is_witnessed = !trial.witnesses.is_empty() && seen.witness_answers;
        if trial.look || is_witnessed || elapsed < deadline.saturating_mul(UNWITNESSED) {
            return Verdict::Waiting;
        }
        return failed(&[format!(
            "the API could be reached before and does not answer since {elapsed} seconds, and nobody else who could be \
             reached before tells whether the network is there"
        )]);
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

    fn witnessed() -> Trial {
        Trial {
            witnesses: vec![Witness { address: "10.0.0.1:53".into(), accepts: true, beside_api: false }],
            ..trial()
        }
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
        assert_eq!(judge(&witnessed(), &seen, 100_000), Verdict::Waiting);
    }

    #[test]
    fn a_silent_api_reverts_after_three_deadlines_where_there_never_was_a_witness() {
        let seen = Seen { api_is_heard: false, ..well() };
        assert_eq!(judge(&trial(), &seen, 179), Verdict::Waiting);
        let Verdict::Failed(reason) = judge(&trial(), &seen, 180) else { panic!("it waits without end") };
        assert!(reason.contains("does not answer since 180 seconds"), "{reason}");
        assert_eq!(judge(&trial(), &well(), 180), Verdict::Passed);
    }

    #[test]
    fn a_config_server_that_falls_silent_with_the_api_says_no_more_than_the_api() {
        let mut trial = witnessed();
        trial.witnesses[0].beside_api = true;
        let silent = Seen { api_is_heard: false, witness_answers: false, ..well() };
        assert_eq!(judge(&trial, &silent, 179), Verdict::Waiting, "one machine that is down takes nothing back");
        assert!(matches!(judge(&trial, &silent, 180), Verdict::Failed(_)), "a node that cut itself off comes back");
        let answers = Seen { witness_answers: true, ..silent.clone() };
        assert_eq!(judge(&trial, &answers, 100_000), Verdict::Waiting, "the network is there");
        trial.witnesses.extend(witnessed().witnesses);
        assert!(matches!(judge(&trial, &silent, 60), Verdict::Failed(_)), "a gateway is lost too");
    }

    #[test]
    fn a_change_that_nothing_is_told_of_passes_with_the_first_answer_of_the_api_and_not_without() {
        let trial = Trial { deadline_seconds: 60, look: true, ..Trial::default() };
        let well = Seen { kubelet_is_well: true, ..well() };
        assert_eq!(judge(&trial, &well, 0), Verdict::Passed);
        let silent = Seen { api_is_heard: false, ..well };
        assert_eq!(judge(&trial, &silent, 0), Verdict::Waiting);
        assert_eq!(judge(&trial, &silent, 100_000), Verdict::Waiting, "an outage of the API takes nothing back");
    }

    #[test]
    fn the_witness_of_an_older_daemons_journal_is_read() {
        let read = |witness: &str| {
            let text = format!(r#"{{"deadlineSeconds":60,"units":[],"kubelet":true,{witness}"checks":[]}}"#);
            serde_json::from_str::<Trial>(&text).map(|trial| trial.witnesses).expect("a trial")
        };
        let one = Witness { address: "10.0.0.1:53".into(), accepts: false, beside_api: false };
        assert_eq!(read(r#""witness":"10.0.0.1:53","#), [one]);
        assert_eq!((read(r#""witness":null,"#), read("")), (Vec::new(), Vec::new()));
        let text = serde_json::to_string(&witnessed()).expect("JSON");
        assert_eq!(serde_json::from_str::<Trial>(&text).expect("a trial"), witnessed());
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
