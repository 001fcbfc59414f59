//! The budget ledger: which nodes a controller has taken away, or may take away at any moment.
//!
//! A Lease does not stop a late write, so places are taken here, by resource version. A claim names the version of the
//! Node that its targeting patch will carry. As long as the node still has that version, the patch may land at any
//! moment, also from a leader that was deposed long ago; once the node has moved on, it never can. That is all a later
//! leader has to look at before it gives a place back. No node gets a target without a claim, whatever state it is in,
//! and there are never more open claims than the limit.
//!
//! The ledger also names the nodes whose turn comes next, so that a place which is given back is taken again without a
//! write of the ledger. That is as safe with two leaders as a claim is: of those in line, one may be targeted only while
//! fewer nodes than the limit are still open among the claims and those before it. Of all nodes that are down by these
//! writes, look at the one that is last in line. Whoever targeted it saw everything before it that is down now as open
//! then, because what is over never opens again, and saw fewer than the limit. A later ledger keeps the order: who is in
//! line moves up or stays, and new ones join at the end. A node that cannot wait behind the line is claimed only after
//! everybody in line was fenced off.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use api::machinist::{Claim, PoolLedger, PoolLedgerSpec};

use crate::node::{NodeFacts, ResourceVersion, State};
use crate::pool_nodes::PoolNodes;

/// A pool's ledger as it was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    /// The version that a write of the ledger must carry; none while the object does not exist.
    pub resource_version: Option<String>,
    pub spec: PoolLedgerSpec,
}

/// What has become of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// The node still has the version that was claimed: the patch may land yet.
    Pending,
    /// Our view of the nodes is older than the claim.
    Ahead,
    /// The node was asked on the strength of this claim and has not finished. The place is its own until then.
    Taken,
    /// The node is busy with something that this claim did not ask for, or it has finished and was not given back yet. It
    /// holds the place, but gets another target only like a node that has none.
    Loose,
    /// The node has finished and was given back, the patch never arrived, or the node is gone. It may be down or cordoned
    /// by a person, as it may have been before: that is not our doing any more.
    Over,
}

/// A claim that still counts. A pool has thousands of them and looks at each for every plan, so they are borrowed from the
/// ledger until they change, and their nodes are looked up once.
#[derive(Clone, Debug)]
pub(crate) struct OpenClaim<'a> {
    pub(crate) claim: Cow<'a, Claim>,
    pub(crate) stand: Stand,
    /// The node, unless it is gone or was not seen yet.
    pub(crate) facts: Option<&'a NodeFacts>,
}

impl Ledger {
    /// Reads a ledger.
    pub fn from_object(ledger: Option<&PoolLedger>) -> Self {
        let Some(ledger) = ledger else { return Self::default() };
        let mut spec = ledger.spec.clone();
        let target = spec.target.as_ref().map(|target| target.config.clone()).unwrap_or_default();
        for claim in spec.claims.iter_mut().chain(&mut spec.next).filter(|claim| claim.config.is_empty()) {
            claim.config.clone_from(&target);
        }
        Self { resource_version: ledger.metadata.resource_version.clone(), spec }
    }

    /// The claims that still count, each with where it stands. What is over is left out. A node in line that has moved on
    /// was targeted, or will be by what moved it: it counts as claimed.
    pub(crate) fn open_claims<'a>(&'a self, nodes: &'a PoolNodes) -> BTreeMap<&'a str, OpenClaim<'a>> {
        let in_line = open(&self.spec.next, nodes).filter(|(_, open)| open.stand != Stand::Pending);
        in_line.chain(open(&self.spec.claims, nodes)).collect()
    }

    /// The nodes in line that may be targeted yet, in their order.
    pub(crate) fn in_line<'a>(&'a self, nodes: &'a PoolNodes) -> impl Iterator<Item = OpenClaim<'a>> {
        open(&self.spec.next, nodes).map(|(_, open)| open).filter(|open| open.stand == Stand::Pending)
    }

    /// What the ledger lets controllers write to each node, now or when its turn comes.
    pub(crate) fn by_node(&self) -> HashMap<&str, &Claim> {
        self.spec.next.iter().chain(&self.spec.claims).map(|claim| (claim.node.as_str(), claim)).collect()
    }
}

/// The object that holds a ledger. What all claims have in common is said once: a pool whose whole budget is claimed has
/// thousands of them, and an API server takes no object of more than a megabyte and a half.
pub fn object(pool: &str, mut spec: PoolLedgerSpec) -> PoolLedger {
    let target = spec.target.as_ref().map(|target| target.config.clone()).unwrap_or_default();
    for claim in spec.claims.iter_mut().chain(&mut spec.next).filter(|claim| claim.config == target) {
        claim.config.clear();
    }
    PoolLedger::new(pool, spec)
}

/// Whether a ledger lets a node be emptied for what its daemon asks. Whoever sent it on its way, only a node that has a
/// place may go: one whose target was set by a person, or by a controller that keeps no ledger, waits until it has one. That
/// the node stands in line for what a person has asked of it is no place yet.
pub fn lets_drain(ledger: &PoolLedgerSpec, node: &NodeFacts) -> bool {
    let asked = node.drains_for();
    let by_controller = node.set_by.is_none();
    let target = ledger.target.as_ref().map(|target| target.config.as_str());
    let is_for = |claim: &Claim| {
        let config = if claim.config.is_empty() { target } else { Some(claim.config.as_str()) };
        let is_same = claim.node == node.name && (claim.uid.is_none() || node.uid.is_none() || claim.uid == node.uid);
        is_same && asked.is_some() && ((asked == config && by_controller) || asked == claim.instead_of.as_deref())
    };
    ledger.claims.iter().chain(&ledger.next).any(is_for)
}

fn open<'a>(claims: &'a [Claim], nodes: &'a PoolNodes) -> impl Iterator<Item = (&'a str, OpenClaim<'a>)> {
    let all = claims.iter().map(|claim| {
        let facts = nodes.get(&claim.node);
        let stand = Stand::of(claim, facts, nodes.newest());
        (claim.node.as_str(), OpenClaim { claim: Cow::Borrowed(claim), stand, facts })
    });
    all.filter(|(_, open)| open.stand != Stand::Over)
}

impl Stand {
    /// Where a claim stands, with its node and the version up to which all nodes were seen.
    fn of(claim: &Claim, node: Option<&NodeFacts>, newest: u64) -> Self {
        let claimed = ResourceVersion::number_of(claim.node_resource_version.as_deref().unwrap_or_default());
        let Some(node) = node else {
            return if newest > claimed { Self::Over } else { Self::Ahead };
        };
        if claim.uid.is_some() && node.uid.is_some() && claim.uid != node.uid {
            return if node.resource_version.number > claimed { Self::Over } else { Self::Ahead };
        }
        match node.resource_version.number.cmp(&claimed) {
            std::cmp::Ordering::Less => Self::Ahead,
            std::cmp::Ordering::Equal => Self::Pending,
            std::cmp::Ordering::Greater => Self::moved_on(claim, node),
        }
    }

    /// The node has a newer version than the one that was claimed.
    fn moved_on(claim: &Claim, node: &NodeFacts) -> Self {
        let desired = node.desired.as_ref();
        let is_same = desired == Some(&claim.config);
        // A person who asks for the same as the claim does has not got a place by that: the claim may stand in line.
        let is_asked = is_same && (node.set_by.is_none() || desired == claim.instead_of.as_ref());
        // Should the patch never have landed, the node goes on with what it was busy with, and the place is still its own.
        // Once it has finished that, whatever it reports since then, it is asked for something only like any other node.
        let goes_on = node.is_in_motion() && desired.is_some() && desired == claim.instead_of.as_ref();
        // A node that rested when it was claimed runs this only if it has finished. Whatever it reports since then, a
        // drift for example, this claim gives it no right to another target.
        let is_reached =
            claim.instead_of.is_none() && node.current.as_ref() == Some(&claim.config) && node.state != State::Working;
        // Nothing keeps a node busy that has no config and is asked for none, whatever state somebody wrote on it. Of any
        // other node such a state says nothing: where it is off, it may have died in the middle of its change.
        let is_idle = !node.is_in_motion() && !node.is_emptied() && node.is_blank();
        let is_over = is_reached || node.is_done() || node.is_at_rest() || is_idle;
        if (is_asked || goes_on) && !is_reached && !node.is_done() {
            Self::Taken
        } else if is_over && !(is_same && node.is_emptied()) {
            Self::Over
        } else {
            Self::Loose
        }
    }
}
