//! Explains one node.

use jiff::{SignedDuration, Timestamp};

use crate::snapshot::{Blocker, Member, NodeFacts, PoolFacts, Snapshot, Standstill, Workload};
use crate::{Explanation, Input, Move, State, ago};

/// A daemon takes up a new target within moments; one that has not after this long is not there.
pub(crate) const PATIENCE: SignedDuration = SignedDuration::from_mins(2);

/// Explains the node of that name, if there is one.
pub fn node(snapshot: &Snapshot, name: &str) -> Option<Explanation> {
    let facts = snapshot.nodes.get(name)?;
    if let Some(why) = snapshot.unread.why(Input::Pools) {
        return Some(without_pools(facts, why));
    }
    let pool = match &facts.member {
        Member::Unmanaged => return Some(unmanaged(facts)),
        Member::Born(pool) => return Some(born(snapshot, facts, pool)),
        Member::Contested(pools) => return Some(contested(facts, pools)),
        Member::Pool(pool) => snapshot.pools.get(pool)?,
    };
    if let Some(controller) = missing_controller(snapshot).filter(|_| needs_controller(facts, pool)) {
        return Some(without_controller(facts, pool, controller));
    }
    Some(if facts.is_degraded() {
        degraded(snapshot, facts, pool)
    } else if facts.desired.is_none() && facts.current.is_none() {
        new(snapshot, facts, pool)
    } else if facts.current != facts.desired || facts.current.is_none() || facts.image.is_some() {
        on_its_way(snapshot, facts, pool)
    } else if !pool.target.is_empty() && facts.desired.as_deref() != Some(&pool.target) {
        before_its_turn(snapshot, facts, pool)
    } else {
        arrived(snapshot, facts)
    })
}

/// A node whose pool is not known: only what the node itself says.
fn without_pools(facts: &NodeFacts, why: &str) -> Explanation {
    if facts.is_degraded() {
        let reason = facts.reason.as_deref().unwrap_or("its daemon gave no reason");
        return explained(facts, State::Degraded, reason);
    }
    let ready = if facts.ready { "" } else { "it is NotReady, and " };
    explained(facts, State::Unknown, format!("{ready}which pool it follows is not known: {why}"))
}

/// The controller, where it should run and does not: then nobody empties a node, gives it back or chooses the next one.
pub(crate) fn missing_controller(snapshot: &Snapshot) -> Option<&Workload> {
    snapshot.workloads.iter().find(|it| it.name == "machine-config-controller" && it.available == 0)
}

fn needs_controller(facts: &NodeFacts, pool: &PoolFacts) -> bool {
    let has_target = !pool.target.is_empty() && facts.desired.as_deref() != Some(&pool.target);
    facts.is_draining || facts.is_uncordoning || has_target
}

fn without_controller(facts: &NodeFacts, pool: &PoolFacts, controller: &Workload) -> Explanation {
    let what = if facts.is_draining {
        "it asks to be emptied"
    } else if facts.is_uncordoning {
        "it asks to be given back"
    } else {
        "it waits for its turn"
    };
    let mut it = explained(facts, State::Blocked, format!("{what}, and the controller does not run"));
    it.since = facts.drain_started.or(pool.target_since).or(facts.reported);
    it.waiting_for.push(controller.lack());
    it.moves.push(controller.look());
    it
}

impl Workload {
    /// What is missing, with the scheduler's own words where it has any.
    pub(crate) fn lack(&self) -> String {
        let Self { namespace, name, replicas, unscheduled, .. } = self;
        match (replicas, unscheduled) {
            (0, _) => format!("Deployment {namespace}/{name}, which is scaled to 0"),
            (_, Some(why)) => format!("Deployment {namespace}/{name}, of which no replica runs: {why}"),
            (_, None) => format!("Deployment {namespace}/{name}, of which no replica runs"),
        }
    }

    pub(crate) fn look(&self) -> Move {
        let Self { namespace, name, .. } = self;
        match self.replicas {
            0 => Move::new("let it run", format!("kubectl -n {namespace} scale deployment {name} --replicas=1")),
            _ => Move::new(
                "see why it does not run",
                format!("kubectl -n {namespace} describe pods -l {}={name}", api::labels::K8S_APP),
            ),
        }
    }
}

/// A node that never had a config.
fn new(snapshot: &Snapshot, facts: &NodeFacts, pool: &PoolFacts) -> Explanation {
    if pool.target.is_empty() {
        let mut it = explained(facts, State::Waiting, format!("nothing is asked of it: {}", no_config(pool)));
        it.waiting_for.push(format!("the first config of pool {}", pool.name));
        it.moves.push(Move::new("see what the pool waits for", format!("machinist why pool {}", pool.name)));
        return it;
    }
    if facts.is_silent {
        let mut it = explained(facts, State::Blocked, "it is new, and its daemon has not answered");
        it.waiting_for.push("its daemon to start".to_owned());
        it.moves.push(look_at_daemon(facts));
        return it;
    }
    let mut it = before_its_turn(snapshot, facts, pool);
    if facts.hold.is_none() {
        it.summary = format!("it is new, and shall get its first config {} in its turn", pool.target);
    }
    it
}

/// Why a pool has no rendered config.
pub(crate) fn no_config(pool: &PoolFacts) -> String {
    if pool.has_fragments {
        "its pool has no rendered config yet".to_owned()
    } else {
        format!("there is no MachineConfig for pool {}", pool.name)
    }
}

fn explained(facts: &NodeFacts, state: State, summary: impl Into<String>) -> Explanation {
    Explanation {
        name: facts.name.clone(),
        state,
        since: facts.reported,
        summary: summary.into(),
        waiting_for: Vec::new(),
        moves: Vec::new(),
    }
}

/// A node that gets no config until the controller has given it the labels of the pool that it was made for.
fn born(snapshot: &Snapshot, facts: &NodeFacts, pool: &str) -> Explanation {
    let name = &facts.name;
    let mut it = explained(
        facts,
        State::Waiting,
        format!("it was made for pool {pool}, and does not have that pool's labels yet"),
    );
    if let Some(controller) = missing_controller(snapshot) {
        it.state = State::Blocked;
        it.waiting_for.push(controller.lack());
        it.moves.push(controller.look());
        return it;
    }
    it.waiting_for.push(format!(
        "the controller to set the labels of pool {pool}, once something shows that it was let in for it"
    ));
    it.moves.push(Move::new(
        "see what the controller has found about its credential",
        format!("kubectl get events --field-selector involvedObject.name={name}"),
    ));
    it
}

fn unmanaged(facts: &NodeFacts) -> Explanation {
    let name = &facts.name;
    if facts.is_windows {
        return explained(facts, State::Unmanaged, "it runs Windows, which no pool looks after");
    }
    let mut it = explained(facts, State::Unmanaged, "no pool's nodeSelector matches its labels, so nothing changes it");
    it.waiting_for.push("a label that a pool selects".to_owned());
    let label = api::labels::NODE_ROLE_WORKER;
    it.moves.push(Move::new("put it into the worker pool", format!("kubectl label node {name} {label}=")));
    it
}

fn contested(facts: &NodeFacts, pools: &[String]) -> Explanation {
    let (name, list) = (&facts.name, pools.join(" and "));
    let mut it = explained(facts, State::Blocked, format!("the pools {list} both want it, so it follows neither"));
    it.waiting_for.push("labels that only one custom pool selects".to_owned());
    for pool in pools {
        let label = format!("{}{pool}", api::labels::NODE_ROLE_PREFIX);
        it.moves.push(Move::new(format!("take it out of {pool}"), format!("kubectl label node {name} {label}-")));
    }
    it
}

fn degraded(snapshot: &Snapshot, facts: &NodeFacts, pool: &PoolFacts) -> Explanation {
    let name = &facts.name;
    let why = facts.reason.as_deref().unwrap_or("its daemon gave no reason");
    let mut it = explained(facts, State::Degraded, why);
    let target = facts.desired.as_deref().unwrap_or_default();
    if is_missing_config(snapshot, facts) {
        it.waiting_for.push(format!("MachineConfig {target}, which does not exist"));
        it.moves.extend(bring_back(snapshot, pool, target, &[name]));
    } else if facts.state == api::names::state::UNRECONCILABLE {
        it.waiting_for.push("a config that this host can take: it refused this one before its first write".to_owned());
        it.moves.extend(see_change(facts, pool));
        it.moves.extend(crate::pool::take_away(pool));
        it.moves.extend(roll_back(pool));
        it.moves.extend(crate::pool::see_fragments(pool));
    } else if is_mismatch(facts) {
        it.waiting_for.push("the files on its disk to be what its config says".to_owned());
        it.moves.push(blame(facts));
        it.moves.push(Move::new(
            "write them anew",
            format!("kubectl annotate node {name} {}={target} --overwrite", api::annotations::FORCE),
        ));
    } else if facts.reverted.as_deref() == Some(&pool.target) {
        it.waiting_for.push("another config: it tried this one, failed and went back".to_owned());
        approve(&mut it, pool);
    } else {
        it.waiting_for.push("a config that works here".to_owned());
        it.moves.extend(see_change(facts, pool));
        it.moves.extend(roll_back(pool));
        it.moves.push(Move::new(
            "try again although a check refuses it",
            format!("kubectl annotate node {name} {}={target} --overwrite", api::annotations::FORCE),
        ));
    }
    it
}

/// Compares what a node shall run with what it ran before, as far as anybody knows that.
pub(crate) fn see_change(facts: &NodeFacts, pool: &PoolFacts) -> Option<Move> {
    let target = facts.desired.as_deref()?;
    let mut before = [facts.current.as_deref(), pool.last_good.as_deref()].into_iter().flatten();
    let before = before.find(|before| *before != target)?;
    Some(Move::new("see what changed", format!("machinist diff {before} {target}")))
}

/// The way back, where there is another config than the target that every node had.
pub(crate) fn roll_back(pool: &PoolFacts) -> Option<Move> {
    pool.last_good.as_ref().filter(|good| **good != pool.target)?;
    Some(Move::new("go back to the last config that worked", format!("machinist rollback {}", pool.name)))
}

/// Ways out for nodes that shall reach a rendered config that does not exist. Nobody makes one again that has no archive, so
/// then the nodes are given another config, as an administrator would by hand.
pub(crate) fn bring_back(snapshot: &Snapshot, pool: &PoolFacts, config: &str, nodes: &[&str]) -> Vec<Move> {
    if snapshot.archived.contains(config) {
        return vec![Move::new("bring the config back", "machinist doctor --fix")];
    }
    let mut moves = Vec::new();
    if let Some(controller) = missing_controller(snapshot) {
        moves.push(controller.look());
    }
    let is_there = |it: &str| !it.is_empty() && it != config && !snapshot.is_gone(it);
    let good = pool.last_good.as_deref().filter(|good| is_there(good));
    if config == pool.target && good.is_some_and(|good| snapshot.archived.contains(good)) {
        moves.extend(roll_back(pool));
    }
    let hand_over = |what: String, to: &str| {
        let (current, desired) = (api::annotations::CURRENT_CONFIG, api::annotations::DESIRED_CONFIG);
        let nodes = nodes.join(" ");
        Move::new(what, format!("kubectl annotate node {nodes} --overwrite {current}={to} {desired}={to}"))
    };
    if !nodes.is_empty() && is_there(&pool.target) {
        moves.push(hand_over(format!("send it to what pool {} wants", pool.name), &pool.target));
    } else if let Some(good) = good.filter(|_| !nodes.is_empty()) {
        moves.push(hand_over("send it to the last config that worked, where it is held".to_owned(), good));
    }
    if let Some(selects) = pool.selects.as_ref().filter(|_| config == pool.target && moves.is_empty()) {
        let what = "see what the pool is made from: any change of that gives it a config that exists";
        moves.push(Move::new(what, format!("kubectl get mc -l {}", quoted(selects))));
    }
    moves
}

pub(crate) fn approve(it: &mut Explanation, pool: &PoolFacts) {
    let (name, target) = (&pool.name, &pool.target);
    it.moves.extend(roll_back(pool));
    it.moves.push(Move::new(
        "let it be tried once more",
        format!("kubectl annotate mcp {name} {}={target} --overwrite", api::annotations::APPROVE),
    ));
}

fn on_its_way(snapshot: &Snapshot, facts: &NodeFacts, pool: &PoolFacts) -> Explanation {
    let (name, now) = (&facts.name, snapshot.now);
    let target = facts.desired.as_deref().unwrap_or_default();
    let claimed = taken_since(facts, pool);
    if is_missing_config(snapshot, facts) {
        let mut it = explained(facts, State::Blocked, format!("it shall reach {target}, which does not exist"));
        it.waiting_for.push(format!("MachineConfig {target}"));
        it.moves.extend(bring_back(snapshot, pool, target, &[name]));
        return it;
    }
    let has_place = pool.in_line.contains(name) || pool.claims.iter().any(|claim| claim.node == *name);
    let has_place = has_place || snapshot.unread.why(Input::Ledgers).is_some();
    if facts.is_draining && facts.drain_started.is_none() && !has_place {
        let others: Vec<&str> = pool.claims.iter().map(|claim| claim.node.as_str()).take(3).collect();
        let by = if others.is_empty() { String::new() } else { format!("; they are taken by {}", others.join(", ")) };
        let mut it =
            explained(facts, State::Waiting, format!("it asks to be emptied for {target}, and has no place yet"));
        it.waiting_for.push(format!("one of the places that pool {} has for nodes that are away{by}", pool.name));
        it.moves.push(Move::new("see who has the places", format!("kubectl get poolledgers {} -o yaml", pool.name)));
        return it;
    }
    if !facts.blockers.is_empty() {
        return drain_held(snapshot, facts);
    }
    if facts.is_draining {
        let mut it = explained(facts, State::Updating, format!("it is being emptied for {target}"));
        it.since = facts.drain_started.or(facts.reported);
        it.waiting_for.push("its pods to stop".to_owned());
        let unread = [Input::Pods, Input::Budgets].into_iter().find_map(|input| snapshot.unread.why(input));
        it.waiting_for.extend(unread.map(|why| format!("perhaps a disruption budget, which is not known: {why}")));
        it.moves.push(Move::new("see them", format!("kubectl get pods -A --field-selector spec.nodeName={name}")));
        return it;
    }
    if facts.rebooting {
        let mut it = explained(facts, State::Updating, format!("it reboots into {target}"));
        it.waiting_for.push("the machine to come back".to_owned());
        it.moves.push(Move::new("see what it last said", format!("kubectl describe node {name}")));
        return it;
    }
    if nobody_works(snapshot, facts, pool) {
        let mut it = explained(facts, State::Blocked, format!("it shall reach {target}, and nobody is working on it"));
        it.since = claimed.or(facts.reported);
        it.waiting_for.push(
            if facts.ready { "its daemon, which does not answer" } else { "the machine, which is NotReady" }.to_owned(),
        );
        it.moves.push(look_at_daemon(facts));
        return it;
    }
    let image = facts.image.as_ref().map(|image| format!(" with image {image}")).unwrap_or_default();
    let mut it = explained(facts, State::Updating, format!("it changes to {target}{image}"));
    it.since = claimed.or(facts.reported);
    let step = facts.step.clone().unwrap_or_else(|| "its daemon to finish".to_owned());
    it.waiting_for.push(step);
    if !facts.ready {
        let since = facts.ready_since.map(|since| format!(" for {}", ago(since, now))).unwrap_or_default();
        it.waiting_for.push(format!("the machine, which is NotReady{since}"));
    }
    it
}

fn drain_held(snapshot: &Snapshot, facts: &NodeFacts) -> Explanation {
    let since = facts.drain_started.or(facts.reported);
    let lasts = since.map(|since| format!(" for {}", ago(since, snapshot.now))).unwrap_or_default();
    let mut it = explained(facts, State::Blocked, format!("it cannot be emptied{lasts}: {}", list(&facts.blockers)));
    it.since = since;
    for blocker in &facts.blockers {
        it.waiting_for.push(blocker.to_string());
        it.moves.extend(blocker.moves());
    }
    it.moves.dedup();
    it
}

fn list(blockers: &[Blocker]) -> String {
    match blockers {
        [one] => one.to_string(),
        [first, rest @ ..] => format!("{first}, and {} more", rest.len()),
        [] => String::new(),
    }
}

impl std::fmt::Display for Blocker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { namespace, pod, owner: _, replicas: _, budgets, never: _ } = self;
        match budgets.as_slice() {
            [] => write!(f, "pod {namespace}/{pod} does not go"),
            [budget] => write!(f, "pod {namespace}/{pod} is kept by disruption budget {budget}"),
            several => write!(f, "pod {namespace}/{pod} is kept by disruption budgets {}", several.join(", ")),
        }
    }
}

impl Blocker {
    /// What lets the pod go.
    pub fn moves(&self) -> Vec<Move> {
        let Self { namespace, pod, owner, replicas, budgets, never } = self;
        let mut moves = Vec::new();
        match (budgets.as_slice(), owner.as_deref().filter(|owner| is_scaled(owner))) {
            ([budget], _) if *never => moves.push(Move::new(
                "let the budget give one of its pods away, which it never does now",
                format!(
                    "kubectl -n {namespace} patch pdb {budget} --type merge -p '{{\"spec\":{{\"minAvailable\":null,\"maxUnavailable\":1}}}}'"
                ),
            )),
            ([_], Some(owner)) => {
                let more = match replicas {
                    Some(replicas) => (replicas + 1).to_string(),
                    // The shell counts where nobody has.
                    None => format!("$(($(kubectl -n {namespace} get {owner} -o jsonpath='{{.spec.replicas}}')+1))"),
                };
                moves.push(Move::new(
                    "run one more of them, so that one may go",
                    format!("kubectl -n {namespace} scale {owner} --replicas={more}"),
                ));
            }
            ([_, others @ ..], _) if !others.is_empty() => moves.push(Move::new(
                "keep one budget: the API evicts no pod that several protect",
                format!("kubectl -n {namespace} delete pdb {}", others.join(" ")),
            )),
            (_, _) => {}
        }
        for budget in budgets {
            moves.push(Move::new("see what the budget asks", format!("kubectl -n {namespace} describe pdb {budget}")));
        }
        moves.push(Move::new(
            "stop the pod whatever its budget says",
            format!("kubectl -n {namespace} delete pod {pod}"),
        ));
        moves
    }
}

/// Whether an owner of pods can be scaled: a Job or a bare pod cannot.
fn is_scaled(owner: &str) -> bool {
    ["deploy/", "rs/", "statefulset/", "replicationcontroller/"].iter().any(|kind| owner.starts_with(kind))
}

/// Ends a person's hold on a node.
pub(crate) fn let_go(node: &str) -> Move {
    Move::new("let it go", format!("kubectl annotate node {node} {}-", api::annotations::HOLD))
}

fn before_its_turn(snapshot: &Snapshot, facts: &NodeFacts, pool: &PoolFacts) -> Explanation {
    let name = &facts.name;
    if let Some(hold) = &facts.hold {
        let why = if hold.is_empty() { String::new() } else { format!(": {hold}") };
        let mut it = explained(facts, State::Paused, format!("a person holds it where it is{why}"));
        it.waiting_for.push("the hold to be taken off".to_owned());
        it.moves.push(let_go(name));
        return it;
    }
    let target = &pool.target;
    let mut it =
        explained(facts, State::Waiting, format!("it runs what it ran before, and shall get {target} in its turn"));
    it.since = pool.target_since.or(facts.reported);
    let (state, what) = match &pool.standstill {
        Some(Standstill::Paused) => (State::Paused, "its pool, which is paused".to_owned()),
        Some(Standstill::Budget { limit, used }) => {
            let is_open = |node: &str| snapshot.nodes.get(node).is_none_or(|facts| !facts.done);
            let taken =
                pool.claims.iter().map(|claim| claim.node.as_str()).filter(|node| node != name && is_open(node));
            let taken: Vec<_> = taken.take(3).collect();
            let by = if taken.is_empty() { String::new() } else { format!(" by {}", taken.join(", ")) };
            (State::Waiting, format!("its turn: {used} of {limit} places are taken{by}"))
        }
        Some(Standstill::TrialReverted { config, node }) => {
            (State::Blocked, format!("a person: {node} tried {config} and went back, so no other node gets it"))
        }
        Some(Standstill::Misconfigured(problem)) => (State::Blocked, problem.clone()),
        Some(Standstill::Settling { left }) => {
            (State::Waiting, format!("the pool's target to stay the same for {}", crate::pool::moment(*left)))
        }
        Some(Standstill::Nodes { in_progress }) => {
            (State::Waiting, format!("its turn: {in_progress} nodes are at work"))
        }
        Some(Standstill::Other(why)) => (State::Waiting, why.clone()),
        Some(Standstill::Unknown(why)) => {
            (State::Unknown, format!("what the ledger of its pool says, which is not known: {why}"))
        }
        Some(Standstill::Settled | Standstill::NoConfiguration | Standstill::Held { .. }) | None => {
            (State::Waiting, "the controller to choose it".to_owned())
        }
    };
    // Where configs were not read, the controller has all the same seen what the hosts said of themselves.
    let unfit = facts.unfit.as_ref().map(|why| format!("a config that this host can take: {why}"));
    if let Some(why) = unfit.or_else(|| crate::pool::refused(pool)) {
        it.state = State::Blocked;
        it.waiting_for.push(why);
        it.moves.extend(crate::pool::way_out(pool));
        return it;
    }
    it.state = state;
    it.waiting_for.push(what);
    match &pool.standstill {
        Some(Standstill::Paused) => it.moves.push(crate::pool::unpause(&pool.name)),
        Some(Standstill::TrialReverted { .. }) => approve(&mut it, pool),
        Some(Standstill::Settling { .. }) => it.moves.push(crate::pool::settle_now(&pool.name)),
        Some(Standstill::Misconfigured(_)) => it.moves.push(crate::pool::mend(&pool.name)),
        _ => it.moves.push(Move::new("see what the pool waits for", format!("machinist why pool {}", pool.name))),
    }
    it
}

fn arrived(snapshot: &Snapshot, facts: &NodeFacts) -> Explanation {
    let name = &facts.name;
    let config = facts.current.as_deref().unwrap_or_default();
    if !facts.done {
        let mut it = explained(facts, State::Updating, format!("it has {config}, and its daemon finishes"));
        it.waiting_for.push(facts.step.clone().unwrap_or_else(|| "its daemon to finish".to_owned()));
        return it;
    }
    let mut it = explained(facts, State::Updated, format!("it runs {config}, as it should"));
    if !facts.ready {
        let since = facts.ready_since.map(|since| format!(" for {}", ago(since, snapshot.now))).unwrap_or_default();
        it.summary = format!("it runs {config}, but the machine is NotReady{since}, which takes a place of the budget");
        it.state = State::Blocked;
        it.since = facts.ready_since;
        it.waiting_for.push("the machine to become Ready".to_owned());
        it.moves.push(Move::new("see why", format!("kubectl describe node {name}")));
    } else if facts.unschedulable {
        it.summary = format!("it runs {config}, and is cordoned, which takes a place of the budget");
        it.state = State::Waiting;
        it.waiting_for.push("whoever cordoned it".to_owned());
        it.moves.push(Move::new("let pods return", format!("kubectl uncordon {name}")));
    }
    it
}

/// The node has a target and nothing was heard of anybody going there.
pub(crate) fn nobody_works(snapshot: &Snapshot, facts: &NodeFacts, pool: &PoolFacts) -> bool {
    if facts.current == facts.desired || facts.desired.is_none() || facts.is_degraded() || facts.is_draining {
        return false;
    }
    // Without the reports every daemon is silent, and without the ledger nobody knows since when.
    let is_unread = |input| snapshot.unread.why(input).is_some();
    if is_unread(Input::NodeReports) || (facts.targeted.is_none() && is_unread(Input::Ledgers)) {
        return false;
    }
    let since = taken_since(facts, pool).max(facts.reported);
    let is_silent = since.is_none_or(|since| snapshot.now.duration_since(since) > PATIENCE);
    let at_work = facts.state == api::names::state::WORKING && facts.ready;
    is_silent && !at_work
}

/// Since when the node is on its way: the ledger may have named it long before.
fn taken_since(facts: &NodeFacts, pool: &PoolFacts) -> Option<Timestamp> {
    let claim = || pool.claims.iter().find(|claim| claim.node == facts.name);
    facts.targeted.or_else(|| claim()?.since)
}

pub(crate) fn is_missing_config(snapshot: &Snapshot, facts: &NodeFacts) -> bool {
    facts.desired.as_ref().is_some_and(|config| snapshot.is_gone(config))
}

/// The daemon found something else on its disk than its config says.
pub(crate) fn is_mismatch(facts: &NodeFacts) -> bool {
    let reason = facts.reason.as_deref().unwrap_or_default();
    facts.is_degraded() && (reason.contains("content mismatch") || reason.contains("unexpected on-disk state"))
}

/// What the daemon found on the disk that its config does not say, in its words.
#[must_use]
pub fn drift(facts: &NodeFacts) -> Option<&str> {
    facts.reason.as_deref().filter(|_| is_mismatch(facts))
}

/// Who put the thing there that is not as it should be. The daemon quotes its name.
pub(crate) fn blame(facts: &NodeFacts) -> Move {
    let name = &facts.name;
    match facts.reason.as_deref().and_then(|reason| reason.split('"').nth(1)).filter(|subject| !subject.is_empty()) {
        Some(subject) => {
            Move::new("see where it comes from, and since when", format!("machinist blame {name} {}", quoted(subject)))
        }
        None => Move::new("see what it reports", format!("kubectl describe machineconfignode {name}")),
    }
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-@:+,=%".contains(letter);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

fn look_at_daemon(facts: &NodeFacts) -> Move {
    let name = &facts.name;
    match (&facts.daemon_pod, facts.ready) {
        (_, false) => Move::new("see what the machine says", format!("kubectl describe node {name}")),
        (Some(pod), true) => Move::new("read its log", format!("kubectl -n {} logs {pod}", api::names::NAMESPACE)),
        (None, true) => Move::new("look at its service, on the node", "systemctl status machinistd"),
    }
}
