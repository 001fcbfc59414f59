//! `machinist.dev/v1alpha1`: what upstream has no field for.
//!
//! Each kind here is cluster-scoped and stands beside an object of upstream's with the same name, so that upstream's
//! objects stay exactly theirs.

mod bootstrap_token;
mod cluster_settings;
mod pool_ledger;
mod pool_policy;
mod rendered_provenance;

pub use bootstrap_token::{BootstrapToken, BootstrapTokenSpec, BootstrapTokenStatus};
pub use cluster_settings::{ClusterSettings, ClusterSettingsSpec};
pub use pool_ledger::{Claim, HeldConfig, PoolLedger, PoolLedgerSpec, Target};
pub use pool_policy::{
    ConfigServerPolicy, DriftPolicy, PoolPolicy, PoolPolicySpec, SourcePolicy, TrialCheck, TrialPolicy,
};
pub use rendered_provenance::{
    Archive, Conflict, Entry, EntryKind, Fragment, Pin, RenderedProvenance, RenderedProvenanceSpec,
};

/// The API group.
pub const GROUP: &str = "machinist.dev";
/// The version of every kind in the group.
pub const VERSION: &str = "v1alpha1";
