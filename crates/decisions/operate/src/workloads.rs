//! The processes: service accounts, RBAC, Deployments, DaemonSets and services, under the names that runbooks use.

use api::labels;
use serde_json::{Value, json};

use crate::installation::Installation;
use crate::objects::{Desired, Id, Keep, Step};

pub const OPERATOR: &str = "machine-config-operator";
pub const CONTROLLER: &str = "machine-config-controller";
pub const SERVER: &str = "machine-config-server";
pub const DAEMON: &str = "machine-config-daemon";
/// The account whose token a kubelet first speaks with.
pub const BOOTSTRAPPER: &str = "node-bootstrapper";

pub(crate) const METRICS_PORT: u16 = 8797;
const RBAC: &str = "rbac.authorization.k8s.io";

/// Accounts and what they may do.
pub(crate) fn access(installation: &Installation) -> Vec<Desired> {
    let namespace = &installation.namespace;
    let account = |name: &str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}});
    let mut objects = Vec::new();
    for (name, step) in [
        (OPERATOR, Step::RenderConfig),
        (CONTROLLER, Step::MachineConfigController),
        (SERVER, Step::MachineConfigServer),
        (DAEMON, Step::MachineConfigDaemon),
        (BOOTSTRAPPER, Step::MachineConfigServer),
    ] {
        objects.push(Desired::new(step, Keep::Whole, account(name)));
    }
    for object in installation.access.iter().filter(|object| !narrows(installation, object)) {
        let step = match object.pointer("/metadata/name").and_then(Value::as_str) {
            Some(CONTROLLER) => Step::MachineConfigController,
            Some(SERVER) => Step::MachineConfigServer,
            Some(DAEMON) => Step::MachineConfigDaemon,
            _ => Step::RenderConfig,
        };
        objects.push(Desired::new(step, Keep::Whole, object.clone()));
    }
    objects.push(Desired::new(Step::MachineConfigServer, Keep::Whole, bootstrap_binding(namespace)));
    objects
}

/// What takes rights from the daemons' account that an earlier version gave it. It is written only when no daemon uses the
/// account any more ([`uses_account`]), so it is not among what a person applies before the daemons are replaced.
pub fn narrowed(installation: &Installation) -> Vec<Desired> {
    let objects = installation.access.iter().filter(|object| narrows(installation, object)).cloned();
    objects.map(|object| Desired::new(Step::MachineConfigDaemon, Keep::Whole, object)).collect()
}

fn narrows(installation: &Installation, object: &Value) -> bool {
    let id = Id::of(object);
    let of_account = match id.kind.as_str() {
        "ClusterRole" | "ClusterRoleBinding" => id.name == DAEMON,
        "RoleBinding" => id.name == api::names::NODE_CREDENTIALS,
        _ => false,
    };
    of_account && !installation.daemon_account
}

/// Whether pods of this DaemonSet may use the account that they run under: its pods have a token, or some of them are still
/// of an earlier template.
pub fn uses_account(daemons: &Value) -> bool {
    let number = |path: &str| daemons.pointer(path).and_then(Value::as_i64);
    let has_token = daemons.pointer("/spec/template/spec/automountServiceAccountToken") != Some(&json!(false));
    let is_observed = number("/status/observedGeneration") == number("/metadata/generation");
    let updated = number("/status/updatedNumberScheduled").unwrap_or(0);
    has_token || !is_observed || updated < number("/status/desiredNumberScheduled").unwrap_or(0)
}

/// A kubelet's first token may ask for a certificate, and nothing else.
fn bootstrap_binding(namespace: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {"name": "system-bootstrap-node-bootstrapper"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "system:node-bootstrapper"},
        "subjects": [{"kind": "ServiceAccount", "name": BOOTSTRAPPER, "namespace": namespace}],
    })
}

pub(crate) fn all(installation: &Installation) -> Vec<Desired> {
    let at = |name| Place::new(name, &installation.namespace);
    let mut objects = vec![
        // Its replicas are the switch that stops all healing, so the operator never puts its own Deployment back.
        Desired::new(Step::RenderConfig, Keep::Once, operator(installation)),
        Desired::new(Step::MachineConfigController, Keep::Whole, controller(installation)),
        Desired::new(Step::MachineConfigDaemon, Keep::Whole, daemon(installation)),
        Desired::new(Step::RenderConfig, Keep::Whole, service(&at(OPERATOR))),
        Desired::new(Step::MachineConfigController, Keep::Whole, service(&at(CONTROLLER))),
        Desired::new(Step::MachineConfigDaemon, Keep::Whole, service(&at(DAEMON))),
    ];
    for (name, step) in [(OPERATOR, Step::RenderConfig), (CONTROLLER, Step::MachineConfigController)] {
        objects.push(Desired::new(step, Keep::Whole, network(&at(name), &[METRICS_PORT])));
        objects.push(Desired::new(step, Keep::Whole, budget(&at(name))));
    }
    objects.extend(installation.api_url.as_deref().map(|url| serving(installation, url)));
    objects
}

/// Nobody needs more of these processes than their health and metrics. The others are on the network of their hosts, to
/// which no policy applies.
pub(crate) fn network(place: &Place, ports: &[u16]) -> Value {
    let open: Vec<Value> = ports.iter().map(|port| json!({"port": port, "protocol": "TCP"})).collect();
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": place.metadata(),
        "spec": {
            "podSelector": {"matchLabels": place.labels},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": open}],
        },
    })
}

/// A drain takes one pod of a process at a time, however many somebody has scaled it to, and never waits for a broken one.
pub(crate) fn budget(place: &Place) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": place.metadata(),
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": place.labels},
        },
    })
}

/// The config server tells new machines where the API is, so it waits until that is known.
pub(crate) fn serving(installation: &Installation, api_url: &str) -> Desired {
    Desired::new(Step::MachineConfigServer, Keep::Whole, server(installation, api_url))
}

fn operator(installation: &Installation) -> Value {
    let mut container = container(OPERATOR, &installation.images.machine_config_operator);
    let mut arguments = installation.operator_arguments();
    arguments.push(format!("--image={}", installation.images.machine_config_operator));
    arguments.push(format!("--listen=0.0.0.0:{METRICS_PORT}"));
    container["args"] = json!(arguments);
    probed(&mut container);
    let pod = wherever_possible(OPERATOR, container);
    // Two operators would fight, so the old pod goes before the new one comes.
    workload(
        "Deployment",
        &Place::new(OPERATOR, &installation.namespace),
        json!({"replicas": 1, "strategy": {"type": "Recreate"}}),
        pod,
    )
}

fn controller(installation: &Installation) -> Value {
    let mut container = container(CONTROLLER, &installation.images.machine_config_operator);
    container["args"] = json!([
        "controller",
        format!("--namespace={}", installation.namespace),
        format!("--listen=0.0.0.0:{METRICS_PORT}"),
    ]);
    probed(&mut container);
    let pod = wherever_possible(CONTROLLER, container);
    let mut deployment =
        workload("Deployment", &Place::new(CONTROLLER, &installation.namespace), json!({"replicas": 1}), pod);
    // The Lease decides who leads, so old and new may overlap.
    deployment["spec"]["strategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    deployment
}

fn server(installation: &Installation, api_url: &str) -> Value {
    let mut container = container(SERVER, &installation.images.machine_config_operator);
    let mut arguments = vec![
        "server".to_owned(),
        format!("--namespace={}", installation.namespace),
        "--address=::".to_owned(),
        format!("--secure-port={}", Installation::SERVER_PORT),
        "--cert=/etc/ssl/mcs/tls.crt".to_owned(),
        "--key=/etc/ssl/mcs/tls.key".to_owned(),
        "--bootstrap-token=/etc/mcs/bootstrap-token".to_owned(),
    ];
    arguments.push(format!("--apiserver-url={api_url}"));
    // Machines whose image lacks the daemon fetch it from where they fetched their config.
    let address = crate::facts::server(installation.server.as_deref(), Some(api_url));
    arguments.extend(address.map(|address| format!("--server={address}")));
    container["args"] = json!(arguments);
    container["volumeMounts"] = json!([
        {"name": "certs", "mountPath": "/etc/ssl/mcs", "readOnly": true},
        {"name": "node-bootstrap-token", "mountPath": "/etc/mcs/bootstrap-token", "readOnly": true},
    ]);
    container["securityContext"] = confined();
    let mut pod = control_plane_pod(SERVER, container);
    // A new machine reaches the control plane's hosts before any service network.
    pod["hostNetwork"] = json!(true);
    pod["priorityClassName"] = json!("system-cluster-critical");
    pod["tolerations"] = json!([{"operator": "Exists"}]);
    pod["volumes"] = json!([
        {"name": "certs", "secret": {"secretName": crate::certificates::TLS}},
        {"name": "node-bootstrap-token", "secret": {"secretName": crate::certificates::BOOTSTRAP_TOKEN}},
    ]);
    let spec = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}});
    workload("DaemonSet", &Place::new(SERVER, &installation.namespace), spec, pod)
}

fn daemon(installation: &Installation) -> Value {
    let mut container = container(DAEMON, installation.images.daemon());
    container["command"] = json!(["/usr/bin/machinistd"]);
    let mut arguments = vec!["start".to_owned(), "--root=/rootfs".to_owned()];
    arguments.push(format!("--namespace={}", installation.namespace));
    // Without this the daemon finds the kubelet's credential below the root.
    arguments.extend(installation.daemon_account.then(|| "--in-cluster".to_owned()));
    // Where its Service looks for them: the pod is on the network of its host.
    arguments.push(format!("--metrics-url=$(HOST_IP):{METRICS_PORT}"));
    container["args"] = json!(arguments);
    // It owns the host: it writes any file, speaks to its systemd, and reads its processes. Its own root it leaves alone.
    container["securityContext"] = json!({"privileged": true, "readOnlyRootFilesystem": true});
    container["env"] = json!([
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
    ]);
    container["volumeMounts"] =
        json!([{"name": "rootfs", "mountPath": "/rootfs", "mountPropagation": "HostToContainer"}]);
    let pod = json!({
        "serviceAccountName": DAEMON,
        // A token that nobody uses should not lie on the host.
        "automountServiceAccountToken": installation.daemon_account,
        "hostNetwork": true,
        "hostPID": true,
        "priorityClassName": "system-node-critical",
        "nodeSelector": {labels::OS: "linux"},
        "tolerations": [{"operator": "Exists"}],
        // A daemon finishes the step it is in; what is journalled goes on in the next pod.
        "terminationGracePeriodSeconds": 600,
        "containers": [container],
        "volumes": [{"name": "rootfs", "hostPath": {"path": "/", "type": "Directory"}}],
    });
    let spec = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}});
    workload("DaemonSet", &Place::new(DAEMON, &installation.namespace), spec, pod)
}

pub(crate) fn container(name: &str, image: &str) -> Value {
    json!({
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/machinist"],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
        "resources": {"requests": {"cpu": "20m", "memory": "50Mi"}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    })
}

pub(crate) fn probed(container: &mut Value) {
    container["ports"] = json!([{"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"}]);
    container["livenessProbe"] = json!({"httpGet": {"path": "/healthz", "port": "metrics"}, "initialDelaySeconds": 30});
    container["readinessProbe"] = json!({"httpGet": {"path": "/readyz", "port": "metrics"}});
    container["securityContext"] = confined();
}

/// What the level `restricted` of pod security asks for, and a root that nobody writes to.
fn confined() -> Value {
    json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true, "runAsUser": 65534,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

/// On the control plane, under whichever label this cluster marks it with. Elsewhere only where there is no such node, or
/// where the only one is being emptied: a controller that can run nowhere else would never bring it back.
pub(crate) fn wherever_possible(name: &str, container: Value) -> Value {
    let preferred = control_plane_terms().map(|term| json!({"weight": 100, "preference": term}));
    let mut pod = tolerant_pod(name, container);
    pod["affinity"] = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}});
    pod["nodeSelector"] = json!({labels::OS: "linux"});
    pod
}

/// On the control plane and nowhere else.
fn control_plane_pod(name: &str, container: Value) -> Value {
    let terms = control_plane_terms();
    let mut pod = tolerant_pod(name, container);
    pod["affinity"] =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    pod
}

fn control_plane_terms() -> [Value; 2] {
    [labels::NODE_ROLE_CONTROL_PLANE, labels::NODE_ROLE_MASTER]
        .map(|label| json!({"matchExpressions": [{"key": label, "operator": "Exists"}]}))
}

fn tolerant_pod(name: &str, container: Value) -> Value {
    let tolerated = |label: &str| json!({"key": label, "operator": "Exists", "effect": "NoSchedule"});
    let leaves =
        |taint: &str| json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 120});
    json!({
        "serviceAccountName": name,
        "priorityClassName": "system-cluster-critical",
        "tolerations": [
            tolerated(labels::NODE_ROLE_CONTROL_PLANE),
            tolerated(labels::NODE_ROLE_MASTER),
            leaves("node.kubernetes.io/unreachable"),
            leaves("node.kubernetes.io/not-ready"),
        ],
        "containers": [container],
    })
}

/// The place of one process's objects, and the labels of its pods.
pub(crate) struct Place<'a> {
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) labels: Value,
}

impl<'a> Place<'a> {
    pub(crate) fn new(name: &'a str, namespace: &'a str) -> Self {
        Self { name, namespace, labels: json!({labels::K8S_APP: name}) }
    }

    pub(crate) fn labelled(self, labels: Value) -> Self {
        Self { labels, ..self }
    }

    pub(crate) fn labels(&self) -> &Value {
        &self.labels
    }

    fn metadata(&self) -> Value {
        json!({"name": self.name, "namespace": self.namespace, "labels": self.labels})
    }
}

pub(crate) fn workload(kind: &str, place: &Place, mut spec: Value, mut pod: Value) -> Value {
    if kind == "Deployment" {
        // Replicas that somebody adds should not fall with one node.
        pod["topologySpreadConstraints"] = json!([{
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": place.labels},
        }]);
    }
    spec["selector"] = json!({"matchLabels": place.labels});
    spec["template"] = json!({
        "metadata": {
            "labels": place.labels,
            "annotations": {"target.workload.openshift.io/management": r#"{"effect": "PreferredDuringScheduling"}"#},
        },
        "spec": pod,
    });
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": place.metadata(), "spec": spec})
}

/// The metrics of a process.
pub(crate) fn service(place: &Place) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": place.metadata(),
        "spec": {
            "type": "ClusterIP",
            "selector": place.labels,
            "ports": [{"name": "metrics", "port": 9001, "targetPort": METRICS_PORT, "protocol": "TCP"}],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(kind: &str, name: &str) -> Value {
        let installation = Installation {
            namespace: "elsewhere".into(),
            api_url: Some("https://a:6443".into()),
            ..Installation::default()
        };
        let all = all(&installation);
        let found = all.into_iter().find(|one| one.object["kind"] == kind && one.object["metadata"]["name"] == name);
        found.expect("it is there").object
    }

    #[test]
    fn names_labels_and_the_host_are_where_runbooks_look() {
        for (kind, name) in
            [("Deployment", OPERATOR), ("Deployment", CONTROLLER), ("DaemonSet", SERVER), ("DaemonSet", DAEMON)]
        {
            let object = named(kind, name);
            assert_eq!(object["metadata"]["namespace"], "elsewhere");
            assert_eq!(object["spec"]["template"]["metadata"]["labels"]["k8s-app"], name);
            assert_eq!(object["spec"]["template"]["spec"]["containers"][0]["name"], name);
        }
        let daemon = named("DaemonSet", DAEMON);
        let pod = &daemon["spec"]["template"]["spec"];
        assert_eq!(pod["containers"][0]["volumeMounts"][0]["mountPath"], "/rootfs");
        assert_eq!(pod["volumes"][0]["hostPath"]["path"], "/");
    }

    #[test]
    fn the_daemons_pod_gets_a_token_only_where_the_daemon_uses_it() {
        for daemon_account in [false, true] {
            let object = daemon(&Installation { daemon_account, ..Installation::default() });
            let pod = &object["spec"]["template"]["spec"];
            assert_eq!(pod["automountServiceAccountToken"], daemon_account);
            let arguments = pod["containers"][0]["args"].to_string();
            assert_eq!(arguments.contains("--in-cluster"), daemon_account, "{arguments}");
        }
    }

    #[test]
    fn the_account_is_used_until_every_pod_is_of_a_template_without_a_token() {
        let set = |token: bool, generation: i64, observed: i64, desired: i64, updated: Option<i64>| {
            let status = json!({"observedGeneration": observed, "desiredNumberScheduled": desired, "updatedNumberScheduled": updated});
            let spec = json!({"template": {"spec": {"automountServiceAccountToken": token}}});
            uses_account(&json!({"metadata": {"generation": generation}, "spec": spec, "status": status}))
        };
        assert!(!set(false, 2, 2, 10, Some(10)));
        assert!(!set(false, 2, 2, 0, None));
        assert!(set(false, 2, 2, 10, Some(9)));
        assert!(set(false, 2, 2, 10, None));
        assert!(set(false, 2, 1, 10, Some(10)), "the status is of the template before");
        assert!(set(true, 2, 2, 10, Some(10)));
        assert!(uses_account(&json!({})), "a token is mounted where nothing says otherwise");
    }

    #[test]
    fn every_process_but_the_daemon_is_confined_and_no_root_is_written_to() {
        for (kind, name) in [("Deployment", OPERATOR), ("Deployment", CONTROLLER), ("DaemonSet", SERVER)] {
            let context = &named(kind, name)["spec"]["template"]["spec"]["containers"][0]["securityContext"];
            assert_eq!(*context, confined(), "{name}");
        }
        let daemon = named("DaemonSet", DAEMON);
        let context = &daemon["spec"]["template"]["spec"]["containers"][0]["securityContext"];
        assert_eq!(context["readOnlyRootFilesystem"], true);
    }

    #[test]
    fn a_drain_takes_one_replica_at_a_time_and_replicas_are_spread() {
        for name in [OPERATOR, CONTROLLER] {
            let (deployment, budget) = (named("Deployment", name), named("PodDisruptionBudget", name));
            assert_eq!(budget["spec"]["selector"], deployment["spec"]["selector"]);
            // A number of pods that must stay would hold the drain of the node that has the only one.
            assert_eq!((&budget["spec"]["maxUnavailable"], budget["spec"].get("minAvailable")), (&json!(1), None));
            let spread = &deployment["spec"]["template"]["spec"]["topologySpreadConstraints"][0];
            assert_eq!(spread["labelSelector"], deployment["spec"]["selector"]);
        }
    }

    #[test]
    fn operator_and_controller_prefer_the_control_plane_and_run_without_one() {
        for name in [OPERATOR, CONTROLLER] {
            let pod = &named("Deployment", name)["spec"]["template"]["spec"];
            let affinity = &pod["affinity"]["nodeAffinity"];
            let required = &affinity["requiredDuringSchedulingIgnoredDuringExecution"];
            assert!(required.is_null(), "where the only such node is cordoned, or there is none, it runs elsewhere");
            let preferred = affinity["preferredDuringSchedulingIgnoredDuringExecution"].to_string();
            assert!(
                preferred.contains(labels::NODE_ROLE_CONTROL_PLANE) && preferred.contains(labels::NODE_ROLE_MASTER)
            );
            assert_eq!(pod["nodeSelector"][labels::OS], "linux");
        }
        let server = &named("DaemonSet", SERVER)["spec"]["template"]["spec"]["affinity"]["nodeAffinity"];
        assert!(server["requiredDuringSchedulingIgnoredDuringExecution"].is_object(), "new machines look for it there");
    }

    #[test]
    fn only_metrics_of_processes_in_the_pod_network_can_be_reached() {
        for name in [OPERATOR, CONTROLLER] {
            let policy = named("NetworkPolicy", name);
            assert_eq!(policy["spec"]["podSelector"]["matchLabels"]["k8s-app"], name);
            let open = json!([{"ports": [{"port": METRICS_PORT, "protocol": "TCP"}]}]);
            assert_eq!(policy["spec"]["ingress"], open);
            let pod = &named("Deployment", name)["spec"]["template"]["spec"];
            assert_eq!(pod["containers"][0]["ports"][0]["containerPort"], METRICS_PORT);
        }
    }

    #[test]
    fn the_server_tells_machines_where_the_daemon_is_to_be_fetched() {
        let arguments = &named("DaemonSet", SERVER)["spec"]["template"]["spec"]["containers"][0]["args"];
        assert!(arguments.as_array().is_some_and(|all| all.contains(&json!("--server=a:22623"))), "{arguments}");
    }

    #[test]
    fn flags_of_the_installation_reach_the_operator() {
        let installation = Installation {
            namespace: "machinist".into(),
            source_namespace: "machinist".into(),
            runtime_service: Some("containerd.service".into()),
            admin_user: Some("ubuntu".into()),
            server: Some("10.0.0.1".into()),
            ..Installation::default()
        };
        assert_eq!(
            installation.operator_arguments(),
            [
                "operator",
                "--namespace=machinist",
                "--admin-user=ubuntu",
                "--runtime-service=containerd.service",
                "--server=10.0.0.1"
            ]
        );
    }
}
