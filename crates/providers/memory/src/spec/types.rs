//! The fields of a spec, as the user wrote them. What each may be is said in `validation`.

use machine::spec::LocalReference;
use serde::{Deserialize, Serialize};

/// `MemoryMachineProviderSpec`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemorySpec {
    pub api_version: String,
    pub kind: String,
    /// `small`, `medium` or `large`.
    pub instance_type: String,
    pub region: String,
    pub zone: String,
    pub user_data_secret: Option<LocalReference>,
    /// How long an instance is pending, such as `2s`.
    pub create_delay: String,
    /// How long a running instance takes until its first boot begins.
    pub boot_delay: String,
    /// How long a removal takes.
    pub delete_delay: String,
    pub faults: Option<Faults>,
}

/// What goes wrong with a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Faults {
    /// The kind of error with which creations are refused, such as `NoCapacity`.
    pub create: String,
    /// How many creations of a Machine are refused before one succeeds; 0 refuses all.
    pub create_times: u32,
    /// The instance is made, but the first answer does not arrive.
    pub lose_answer: bool,
    /// The instance runs and nothing boots on it.
    pub never_boots: bool,
    /// The instance disappears this long after its creation.
    pub vanish_after: String,
}
