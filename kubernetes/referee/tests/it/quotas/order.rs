//! Who speaks first: the rules of the kind, then limit ranges, then policies, and quotas last.

use serde_json::{Value, json};

use super::{Scenario, Step, core, delete, pod, post, quota, range};

const NAMESPACE: &str = "quota-order";

/// Denies pods whose name says so, in the one namespace of the scenario.
pub(super) fn policy() -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "denied"}, "spec": {"failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["pods"]}]},
        "validations": [{"expression": "!object.metadata.name.startsWith('denied')", "message": "it says so itself"},
            {"expression": "has(object.spec.containers[0].resources.limits)", "message": "nobody has given it limits"}]}})
}

pub(super) fn binding() -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "denied"}, "spec": {"policyName": "denied", "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}}}})
}

pub(super) fn scenario() -> Scenario {
    let pods = core("pods");
    let limits = json!([{"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "500m"}}]);
    let big = json!({"limits": {"cpu": "2"}});
    let mut wrong = pod("denied-wrong", std::slice::from_ref(&big));
    wrong["spec"]["restartPolicy"] = "Sometimes".into();
    let steps = vec![
        // The policy is in force when this is refused, and the range when the next is.
        post(&pods, pod("denied", &[json!({"limits": {"cpu": "1"}})])),
        post(&core("limitranges"), range("order", limits)),
        post(&core("resourcequotas"), quota("order", json!({"pods": "1", "limits.cpu": "1"}))),
        Step::Settled("order", json!({"pods": "0", "limits.cpu": "0"})),
        post(&pods, pod("denied", std::slice::from_ref(&big))),
        post(&pods, wrong),
        post(&pods, pod("silent", &[json!({})])),
        Step::Settled("order", json!({"pods": "1", "limits.cpu": "500m"})),
        post(&pods, pod("denied", &[json!({})])),
        post(&pods, pod("more", &[json!({})])),
        post(&pods, pod("more", &[big])),
        post(&pods, pod("silent", &[json!({})])),
        delete(&format!("{pods}/silent")),
        Step::Settled("order", json!({"pods": "0", "limits.cpu": "0"})),
    ];
    Scenario { name: NAMESPACE, steps }
}
