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

/// What manifests of 2019 say. The fields are the same.
const IDENTITY_OF_2019: Identity =
    Identity { kind: IDENTITY.kind, groups: &["aws.cluster.k8s.io"], versions: &["v1alpha1"] };

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
        // A host that was allocated for the machine has to be given back.
        let host = spec.placement.host.as_ref().and_then(|host| host.dedicated_host.as_ref());
        if let Some(strategy) = host.and_then(|host| host.allocation_strategy.as_ref()) {
            place["placement"]["host"] = json!({"dedicatedHost": {"allocationStrategy": strategy}});
        }
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

/// What is wrong with a spec that is about to be launched.
///
/// The webhook asks new Machines for more than a launch needs: those that were made before it, or past it, may find their
/// image by filters, log in by the official chain, and boot without user data.
pub(crate) fn refusals(spec: &AwsSpec, control_plane: bool) -> Vec<Problem> {
    let surroundings = Surroundings { control_plane, ..Surroundings::default() };
    let mut verdict = Verdict::default();
    validation::check(spec, &surroundings, &mut verdict);
    let has_filters = spec.ami.filters.as_ref().is_some_and(|filters| !filters.is_empty());
    let is_optional = |problem: &Problem| match problem.path.as_str() {
        "providerSpec.ami" => has_filters,
        path => path.starts_with("providerSpec.credentialsSecret") || path.starts_with("providerSpec.userDataSecret"),
    };
    verdict.problems.into_iter().filter(|problem| !is_optional(problem)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Runbook R23, with the fields that generators of that time wrote although they say nothing.
    #[test]
    fn a_spec_of_2019_is_as_good_as_one_of_today() {
        let value = json!({
            "apiVersion": "aws.cluster.k8s.io/v1alpha1", "kind": "AWSMachineProviderConfig",
            "metadata": {"creationTimestamp": null},
            "ami": {"arn": null, "filters": null, "id": "ami-1"}, "blockDevices": null, "credentialsSecret": null,
            "deviceIndex": 0, "iamInstanceProfile": {"arn": null, "filters": null, "id": "worker-profile"},
            "instanceType": "m4.large", "keyName": null, "loadBalancers": null,
            "placement": {"availabilityZone": "us-east-1a", "region": "us-east-1"}, "publicIp": null,
            "securityGroups": [{"arn": null, "filters": [{"name": "tag:Name", "values": ["worker"]}], "id": null}],
            "subnet": {"arn": null, "filters": [{"name": "tag:Name", "values": ["private"]}], "id": null},
            "tags": null, "userDataSecret": {"name": "worker-user-data"},
        });
        let filled = Rules.default(&value, &Surroundings::default()).expect("it can be read");
        assert_eq!(Rules.validate(&filled, &Surroundings::default()), Verdict::default());
    }

    fn spec(value: Value) -> AwsSpec {
        serde_json::from_value(value).expect("a spec")
    }

    #[test]
    fn a_launch_needs_less_than_the_webhook_asks_for() {
        let mut value = json!({"ami": {"filters": [{"name": "name", "values": ["rhcos-*"]}]}, "instanceType": "m5.large",
            "placement": {"region": "us-east-1"}});
        assert!(refusals(&spec(value.clone()), false).is_empty());
        value["ami"] = json!({});
        value["placement"]["tenancy"] = json!("cloud");
        let paths: Vec<_> = refusals(&spec(value), false).into_iter().map(|problem| problem.path).collect();
        assert_eq!(paths, ["providerSpec.ami", "providerSpec.placement.tenancy"]);
    }

    #[test]
    fn the_place_of_a_machine_is_enough_to_log_in_and_to_clean_up() {
        let value = json!({
            "ami": {"id": "ami-1"},
            "placement": {"region": "us-east-1", "availabilityZone": "us-east-1a", "tenancy": "host",
                "host": {"affinity": "DedicatedHost", "dedicatedHost": {"allocationStrategy": "Dynamic"}}},
            "credentialsSecret": {"name": "keys"},
            "loadBalancers": [{"name": "int", "type": "network"}],
        });
        let place = Rules.place(&value);
        assert_eq!(Rules.place(&place), place);
        assert_eq!(Rules.secrets(&place)[0].name, "keys");
        assert_eq!(place["loadBalancers"][0]["name"], "int");
        assert_eq!(place["placement"]["host"]["dedicatedHost"]["allocationStrategy"], "Dynamic");
        assert!(place["ami"].is_null());
    }
}
