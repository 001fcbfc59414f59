//! Which pools a typed configuration is for.

use std::collections::BTreeMap;

use api::machineconfiguration::MachineConfigPool;
use api::selector::{Selector, SelectorError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// What `spec.machineConfigPoolSelector` of a KubeletConfig or ContainerRuntimeConfig chooses by, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolSelector {
    /// The selector is absent or asks for nothing. It chooses no pool: choosing all would reboot the control plane by
    /// omission.
    Nothing,
    Labels(Selector),
}

/// Why a selector chooses no pool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "invalid label selector: {0} (spec.machineConfigPoolSelector, for example matchLabels: {{pools.operator.machineconfiguration.openshift.io/worker: \"\"}})"
    )]
    Invalid(#[from] SelectorError),
    #[error(
        "could not find any MachineConfigPool set for {kind}: spec.machineConfigPoolSelector is absent or empty, which selects no pool; for example matchLabels: {{pools.operator.machineconfiguration.openshift.io/worker: \"\"}}"
    )]
    Empty { kind: &'static str },
    #[error(
        "could not find any MachineConfigPool set for {kind}: no pool has the labels that spec.machineConfigPoolSelector asks for; pools are {pools}"
    )]
    NoMatch { kind: &'static str, pools: String },
}

impl PoolSelector {
    pub fn parse(selector: Option<&LabelSelector>) -> Result<Self, SelectorError> {
        let Some(selector) = selector else { return Ok(Self::Nothing) };
        let selector = Selector::parse(selector)?;
        Ok(if selector.is_empty() { Self::Nothing } else { Self::Labels(selector) })
    }

    /// Whether a pool with these labels is chosen.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::Nothing => false,
            Self::Labels(selector) => selector.matches(labels),
        }
    }
}

/// The pools that a selector chooses, in the order they are given.
pub fn select<'a>(
    kind: &'static str,
    selector: Option<&LabelSelector>,
    pools: &'a [MachineConfigPool],
) -> Result<Vec<&'a MachineConfigPool>, Error> {
    let selector = PoolSelector::parse(selector)?;
    if selector == PoolSelector::Nothing {
        return Err(Error::Empty { kind });
    }
    let unlabelled = BTreeMap::new();
    let labels = |pool: &'a MachineConfigPool| pool.metadata.labels.as_ref();
    let chosen: Vec<_> = pools.iter().filter(|pool| selector.matches(labels(pool).unwrap_or(&unlabelled))).collect();
    if chosen.is_empty() {
        let names: Vec<_> = pools.iter().filter_map(|pool| pool.metadata.name.as_deref()).collect();
        return Err(Error::NoMatch { kind, pools: names.join(", ") });
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(selector: Value, expected: Expect) {
        let pools: Vec<MachineConfigPool> = ["master", "worker"]
            .map(|name| {
                serde_json::from_value(json!({
                    "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
                    "metadata": {"name": name, "labels": {"role": name}}, "spec": {},
                }))
                .unwrap()
            })
            .into();
        let selector: Option<LabelSelector> = serde_json::from_value(selector).unwrap();
        let answer = select("KubeletConfig", selector.as_ref(), &pools)
            .map(|pools| pools.iter().filter_map(|pool| pool.metadata.name.clone()).collect::<Vec<_>>().join(" "));
        expected.assert_eq(&answer.unwrap_or_else(|error| error.to_string()));
    }

    #[test]
    fn an_absent_or_empty_selector_selects_no_pool_and_says_so() {
        for selector in [Value::Null, json!({}), json!({"matchLabels": {}})] {
            check(
                selector,
                expect![[
                    r#"could not find any MachineConfigPool set for KubeletConfig: spec.machineConfigPoolSelector is absent or empty, which selects no pool; for example matchLabels: {pools.operator.machineconfiguration.openshift.io/worker: ""}"#
                ]],
            );
        }
    }

    #[test]
    fn pools_are_chosen_by_their_labels() {
        check(json!({"matchLabels": {"role": "worker"}}), expect!["worker"]);
        check(json!({"matchExpressions": [{"key": "role", "operator": "Exists"}]}), expect!["master worker"]);
        check(
            json!({"matchLabels": {"role": "infra"}}),
            expect![
                "could not find any MachineConfigPool set for KubeletConfig: no pool has the labels that spec.machineConfigPoolSelector asks for; pools are master, worker"
            ],
        );
        check(
            json!({"matchExpressions": [{"key": "role", "operator": "Near"}]}),
            expect![[
                r#"invalid label selector: "Near" is not a valid label selector operator (spec.machineConfigPoolSelector, for example matchLabels: {pools.operator.machineconfiguration.openshift.io/worker: ""})"#
            ]],
        );
    }
}
