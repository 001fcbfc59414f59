//! Writes the disruption policies in force into the status of the MachineConfiguration: the defaults of this cluster with
//! the user's own laid over them. Daemons, ours and upstream's, follow what stands there.

use std::sync::Arc;

use api::known::Unread;
use api::machinist::ClusterSettings;
use api::names;
use api::operator::{MachineConfiguration, NodeDisruptionPolicyConfig};
use change::policy::{Policies, Settings};
use cluster::watch::Key;
use cluster::{Outcome, Problem, problem, write};
use kube::api::Api;
use operate::Step;
use operate::trouble::Trouble;
use serde_json::{Value, json};

use crate::context::{Leading, MANAGER, Source};

pub(crate) async fn merge(leading: &Leading) -> Outcome {
    let (object, settings) = match look(leading) {
        Ok(Some(found)) => found,
        Ok(None) => return Outcome::Done,
        // With the default names the daemons would reload another runtime than there is.
        Err(unread) => {
            leading.unread(Source::Policies, Some(unread));
            return Outcome::Retry;
        }
    };
    let (merged, trouble) = in_force(&object, settings.as_deref());
    leading.trouble(Source::Policies, trouble.map(|text| Trouble::new(Step::MachineConfiguration, text)));
    let status = json!({
        "nodeDisruptionPolicyStatus": {"clusterPolicies": merged}, "observedGeneration": object.metadata.generation,
    });
    let present = serde_json::to_value(&object.status).unwrap_or_default();
    let is_right = |field: &str| present.get(field) == status.get(field);
    if is_right("nodeDisruptionPolicyStatus") && is_right("observedGeneration") {
        return Outcome::Done;
    }
    let api: Api<MachineConfiguration> = Api::all(leading.client.clone());
    let patch = json!({
        "apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration", "metadata": {"name": names::CLUSTER},
        "status": status,
    });
    match write::apply_status(&api, MANAGER, names::CLUSTER, &patch).await {
        Ok(_) => Outcome::Done,
        Err(error) if problem(&error) == Problem::NotFound => Outcome::Done,
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "the policies in force could not be written");
            Outcome::Retry
        }
    }
}

/// What the user wants, and how the cluster's hosts are called; nothing where nobody said anything.
type Wanted = (Arc<MachineConfiguration>, Option<Arc<ClusterSettings>>);

fn look(leading: &Leading) -> Result<Option<Wanted>, Unread> {
    let key = Key::cluster(names::CLUSTER);
    let object = leading.world.configurations.fresh_one("machineconfigurations", &key)?;
    let settings = leading.world.cluster_settings.fresh_one("clustersettings", &key)?;
    Ok(object.map(|object| (object, settings)))
}

/// The policies in force, and what is wrong with the user's own: then the defaults hold, as they do for a daemon.
fn in_force(object: &MachineConfiguration, settings: Option<&ClusterSettings>) -> (Value, Option<String>) {
    let settings = settings.map_or_else(Settings::default, |object| Settings {
        admin_user: object.spec.admin_user().to_owned(),
        runtime_service: object.spec.runtime_service().to_owned(),
    });
    let defaults = Policies::defaults(&settings);
    let user = object.spec.node_disruption_policy.as_ref().map(Policies::try_from);
    let (policies, trouble) = match user {
        None => (defaults, None),
        Some(Ok(user)) => (defaults.overlaid(user), None),
        Some(Err(error)) => {
            let text = format!("MachineConfiguration {}: spec.nodeDisruptionPolicy.{error}", names::CLUSTER);
            (defaults, Some(text))
        }
    };
    let merged = serde_json::to_value(NodeDisruptionPolicyConfig::from(&policies)).unwrap_or_default();
    (merged, trouble)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn merged(policy: Value) -> (Value, Option<String>) {
        let object = json!({
            "apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration", "metadata": {"name": "cluster"},
            "spec": {"nodeDisruptionPolicy": policy},
        });
        let settings = json!({
            "apiVersion": "machinist.dev/v1alpha1", "kind": "ClusterSettings", "metadata": {"name": "cluster"},
            "spec": {"runtimeService": "containerd.service"},
        });
        let settings: ClusterSettings = serde_json::from_value(settings).unwrap();
        in_force(&serde_json::from_value(object).unwrap(), Some(&settings))
    }

    fn actions(merged: &Value, path: &str) -> Value {
        merged["files"].as_array().unwrap().iter().find(|file| file["path"] == path).unwrap()["actions"].clone()
    }

    #[test]
    fn the_users_policies_stand_over_the_defaults_of_the_cluster() {
        let (merged, trouble) = merged(json!({"files": [
            {"path": "/etc/motd", "actions": [{"type": "None"}]},
            {"path": "/var/lib/kubelet/config.json", "actions": [{"type": "Reboot"}]},
        ]}));
        assert_eq!(trouble, None);
        assert_eq!(actions(&merged, "/etc/motd"), json!([{"type": "None"}]));
        assert_eq!(actions(&merged, "/var/lib/kubelet/config.json"), json!([{"type": "Reboot"}]));
        let reload = json!([{"type": "Reload", "reload": {"serviceName": "containerd.service"}}]);
        assert_eq!(actions(&merged, "/etc/containers/policy.json"), reload);
    }

    #[test]
    fn a_policy_that_cannot_be_followed_is_named_and_the_defaults_hold() {
        let (merged, trouble) = merged(json!({"files": [{"path": "/etc/motd", "actions": [{"type": "Explode"}]}]}));
        assert!(trouble.unwrap().contains("spec.nodeDisruptionPolicy.files[0].actions[0]"));
        assert_eq!(actions(&merged, "/var/lib/kubelet/config.json"), json!([{"type": "None"}]));
    }
}
