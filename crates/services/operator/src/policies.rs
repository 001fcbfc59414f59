//! Writes the disruption policies in force into the status of the MachineConfiguration: the defaults of this cluster with
//! the user's own laid over them. Daemons, ours and upstream's, follow what stands there. An entry that cannot be followed is
//! left out and named in a condition.

use std::sync::Arc;

use api::known::Unread;
use api::machinist::ClusterSettings;
use api::names;
use api::names::status::{FALSE, TRUE};
use api::operator::{MachineConfiguration, NodeDisruptionPolicyConfig};
use change::policy::{Policies, Settings};
use cluster::watch::Key;
use cluster::{Outcome, Problem, problem, write};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::api::Api;
use operate::Step;
use operate::trouble::Trouble;
use serde_json::{Value, json};

use crate::context::{Leading, MANAGER, Source};

/// Whether all entries of `spec.nodeDisruptionPolicy` are in force.
const ACCEPTED: &str = "NodeDisruptionPolicyAccepted";

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
    let text = trouble.as_ref().map(|text| format!("MachineConfiguration {}: {text}", names::CLUSTER));
    leading.trouble(Source::Policies, text.map(|text| Trouble::new(Step::MachineConfiguration, text)));
    let known = condition(&object);
    let condition = condition_for(&object, known, trouble, leading.now());
    let mut status = json!({
        "nodeDisruptionPolicyStatus": {"clusterPolicies": merged}, "observedGeneration": object.metadata.generation,
    });
    let present = serde_json::to_value(&object.status).unwrap_or_default();
    let is_right = |field: &str| present.get(field) == status.get(field);
    if is_right("nodeDisruptionPolicyStatus") && is_right("observedGeneration") && condition.as_ref() == known {
        return Outcome::Done;
    }
    status["conditions"] = condition.into_iter().map(|condition| json!(condition)).collect();
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

fn condition(object: &MachineConfiguration) -> Option<&Condition> {
    object.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == ACCEPTED)
}

/// The condition that tells what is wrong. Where nothing ever was, none is needed.
fn condition_for(
    object: &MachineConfiguration,
    known: Option<&Condition>,
    trouble: Option<String>,
    now: Timestamp,
) -> Option<Condition> {
    if known.is_none() && trouble.is_none() {
        return None;
    }
    let (status, reason) = if trouble.is_some() { (FALSE, "EntriesLeftOut") } else { (TRUE, "AsExpected") };
    let message = trouble.unwrap_or_default();
    if let Some(known) = known.filter(|known| known.status == status && known.message == message) {
        return Some(known.clone());
    }
    let since = known.filter(|known| known.status == status).map(|known| known.last_transition_time.clone());
    Some(Condition {
        type_: ACCEPTED.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: object.metadata.generation,
        last_transition_time: since.unwrap_or(Time(now)),
    })
}

/// The policies in force, and what is wrong with entries of the user's own, which are left out.
fn in_force(object: &MachineConfiguration, settings: Option<&ClusterSettings>) -> (Value, Option<String>) {
    let settings = settings.map_or_else(Settings::default, |object| Settings {
        admin_user: object.spec.admin_user().to_owned(),
        runtime_service: object.spec.runtime_service().to_owned(),
    });
    let defaults = Policies::defaults(&settings);
    let (user, errors) = object.spec.node_disruption_policy.as_ref().map(Policies::accepted).unwrap_or_default();
    let policies = defaults.overlaid(user);
    let texts: Vec<_> = errors.iter().map(|error| format!("spec.nodeDisruptionPolicy.{error}")).collect();
    let trouble = (!texts.is_empty()).then(|| texts.join("; "));
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
    fn a_policy_that_cannot_be_followed_is_named_and_the_others_hold() {
        let (merged, trouble) = merged(json!({"files": [
            {"path": "/var/lib/kubelet/config.json", "actions": [{"type": "Explode"}]},
            {"path": "/etc/motd", "actions": [{"type": "None"}]},
        ]}));
        assert!(trouble.unwrap().contains("spec.nodeDisruptionPolicy.files[0].actions[0]"));
        assert_eq!(actions(&merged, "/var/lib/kubelet/config.json"), json!([{"type": "None"}]));
        assert_eq!(actions(&merged, "/etc/motd"), json!([{"type": "None"}]));
    }

    #[test]
    fn the_condition_comes_with_the_first_trouble_and_stays_to_tell_that_it_is_over() {
        let object = MachineConfiguration::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        let told = |known: Option<&Condition>, trouble: Option<&str>, second| {
            condition_for(&object, known, trouble.map(str::to_owned), at(second))
        };
        assert_eq!(told(None, None, 1), None);
        let bad = told(None, Some("files[0]"), 2).unwrap();
        assert_eq!((bad.status.as_str(), bad.message.as_str()), ("False", "files[0]"));
        assert_eq!(told(Some(&bad), Some("files[0]"), 3), Some(bad.clone()));
        let worse = told(Some(&bad), Some("files[1]"), 4).unwrap();
        assert_eq!(worse.last_transition_time.0, at(2));
        let good = told(Some(&worse), None, 5).unwrap();
        assert_eq!((good.status.as_str(), good.last_transition_time.0), ("True", at(5)));
    }
}
