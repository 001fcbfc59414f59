//! Admission policies: what RBAC cannot say, enforced by the API server itself.

use serde_json::{Value, json};

use crate::installation::Installation;
use crate::objects::{Desired, Keep, Step};
use crate::workloads::DAEMON;

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
    let of_nodes = json!([{"name": "is-a-node", "expression": "'system:nodes' in request.userInfo.groups"}]);
    let mut objects = Vec::new();
    let mut guard = |name: &str, step: Step, rules: Value, conditions: Value, expression: &str, message: &str| {
        for object in policy(name, &rules, &conditions, expression, message) {
            objects.push(Desired::new(step, Keep::Whole, object));
        }
    };
    guard(
        "mcn-guards",
        Step::MachineConfigDaemon,
        rule(MCO, "v1", &["machineconfignodes", "machineconfignodes/status"], &["CREATE", "UPDATE"]),
        of_daemons.clone(),
        own_node,
        "the daemon may only write the MachineConfigNode of the node it runs on",
    );
    guard(
        "machine-config-daemon-node-guards",
        Step::MachineConfigDaemon,
        rule("", "v1", &["nodes", "nodes/status"], &["UPDATE"]),
        of_daemons,
        own_node,
        "the daemon may only write the Node it runs on",
    );
    guard(
        "machinist-node-guards",
        Step::MachineConfigDaemon,
        rule(MCO, "v1", &["machineconfignodes", "machineconfignodes/status"], &["CREATE", "UPDATE"]),
        of_nodes,
        "request.userInfo.username == 'system:node:' + object.metadata.name",
        "a node may only write its own MachineConfigNode",
    );
    guard(
        "custom-machine-config-pool-selector",
        Step::MachineConfigController,
        rule(MCO, "v1", &["machineconfigpools"], &["CREATE", "UPDATE"]),
        json!([]),
        SELECTOR,
        "all custom MachineConfigPools must inherit from the worker pool: machineConfigSelector needs \
         matchLabels machineconfiguration.openshift.io/role of master, worker or arbiter, or a matchExpression on \
         machineconfiguration.openshift.io/role that includes worker",
    );
    objects
}

/// A pool takes the fragments of a built-in role, or of worker and others.
const SELECTOR: &str = "\
has(object.spec.machineConfigSelector) && (\
(has(object.spec.machineConfigSelector.matchLabels) && \
'machineconfiguration.openshift.io/role' in object.spec.machineConfigSelector.matchLabels && \
object.spec.machineConfigSelector.matchLabels['machineconfiguration.openshift.io/role'] in ['master', 'worker', 'arbiter']) || \
(has(object.spec.machineConfigSelector.matchExpressions) && \
object.spec.machineConfigSelector.matchExpressions.exists(e, e.key == 'machineconfiguration.openshift.io/role' && \
((e.operator == 'In' && has(e.values) && 'worker' in e.values) || \
(e.operator == 'NotIn' && (!has(e.values) || !('worker' in e.values)))))))";

fn rule(group: &str, version: &str, resources: &[&str], operations: &[&str]) -> Value {
    json!([{"apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": resources, "scope": "*"}])
}

/// The policy and its binding.
fn policy(name: &str, rules: &Value, conditions: &Value, expression: &str, message: &str) -> [Value; 2] {
    let mut policy = json!({
        "apiVersion": GROUP, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}, "resourceRules": rules,
            },
            "validations": [{"expression": expression, "message": message, "reason": "Forbidden"}],
        },
    });
    if conditions.as_array().is_some_and(|conditions| !conditions.is_empty()) {
        policy["spec"]["matchConditions"] = conditions.clone();
    }
    let binding = json!({
        "apiVersion": GROUP, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": format!("{name}-binding")},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    [policy, binding]
}
