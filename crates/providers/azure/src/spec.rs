//! The Azure providerSpec: its fields, its defaults and its rules. Nothing here calls Azure.

mod defaults;
mod types;
mod validation;

use machine::provider::{Capacity, Problem, SecretNeed, SpecRules, Surroundings, Verdict};
use machine::spec::{Identity, defaulted, read, secret, validated};
use serde_json::{Value, json};

pub use types::*;

/// The Secret with Azure credentials that OpenShift's credentials operator makes.
pub const CREDENTIALS: &str = "azure-cloud-credentials";

const IDENTITY: Identity = Identity {
    kind: "AzureMachineProviderSpec",
    groups: &["machine.openshift.io", "azureproviderconfig.openshift.io"],
    versions: &["v1beta1", "v1"],
};

/// The pure half of the provider.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules;

impl SpecRules for Rules {
    fn default(&self, spec: &Value, surroundings: &Surroundings) -> Result<Value, Problem> {
        defaulted(spec, |spec| defaults::fill(spec, surroundings))
    }

    fn validate(&self, spec: &Value, surroundings: &Surroundings) -> Verdict {
        validated(spec, |spec, verdict| validation::check(spec, surroundings, verdict))
    }

    fn secrets(&self, spec: &Value) -> Vec<SecretNeed> {
        let Ok(read::Read { spec, .. }) = read::read::<AzureSpec>(spec) else { return Vec::new() };
        secret::needs(spec.credentials_secret.as_ref(), spec.user_data_secret.as_ref())
    }

    /// Names of networks and load balancers are part of it: the child resources of a machine hang on them.
    fn place(&self, spec: &Value) -> Value {
        let Ok(read::Read { spec, .. }) = read::read::<AzureSpec>(spec) else { return Value::Null };
        let mut place = json!({});
        let fields = [
            ("location", spec.location),
            ("resourceGroup", spec.resource_group),
            ("networkResourceGroup", spec.network_resource_group),
        ];
        for (field, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
            place[field] = json!(value);
        }
        if let Some(reference) = spec.credentials_secret {
            place["credentialsSecret"] = json!(reference);
        }
        place
    }

    /// Only Azure knows what its sizes offer.
    fn capacity(&self, _: &Value) -> Option<Capacity> {
        None
    }
}
