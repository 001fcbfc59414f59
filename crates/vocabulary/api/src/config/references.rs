//! References to ConfigMaps and Secrets of the namespace `openshift-config`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names a ConfigMap or Secret whose namespace the field implies.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NameReference {
    pub name: String,
}
