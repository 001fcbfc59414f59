//! Sets up a cluster like an installation, before any of our processes start.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Client, ResourceExt};
use serde_json::json;

const MANAGER: &str = "testkit";

pub(super) async fn install(client: Client) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let parameters = PatchParams::apply(MANAGER).force();
    let definitions = api::crds();
    for definition in &definitions {
        let name = definition.name_any();
        let installed = crds.patch(&name, &parameters, &Patch::Apply(definition)).await;
        installed.unwrap_or_else(|error| panic!("{name} cannot be installed: {error}"));
    }
    for definition in &definitions {
        let name = definition.name_any();
        let established = await_condition(crds.clone(), &name, is_crd_established());
        let in_time = tokio::time::timeout(referee::wait::DEADLINE, established).await;
        in_time.unwrap_or_else(|_| panic!("{name} was not established in time")).expect("the CRD can be watched");
    }
    grant_nodes(client).await;
}

/// Nodes use the kubelet's identity. The Node authorizer covers their own Node; this role covers the rest.
async fn grant_nodes(client: Client) {
    let parameters = PatchParams::apply(MANAGER).force();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "machinistd" },
        "rules": [
            { "apiGroups": ["machineconfiguration.openshift.io"], "resources": ["machineconfigs", "pinnedimagesets"], "verbs": ["get"] },
            { "apiGroups": ["machineconfiguration.openshift.io"],
              "resources": ["machineconfignodes", "machineconfignodes/status"],
              "verbs": ["get", "create", "patch", "update"] },
            { "apiGroups": ["machineconfiguration.openshift.io"], "resources": ["controllerconfigs"],
              "verbs": ["get", "list", "watch"] },
            { "apiGroups": ["machinist.dev"], "resources": ["poolpolicies", "clustersettings"], "verbs": ["get"] },
            { "apiGroups": ["machinist.dev"], "resources": ["nodesurveys"], "verbs": ["create", "patch"] },
            { "apiGroups": ["operator.openshift.io"], "resources": ["machineconfigurations"], "verbs": ["get"] },
            { "apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"] },
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": "machinistd" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "machinistd" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes" }],
    });
    let roles: Api<ClusterRole> = Api::all(client.clone());
    roles.patch("machinistd", &parameters, &Patch::Apply(&role)).await.expect("the role can be written");
    let bindings: Api<ClusterRoleBinding> = Api::all(client);
    bindings.patch("machinistd", &parameters, &Patch::Apply(&binding)).await.expect("the binding can be written");
}
