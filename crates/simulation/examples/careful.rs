use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rollout::node::State;
use rollout::*;
use simulation::*;
use std::collections::BTreeSet;
struct Careful;
fn limit(s: &Snapshot) -> usize {
    if s.pool.name == "master" {
        return 1;
    }
    match &s.pool.max_unavailable {
        Some(IntOrString::Int(n)) => *n as usize,
        Some(IntOrString::String(t)) => {
            (s.nodes.iter().count() * t.trim_end_matches('%').parse::<usize>().unwrap() / 100).max(1)
        }
        None => 1,
    }
}
fn through(f: &NodeFacts) -> bool {
    f.state == State::Done && f.current.is_some() && f.current == f.desired
}
impl Parties for Careful {
    fn drain(&self, s: &drain::Snapshot) -> drain::Plan {
        let mut s = s.clone();
        s.daemon_sets = None;
        drain::plan(&s)
    }
    fn plan(&self, s: &Snapshot) -> Plan {
        let mut plan = rollout::plan(s);
        let mut open: BTreeSet<String> = BTreeSet::new();
        for c in s.ledger.spec.claims.iter().chain(&s.ledger.spec.next) {
            let rv: u64 = c.node_resource_version.as_deref().unwrap_or("0").parse().unwrap_or(0);
            match s.nodes.get(&c.node) {
                Some(f) if f.resource_version.number > rv && through(f) => {}
                _ => {
                    open.insert(c.node.clone());
                }
            }
        }
        let moving: BTreeSet<String> = s
            .nodes
            .iter()
            .filter(|f| (f.desired.is_some() && !through(f)) || !matches!(f.unready, None))
            .map(|f| f.name.clone())
            .collect();
        let old = open.clone();
        let mut claimed: BTreeSet<String> = s.ledger.spec.claims.iter().map(|c| c.node.clone()).collect();
        let quorum = s.pool.name == "master" && s.etcd.iter().any(|m| !m.ready);
        for a in &mut plan.actions {
            if let Action::WriteLedger { spec, .. } = a {
                spec.next.clear();
                // never forget an open claim
                for c in s.ledger.spec.claims.iter().chain(&s.ledger.spec.next) {
                    if open.contains(&c.node)
                        && s.nodes.get(&c.node).is_some()
                        && !spec.claims.iter().any(|d| d.node == c.node)
                    {
                        spec.claims.push(c.clone());
                    }
                }
                let lim = limit(s);
                spec.claims.retain(|c| {
                    if old.contains(&c.node) {
                        return true;
                    }
                    let f = s.nodes.get(&c.node);
                    let mut others: BTreeSet<_> = open.iter().filter(|o| **o != c.node).cloned().collect();
                    let available = f.is_some_and(|f| f.unready.is_none());
                    others.extend(
                        moving
                            .iter()
                            .filter(|m| **m != c.node && (available || through(s.nodes.get(m).unwrap()) == false))
                            .cloned(),
                    );
                    if others.len() < lim && !quorum {
                        open.insert(c.node.clone());
                        true
                    } else {
                        false
                    }
                });
                claimed = spec.claims.iter().map(|c| c.node.clone()).collect();
            }
        }
        let inledger: BTreeSet<String> = s.ledger.spec.claims.iter().map(|c| c.node.clone()).collect();
        let at = plan.actions.iter().position(|a| matches!(a, Action::WriteLedger { .. }));
        let mut i = 0;
        plan.actions.retain(|a| {
            let idx = i;
            i += 1;
            match a {
                Action::Target(t) => {
                    let set = if at.is_some_and(|at| idx > at) { &claimed } else { &inledger };
                    let f = s.nodes.get(&t.node).unwrap();
                    let going = f.desired.is_some()
                        && f.desired != f.current
                        && f.state != State::Degraded
                        && f.state != State::Unreconcilable;
                    let others = open
                        .iter()
                        .chain(&moving)
                        .filter(|o| **o != t.node && s.nodes.get(o).is_some_and(|f| !through(f)))
                        .collect::<BTreeSet<_>>()
                        .len();
                    set.contains(&t.node) && open.contains(&t.node) && (going || others < limit(s))
                }
                _ => true,
            }
        });
        plan
    }
}
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args[0] == "trace" {
        let sc: Scenario = args[1].parse().unwrap();
        let o = shrink(&sc, &Careful);
        println!("{}", o.scenario);
        for l in trace(&o.scenario, &Careful).1 {
            println!("{l}");
        }
        return;
    }
    let from: u64 = args[0].parse().unwrap();
    let n: u64 = args[1].parse().unwrap();
    let s = Summary::of(from..from + n, &Careful);
    println!("{} runs {} failed", s.runs, s.failed.len());
    for (kind, outcomes) in s.by_kind() {
        println!("{:6} {kind}", outcomes.len());
        for o in outcomes.iter().take(3) {
            println!("        {} {}", o.scenario, o.violations[0]);
        }
    }
}
