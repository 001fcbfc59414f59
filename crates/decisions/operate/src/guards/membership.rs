//! Policies that keep nodes from choosing their pool, and with it the configs that they may read.
//!
//! NodeRestriction keeps nodes from setting `node-role.kubernetes.io/*` on themselves, and nothing else that pools may select
//! by. See `docs/adr/0020-a-node-reads-its-own-pool.md`.

use api::{annotations, labels};
use serde_json::{Value, json};

use super::{Answer, Guard, MCO, rule};
use crate::facts::Facts;
use crate::installation::Installation;
use crate::node_access::PREFIX;
use crate::objects::{Desired, Keep, Step};
use crate::workloads::CONTROLLER;

/// Labels that every kubelet writes when it starts. A policy that refused them would keep nodes from becoming ready.
const OF_KUBELETS: &[&str] = &[
    labels::HOSTNAME,
    labels::OS,
    labels::ZONE,
    labels::REGION,
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/windows-build",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

pub(super) fn all(installation: &Installation) -> Vec<Guard<'static>> {
    let account = format!("system:serviceaccount:{}:{CONTROLLER}", installation.namespace);
    vec![
        Guard {
            name: "machinist-node-birth",
            step: Step::MachineConfigDaemon,
            rules: nodes(),
            conditions: of_nodes(),
            expression: &BIRTH,
            message: "a node may not write which pool it was born into after its first report, nor take that report back",
            answer: Answer::Deny,
        },
        Guard {
            name: "machinist-pool-access",
            step: Step::MachineConfigController,
            rules: rule(
                "rbac.authorization.k8s.io",
                "v1",
                &["clusterroles", "clusterrolebindings"],
                &["CREATE", "UPDATE"],
            ),
            conditions: json!([{"name": "is-the-controller", "expression": format!("request.userInfo.username == '{account}'")}]),
            expression: &ACCESS,
            message: "the controller may only write the ClusterRoles and ClusterRoleBindings of pools, machinist:pool:*",
            answer: Answer::Deny,
        },
        Guard {
            name: "machinist-pool-selector",
            step: Step::MachineConfigController,
            rules: rule(MCO, "v1", &["machineconfigpools"], &["CREATE", "UPDATE"]),
            conditions: json!([]),
            expression: SELECTOR,
            message: "this pool selects nodes by labels that a machine may give itself when it registers, and with them the \
                      right to read the pool's configs; select by node-role.kubernetes.io/<pool> where that matters",
            answer: Answer::Warn,
        },
    ]
}

/// Holds nodes to the labels that they have, as far as pools select by them.
pub(crate) fn labels_of_pools(facts: &Facts) -> Vec<Desired> {
    let keys: Vec<&String> = facts.pool_labels.iter().filter(|key| !OF_KUBELETS.contains(&key.as_str())).collect();
    if keys.is_empty() {
        return Vec::new();
    }
    let expression = format!("{}.all(key, {})", json!(keys), unchanged("labels"));
    let guard = Guard {
        name: "machinist-pool-labels",
        step: Step::MachineConfigPools,
        rules: nodes(),
        conditions: of_nodes(),
        expression: &expression,
        message: "a node may not change labels of its own that MachineConfigPools select by",
        answer: Answer::Deny,
    };
    let step = guard.step;
    guard.objects().into_iter().map(|object| Desired::new(step, Keep::Whole, object)).collect()
}

fn nodes() -> Value {
    rule("", "v1", &["nodes", "nodes/status"], &["UPDATE"])
}

fn of_nodes() -> Value {
    json!([{"name": "is-a-node", "expression": "'system:nodes' in request.userInfo.groups"}])
}

/// That the entry `key` of a map in the metadata is as it was.
fn unchanged(map: &str) -> String {
    let has = |of: &str| format!("(has({of}.metadata.{map}) && key in {of}.metadata.{map})");
    let (new, old) = (has("object"), has("oldObject"));
    format!("{new} == {old} && (!{new} || object.metadata.{map}[key] == oldObject.metadata.{map}[key])")
}

static BIRTH: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
    let (current, first) = (annotations::CURRENT_CONFIG, annotations::FIRST_PIVOT_CONFIG);
    let applied = annotations::CUSTOM_POOL_LABELS_APPLIED;
    let reported = |of: &str| format!("(has({of}.metadata.annotations) && '{current}' in {of}.metadata.annotations)");
    format!(
        "!{} || ({} && ['{first}', '{applied}'].all(key, {}))",
        reported("oldObject"),
        reported("object"),
        unchanged("annotations")
    )
});

static ACCESS: std::sync::LazyLock<String> =
    std::sync::LazyLock::new(|| format!("object.metadata.name.startsWith('{PREFIX}')"));

/// Every key that the selector uses is one that NodeRestriction protects.
const SELECTOR: &str = "\
!has(object.spec.nodeSelector) || (\
(!has(object.spec.nodeSelector.matchLabels) || object.spec.nodeSelector.matchLabels.all(key, \
key.startsWith('node-role.kubernetes.io/') || key.startsWith('node-restriction.kubernetes.io/'))) && \
(!has(object.spec.nodeSelector.matchExpressions) || object.spec.nodeSelector.matchExpressions.all(e, \
e.key.startsWith('node-role.kubernetes.io/') || e.key.startsWith('node-restriction.kubernetes.io/'))))";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_kubelets_write_are_left_to_them() {
        let labels = ["env", "kubernetes.io/arch", "node-role.kubernetes.io/worker"].map(str::to_owned);
        let facts = Facts { pool_labels: labels.into(), ..Facts::default() };
        let policy = &labels_of_pools(&facts)[0].object;
        let expression = policy["spec"]["validations"][0]["expression"].as_str().unwrap_or_default();
        assert!(expression.starts_with(r#"["env","node-role.kubernetes.io/worker"].all(key, "#), "{expression}");
        assert!(labels_of_pools(&Facts::default()).is_empty());
    }
}
