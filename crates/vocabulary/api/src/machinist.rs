//! `machinist.dev/v1alpha1`: settings and state for which upstream has no field.
//!
//! Each kind here is cluster-scoped and belongs to an upstream object with the same name, so that upstream's objects
//! need no additional fields.

mod bootstrap_token;
mod cluster_settings;
mod kept_config;
mod node_survey;
mod pool_ledger;
mod pool_policy;
mod rendered_provenance;

pub use bootstrap_token::{BootstrapToken, BootstrapTokenSpec, BootstrapTokenStatus};
pub use cluster_settings::{ClusterSettings, ClusterSettingsSpec, ContainerdSettings};
pub use kept_config::{KeptConfig, KeptConfigSpec};
pub use node_survey::{Found, NodeSurvey, NodeSurveySpec, SurveyedFile};
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
