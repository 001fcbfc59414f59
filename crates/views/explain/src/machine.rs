//! Explains one Machine.

use jiff::SignedDuration;

use crate::snapshot::{MachineFacts, Snapshot, Trouble};
use crate::{Explanation, Input, Move, State};

/// A first boot takes minutes. A machine without a node after this long does not join by waiting; health checks use the
/// same time unless told otherwise.
pub(crate) const JOINING: SignedDuration = SignedDuration::from_mins(10);

/// Reasons of a refused creation that only more capacity, another place or a higher quota ends.
const STARVED: [&str; 2] = ["NoCapacity", "Quota"];

/// Explains the Machine of that name, if there is one.
pub fn machine(snapshot: &Snapshot, name: &str) -> Option<Explanation> {
    let facts = snapshot.machines.get(name)?;
    let mut it = explain(snapshot, facts);
    name.clone_into(&mut it.name);
    if !matches!(it.state, State::Running | State::Unknown)
        && let Some(controllers) = missing_controllers(snapshot)
    {
        it.state = State::Blocked;
        it.waiting_for.insert(0, controllers.lack());
        it.moves.insert(0, controllers.look());
    }
    Some(it)
}

/// The machine controllers, where they should run and do not: then no machine is made, linked, replaced or removed.
pub(crate) fn missing_controllers(snapshot: &Snapshot) -> Option<&crate::Workload> {
    snapshot.workloads.iter().find(|it| it.name == "machine-api-controllers" && it.available == 0)
}

fn explain(snapshot: &Snapshot, facts: &MachineFacts) -> Explanation {
    if let Some(contest) = contest(snapshot, facts) {
        return contested(facts, &contest);
    }
    if facts.deleting_since.is_some() {
        return deleting(facts);
    }
    if facts.phase == api::machine::phase::FAILED {
        return failed(facts);
    }
    if let Some(trouble) = &facts.invalid {
        return invalid(facts, trouble);
    }
    match &facts.node {
        Some(node) => with_node(snapshot, facts, node),
        None if facts.phase == api::machine::phase::PROVISIONED => joining(snapshot, facts),
        None => making(facts),
    }
}

fn explained(facts: &MachineFacts, state: State, summary: impl Into<String>) -> Explanation {
    Explanation {
        name: facts.name.clone(),
        state,
        since: facts.since,
        summary: summary.into(),
        waiting_for: Vec::new(),
        moves: Vec::new(),
    }
}

/// Several Machines that name one instance.
pub(crate) struct Contest<'a> {
    pub(crate) provider_id: &'a str,
    /// All of them, by name.
    pub(crate) machines: Vec<&'a MachineFacts>,
}

impl<'a> Contest<'a> {
    /// The one that was most likely copied from another: it has no node, or is the youngest.
    pub(crate) fn copy(&self) -> Option<&'a MachineFacts> {
        self.machines.iter().copied().max_by_key(|machine| (machine.node.is_none(), machine.created))
    }

    pub(crate) fn names(&self) -> String {
        self.machines.iter().map(|machine| machine.name.as_str()).collect::<Vec<_>>().join(" and ")
    }

    /// Both ways out leave the instance and its node alone.
    pub(crate) fn moves(&self) -> Vec<Move> {
        let Some(MachineFacts { name, namespace, .. }) = self.copy() else { return Vec::new() };
        vec![
            Move::new(
                format!("let {name} have an instance of its own"),
                format!(
                    "kubectl -n {namespace} patch machine {name} --type merge -p '{{\"spec\":{{\"providerID\":null}}}}'"
                ),
            ),
            Move::new(
                format!("or take {name} away, which leaves the instance running"),
                format!("kubectl -n {namespace} delete machine {name} --wait=false"),
            ),
        ]
    }
}

/// The Machines that claim the same instance as this one, if another one does.
pub(crate) fn contest<'a>(snapshot: &'a Snapshot, facts: &'a MachineFacts) -> Option<Contest<'a>> {
    let provider_id = facts.provider_id.as_deref().filter(|id| !id.is_empty())?;
    let same = snapshot.machines.values().filter(|other| other.provider_id.as_deref() == Some(provider_id));
    let machines: Vec<_> = same.collect();
    (machines.len() > 1).then_some(Contest { provider_id, machines })
}

fn contested(facts: &MachineFacts, contest: &Contest<'_>) -> Explanation {
    let summary = format!("machines {} both name instance {}", contest.names(), contest.provider_id);
    let mut it = explained(facts, State::Blocked, summary);
    it.waiting_for.push("one of them to let go; until then the provider is called for neither".to_owned());
    it.moves = contest.moves();
    it
}

fn deleting(facts: &MachineFacts) -> Explanation {
    let MachineFacts { name, namespace, .. } = facts;
    let mut it = explained(facts, State::Deleting, "it is being deleted");
    it.since = facts.deleting_since;
    let (hooks, step) = if facts.drained {
        (&facts.pre_terminate_hooks, "its instance is not removed")
    } else {
        (&facts.pre_drain_hooks, "its node is not drained")
    };
    if !hooks.is_empty() {
        it.state = State::Blocked;
        it.summary = format!("it is being deleted, and {step} while a hook is there");
        it.waiting_for.extend(hooks.iter().map(|(hook, owner)| format!("{owner} to remove the hook {hook}")));
        it.moves.push(Move::new(
            "see the hooks, which their owners remove when they are done",
            format!("kubectl -n {namespace} get machine {name} -o jsonpath='{{.spec.lifecycleHooks}}'"),
        ));
        return it;
    }
    if !facts.drained {
        it.waiting_for.push(match &facts.drain_trouble {
            Some(trouble) => format!("its node to be drained: {}", trouble.message),
            None => "its node to be drained".to_owned(),
        });
        if let Some(node) = &facts.node {
            it.moves.push(Move::new(
                "see the pods that are still there",
                format!("kubectl get pods -A --field-selector spec.nodeName={node}"),
            ));
        }
        return it;
    }
    it.waiting_for.push(match &facts.not_deleted {
        Some(trouble) => format!("the provider to remove the instance: {}", trouble.message),
        None => "the provider to remove the instance".to_owned(),
    });
    it
}

fn failed(facts: &MachineFacts) -> Explanation {
    let MachineFacts { name, namespace, .. } = facts;
    let why = facts.error.as_deref().unwrap_or("its controller gave no reason");
    let mut it = explained(facts, State::Failed, why);
    it.waiting_for.push("somebody to delete it: a machine that has failed does not recover".to_owned());
    let what = match &facts.set {
        Some(set) => format!("delete it; MachineSet {set} makes another one"),
        None => "delete it".to_owned(),
    };
    it.moves.push(Move::new(what, format!("kubectl -n {namespace} delete machine {name}")));
    it
}

fn invalid(facts: &MachineFacts, trouble: &Trouble) -> Explanation {
    let mut it = explained(facts, State::Blocked, "it cannot be made as it is written");
    it.since = trouble.since.or(it.since);
    it.waiting_for.push(format!("a correction: {}", trouble.message));
    it.moves.push(correct(facts));
    it
}

/// A machine of a set is what its set says, so the set is what to change.
fn correct(facts: &MachineFacts) -> Move {
    let MachineFacts { name, namespace, .. } = facts;
    match &facts.set {
        Some(set) => Move::new(
            format!("correct the template of MachineSet {set}, then delete {name}"),
            format!("kubectl -n {namespace} edit machineset {set}"),
        ),
        None => Move::new("correct it", format!("kubectl -n {namespace} edit machine {name}")),
    }
}

/// A machine without an instance, or whose instance has no identity yet.
fn making(facts: &MachineFacts) -> Explanation {
    let Some(trouble) = &facts.not_created else {
        let mut it = explained(facts, State::Provisioning, "its instance is being made");
        it.waiting_for.push("the provider to make the instance".to_owned());
        return it;
    };
    let mut it = explained(facts, State::Blocked, "the provider does not make its instance; it is asked again");
    it.since = trouble.since.or(it.since);
    it.waiting_for.push(format!("the provider, which answered: {}", trouble.message));
    it.moves.push(match (&facts.set, is_starved(facts)) {
        (Some(set), true) => Move::new(
            "make machines of another type or in another place",
            format!("kubectl -n {} edit machineset {set}", facts.namespace),
        ),
        _ => correct(facts),
    });
    it
}

/// Whether the provider had no capacity or no quota for the instance.
pub(crate) fn is_starved(facts: &MachineFacts) -> bool {
    facts.not_created.as_ref().is_some_and(|trouble| STARVED.contains(&trouble.reason.as_str()))
}

/// Whether a machine runs and has had enough time to become a node.
pub(crate) fn never_joined(snapshot: &Snapshot, facts: &MachineFacts) -> bool {
    let waits =
        facts.phase == api::machine::phase::PROVISIONED && facts.node.is_none() && facts.deleting_since.is_none();
    waits && facts.created.is_some_and(|created| snapshot.now.duration_since(created) > JOINING)
}

fn joining(snapshot: &Snapshot, facts: &MachineFacts) -> Explanation {
    let late = never_joined(snapshot, facts);
    let state = if late { State::Blocked } else { State::Provisioning };
    let mut it = explained(facts, state, "its instance runs, and no node has come of it");
    it.waiting_for.push(match &facts.not_joined {
        Some(trouble) => format!("its node to join: {}", trouble.message),
        None => "its node to join".to_owned(),
    });
    it.moves = joining_moves(facts);
    it
}

pub(crate) fn joining_moves(facts: &MachineFacts) -> Vec<Move> {
    let mut moves = Vec::new();
    let reason = facts.not_joined.as_ref().map(|trouble| trouble.reason.as_str()).unwrap_or_default();
    if matches!(reason, "" | "NotServed" | "Served" | "IgnitionFailed") {
        moves.push(Move::new(
            "see whether it asked for its config",
            format!("kubectl -n {} logs -l k8s-app=machine-config-server --tail=100", api::names::NAMESPACE),
        ));
    }
    if matches!(reason, "" | "Served" | "CertificatePending") {
        moves.push(Move::new("see whether its kubelet waits for a certificate", "kubectl get csr"));
    }
    if let Some(set) = &facts.set {
        let MachineFacts { name, namespace, .. } = facts;
        moves.push(Move::new(
            format!("have MachineSet {set} make another one"),
            format!("kubectl -n {namespace} delete machine {name}"),
        ));
    }
    moves
}

fn with_node(snapshot: &Snapshot, facts: &MachineFacts, node: &str) -> Explanation {
    let MachineFacts { name, namespace, .. } = facts;
    if let Some(trouble) = &facts.node_gone {
        let mut it =
            explained(facts, State::Blocked, format!("its node {node} is gone, and its instance is still there"));
        it.since = trouble.since.or(it.since);
        it.waiting_for.push(format!("node {node} to come back, or somebody to delete the machine"));
        it.moves.push(Move::new("take the machine away", format!("kubectl -n {namespace} delete machine {name}")));
        return it;
    }
    if let Some(trouble) = &facts.instance_gone {
        let mut it =
            explained(facts, State::Blocked, format!("the provider does not show the instance of node {node}"));
        it.since = trouble.since.or(it.since);
        it.waiting_for.push(format!("the provider, which answered: {}", trouble.message));
        it.moves.push(Move::new("see the node", format!("machinist why node {node}")));
        return it;
    }
    if let Some(why) = snapshot.unread.why(Input::Nodes) {
        return explained(facts, State::Unknown, format!("it is node {node}, whose condition is not known: {why}"));
    }
    let known = snapshot.nodes.get(node);
    if known.is_some_and(|node| !node.ready) {
        if let Some(updating) = crate::node(snapshot, node).filter(|it| it.state == State::Updating) {
            let mut it = explained(facts, State::Updating, format!("its node {node} is on its way to another config"));
            it.since = updating.since.or(it.since);
            it.waiting_for = updating.waiting_for.into_iter().map(|what| format!("node {node}: {what}")).collect();
            return it;
        }
        let mut it = explained(facts, State::Blocked, format!("its node {node} is NotReady"));
        it.since = known.and_then(|node| node.ready_since).or(it.since);
        it.waiting_for.push(format!("node {node} to report that it is ready"));
        it.moves.push(Move::new("see the node", format!("machinist why node {node}")));
        return it;
    }
    let mut it = explained(facts, State::Running, format!("it is node {node}"));
    if let Some(trouble) = &facts.not_updated {
        it.summary = format!("it is node {node}; its instance is not as its spec says: {}", trouble.message);
    }
    it
}
