//! Admission policies: what RBAC cannot say, enforced by the API server itself.

mod membership;

use serde_json::{Value, json};

use crate::installation::Installation;
use crate::objects::{Desired, Keep, Step};
use crate::workloads::DAEMON;

pub(crate) use membership::labels_of_pools;

const GROUP: &str = "admissionregistration.k8s.io/v1";
const MCO: &str = "machineconfiguration.openshift.io";

pub(crate) fn all(installation: &Installation) -> Vec<Desired> {
    let account = format!("system:serviceaccount:{}:{DAEMON}", installation.namespace);
    let of_daemons = json!([{
        "name": "is-a-daemon",
        "expression": format!("request.userInfo.username == '{account}'"),
    }]);
    // A token that is bound to a pod says on which node that pod runs.
    let own_node = "'authentication.kubernetes.io/node-name' in request.userInfo.extra && \
                    request.userInfo.extra['authentication.kubernetes.io/node-name'][0] == object.metadata.name";
    let only_notes = format!(
        "{own_node} && {} && {} && ({})",
        same("metadata", "labels"),
        same("spec", "taints"),
        *membership::BIRTH
    );
    let of_nodes = json!([{"name": "is-a-node", "expression": "'system:nodes' in request.userInfo.groups"}]);
    let mut objects = Vec::new();
    let mut guard = |guard: Guard<'_>| {
        let (step, policy) = (guard.step, guard.objects());
        objects.extend(policy.into_iter().map(|object| Desired::new(step, Keep::Whole, object)));
    };
    let mut node_objects = rule(MCO, "v1", &["machineconfignodes", "machineconfignodes/status"], &["CREATE", "UPDATE"]);
    let surveys = rule(api::machinist::GROUP, api::machinist::VERSION, &["nodesurveys"], &["CREATE", "UPDATE"]);
    if let (Value::Array(rules), Value::Array(more)) = (&mut node_objects, surveys) {
        rules.extend(more);
    }
    guard(Guard {
        name: "mcn-guards",
        step: Step::MachineConfigDaemon,
        rules: node_objects.clone(),
        conditions: of_daemons.clone(),
        expression: own_node,
        message: "the daemon may only write the MachineConfigNode and the NodeSurvey of the node it runs on",
        answer: Answer::Deny,
    });
    guard(Guard {
        name: "machine-config-daemon-node-guards",
        step: Step::MachineConfigDaemon,
        rules: rule("", "v1", &["nodes", "nodes/status"], &["UPDATE"]),
        conditions: of_daemons,
        expression: &only_notes,
        message: "the daemon may only write the Node it runs on, but not its labels and taints, nor, after its first report, \
                  which pool it was born into",
        answer: Answer::Deny,
    });
    guard(Guard {
        name: "machinist-node-guards",
        step: Step::MachineConfigDaemon,
        rules: node_objects,
        conditions: of_nodes,
        expression: "request.userInfo.username == 'system:node:' + object.metadata.name",
        message: "a node may only write its own MachineConfigNode and NodeSurvey",
        answer: Answer::Deny,
    });
    membership::all(installation).into_iter().for_each(&mut guard);
    let pools = rule(MCO, "v1", &["machineconfigpools"], &["CREATE", "UPDATE"]);
    guard(Guard {
        name: "custom-machine-config-pool-selector",
        step: Step::MachineConfigController,
        rules: pools.clone(),
        conditions: json!([]),
        expression: SELECTS_BY_ROLE,
        message: "a MachineConfigPool selects MachineConfigs by their role: machineConfigSelector needs matchLabels or a \
                  matchExpression on machineconfiguration.openshift.io/role, for example In [worker, infra]",
        answer: Answer::Deny,
    });
    guard(Guard {
        name: "custom-machine-config-pool-inheritance",
        step: Step::MachineConfigController,
        rules: pools,
        conditions: json!([]),
        expression: INHERITS,
        message: "this pool does not inherit from worker: its nodes will lack everything that MachineConfigs of role worker \
                  give them, such as the kubelet's and the container runtime's settings, registries and SSH keys. To keep \
                  it, use a matchExpression on machineconfiguration.openshift.io/role that includes worker",
        answer: Answer::Warn,
    });
    objects
}

/// What a policy does when its expression is false.
#[derive(Clone, Copy)]
enum Answer {
    Deny,
    Warn,
}

/// One admission policy with its binding.
struct Guard<'a> {
    name: &'a str,
    step: Step,
    rules: Value,
    /// Which requests it looks at; none for all.
    conditions: Value,
    expression: &'a str,
    message: &'a str,
    answer: Answer,
}

/// The selector says something about roles. One that does not would never select what we render.
const SELECTS_BY_ROLE: &str = "\
has(object.spec.machineConfigSelector) && (\
(has(object.spec.machineConfigSelector.matchLabels) && \
'machineconfiguration.openshift.io/role' in object.spec.machineConfigSelector.matchLabels) || \
(has(object.spec.machineConfigSelector.matchExpressions) && \
object.spec.machineConfigSelector.matchExpressions.exists(e, e.key == 'machineconfiguration.openshift.io/role')))";

/// A pool takes the fragments of a built-in role, or of worker and others.
const INHERITS: &str = "\
!has(object.spec.machineConfigSelector) || (\
(has(object.spec.machineConfigSelector.matchLabels) && \
'machineconfiguration.openshift.io/role' in object.spec.machineConfigSelector.matchLabels && \
object.spec.machineConfigSelector.matchLabels['machineconfiguration.openshift.io/role'] in ['master', 'worker', 'arbiter']) || \
(has(object.spec.machineConfigSelector.matchExpressions) && \
object.spec.machineConfigSelector.matchExpressions.exists(e, e.key == 'machineconfiguration.openshift.io/role' && \
((e.operator == 'In' && has(e.values) && 'worker' in e.values) || \
(e.operator == 'NotIn' && (!has(e.values) || !('worker' in e.values)))))))";

/// That a field two levels deep is as it was, where either may be absent.
fn same(outer: &str, inner: &str) -> String {
    let has = |of: &str| format!("(has({of}.{outer}) && has({of}.{outer}.{inner}))");
    let (new, old) = (has("object"), has("oldObject"));
    format!("{new} == {old} && (!{new} || object.{outer}.{inner} == oldObject.{outer}.{inner})")
}

fn rule(group: &str, version: &str, resources: &[&str], operations: &[&str]) -> Value {
    json!([{"apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": resources, "scope": "*"}])
}

impl Guard<'_> {
    /// The policy and its binding.
    fn objects(self) -> [Value; 2] {
        let mut validation = json!({"expression": self.expression, "message": self.message});
        let action = match self.answer {
            Answer::Deny => {
                validation["reason"] = json!("Forbidden");
                "Deny"
            }
            Answer::Warn => "Warn",
        };
        let mut policy = json!({
            "apiVersion": GROUP, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": self.name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
                    "resourceRules": self.rules,
                },
                "validations": [validation],
            },
        });
        if self.conditions.as_array().is_some_and(|conditions| !conditions.is_empty()) {
            policy["spec"]["matchConditions"] = self.conditions;
        }
        let binding = json!({
            "apiVersion": GROUP, "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": format!("{}-binding", self.name)},
            "spec": {"policyName": self.name, "validationActions": [action]},
        });
        [policy, binding]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemons_account_may_not_move_its_node_to_another_pool() {
        let all = all(&Installation::default());
        let policy = all.iter().find(|one| one.object["metadata"]["name"] == "machine-config-daemon-node-guards");
        let expression = &policy.expect("it is there").object["spec"]["validations"][0]["expression"];
        let expression = expression.as_str().unwrap_or_default();
        for part in [
            "object.metadata.labels == oldObject.metadata.labels",
            "object.spec.taints == oldObject.spec.taints",
            api::annotations::FIRST_PIVOT_CONFIG,
            api::annotations::CUSTOM_POOL_LABELS_APPLIED,
        ] {
            assert!(expression.contains(part), "{part} in {expression}");
        }
    }
}
