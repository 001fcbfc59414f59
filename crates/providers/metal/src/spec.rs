//! The bare metal providerSpec: its fields, its defaults and its rules. Nothing here calls anybody.

mod types;
mod validation;

use machine::provider::{Capacity, Problem, SecretNeed, SpecRules, Surroundings, Verdict};
use machine::spec::{Identity, defaulted, read, secret, validated};
use serde_json::{Value, json};

pub use types::*;

const IDENTITY: Identity = Identity {
    kind: "BareMetalMachineProviderSpec",
    groups: &["baremetal.cluster.k8s.io", "machine.openshift.io"],
    versions: &["v1alpha1"],
};

/// The pure half of the provider.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules;

impl SpecRules for Rules {
    fn default(&self, spec: &Value, _: &Surroundings) -> Result<Value, Problem> {
        defaulted(spec, |spec: &mut MetalSpec| secret::default_secret(&mut spec.user_data, secret::WORKER_USER_DATA))
    }

    fn validate(&self, spec: &Value, _: &Surroundings) -> Verdict {
        validated(spec, validation::check)
    }

    /// None: there is no cloud to log in to, and Metal3 reads the user data itself.
    fn secrets(&self, _: &Value) -> Vec<SecretNeed> {
        Vec::new()
    }

    /// Hosts are in the Machine's own namespace, whatever the spec says.
    fn place(&self, _: &Value) -> Value {
        json!({})
    }

    /// Only the hosts know what they are.
    fn capacity(&self, _: &Value) -> Option<Capacity> {
        None
    }
}

/// A spec that a host can be claimed for.
pub(crate) fn usable(value: &Value) -> Result<MetalSpec, Problem> {
    let read::Read { spec, .. } = read::read::<MetalSpec>(value)?;
    let mut verdict = Verdict::default();
    validation::check(&spec, &mut verdict);
    verdict.problems.into_iter().next().map_or(Ok(spec), Err)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use expect_test::{Expect, expect};

    use super::*;

    fn spec(more: Value) -> Value {
        let mut spec = json!({
            "apiVersion": "baremetal.cluster.k8s.io/v1alpha1", "kind": "BareMetalMachineProviderSpec",
            "image": {"url": "http://images/rhcos.qcow2", "checksum": "http://images/rhcos.qcow2.md5sum"},
        });
        if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
            spec.extend(more);
        }
        SpecRules::default(&Rules, &spec, &Surroundings::default()).unwrap()
    }

    #[track_caller]
    fn check(more: Value, expected: Expect) {
        let Verdict { problems, warnings } = Rules.validate(&spec(more), &Surroundings::default());
        let lines: Vec<_> = problems.iter().map(ToString::to_string).chain(warnings).collect();
        expected.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn upstreams_spec_is_good() {
        check(json!({}), expect![""]);
        check(json!({"image": {}, "customDeploy": {"method": "install_coreos"}}), expect![""]);
        let selector = json!({"matchLabels": {"rack": "1"}, "matchExpressions": [
            {"key": "size", "operator": "in", "values": ["big"]}, {"key": "old", "operator": "!"}, {"key": "n", "operator": "gt", "values": ["3"]}]});
        check(json!({"hostSelector": selector, "userData": {"name": "u", "namespace": "n"}}), expect![""]);
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        check(
            json!({"image": {"url": ""}, "hostselecter": {}, "hostSelector": {"matchExpressions": [
                {"operator": "in"}, {"key": "a", "operator": "like", "values": ["x"]},
                {"key": "b", "operator": "exists", "values": ["x"]}, {"key": "c", "operator": "lt", "values": ["many"]}]}}),
            expect![[r#"
                providerSpec.image.url: Required value: write where the image is, or customDeploy.method
                providerSpec.hostSelector.matchExpressions[0].key: Required value: name the label
                providerSpec.hostSelector.matchExpressions[0].values: Required value: write at least one
                providerSpec.hostSelector.matchExpressions[1].operator: Unsupported value: "like": supported values: "in", "notin", "exists", "!", "=", "==", "!=", "gt", "lt"
                providerSpec.hostSelector.matchExpressions[2].values: Forbidden: this operator takes none
                providerSpec.hostSelector.matchExpressions[3].values[0]: Invalid value: "many": must be a whole number
                providerSpec.hostselecter: unknown field, which is ignored; did you mean hostSelector?"#]],
        );
        check(
            json!({"image": {"url": "http://i"}}),
            expect!["providerSpec.image.checksum: Required value: write the image's checksum, or where it is"],
        );
    }

    #[test]
    fn selectors_choose_as_kubernetes_own() {
        let labels =
            BTreeMap::from([("rack", "1"), ("size", "5")].map(|(key, value)| (key.to_owned(), value.to_owned())));
        let matches = |key: &str, operator: &str, values: &[&str]| {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            let requirement = Requirement { key: key.to_owned(), operator: operator.to_owned(), values };
            HostSelector { match_expressions: vec![requirement], ..HostSelector::default() }.matches(&labels)
        };
        assert!(matches("rack", "in", &["1", "2"]) && matches("rack", "In", &["1"]) && matches("rack", "==", &["1"]));
        assert!(!matches("rack", "notin", &["1"]) && matches("none", "NotIn", &["1"]) && matches("none", "!=", &["1"]));
        assert!(matches("rack", "exists", &[]) && matches("none", "DoesNotExist", &[]) && !matches("rack", "!", &[]));
        assert!(matches("size", "gt", &["4"]) && !matches("size", "gt", &["5"]) && matches("size", "lt", &["6"]));
        assert!(!matches("rack", "like", &["1"]));
        let by_label = HostSelector {
            match_labels: BTreeMap::from([("rack".to_owned(), "2".to_owned())]),
            ..HostSelector::default()
        };
        assert!(!by_label.matches(&labels) && HostSelector::default().matches(&labels));
    }
}
