//! The AWS providerSpec: its fields, its defaults and its rules. Nothing here calls AWS.

mod types;
mod validation;

use std::collections::BTreeMap;

use machine::provider::{Architecture, Capacity, Problem, Request, SecretNeed, SpecRules, Surroundings, Verdict};
use machine::spec::{Identity, defaulted, read, secret, validated};
use serde_json::{Value, json};

pub use types::*;

/// The Secret with AWS credentials that OpenShift's credentials operator makes.
pub const CREDENTIALS: &str = "aws-cloud-credentials";

const IDENTITY: Identity = Identity {
    kind: "AWSMachineProviderConfig",
    groups: &["machine.openshift.io", "awsproviderconfig.openshift.io"],
    versions: &["v1beta1", "v1"],
};

/// The pure half of the provider.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules;

impl SpecRules for Rules {
    fn default(&self, spec: &Value, surroundings: &Surroundings) -> Result<Value, Problem> {
        defaulted(spec, |spec| fill(spec, surroundings))
    }

    fn validate(&self, spec: &Value, surroundings: &Surroundings) -> Verdict {
        validated(spec, |spec, verdict| validation::check(spec, surroundings, verdict))
    }

    fn secrets(&self, spec: &Value) -> Vec<SecretNeed> {
        let Ok(read::Read { spec, .. }) = read::read::<AwsSpec>(spec) else { return Vec::new() };
        secret::needs(spec.credentials_secret.as_ref(), spec.user_data_secret.as_ref())
    }

    fn place(&self, spec: &Value) -> Value {
        let Ok(read::Read { spec, .. }) = read::read::<AwsSpec>(spec) else { return Value::Null };
        let mut place = json!({"placement": {"region": spec.placement.region}});
        if let Some(reference) = spec.credentials_secret {
            place["credentialsSecret"] = json!({"name": reference.name});
        }
        if !spec.load_balancers.is_empty() {
            place["loadBalancers"] = json!(spec.load_balancers);
        }
        place
    }

    fn children(&self, _: &Request) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Only AWS knows what its instance types offer.
    fn capacity(&self, _: &Value) -> Option<Capacity> {
        None
    }
}

fn fill(spec: &mut AwsSpec, surroundings: &Surroundings) {
    if spec.instance_type.is_empty() {
        spec.instance_type = default_instance_type(surroundings.architecture).to_owned();
    }
    if spec.placement.region.is_empty() {
        let region = surroundings.platform_status["aws"]["region"].as_str();
        spec.placement.region = region.unwrap_or_default().to_owned();
    }
    secret::default_secret(&mut spec.user_data_secret, secret::WORKER_USER_DATA);
    secret::default_secret(&mut spec.credentials_secret, CREDENTIALS);
}

/// The smallest type of the general family that a node runs well on; architectures that AWS lacks get the common one.
fn default_instance_type(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Arm64 => "m6g.large",
        Architecture::Amd64 | Architecture::Ppc64le | Architecture::S390x => "m5.large",
    }
}
