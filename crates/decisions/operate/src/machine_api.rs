//! The Machine API's half of an installation: what `machinist install` prints for it, what its operator deploys for a
//! platform, and how its ClusterOperator reads.
//!
//! Its operator is a process of its own, so that people can stop it, edit what it deploys and start it again without
//! touching machine configuration. Which image and arguments a platform gets is decided in the crate `machine`.

mod choices;
pub mod images;
pub mod status;
pub mod webhook;

use serde_json::{Value, json};
use webhook::Webhook;

pub use choices::Choices;

use crate::installation::Installation;
use crate::objects::{Desired, Id, Keep, Step};
use crate::workloads::{METRICS_PORT, Place, budget, container, network, probed, service, wherever_possible, workload};

pub const OPERATOR: &str = "machine-api-operator";
pub const CONTROLLERS: &str = "machine-api-controllers";

/// The container of the controllers. Upstream has one for each controller; the log that people read is this one's.
pub const CONTAINER: &str = "machine-controller";

/// The folder in which a pod's simulated cloud keeps its account.
const ACCOUNT: &str = "/var/lib/machinist";

/// What the controllers run for a platform.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controllers {
    pub image: String,
    /// What `machinist machines --provider` knows: a name, or `unix:` and a socket.
    pub provider: String,
    /// Names and values, such as those of the proxy.
    pub environment: Vec<(String, String)>,
    /// Flags that follow from what somebody has decided or the cluster says.
    pub arguments: Vec<String>,
}

/// The provider that this release has for a platform, by the platform's name in the Infrastructure object.
pub fn provider(platform: &str) -> Option<&'static str> {
    match platform {
        "AWS" => Some("aws"),
        "BareMetal" => Some("baremetal"),
        "GCP" => Some("gcp"),
        "Libvirt" => Some("libvirt"),
        "OpenStack" => Some("openstack"),
        "VSphere" => Some("vsphere"),
        "kubemark" => Some("kubemark"),
        SIMULATED => Some("memory"),
        _ => None,
    }
}

/// The platform of `machinist up`: only a flag can name it.
pub const SIMULATED: &str = "memory";

/// Every platform that somebody may name, spelled as the Infrastructure object spells it.
pub const PLATFORMS: [&str; 15] = [
    "AWS",
    "Azure",
    "BareMetal",
    "External",
    "GCP",
    "IBMCloud",
    "Libvirt",
    "None",
    "Nutanix",
    "OpenStack",
    "PowerVS",
    "VSphere",
    "kubemark",
    SIMULATED,
    "oVirt",
];

/// A platform by its name in any letters.
pub fn platform(name: &str) -> Option<&'static str> {
    PLATFORMS.into_iter().find(|known| known.eq_ignore_ascii_case(name))
}

/// What whoever installs brings: accounts and rights, images, and the operator. Nobody heals these: a process could only
/// hand out rights that it has itself, and this operator has no use for those of the controllers.
pub fn installed(installation: &Installation) -> Vec<Desired> {
    let namespace = installation.machine_namespace.as_str();
    let desired = |keep, object| Desired::new(Step::MachineApi, keep, object);
    let account = |name: &str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}});
    let place = Place::new(OPERATOR, namespace);
    let mut objects: Vec<Desired> =
        [OPERATOR, CONTROLLERS].into_iter().map(|name| desired(Keep::Whole, account(name))).collect();
    objects.extend(installation.machine_access.iter().map(|object| desired(Keep::Whole, object.clone())));
    objects.push(desired(Keep::Once, images::config_map(&installation.images.machine_config_operator, namespace)));
    objects.push(desired(Keep::Once, operator(installation)));
    objects.push(desired(Keep::Whole, service(&place)));
    objects.push(desired(Keep::Whole, network(&place, &[METRICS_PORT])));
    objects.push(desired(Keep::Whole, budget(&place)));
    objects.push(desired(Keep::Whole, budget(&self::place(namespace))));
    objects
}

/// What the operator makes and heals.
pub fn kept(namespace: &str, controllers: &Controllers, webhook: Option<&Webhook>) -> Vec<Desired> {
    let place = place(namespace);
    let mut objects = vec![
        deployment(&place, namespace, controllers),
        service(&place),
        network(&place, &[METRICS_PORT, webhook::PORT]),
    ];
    objects.extend(webhook.into_iter().flat_map(|webhook| webhook::objects(namespace, webhook)));
    objects.into_iter().map(|object| Desired::new(Step::MachineApi, Keep::Whole, object)).collect()
}

/// Everything of [`kept`], to be looked for and taken away.
pub fn kept_ids(namespace: &str) -> Vec<Id> {
    let any = Controllers::default();
    let webhook = Webhook { bundle: String::new(), url: None };
    kept(namespace, &any, Some(&webhook)).iter().map(Desired::id).collect()
}

/// Upstream's labels, which scripts select by and which a Deployment cannot change.
pub(crate) fn place(namespace: &str) -> Place<'_> {
    Place::new(CONTROLLERS, namespace).labelled(json!({"api": "clusterapi", api::labels::K8S_APP: CONTROLLERS_APP}))
}

/// The value of `k8s-app` on the controllers' pods.
pub const CONTROLLERS_APP: &str = "controller";

fn operator(installation: &Installation) -> Value {
    let namespace = installation.machine_namespace.as_str();
    let mut container = container(OPERATOR, &installation.images.machine_config_operator);
    let mut arguments = vec![OPERATOR.to_owned(), "start".to_owned(), format!("--namespace={namespace}")];
    arguments.extend(installation.platform.as_ref().map(|platform| format!("--platform={platform}")));
    arguments.extend(installation.choices.of_operator());
    arguments.push(format!("--listen=0.0.0.0:{METRICS_PORT}"));
    container["args"] = json!(arguments);
    probed(&mut container);
    let pod = wherever_possible(OPERATOR, container);
    // Two operators would fight, so the old pod goes before the new one comes.
    let spec = json!({"replicas": 1, "strategy": {"type": "Recreate"}});
    workload("Deployment", &Place::new(OPERATOR, namespace), spec, pod)
}

fn deployment(place: &Place, namespace: &str, controllers: &Controllers) -> Value {
    let Controllers { image, provider, environment, arguments: more } = controllers;
    let is_simulated = ["memory", "kubemark"].contains(&provider.as_str());
    let mut container = container(CONTAINER, image);
    let mut arguments = vec![
        "machines".to_owned(),
        format!("--provider={provider}"),
        format!("--namespace={namespace}"),
        format!("--listen=0.0.0.0:{METRICS_PORT}"),
        format!("--webhook=0.0.0.0:{}", webhook::PORT),
        format!("--webhook-certificate={}", webhook::FOLDER),
    ];
    let mut mounts = vec![json!({"name": "certificate", "mountPath": webhook::FOLDER, "readOnly": true})];
    // Without its certificate admission waits, and the controllers need not.
    let mut volumes = vec![json!({"name": "certificate", "secret": {"secretName": webhook::SECRET, "optional": true}})];
    if is_simulated {
        arguments.push(format!("--account={ACCOUNT}/account.json"));
        mounts.push(json!({"name": "account", "mountPath": ACCOUNT}));
        volumes.push(json!({"name": "account", "emptyDir": {}}));
    }
    // The provider runs on the same host, and its socket may come later than the pod.
    if let Some(folder) = provider.strip_prefix("unix:").and_then(|socket| Some(socket.rsplit_once('/')?.0)) {
        mounts.push(json!({"name": "provider", "mountPath": folder, "readOnly": true}));
        volumes.push(json!({"name": "provider", "hostPath": {"path": folder, "type": "DirectoryOrCreate"}}));
    }
    arguments.extend(more.iter().cloned());
    container["args"] = json!(arguments);
    container["volumeMounts"] = json!(mounts);
    if let Some(present) = container["env"].as_array_mut() {
        present.extend(environment.iter().map(|(name, value)| json!({"name": name, "value": value})));
    }
    probed(&mut container);
    let mut pod = wherever_possible(CONTROLLERS, container);
    pod["volumes"] = json!(volumes);
    let strategy = match is_simulated {
        // The account is a file of the pod, and two pods would have two of them.
        true => json!({"type": "Recreate"}),
        // The Lease decides who leads, so old and new may overlap.
        false => json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}),
    };
    let mut deployment = workload("Deployment", place, json!({"replicas": 1, "strategy": strategy}), pod);
    deployment["metadata"]["annotations"] = json!({"machine.openshift.io/owned": ""});
    deployment
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controllers(provider: &'static str) -> Controllers {
        let environment = vec![("HTTPS_PROXY".to_owned(), "http://proxy:3128".to_owned())];
        let arguments = vec!["--external-etcd".to_owned()];
        Controllers { image: "machinist:1".to_owned(), provider: provider.to_owned(), environment, arguments }
    }

    fn deployed(provider: &'static str) -> Value {
        let objects = kept("elsewhere", &controllers(provider), None).into_iter();
        objects.map(|one| one.object).find(|object| object["kind"] == "Deployment").expect("there is one")
    }

    #[test]
    fn the_controllers_are_where_runbooks_look_and_run_the_platforms_provider() {
        let deployment = deployed("aws");
        assert_eq!(deployment["metadata"]["namespace"], "elsewhere");
        assert_eq!(deployment["spec"]["selector"]["matchLabels"]["k8s-app"], "controller");
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        assert_eq!((&container["name"], &container["image"]), (&json!("machine-controller"), &json!("machinist:1")));
        let arguments = container["args"].as_array().expect("arguments");
        assert!(arguments.contains(&json!("--provider=aws")), "{arguments:?}");
        assert!(arguments.contains(&json!("--external-etcd")), "{arguments:?}");
        assert!(container["env"].to_string().contains("http://proxy:3128"));
    }

    #[test]
    fn a_provider_that_is_a_process_of_its_own_is_reached_in_its_folder_of_the_host() {
        let pod = deployed("unix:/run/shed/provider.sock")["spec"]["template"]["spec"].clone();
        assert!(pod["containers"][0]["args"].to_string().contains("--provider=unix:/run/shed/provider.sock"));
        let folder = json!({"name": "provider", "hostPath": {"path": "/run/shed", "type": "DirectoryOrCreate"}});
        assert!(pod["volumes"].as_array().expect("volumes").contains(&folder), "{pod}");
        let mount = json!({"name": "provider", "mountPath": "/run/shed", "readOnly": true});
        assert!(pod["containers"][0]["volumeMounts"].as_array().expect("mounts").contains(&mount));
    }

    #[test]
    fn only_a_simulated_cloud_has_an_account_to_keep() {
        let has_account =
            |provider| deployed(provider)["spec"]["template"]["spec"]["volumes"].to_string().contains("account");
        assert!(has_account("kubemark") && !has_account("aws"));
    }

    #[test]
    fn two_pods_never_keep_an_account_of_the_simulated_cloud_each() {
        assert_eq!(deployed("kubemark")["spec"]["strategy"], json!({"type": "Recreate"}));
        assert_eq!(deployed("aws")["spec"]["strategy"]["type"], "RollingUpdate");
    }

    #[test]
    fn what_was_decided_at_the_installation_reaches_the_operator() {
        let choices = Choices {
            socket: Some("/run/shed/provider.sock".into()),
            external_etcd: true,
            remove_orphans: Some("c-1".into()),
        };
        let installation = Installation { platform: Some("AWS".into()), choices, ..Installation::default() };
        let arguments = operator(&installation)["spec"]["template"]["spec"]["containers"][0]["args"].clone();
        let expected = json!([
            "machine-api-operator",
            "start",
            "--namespace=openshift-machine-api",
            "--platform=AWS",
            "--provider=unix:/run/shed/provider.sock",
            "--external-etcd",
            "--remove-orphans=c-1",
            "--listen=0.0.0.0:8797"
        ]);
        assert_eq!(arguments, expected);
    }
}
