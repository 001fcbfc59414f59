//! Decides whether a new machine is believed about the custom pool that it says it was born into.
//!
//! What it says stands in annotations that it writes itself until its first report. What counts is the credential that it was
//! let in with: a BootstrapToken made for it, or the user data of its Machine. Nothing here reads them.

use api::annotations;
use api::machine::Machine;
use api::machinist::BootstrapToken;
use jiff::{SignedDuration, Timestamp};

use crate::node::NodeFacts;

/// A Machine is linked to its node, and a token's use is counted, within seconds. A person is told after this time.
pub const GRACE: SignedDuration = SignedDuration::from_mins(10);

/// A first boot and the wait for its certificate fit between the use of a token and the node. A token that names no Machine
/// object speaks for one machine only, and not for the next one of that name.
const FIRST_BOOT: SignedDuration = SignedDuration::from_hours(2);

/// What became of a machine's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its credential is for this pool.
    Believed,
    /// No credential is known of it yet; one may be until then.
    Waits { until: Timestamp },
    /// Nothing speaks for it. It belongs to no pool until something does, or a person decides.
    Unproven { why: String },
}

/// Judges what a node says about its birth. `machine` is the Machine that the node names, if there is one.
pub fn judge(
    facts: &NodeFacts,
    pool: &str,
    tokens: &[BootstrapToken],
    machine: Option<&Machine>,
    now: Timestamp,
) -> Verdict {
    let node = facts.name.as_str();
    // The node names a Machine itself; that the Machine is its own is said by whoever links the two.
    let machine = machine.filter(|machine| {
        let linked = machine.status.as_ref().and_then(|status| status.node_ref.as_ref());
        linked.and_then(|linked| linked.name.as_deref()) == Some(node)
    });
    let name = machine.and_then(|machine| machine.metadata.name.as_deref());
    let uid = machine.and_then(|machine| machine.metadata.uid.as_deref());
    let is_its = |token: &&BootstrapToken| match (&token.spec.machine, &token.spec.machine_uid) {
        (Some(_), Some(of)) => uid == Some(of.as_str()),
        (Some(of), None) => of == node || name == Some(of.as_str()),
        (None, _) => false,
    };
    let mut used = tokens.iter().filter(is_its).filter(|token| is_used(token, facts));
    let user_data = machine.and_then(user_data);
    let of_pool = [format!("{pool}-user-data"), format!("{pool}-user-data-managed")];
    if used.any(|token| token.spec.pool == pool)
        || user_data.is_some_and(|secret| of_pool.iter().any(|one| one == secret))
    {
        return Verdict::Believed;
    }
    let until = facts.created.unwrap_or(Timestamp::MIN).saturating_add(GRACE).unwrap_or(Timestamp::MAX);
    if now < until {
        return Verdict::Waits { until };
    }
    let why = match (machine, user_data) {
        (Some(_), Some(secret)) => format!("its Machine has the user data {secret}"),
        (Some(_), None) => "its Machine has no user data".to_owned(),
        (None, _) => "it has no Machine".to_owned(),
    };
    Verdict::Unproven {
        why: format!(
            "node {node} says that it was born into pool {pool}, and no BootstrapToken for this machine and pool was used \
             while {why}; it belongs to no pool until that is settled: give it the labels of {pool} if it belongs there, or \
             annotate it with {}=no if it does not",
            annotations::CUSTOM_POOL_LABELS_APPLIED
        ),
    }
}

/// Whether a token was used for the first boot of this node, or for that of the Machine that it names by its UID.
fn is_used(token: &BootstrapToken, facts: &NodeFacts) -> bool {
    let Some(status) = token.status.as_ref().filter(|status| status.uses > 0) else { return false };
    if token.spec.machine_uid.is_some() {
        return true;
    }
    match (status.last_used.as_ref(), facts.created) {
        (Some(used), Some(created)) => created.duration_since(used.0).abs() <= FIRST_BOOT,
        (None, _) | (_, None) => false,
    }
}

/// Fields of the providers' specs that name the Secret whose user data a Machine boots with.
const USER_DATA: [&str; 4] =
    ["/userDataSecret/name", "/userData/name", "/ignition/userDataSecret", "/cloudInit/userDataSecret"];

fn user_data(machine: &Machine) -> Option<&str> {
    let spec = machine.spec.provider_spec.as_ref()?.value.as_ref()?;
    USER_DATA.into_iter().find_map(|path| spec.pointer(path)?.as_str())
}

#[cfg(test)]
mod tests {
    use api::machinist::BootstrapTokenSpec;
    use serde_json::json;

    use super::*;

    fn now() -> Timestamp {
        "2026-01-31T00:00:00Z".parse().expect("a time")
    }

    fn node(minutes: i64) -> NodeFacts {
        let created = now() - SignedDuration::from_mins(minutes);
        let node = json!({"metadata": {"name": "n1", "creationTimestamp": created.to_string()}});
        NodeFacts::from_object(&serde_json::from_value(node).expect("a Node"))
    }

    fn token(pool: &str, machine: Option<&str>, uid: Option<&str>, uses: i64) -> BootstrapToken {
        let (machine, machine_uid) = (machine.map(str::to_owned), uid.map(str::to_owned));
        let spec = BootstrapTokenSpec { pool: pool.to_owned(), machine, machine_uid, ..BootstrapTokenSpec::default() };
        let mut token = BootstrapToken::new("t", spec);
        let used = now() - SignedDuration::from_mins(15);
        let status = json!({ "uses": uses, "lastUsed": used.to_string() });
        token.status = Some(serde_json::from_value(status).expect("a status"));
        token
    }

    fn machine(linked: &str, secret: &str) -> Machine {
        let value = json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "metadata": {"name": "m1", "uid": "u1"},
            "spec": {"providerSpec": {"value": {"userDataSecret": {"name": secret}}}},
            "status": {"nodeRef": {"name": linked}},
        });
        serde_json::from_value::<Machine>(value).expect("a Machine")
    }

    #[track_caller]
    fn check(tokens: &[BootstrapToken], machine: Option<&Machine>, expected: bool) {
        let verdict = judge(&node(11), "gpu", tokens, machine, now());
        assert_eq!(verdict == Verdict::Believed, expected, "{verdict:?}");
    }

    #[test]
    fn a_used_token_for_this_machine_and_pool_is_believed_and_no_other() {
        check(&[token("gpu", Some("n1"), None, 1)], None, true);
        check(&[token("gpu", Some("n1"), None, 0)], None, false);
        check(&[token("worker", Some("n1"), None, 1)], None, false);
        check(&[token("gpu", Some("n2"), None, 1)], None, false);
        check(&[token("gpu", None, None, 9)], None, false);
        check(&[token("gpu", Some("m1"), Some("u1"), 1)], Some(&machine("n1", "worker-user-data")), true);
        check(&[token("gpu", Some("n1"), Some("u2"), 1)], Some(&machine("n1", "worker-user-data")), false);
    }

    #[test]
    fn the_user_data_of_a_machine_counts_only_where_the_machine_is_linked_to_the_node() {
        check(&[], Some(&machine("n1", "gpu-user-data-managed")), true);
        check(&[], Some(&machine("n1", "gpu-user-data")), true);
        check(&[], Some(&machine("n1", "worker-user-data-managed")), false);
        check(&[], Some(&machine("n2", "gpu-user-data-managed")), false);
    }

    #[test]
    fn a_token_of_the_machine_that_had_this_name_before_says_nothing_about_the_next_one() {
        let days_later = node(-3 * 24 * 60);
        let verdict = judge(&days_later, "gpu", &[token("gpu", Some("n1"), None, 1)], None, now());
        assert_ne!(verdict, Verdict::Believed);
    }

    #[test]
    fn every_providers_spec_may_name_the_user_data() {
        for spec in [
            json!({"userDataSecret": {"name": "gpu-user-data-managed"}}),
            json!({"userData": {"name": "gpu-user-data-managed", "namespace": "openshift-machine-api"}}),
            json!({"ignition": {"userDataSecret": "gpu-user-data-managed"}}),
            json!({"cloudInit": {"userDataSecret": "gpu-user-data-managed"}}),
        ] {
            let mut machine = machine("n1", "");
            machine.spec.provider_spec.as_mut().expect("a spec").value = Some(spec);
            check(&[], Some(&machine), true);
        }
    }

    #[test]
    fn a_credential_may_become_known_for_some_minutes_and_a_refusal_says_what_there_is() {
        let waits = judge(&node(9), "gpu", &[], None, now());
        assert_eq!(waits, Verdict::Waits { until: now() + SignedDuration::from_mins(1) });
        let why = |machine: Option<&Machine>| match judge(&node(10), "gpu", &[], machine, now()) {
            Verdict::Unproven { why } => why,
            other => panic!("{other:?}"),
        };
        assert!(why(None).contains("it has no Machine; it belongs to no pool until"), "{}", why(None));
        let other = machine("n1", "worker-user-data");
        assert!(why(Some(&other)).contains("its Machine has the user data worker-user-data"));
    }
}
