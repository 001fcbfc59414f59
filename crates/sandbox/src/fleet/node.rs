//! What one simulated node does next, and how it is carried out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::names::state;
use api::{annotations, labels};
use cluster::write;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, DeleteParams};
use node::{Move, Situation, Standing, decide};
use protocol::DrainRequest;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::fleet::faults::Fault;
use crate::fleet::{Behaviour, MANAGER, ready};

/// A node as it was at one version of its object. Two versions that say the same are equal: there is nothing to do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) view: View,
    pub(crate) version: u64,
}

impl Seen {
    pub(crate) fn of(node: &Node) -> Self {
        Self { view: View::of(node), version: version(node) }
    }
}

impl PartialEq for Seen {
    fn eq(&self, other: &Self) -> bool {
        self.view == other.view
    }
}

/// Servers count versions up; one that is no number is never newer.
fn version(node: &Node) -> u64 {
    node.metadata.resource_version.as_ref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// What a node reads from its own object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct View {
    notes: node::View,
    roles: BTreeSet<String>,
}

impl View {
    fn of(node: &Node) -> Self {
        let labels = node.metadata.labels.iter().flatten();
        let roles = labels.filter_map(|(key, _)| key.strip_prefix(labels::NODE_ROLE_PREFIX));
        Self {
            notes: node::View::read(None, node.metadata.annotations.as_ref()),
            roles: roles.map(str::to_owned).collect(),
        }
    }

    /// What a node says while it works. One that failed before keeps saying so, as the real daemon does.
    fn at_work(&self, more: &[(&'static str, &str)]) -> BTreeMap<&'static str, String> {
        let notes = &self.notes;
        let (state, reason) =
            if notes.is_failing() { (notes.state.as_str(), notes.reason.as_str()) } else { (state::WORKING, "") };
        said(state, reason, more)
    }
}

/// One step of a node: writes after a delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Write(BTreeMap<&'static str, String>),
    /// Write the first, work until this much time has passed since the target was seen, then write the second.
    Work(Duration, BTreeMap<&'static str, String>, BTreeMap<&'static str, String>),
    TakeRole(&'static str),
    LoseContact,
    Leave,
}

/// The node's next step, if it has one. The real daemon's `decide` says what is due; a node in memory has no disk, so it runs
/// what its object says.
pub(crate) fn next(view: &View, behaviour: &Behaviour, fault: Option<Fault>) -> Option<Step> {
    let notes = &view.notes;
    if notes.probe != notes.answered && fault != Some(Fault::NeverReturns) {
        return Some(Step::Write(BTreeMap::from([(annotations::ANSWERED, notes.probe.clone())])));
    }
    let situation = Situation {
        born: None,
        on_disk: Some(notes.current.as_str()).filter(|current| !current.is_empty()),
        standing: &Standing::Settled,
        node: Some(notes),
        forced: false,
        reverted: None,
    };
    match decide(&situation) {
        Move::Update { to, forced: _ } => update(view, behaviour, fault, &to),
        Move::Release { drain } if behaviour.drains => {
            let ask = BTreeMap::from([(annotations::DESIRED_DRAIN, drain)]);
            (notes.desired_drain != ask[annotations::DESIRED_DRAIN]).then_some(Step::Write(ask))
        }
        Move::Rest | Move::Release { .. } => rest(notes, fault),
        // Nothing is asked of it, or it would need a disk and a journal.
        Move::Idle | Move::Adopt { .. } | Move::Act | Move::Reboot | Move::Try | Move::Held { .. } => None,
    }
}

fn rest(notes: &node::View, fault: Option<Fault>) -> Option<Step> {
    let is_done = notes.state == state::DONE;
    match fault {
        Some(Fault::Drift) if is_done => {
            let words = format!("unexpected on-disk state validating against {}", notes.current);
            let reason = format!("{words}: content mismatch for file \"/etc/motd\"");
            Some(Step::Write(said(state::DEGRADED, &reason, &[])))
        }
        Some(Fault::Drift) => None,
        _ => (!is_done && !notes.desired.is_empty()).then(|| Step::Write(said(state::DONE, "", &[]))),
    }
}

fn update(view: &View, behaviour: &Behaviour, fault: Option<Fault>, to: &str) -> Option<Step> {
    let notes = &view.notes;
    let asked = DrainRequest::Drain(to.into()).to_string();
    match fault {
        Some(Fault::Hang) if notes.state == state::WORKING => return None,
        Some(Fault::Hang) => return Some(Step::Write(said(state::WORKING, "", &[]))),
        Some(Fault::Fail) if notes.state == state::DEGRADED => return None,
        Some(Fault::Fail) => return Some(Step::Write(said(state::DEGRADED, "the simulated update failed", &[]))),
        Some(Fault::NeverReturns) => return Some(Step::LoseContact),
        Some(Fault::Vanish) => return Some(Step::Leave),
        Some(Fault::Relabel(role)) if !view.roles.contains(role) => return Some(Step::TakeRole(role)),
        Some(Fault::Relabel(_) | Fault::Drift) | None => {}
    }
    if behaviour.drains && notes.last_applied_drain != asked {
        let ask = view.at_work(&[(annotations::DESIRED_DRAIN, &asked)]);
        return (notes.desired_drain != asked).then_some(Step::Write(ask));
    }
    let more = [(annotations::CURRENT_CONFIG, to), (annotations::ANSWERED, notes.probe.as_str())];
    let done = said(state::DONE, "", &more);
    if behaviour.update.is_zero() {
        return Some(Step::Write(done));
    }
    Some(Step::Work(behaviour.update, view.at_work(&[]), done))
}

fn said(state: &str, reason: &str, more: &[(&'static str, &str)]) -> BTreeMap<&'static str, String> {
    let own = [(annotations::STATE, state), (annotations::REASON, reason), (annotations::DAEMON, "fleet")];
    own.iter().chain(more).map(|(key, value)| (*key, (*value).to_owned())).collect()
}

/// Carries out a step and returns the version of the node that it left behind, so that nobody looks at an older one
/// and does it again. A write that fails is tried again until it lands: a daemon does not give up.
pub(crate) async fn perform(client: Client, places: &Semaphore, name: &str, step: Step) -> u64 {
    let api: Api<Node> = Api::all(client);
    let annotations = match step {
        Step::Write(annotations) => annotations,
        Step::Work(time, begun, annotations) => {
            let through = Instant::now() + time;
            annotate(&api, places, name, &begun).await;
            tokio::time::sleep_until(through).await;
            annotations
        }
        Step::TakeRole(role) => {
            let labels = BTreeMap::from([(format!("{}{role}", labels::NODE_ROLE_PREFIX), "")]);
            let labelled = write::merge(&api, MANAGER, name, &json!({ "metadata": { "labels": labels } })).await;
            return labelled.as_ref().map_or(0, version);
        }
        Step::LoseContact => {
            let status = json!({ "status": { "conditions": [ready("Unknown")] } });
            let _ = write::merge_status(&api, MANAGER, name, &status).await;
            // A node does not read its own status, so there is nothing to wait for.
            return 0;
        }
        Step::Leave => {
            let _ = api.delete(name, &DeleteParams::default()).await;
            return 0;
        }
    };
    annotate(&api, places, name, &annotations).await
}

/// The version that the node has now; none when it is gone.
async fn annotate(
    api: &Api<Node>,
    places: &Semaphore,
    name: &str,
    annotations: &BTreeMap<&'static str, String>,
) -> u64 {
    let patch = json!({ "metadata": { "annotations": annotations } });
    let mut pause = Duration::from_millis(50);
    loop {
        let place = places.acquire().await;
        let answer = write::merge(api, MANAGER, name, &patch).await;
        drop(place);
        match answer {
            Ok(node) => return version(&node),
            Err(error) if cluster::problem(&error) == cluster::Problem::NotFound => return 0,
            Err(_) => {}
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(current: &str, desired: &str, state: &str) -> View {
        let notes = node::View {
            current: current.into(),
            desired: desired.into(),
            state: state.into(),
            ..node::View::default()
        };
        View { notes, ..View::default() }
    }

    #[test]
    fn a_quick_node_answers_in_one_write() {
        let step = next(&view("a", "b", state::DONE), &Behaviour::default(), None);
        let done = said(state::DONE, "", &[(annotations::CURRENT_CONFIG, "b"), (annotations::ANSWERED, "")]);
        assert_eq!(step, Some(Step::Write(done)));
        assert_eq!(next(&view("b", "b", state::DONE), &Behaviour::default(), None), None);
    }

    #[test]
    fn a_draining_node_asks_waits_works_and_asks_for_the_end() {
        let behaviour = Behaviour { update: Duration::from_secs(1), drains: true };
        let mut node = view("a", "b", state::DONE);
        assert!(matches!(next(&node, &behaviour, None), Some(Step::Write(_))));
        node.notes.state = state::WORKING.into();
        node.notes.desired_drain = "drain-b".into();
        assert_eq!(next(&node, &behaviour, None), None, "it waits for the drain");
        node.notes.last_applied_drain = "drain-b".into();
        assert!(matches!(next(&node, &behaviour, None), Some(Step::Work(..))));
        node.notes.current = "b".into();
        node.notes.state = state::DONE.into();
        let end = BTreeMap::from([(annotations::DESIRED_DRAIN, "uncordon-b".to_owned())]);
        assert_eq!(next(&node, &behaviour, None), Some(Step::Write(end)));
    }

    #[test]
    fn a_relabelled_node_takes_its_new_role_once_and_goes_on() {
        let fault = Some(Fault::Relabel("infra"));
        let mut node = view("a", "b", state::DONE);
        assert_eq!(next(&node, &Behaviour::default(), fault), Some(Step::TakeRole("infra")));
        node.roles.insert("infra".to_owned());
        assert!(matches!(next(&node, &Behaviour::default(), fault), Some(Step::Write(_))));
    }

    #[test]
    fn a_node_that_fails_stays_failed_until_it_may_behave() {
        let behaviour = Behaviour::default();
        assert!(next(&view("a", "b", state::DONE), &behaviour, Some(Fault::Fail)).is_some());
        assert_eq!(next(&view("a", "b", state::DEGRADED), &behaviour, Some(Fault::Fail)), None);
        assert!(next(&view("a", "b", state::DEGRADED), &behaviour, None).is_some());
    }

    #[test]
    fn a_node_that_failed_says_so_until_it_is_through() {
        let behaviour = Behaviour { update: Duration::from_secs(1), drains: true };
        let mut node = view("a", "b", state::DEGRADED);
        node.notes.reason = "no disk".into();
        let asks = said(state::DEGRADED, "no disk", &[(annotations::DESIRED_DRAIN, "drain-b")]);
        assert_eq!(next(&node, &behaviour, None), Some(Step::Write(asks)));
        node.notes.last_applied_drain = "drain-b".into();
        let Some(Step::Work(_, begun, _)) = next(&node, &behaviour, None) else { panic!("it works") };
        assert_eq!(begun, said(state::DEGRADED, "no disk", &[]));
    }

    #[test]
    fn a_node_shows_that_it_is_there_unless_it_is_not() {
        let mut asked = view("a", "a", state::DONE);
        asked.notes.probe = "b/7".into();
        let answer = BTreeMap::from([(annotations::ANSWERED, "b/7".to_owned())]);
        assert_eq!(next(&asked, &Behaviour::default(), None), Some(Step::Write(answer)));
        assert_eq!(next(&asked, &Behaviour::default(), Some(Fault::NeverReturns)), None);
    }
}
