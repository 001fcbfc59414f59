//! What a node's MachineConfigNode adds to its annotations.

/// The parts of a MachineConfigNode's status that a pool's status is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The node has reported at all.
    pub has_conditions: bool,
    /// The message of `NodeDegraded`, while that is true.
    pub degraded: Option<String>,
    /// `Updated` is true.
    pub updated: bool,
    pub desired_config: Option<String>,
    pub desired_image: Option<String>,
    /// Every pinned image set is at its desired generation.
    pub images_pinned: bool,
    /// Why the drain does not get on, as the drain controller put it.
    pub drain_blocked: Option<String>,
}
