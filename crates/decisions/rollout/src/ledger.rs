//! The budget ledger: which nodes hold a share of a pool's budget because a controller took one for them.
//!
//! A Lease does not stop a late write, so the budget is spent here, by resource version. A claim names the version of
//! the Node that its targeting patch will carry. As long as the node still has that version, the patch may land at any
//! moment, also from a leader that was deposed long ago; once the node has moved on, it never can. That is all a later
//! leader has to look at before it gives a share back.
//!
//! The ledger also names the nodes whose turn comes next, so that a share which is given back is taken again without a
//! write of the ledger. That is as safe with two leaders as a claim is: of those in line, one may be targeted only while
//! fewer nodes than the budget are still open among the claims and those before it. Whatever is down by these writes,
//! look at the one that is last in line. Whoever targeted it saw everything before it that is down now as open then,
//! because what is over never opens again, and saw fewer than the budget. A later ledger keeps the order: who is in line
//! moves up or stays, and new ones join at the end.

use std::collections::{BTreeMap, HashMap};

use api::machinist::{Claim, PoolLedger, PoolLedgerSpec};

use crate::node::ResourceVersion;
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
    /// The node has moved on and is not through yet.
    Live,
    /// The node is through, the patch never arrived, or the node is gone.
    Over,
}

impl Ledger {
    /// Reads a ledger.
    pub fn from_object(ledger: Option<&PoolLedger>) -> Self {
        let Some(ledger) = ledger else { return Self::default() };
        Self { resource_version: ledger.metadata.resource_version.clone(), spec: ledger.spec.clone() }
    }

    /// The claims that still count, each with where it stands. What is over is left out. A node in line that has moved on
    /// was targeted, or will be by what moved it: it counts as claimed.
    pub(crate) fn open_claims(&self, nodes: &PoolNodes) -> BTreeMap<String, (Claim, Stand)> {
        let in_line = open(&self.spec.next, nodes).filter(|(_, stand)| *stand != Stand::Pending);
        let all = in_line.chain(open(&self.spec.claims, nodes));
        all.map(|(claim, stand)| (claim.node.clone(), (claim.clone(), stand))).collect()
    }

    /// The nodes in line that may be targeted yet, in their order.
    pub(crate) fn in_line(&self, nodes: &PoolNodes) -> Vec<Claim> {
        let open = open(&self.spec.next, nodes).filter(|(_, stand)| *stand == Stand::Pending);
        open.map(|(claim, _)| claim.clone()).collect()
    }

    /// What the ledger lets controllers write to each node, now or when its turn comes.
    pub(crate) fn by_node(&self) -> HashMap<&str, &Claim> {
        self.spec.next.iter().chain(&self.spec.claims).map(|claim| (claim.node.as_str(), claim)).collect()
    }
}

fn open<'a>(claims: &'a [Claim], nodes: &'a PoolNodes) -> impl Iterator<Item = (&'a Claim, Stand)> {
    claims.iter().map(|claim| (claim, Stand::of(claim, nodes))).filter(|(_, stand)| *stand != Stand::Over)
}

impl Stand {
    fn of(claim: &Claim, nodes: &PoolNodes) -> Self {
        let claimed = ResourceVersion::parse(claim.node_resource_version.as_deref().unwrap_or_default()).number;
        let Some(node) = nodes.get(&claim.node) else {
            return if nodes.newest() > claimed { Self::Over } else { Self::Ahead };
        };
        if claim.uid.is_some() && node.uid.is_some() && claim.uid != node.uid {
            return if node.resource_version.number > claimed { Self::Over } else { Self::Ahead };
        }
        match node.resource_version.number.cmp(&claimed) {
            std::cmp::Ordering::Less => Self::Ahead,
            std::cmp::Ordering::Equal => Self::Pending,
            std::cmp::Ordering::Greater if node.is_done() && node.is_serving() => Self::Over,
            std::cmp::Ordering::Greater => Self::Live,
        }
    }
}
