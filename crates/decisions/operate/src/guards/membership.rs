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

/// Labels that kubelets write when they start, and that say the same for the whole life of a node. A policy that refused
/// to set them would keep nodes from becoming ready.
const SET_ONCE: &[&str] = &[
    labels::HOSTNAME,
    labels::OS,
    labels::ZONE,
    labels::REGION,
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

/// Labels of kubelets that change: an instance gets another size, a host another version. They are left to kubelets.
const MAY_CHANGE: &[&str] =
    &["node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", "node.kubernetes.io/windows-build"];

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
            expression: &SELECTOR,
            message: "this pool selects nodes by labels that a machine may give itself when it registers (instance-type also \
                      later), and with them the right to read the pool's configs; select by node-role.kubernetes.io/<pool> where that matters",
            answer: Answer::Warn,
        },
    ]
}

/// Holds nodes to the labels that they have, as far as pools select by them.
pub(crate) fn labels_of_pools(facts: &Facts) -> Vec<Desired> {
    let guarded = facts.pool_labels.iter().map(String::as_str).filter(|key| !MAY_CHANGE.contains(key));
    let (once, never): (Vec<&str>, Vec<&str>) = guarded.partition(|key| SET_ONCE.contains(key));
    let unchanged = unchanged("labels");
    let mut rules = Vec::new();
    if !never.is_empty() {
        rules.push(format!("{}.all(key, {unchanged})", json!(never)));
    }
    if !once.is_empty() {
        let was_set = "(has(oldObject.metadata.labels) && key in oldObject.metadata.labels)";
        rules.push(format!("{}.all(key, !{was_set} || ({unchanged}))", json!(once)));
    }
    if rules.is_empty() {
        return Vec::new();
    }
    let expression = rules.join(" && ");
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

/// After its first report, what a node says of its birth stays, and so does the report.
pub(super) static BIRTH: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
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

/// Every key that the selector uses, under its name or its older one, is one that NodeRestriction protects.
static SELECTOR: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
    let is_protected = |key: &str| {
        format!("{key}.startsWith('node-role.kubernetes.io/') || {key}.startsWith('node-restriction.kubernetes.io/')")
    };
    let (key, of_expression) = (is_protected("key"), is_protected("e.key"));
    let safe = |field: &str| {
        let selector = format!("object.spec.{field}");
        format!(
            "(!has({selector}) || ((!has({selector}.matchLabels) || {selector}.matchLabels.all(key, {key})) && \
             (!has({selector}.matchExpressions) || {selector}.matchExpressions.all(e, {of_expression}))))"
        )
    };
    format!("{} && {}", safe("nodeSelector"), safe("machineSelector"))
});

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(labels: &[&str]) -> Option<String> {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        let facts = Facts { pool_labels: labels, ..Facts::default() };
        let policy = labels_of_pools(&facts).into_iter().next()?.object;
        policy["spec"]["validations"][0]["expression"].as_str().map(str::to_owned)
    }

    #[test]
    fn labels_that_kubelets_write_may_be_set_and_not_changed() {
        let both = expression(&["env", "kubernetes.io/arch", "node-role.kubernetes.io/worker"]).expect("a policy");
        let (never, once) = both.split_once(" && [").expect("two rules");
        assert!(never.starts_with(r#"["env","node-role.kubernetes.io/worker"].all(key, "#), "{never}");
        let set = r#""kubernetes.io/arch"].all(key, !(has(oldObject.metadata.labels) && key in oldObject.metadata.labels) || ("#;
        assert!(once.starts_with(set), "{once}");
        let alone = expression(&["kubernetes.io/hostname"]).expect("a policy");
        assert!(alone.starts_with(r#"["kubernetes.io/hostname"].all(key, !"#), "{alone}");
    }

    #[test]
    fn labels_that_change_with_the_machine_are_left_to_kubelets() {
        assert_eq!(expression(&["node.kubernetes.io/instance-type"]), None);
        assert_eq!(expression(&[]), None);
    }

    #[test]
    fn the_older_name_of_the_node_selector_draws_the_same_warning() {
        for field in ["nodeSelector", "machineSelector"] {
            assert!(SELECTOR.contains(&format!("object.spec.{field}.matchLabels.all(key, ")), "{}", *SELECTOR);
        }
    }
}
