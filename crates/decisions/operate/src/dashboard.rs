//! The dashboard in a cluster: one Deployment with an account that only reads. It is installed only when somebody asks for it,
//! and is the user's from then on.
//!
//! It listens on the loopback of its pod, so nobody on the pods' network reaches it: people come by `kubectl port-forward`,
//! which the API authorizes and encrypts.

use serde_json::{Value, json};

use crate::installation::Installation;
use crate::objects::{Desired, Keep, Step};
use crate::workloads::{Place, container, probed, wherever_possible, workload};

/// The name of its Deployment, its account and its role.
pub const DASHBOARD: &str = "machinist-dashboard";

/// Where it listens within its pod.
const PORT: u16 = 9652;

/// Everything of a dashboard; `access` is the RBAC that it declares.
#[must_use]
pub fn objects(installation: &Installation, access: &[Value]) -> Vec<Value> {
    let place = Place::new(DASHBOARD, &installation.namespace);
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": DASHBOARD, "namespace": installation.namespace},
    });
    let mut container = container(DASHBOARD, &installation.images.machine_config_operator);
    // For its confinement only: nothing outside the pod could ask for its health.
    probed(&mut container);
    for probe in ["ports", "livenessProbe", "readinessProbe"] {
        container.as_object_mut().map(|container| container.remove(probe));
    }
    container["args"] = json!(["dashboard", "--with-tokens", format!("--listen=127.0.0.1:{PORT}")]);
    let pod = wherever_possible(DASHBOARD, container);
    let deployment = workload("Deployment", &place, json!({"replicas": 1}), pod);
    let all = std::iter::once(account).chain(access.iter().cloned()).chain([deployment]);
    all.map(|object| Desired::new(Step::RenderConfig, Keep::Once, object).object).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_listens_within_its_pod_only_and_is_confined() {
        let objects = objects(&Installation::default(), &[]);
        let pod = &objects[1]["spec"]["template"]["spec"];
        assert_eq!(pod["serviceAccountName"], DASHBOARD);
        let container = &pod["containers"][0];
        assert_eq!(container["args"], json!(["dashboard", "--with-tokens", "--listen=127.0.0.1:9652"]));
        assert_eq!(container["securityContext"]["runAsNonRoot"], true);
        assert!(container.get("ports").is_none() && container.get("readinessProbe").is_none());
        let label = |object: &Value| object["metadata"]["labels"][api::labels::PART_OF].clone();
        assert!(
            objects.iter().all(|object| label(object) == api::labels::PART_OF_MACHINIST),
            "uninstall finds them by it"
        );
    }
}
