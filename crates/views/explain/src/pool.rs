//! Explains one pool.

use api::names::{pool_condition, status};
use jiff::SignedDuration;

use crate::node::{approve, let_go, missing_controller, no_config, node, quoted};
use crate::snapshot::{NodeFacts, PoolFacts, Snapshot, Standstill};
use crate::{Explanation, Input, Move, State, span};

/// Explains the pool of that name, if there is one.
pub fn pool(snapshot: &Snapshot, name: &str) -> Option<Explanation> {
    let facts = snapshot.pools.get(name)?;
    let mut it = Explanation {
        name: name.to_owned(),
        state: State::Updated,
        since: since(facts),
        summary: String::new(),
        waiting_for: Vec::new(),
        moves: Vec::new(),
    };
    if let Some(problem) = render_problem(facts) {
        it.state = State::Degraded;
        it.since = since_of(facts, pool_condition::RENDER_DEGRADED);
        it.summary = "its fragments cannot be merged, so it keeps the last config that could".to_owned();
        it.waiting_for.push(problem);
        it.moves.extend(take_away(facts));
        it.moves.extend(see_fragments(facts));
        return Some(it);
    }
    explain(snapshot, facts, &mut it);
    Some(it)
}

fn explain(snapshot: &Snapshot, facts: &PoolFacts, it: &mut Explanation) {
    let nodes: Vec<_> = snapshot.nodes_of(&facts.name).filter_map(|member| node(snapshot, &member.name)).collect();
    let done = nodes.iter().filter(|it| it.state == State::Updated).count();
    let all = nodes.len();
    let of = format!("{done} of {all} nodes have {}", short(&facts.target));
    let in_the_way = nodes.iter().filter(|it| matches!(it.state, State::Blocked | State::Degraded));
    let in_the_way: Vec<_> = in_the_way.collect();
    let hidden = snapshot.unread.why(Input::Nodes);
    it.summary = match &facts.standstill {
        Some(Standstill::NoConfiguration) if !facts.has_fragments => no_config(facts),
        Some(Standstill::NoConfiguration) => "it has no rendered config yet".to_owned(),
        _ if hidden.is_some() => unseen(facts, hidden.unwrap_or_default()),
        _ if all == 0 => "it has no nodes".to_owned(),
        _ if done == all => format!("every node has {}", short(&facts.target)),
        _ => of,
    };
    it.state = match hidden {
        Some(_) => State::Unknown,
        None if done == all => State::Updated,
        None => State::Updating,
    };
    if let Some(why) = refused(facts).filter(|_| done < all) {
        it.state = State::Blocked;
        it.waiting_for.push(why);
        it.moves.extend(way_out(facts));
        return;
    }
    match &facts.standstill {
        Some(Standstill::Misconfigured(problem)) => {
            it.state = State::Blocked;
            it.waiting_for.push(problem.clone());
            it.moves.push(mend(&facts.name));
        }
        Some(Standstill::NoConfiguration) if !facts.has_fragments => {
            it.state = State::Waiting;
            it.waiting_for.push("a MachineConfig that its machineConfigSelector matches".to_owned());
            it.moves.push(Move::new(
                "see what it selects",
                format!("kubectl get mcp {} -o jsonpath={{.spec.machineConfigSelector}}", facts.name),
            ));
        }
        Some(Standstill::NoConfiguration) => {
            it.state = State::Waiting;
            it.waiting_for.push("the controller to render its fragments".to_owned());
            it.moves.push(Move::new("see whether it runs", "machinist doctor"));
        }
        Some(Standstill::TrialReverted { config, node }) => {
            it.state = State::Blocked;
            let why = facts.held.iter().find_map(|held| held.reason.clone()).map(|why| format!(": {why}"));
            it.waiting_for.push(format!("a person: {node} tried {config} and went back{}", why.unwrap_or_default()));
            approve(it, facts);
        }
        Some(Standstill::Settling { left }) => {
            it.waiting_for.push(format!("its target to stay the same for {}", moment(*left)));
            it.moves.push(settle_now(&facts.name));
        }
        Some(Standstill::Other(why)) => it.waiting_for.push(why.clone()),
        Some(Standstill::Unknown(why)) if hidden.is_none() && done < all => {
            it.state = State::Unknown;
            it.waiting_for.push(format!("what its ledger says, which is not known: {why}"));
        }
        Some(
            Standstill::Settled
            | Standstill::Paused
            | Standstill::Budget { .. }
            | Standstill::Nodes { .. }
            | Standstill::Held { .. }
            | Standstill::Unknown(_),
        )
        | None => {}
    }
    if facts.paused {
        paused(facts, it);
    }
    let is_waiting = done < all && !facts.target.is_empty();
    if let Some(controller) = missing_controller(snapshot).filter(|_| is_waiting) {
        it.state = it.state.max(State::Blocked);
        it.waiting_for.push(controller.lack());
        it.moves.push(controller.look());
        return;
    }
    for member in &in_the_way {
        it.state = it.state.max(member.state);
        let what = member.waiting_for.first().unwrap_or(&member.summary);
        // What keeps the whole pool was said already.
        if !it.waiting_for.contains(what) {
            it.waiting_for.push(format!("node {}: {what}", member.name));
        }
        it.moves.push(Move::new(
            format!("see why {} does not move", member.name),
            format!("machinist why node {}", member.name),
        ));
    }
    if it.waiting_for.is_empty() {
        let at_work: Vec<_> = nodes.iter().filter(|it| it.state == State::Updating).collect();
        for member in at_work {
            let what = member.waiting_for.first().unwrap_or(&member.summary);
            it.waiting_for.push(format!("node {}: {what}", member.name));
        }
    }
    if it.waiting_for.is_empty() && done < all {
        match &facts.standstill {
            Some(Standstill::Held { nodes }) => {
                let nodes = if *nodes == 1 { "a node".to_owned() } else { format!("{nodes} nodes") };
                it.waiting_for.push(format!("{nodes} that a person holds"));
                it.moves.extend(held(snapshot, facts));
            }
            Some(Standstill::Budget { limit, used }) => {
                it.waiting_for.push(format!("{used} of {limit} places are taken"));
            }
            _ => it.waiting_for.push("the controller to choose the next node".to_owned()),
        }
    }
}

/// Ends the holds that keep the pool from its target.
fn held(snapshot: &Snapshot, facts: &PoolFacts) -> Option<Move> {
    let is_held = |node: &&NodeFacts| node.hold.is_some() && node.current.as_deref() != Some(&facts.target);
    let names: Vec<&str> = snapshot.nodes_of(&facts.name).filter(is_held).map(|node| node.name.as_str()).collect();
    (!names.is_empty()).then(|| let_go(&names.join(" ")))
}

/// What the pool itself counts, where its nodes were not read.
fn unseen(facts: &PoolFacts, why: &str) -> String {
    let status = &facts.status;
    match (status.machine_count, status.updated_machine_count) {
        (Some(all), Some(done)) => {
            format!("it counts {done} of {all} nodes as updated; the nodes themselves are not known: {why}")
        }
        _ => format!("its nodes are not known: {why}"),
    }
}

fn paused(facts: &PoolFacts, it: &mut Explanation) {
    let said = facts.pause.as_ref().map(ToString::to_string).unwrap_or_default();
    let by = if said.starts_with(" by ") { format!(", set{said}") } else { said };
    if it.state == State::Updated {
        it.summary = format!("{}; it is paused{by}", it.summary);
    } else {
        it.waiting_for.insert(0, format!("the pause to end{by}"));
    }
    it.state = State::Paused;
    it.since = facts.pause.as_ref().and_then(|pause| pause.since).or(it.since);
    it.moves.push(unpause(&facts.name));
}

/// How long a target still has to settle.
pub(crate) fn moment(left: SignedDuration) -> String {
    if left.is_positive() { format!("{} more", span(left)) } else { "a moment".to_owned() }
}

/// The policy has the name of the pool.
pub(crate) fn settle_now(pool: &str) -> Move {
    let patch = r#"{"spec":{"settle":"0s"}}"#;
    Move::new("let nodes get targets at once", format!("kubectl patch poolpolicy {pool} --type merge -p '{patch}'"))
}

/// Takes away what users have added since the last config that worked.
pub(crate) fn take_away(facts: &PoolFacts) -> Option<Move> {
    let names = facts.came_since.join(" ");
    (!names.is_empty()).then(|| {
        Move::new("take away what came since the last config that worked", format!("kubectl delete mc {names}"))
    })
}

pub(crate) fn see_fragments(facts: &PoolFacts) -> Option<Move> {
    let selects = facts.selects.as_ref()?;
    Some(Move::new("see what it is made from", format!("kubectl get mc -l {}", quoted(selects))))
}

pub(crate) fn mend(pool: &str) -> Move {
    Move::new("mend it", format!("kubectl edit mcp {pool}"))
}

pub(crate) fn unpause(pool: &str) -> Move {
    Move::new("go on", format!("kubectl patch mcp {pool} --type merge -p '{{\"spec\":{{\"paused\":false}}}}'"))
}

/// Since when the pool is as it is: the newest change of the two conditions that say so.
fn since(facts: &PoolFacts) -> Option<jiff::Timestamp> {
    since_of(facts, pool_condition::UPDATED).max(since_of(facts, pool_condition::UPDATING))
}

fn since_of(facts: &PoolFacts, type_: &str) -> Option<jiff::Timestamp> {
    let condition = facts.status.conditions.iter().find(|condition| condition.type_ == type_)?;
    condition.last_transition_time.as_ref().map(|time| time.0)
}

pub(crate) fn render_problem(facts: &PoolFacts) -> Option<String> {
    let conditions = &facts.status.conditions;
    let degraded = conditions.iter().find(|condition| condition.type_ == pool_condition::RENDER_DEGRADED)?;
    (degraded.status == status::TRUE).then(|| degraded.message.clone())
}

/// What the controller says about a target that no host of the pool can take.
pub(crate) fn refused(facts: &PoolFacts) -> Option<String> {
    let mut conditions = facts.status.conditions.iter();
    let degraded = conditions.find(|condition| condition.type_ == pool_condition::DEGRADED)?;
    let is_said = degraded.status == status::TRUE && degraded.reason == rollout::REFUSED;
    // Until the controller has looked, the condition is about an earlier target.
    (is_said && degraded.message.contains(&facts.target)).then(|| degraded.message.clone())
}

/// Ways out of a change that hosts refuse.
pub(crate) fn way_out(facts: &PoolFacts) -> Vec<Move> {
    take_away(facts).into_iter().chain(crate::node::roll_back(facts)).chain(see_fragments(facts)).collect()
}

/// A rendered config's name, short enough to be read: the pool and the first letters of the hash.
fn short(config: &str) -> String {
    match config.rsplit_once('-') {
        Some((head, hash)) if hash.len() > 12 && hash.is_ascii() => format!("{head}-{}", &hash[..12]),
        _ => config.to_owned(),
    }
}
