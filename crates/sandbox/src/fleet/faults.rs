//! The ways in which a simulated node can misbehave.

/// What goes wrong with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Each update fails: the node becomes Degraded and says why.
    Fail,
    /// It begins an update and never finishes.
    Hang,
    /// It reboots for the update and never comes back: NotReady from then on.
    NeverReturns,
    /// Its files change under it: Degraded although it has what it was asked to have.
    Drift,
    /// In the middle of an update somebody gives it this role as well.
    Relabel(&'static str),
    /// It is removed from the cluster in the middle of an update.
    Vanish,
}
