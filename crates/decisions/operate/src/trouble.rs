//! What can be wrong with an installation, each as one sentence that names the object and the fix.

use api::known::Unread;
use api::labels;
use serde_json::Value;

use crate::machine_api;
use crate::objects::{Id, Step};

/// Something that keeps a part of the installation from being as it should.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trouble {
    pub step: Step,
    pub message: String,
}

impl Trouble {
    pub fn new(step: Step, message: impl Into<String>) -> Self {
        Self { step, message: message.into() }
    }
}

/// The API refused to let us write an object.
pub fn refused(id: &Id, code: u16, message: &str) -> String {
    let fix = match code {
        _ if message.contains("is being terminated") => {
            return format!(
                "{id} cannot be written because namespace {0} is terminating: wait until it is gone, then run `machinist \
                 install | kubectl apply -f -` again; `kubectl get namespace {0} -o yaml` says what still holds it",
                id.namespace
            );
        }
        401 | 403 if message.contains("attempting to grant RBAC permissions not currently held") => {
            "; the operator may only hand out rights it has itself: apply the ClusterRole machine-config-operator of this \
             release with `machinist install | kubectl apply -f -`"
        }
        401 | 403 => "; give the operator back its rights with `machinist install | kubectl apply -f -`",
        404 => "; its kind is not installed: run `machinist install | kubectl apply -f -`",
        422 => "; delete it, and it is made anew as it should be",
        _ => "",
    };
    format!("{id} cannot be written: {message}{fix}")
}

/// Something could not be read, so what depends on it stays as it is.
pub fn unread(unread: &Unread) -> String {
    format!("{unread}; what depends on it stays as it is until it can be read")
}

/// A definition was changed in a way that applying ours did not mend.
pub fn changed_definition(id: &Id, difference: &str) -> String {
    format!(
        "{id} is not as this release needs it: {difference}; put it back with `machinist crds | kubectl replace -f -`, or \
         remove what was added"
    )
}

/// The namespace of the installation is going away.
pub fn terminating(namespace: &Value) -> Option<String> {
    let name = namespace.pointer("/metadata/name")?.as_str()?;
    let is_leaving = namespace.pointer("/metadata/deletionTimestamp").is_some()
        || namespace.pointer("/status/phase").is_some_and(|phase| phase == "Terminating");
    let remaining = namespace.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let remaining = remaining
        .filter(|condition| condition["status"] == "True")
        .filter_map(|condition| condition["message"].as_str())
        .collect::<Vec<_>>()
        .join(" ");
    is_leaving.then(|| {
        let held = if remaining.is_empty() { String::new() } else { format!(" ({remaining})") };
        format!(
            "namespace {name} is terminating{held}, so nothing can be made in it: wait until it is gone, then run `machinist \
             install | kubectl apply -f -` again"
        )
    })
}

/// Nobody says what clients of the API trust.
pub fn no_api_ca(namespace: &str) -> String {
    format!(
        "ConfigMap {namespace}/kube-root-ca.crt has no ca.crt, so nodes cannot be told what to trust: kube-controller-manager \
         publishes it when it has --root-ca-file"
    )
}

/// Another installation keeps the same cluster-wide objects.
pub fn two_operators(own: &str, other: &str) -> String {
    format!(
        "operators run in the namespaces {other} and {own} and would undo each other's work, so the one in {own} stands \
         aside: stop one of them with `kubectl -n {own} scale deployment machine-config-operator --replicas=0`"
    )
}

/// How far a Deployment or DaemonSet is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    pub id: Id,
    pub step: Step,
    pub wanted: i64,
    pub updated: i64,
    pub ready: i64,
    pub unavailable: i64,
    /// The controllers of the cluster have seen its newest spec.
    pub observed: bool,
    /// The cluster gave up on it, and why.
    pub stuck: Option<String>,
}

impl Workload {
    pub fn from_object(step: Step, object: &Value) -> Self {
        let number = |path: &str| object.pointer(path).and_then(Value::as_i64);
        let is_daemon_set = object["kind"] == "DaemonSet";
        let (wanted, updated, ready) = if is_daemon_set {
            ("/status/desiredNumberScheduled", "/status/updatedNumberScheduled", "/status/numberReady")
        } else {
            ("/spec/replicas", "/status/updatedReplicas", "/status/readyReplicas")
        };
        let unavailable = if is_daemon_set { "/status/numberUnavailable" } else { "/status/unavailableReplicas" };
        let mut conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        let gave_up = |condition: &&Value| {
            condition["type"] == "Progressing" && condition["status"] == "False"
                || condition["type"] == "ReplicaFailure" && condition["status"] == "True"
        };
        Self {
            id: Id::of(object),
            step,
            wanted: number(wanted).unwrap_or(if is_daemon_set { 0 } else { 1 }),
            updated: number(updated).unwrap_or(0),
            ready: number(ready).unwrap_or(0),
            unavailable: number(unavailable).unwrap_or(0),
            observed: number("/status/observedGeneration")
                .is_some_and(|seen| Some(seen) >= number("/metadata/generation")),
            stuck: conditions.find(gave_up).and_then(|condition| Some(condition["message"].as_str()?.to_owned())),
        }
    }

    pub fn is_ready(&self) -> bool {
        self.observed && self.updated >= self.wanted && self.ready >= self.wanted && self.unavailable == 0
    }

    /// Upstream's sentence.
    pub fn describe(&self) -> String {
        let Self { wanted, updated, ready, unavailable, .. } = self;
        let (word, count) =
            if self.id.kind == "DaemonSet" { ("daemonset", "desired") } else { ("deployment", "replicas") };
        format!(
            "{word} {} is not ready. status: ({count}: {wanted}, updated: {updated}, ready: {ready}, unavailable: {unavailable})",
            self.id.name
        )
    }
}

/// What keeps a pod of ours from starting: its image, or a process that ends again and again.
pub fn pod(pod: &Value) -> Option<(String, String)> {
    let app = pod.pointer("/metadata/labels")?.get(labels::K8S_APP)?.as_str()?;
    let name = pod.pointer("/metadata/name")?.as_str()?;
    let statuses = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let statuses = statuses.iter().filter_map(|path| pod.pointer(path)?.as_array()).flatten();
    for status in statuses {
        let Some(waiting) = status.pointer("/state/waiting") else { continue };
        let (reason, message) = (waiting["reason"].as_str()?, waiting["message"].as_str().unwrap_or_default());
        let image = status["image"].as_str().unwrap_or_default();
        let text = match reason {
            "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" => format!(
                "pod {name} cannot get its image {image} ({reason}: {message}); correct the image in ConfigMap {}, or make it \
                 reachable from the node",
                images_of(app)
            ),
            "CrashLoopBackOff" | "RunContainerError" | "CreateContainerConfigError" | "CreateContainerError" => {
                let ended = status.pointer("/lastState/terminated/message").and_then(Value::as_str).unwrap_or(message);
                format!("pod {name} does not stay up ({reason}: {}); see `kubectl logs {name}`", ended.trim())
            }
            _ => continue,
        };
        return Some((app.to_owned(), text));
    }
    None
}

/// The ConfigMap that names the image of a process.
fn images_of(app: &str) -> &'static str {
    match app {
        machine_api::OPERATOR | machine_api::CONTROLLERS_APP => machine_api::images::CONFIG_MAP,
        _ => crate::Images::CONFIG_MAP,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn id() -> Id {
        Id::of(&json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "ns"}}))
    }

    #[test]
    fn a_refusal_names_the_object_and_the_fix() {
        let forbidden = refused(&id(), 403, "deployments.apps is forbidden");
        assert!(
            forbidden.starts_with("Deployment ns/a cannot be written: ") && forbidden.contains("machinist install")
        );
        let leaving =
            refused(&id(), 403, "unable to create new content in namespace ns because it is being terminated");
        assert!(leaving.contains("namespace ns is terminating"), "{leaving}");
    }

    #[test]
    fn an_image_that_does_not_exist_is_named_with_its_pod() {
        let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}});
        let pod_object = json!({
            "metadata": {"name": "machine-config-controller-x", "labels": {"k8s-app": "machine-config-controller"}},
            "status": {"containerStatuses": [{"image": "nowhere/nothing:1", "state": waiting}]},
        });
        let (app, text) = pod(&pod_object).expect("a trouble");
        assert_eq!(app, "machine-config-controller");
        for word in ["machine-config-controller-x", "nowhere/nothing:1", "machine-config-operator-images"] {
            assert!(text.contains(word), "{text}");
        }
        assert_eq!(pod(&json!({"metadata": {"name": "x", "labels": {"k8s-app": "a"}}, "status": {}})), None);
    }

    #[test]
    fn a_namespace_that_is_terminating_says_what_holds_it() {
        let namespace = json!({"metadata": {"name": "ns"}, "status": {"phase": "Terminating", "conditions": [
            {"type": "NamespaceContentRemaining", "status": "True", "message": "Some resources are remaining: pods."},
            {"type": "NamespaceDeletionContentFailure", "status": "False", "message": "no"},
        ]}});
        let text = terminating(&namespace).expect("a trouble");
        assert!(text.starts_with("namespace ns is terminating (Some resources are remaining: pods.)"), "{text}");
        assert_eq!(terminating(&json!({"metadata": {"name": "ns"}, "status": {"phase": "Active"}})), None);
    }

    #[test]
    fn a_workload_is_ready_when_its_newest_spec_runs_everywhere() {
        let mut object = json!({"kind": "DaemonSet", "metadata": {"name": "d", "generation": 2}, "status": {
            "observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberReady": 3}});
        let workload = |object: &Value| Workload::from_object(Step::MachineConfigDaemon, object);
        assert!(workload(&object).is_ready());
        object["metadata"]["generation"] = json!(3);
        assert!(!workload(&object).is_ready());
        object["status"]["numberReady"] = json!(2);
        let text = "daemonset d is not ready. status: (desired: 3, updated: 3, ready: 2, unavailable: 0)";
        assert_eq!(workload(&object).describe(), text);
    }
}
