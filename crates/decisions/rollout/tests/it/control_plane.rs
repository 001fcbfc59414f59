//! Control-plane nodes go one at a time, with care.

use api::known::{Reading, Unread};
use expect_test::expect;
use rollout::{EtcdMember, Named, NodeFacts, Peer, Snapshot};
use serde_json::json;

use crate::world::{OLD, check, down, node, pool, snapshot};

fn master(name: &str, more: serde_json::Value) -> NodeFacts {
    node(name, OLD, more)
}

fn masters(nodes: Vec<NodeFacts>) -> Snapshot {
    with_etcd(snapshot(&pool("master", json!({"maxUnavailable": 3})), nodes), &[])
}

/// A member of etcd on each node, all of them well but these.
fn with_etcd(mut world: Snapshot, ill: &[&str]) -> Snapshot {
    let member = |facts: &NodeFacts| EtcdMember {
        node: facts.name.clone(),
        ready: !ill.contains(&facts.name.as_str()),
        named: Named::None,
    };
    world.etcd = Reading::known(world.nodes.iter().map(member).collect(), world.now);
    world
}

#[test]
fn one_at_a_time_and_the_leaders_node_last() {
    let mut world = masters(vec![master("m0", json!({})), master("m1", json!({})), master("m2", json!({}))]);
    world.settings.leader_node = Some("m0".into());
    check(
        &world,
        expect![[r#"
            claim over none: m1@10
            target m1@10 with rendered-worker-new
            taint m2: 1
            taint m0: 1
            event DeferringOperatorNodeUpdate: Deferring update of machine config operator node m0
            event SetDesiredConfig: Targeted node m1 to MachineConfig: rendered-worker-new
            then OnChange(Budget { limit: 1, used: 1 })"#]],
    );
}

#[test]
fn never_below_the_quorum_of_etcd() {
    let world = masters(vec![master("m0", json!({})), master("m1", json!({})), master("m2", json!({}))]);
    let world = with_etcd(world, &["m2"]);
    check(
        &world,
        expect![[r#"
            claim over none: m2@10
            target m2@10 with rendered-worker-new
            taint m1: 1
            taint m0: 1
            event SetDesiredConfig: Targeted node m2 to MachineConfig: rendered-worker-new
            then OnChange(Quorum { node: "m1", pool: "master", members: 3, seen: 3 })"#]],
    );
}

#[test]
fn a_quorum_that_cannot_be_read_is_no_quorum() {
    let mut world = masters(vec![master("m0", json!({})), master("m1", json!({})), master("m2", json!({}))]);
    world.etcd = Reading::Unknown("the API answered 503".into());
    let waits = expect![[r#"
        claim over none: 
        taint m2: 1
        taint m1: 1
        taint m0: 1
        then After(5s, Unread(Unread { what: "pods of etcd", why: "the API answered 503" }))"#]];
    check(&world, waits);
    let mut stale = with_etcd(world, &[]);
    stale.now += jiff::SignedDuration::from_secs(121);
    assert!(rollout::plan(&stale).actions.iter().all(|action| !matches!(action, rollout::Action::Target(_))));
}

#[test]
fn no_node_is_taken_while_nodes_cannot_be_read() {
    let mut world = snapshot(&pool("worker", json!({"maxUnavailable": 3})), vec![master("a", json!({}))]);
    world.unread = Some(Unread::new("nodes", "the API answered 503"));
    let plan = rollout::plan(&world);
    assert_eq!(plan.actions, []);
    let rollout::Next::After(_, waiting) = plan.next else { panic!("{:?}", plan.next) };
    assert_eq!(waiting.to_string(), "no node is taken unseen: cannot read nodes: the API answered 503");
}

#[test]
fn a_node_that_is_down_counts_as_the_one() {
    let world = masters(vec![master("m0", down()), master("m1", json!({})), master("m2", json!({}))]);
    let plan = rollout::plan(&world);
    assert_eq!(plan.spending.limit, 1);
    assert_eq!(plan.spending.taken, 0);
}

#[test]
fn a_single_node_works() {
    check(
        &masters(vec![master("m0", json!({}))]),
        expect![[r#"
            claim over none: m0@10
            target m0@10 with rendered-worker-new
            event SetDesiredConfig: Targeted node m0 to MachineConfig: rendered-worker-new
            then OnChange(Nodes { in_progress: 1 })"#]],
    );
}

#[test]
fn masters_wait_for_an_arbiter_that_is_down_and_arbiters_for_all_masters() {
    let mut world = masters(vec![master("m0", json!({}))]);
    world.peer = Some(Peer { pool: "arbiter".into(), unavailable: 1, ..Peer::default() });
    check(
        &world,
        expect![[r#"
        claim over none: 
        taint m0: 1
        then OnChange(Peer { pool: "arbiter" })"#]],
    );
    let mut arbiters = with_etcd(snapshot(&pool("arbiter", json!({})), vec![master("a0", json!({}))]), &[]);
    arbiters.peer = Some(Peer { pool: "master".into(), waiting: 1, ..Peer::default() });
    assert_eq!(rollout::plan(&arbiters).spending.taken, 0);
    arbiters.peer = Some(Peer { pool: "master".into(), waiting: 1, paused: true, ..Peer::default() });
    assert_eq!(rollout::plan(&arbiters).spending.taken, 1);
}

#[test]
fn failed_nodes_of_the_control_plane_are_mended_one_after_the_other() {
    let failed = |name: &str| {
        let mut more = crate::world::annotated(&[("desiredConfig", "rendered-worker-bad"), ("state", "Degraded")]);
        more["spec"] = json!({"unschedulable": true});
        master(name, more)
    };
    check(
        &masters(vec![failed("m0"), failed("m1"), master("m2", json!({}))]),
        expect![[r#"
            claim over none: m0@10
            target m0@10 with rendered-worker-new
            taint m2: 1
            taint m1: 1
            event DesiredConfigPutBack: desiredConfig of node m0 was rendered-worker-bad, which is neither what its pool wants nor what runs on the node; it is set to rendered-worker-new. To keep a node where it is, annotate it with machinist.dev/hold
            event SetDesiredConfig: Targeted node m0 to MachineConfig: rendered-worker-new
            then OnChange(Budget { limit: 1, used: 1 })"#]],
    );
}

/// The ledger that a plan writes.
fn ledger(world: &Snapshot) -> Option<api::machinist::PoolLedgerSpec> {
    rollout::plan(world).actions.into_iter().find_map(|action| match action {
        rollout::Action::WriteLedger { spec, .. } => Some(*spec),
        _ => None,
    })
}

#[test]
fn a_member_of_etcd_whose_node_was_deleted_still_counts() {
    let three = masters(vec![master("m0", json!({})), master("m1", json!({})), master("m2", json!({}))]);
    let recorded = ledger(&three).expect("the ledger says how many members there are");
    assert_eq!(recorded.etcd_members, Some(3));
    let mut two = masters(vec![master("m0", json!({})), master("m1", json!({}))]);
    two.ledger.spec.etcd_members = recorded.etcd_members;
    let plan = rollout::plan(&two);
    assert_eq!(plan.spending.taken, 0);
    assert!(matches!(plan.next, rollout::Next::OnChange(rollout::Waiting::Quorum { .. })), "{:?}", plan.next);
    two.ledger.spec.etcd_members = Some(2);
    assert_eq!(rollout::plan(&two).spending.taken, 1, "somebody has removed the member and lowered the number");
}
