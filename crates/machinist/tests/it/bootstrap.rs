//! A cluster before it is there, and one that was another's: what is rendered at bootstrap is what the cluster asks for later,
//! and what another controller generated is kept until it is adopted.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use testkit::objects::file_config;
use testkit::{ControlPlane, Kind, control_plane, wait_for};

use crate::Folder;

/// A cluster with our kinds and our controllers, and nothing else.
struct Cluster {
    control_plane: ControlPlane,
    client: Client,
    pools: Api<MachineConfigPool>,
    configs: Api<MachineConfig>,
}

impl Cluster {
    async fn start() -> Self {
        let control_plane = control_plane(Kind::Embedded).await.expect("the embedded API needs nothing");
        control_plane.install().await;
        let client = cluster::connect(Some(&control_plane.kubeconfig())).await.unwrap();
        Self { control_plane, pools: Api::all(client.clone()), configs: Api::all(client.clone()), client }
    }

    fn control(&self) {
        let settings = controllers::Settings { settle: Duration::ZERO, ..controllers::Settings::default() };
        let client = self.client.clone();
        tokio::spawn(async move { controllers::run(client, settings, std::future::pending()).await.unwrap() });
    }

    fn kubeconfig(&self) -> PathBuf {
        self.control_plane.kubeconfig()
    }

    /// Applies an object as a user would.
    async fn apply(&self, object: &Value) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let (group, version) = text("/apiVersion").unwrap().split_once('/').unwrap_or(("", "v1"));
        let kind = text("/kind").unwrap();
        let plural = match kind {
            "ClusterSettings" => "clustersettings".to_owned(),
            kind => format!("{}s", kind.to_lowercase()),
        };
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), &plural);
        let api: Api<DynamicObject> = match text("/metadata/namespace") {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let parameters = PatchParams::apply("test").force();
        api.patch(text("/metadata/name").unwrap(), &parameters, &Patch::Apply(object)).await.unwrap();
    }
}

/// A MachineConfig as it stands in a manifest.
fn object(config: MachineConfig) -> Value {
    let mut object = serde_json::to_value(config).unwrap();
    object["apiVersion"] = json!("machineconfiguration.openshift.io/v1");
    object["kind"] = json!("MachineConfig");
    object
}

fn controller_config() -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "ControllerConfig",
        "metadata": {"name": "machine-config-controller"},
        "spec": {
            "additionalTrustBundle": null, "baseOSContainerImage": "", "cloudProviderCAData": null,
            "cloudProviderConfig": "", "clusterDNSIP": "172.30.0.10", "dns": null, "images": {},
            "infra": infrastructure(), "ipFamilies": "IPv4", "kubeAPIServerServingCAData": "Y2E=", "network": null,
            "proxy": null, "releaseImage": "", "rootCAData": "cm9vdA==",
        },
    })
}

fn infrastructure() -> Value {
    json!({
        "apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"}, "spec": {},
        "status": {
            "platformStatus": {"type": "None"}, "controlPlaneTopology": "HighlyAvailable",
            "apiServerInternalURI": "https://api-int.lab.local:6443",
        },
    })
}

/// What the users of a new cluster begin with: one object for each kind that fragments are made from, and a pool.
fn users() -> Vec<Value> {
    let of_worker = json!({"matchLabels": {"pools.operator.machineconfiguration.openshift.io/worker": ""}});
    let kubelet = |name: &str, fields: Value| {
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "KubeletConfig", "metadata": {"name": name},
            "spec": {"machineConfigPoolSelector": of_worker, "kubeletConfig": fields},
        })
    };
    let roles =
        json!({"key": "machineconfiguration.openshift.io/role", "operator": "In", "values": ["worker", "infra"]});
    vec![
        kubelet("more-pods", json!({"maxPods": 400})),
        kubelet("less-pids", json!({"podPidsLimit": 2048})),
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "ContainerRuntimeConfig",
            "metadata": {"name": "sized"},
            "spec": {"machineConfigPoolSelector": of_worker, "containerRuntimeConfig": {"overlaySize": "8G"}},
        }),
        json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSet", "metadata": {"name": "team"},
            "spec": {"imageDigestMirrors": [{"source": "quay.io/team", "mirrors": ["mirror.local/team"]}]},
        }),
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": {"name": "infra"},
            "spec": {
                "machineConfigSelector": {"matchExpressions": [roles]},
                "nodeSelector": {"matchLabels": {"node-role.kubernetes.io/infra": ""}},
            },
        }),
    ]
}

/// The names that a bootstrap wrote, by pool.
fn rendered(folder: &Folder, dest: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for entry in std::fs::read_dir(folder.path().join(dest).join("machine-pools")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let pool: MachineConfigPool = serde_json::from_str(&text).unwrap();
        let name = pool.spec.configuration.as_ref().and_then(|it| it.name.clone()).unwrap();
        assert!(folder.path().join(dest).join("machine-configs").join(format!("{name}.yaml")).is_file(), "{name}");
        names.insert(pool.name_any(), name);
    }
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_asks_later_for_the_configs_that_bootstrap_rendered() {
    let folder = Folder::new(&[
        ("assets/infra.yaml", &infrastructure().to_string()),
        (
            "assets/network.yaml",
            r#"{"apiVersion": "config.openshift.io/v1", "kind": "Network", "metadata": {"name": "cluster"}, "spec": {"serviceNetwork": ["172.30.0.0/16"]}}"#,
        ),
        (
            "assets/proxy.yaml",
            r#"{"apiVersion": "config.openshift.io/v1", "kind": "Proxy", "metadata": {"name": "cluster"}, "spec": {}}"#,
        ),
        (
            "assets/dns.yaml",
            r#"{"apiVersion": "config.openshift.io/v1", "kind": "DNS", "metadata": {"name": "cluster"}, "spec": {"baseDomain": "lab.local"}}"#,
        ),
        ("assets/pull.json", r#"{"auths": {"quay.io": {"auth": "dXNlcjpwYXNz"}}}"#),
        ("assets/ca.crt", "root"),
    ]);
    let flags = "operator bootstrap --dest-dir out --root-ca assets/ca.crt --pull-secret assets/pull.json \
                 --infra-config-file assets/infra.yaml --network-config-file assets/network.yaml \
                 --proxy-config-file assets/proxy.yaml --dns-config-file assets/dns.yaml";
    let made = folder.run(&flags.split_whitespace().collect::<Vec<_>>());
    assert_eq!(made.code, 0, "{}{}", made.stdout, made.stderr);
    let users: Vec<Value> = users();
    let texts: Vec<String> = users.iter().map(ToString::to_string).collect();
    folder.write("out/bootstrap/manifests/users.yaml", texts.join("\n---\n").as_bytes());
    let motd = object(file_config("50-worker-motd", "worker", "/etc/motd", "hello"));
    folder.write("out/bootstrap/manifests/motd.yaml", motd.to_string().as_bytes());
    let flags = "controller bootstrap --manifest-dir out/bootstrap/manifests --dest-dir mcs \
                 --pull-secret out/bootstrap/manifests/machineconfigcontroller-pull-secret";
    let run = folder.run(&flags.split_whitespace().collect::<Vec<_>>());
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let expected = rendered(&folder, "mcs");
    assert_eq!(expected.keys().collect::<Vec<_>>(), ["infra", "master", "worker"]);

    let cluster = Cluster::start().await;
    cluster.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": api::names::NAMESPACE}})).await;
    let made = folder.path().join("out/bootstrap/manifests");
    for name in [
        "machineconfigcontroller-pull-secret",
        "machinist-clustersettings.yaml",
        "machineconfigcontroller-controllerconfig.yaml",
        "master.machineconfigpool.yaml",
        "worker.machineconfigpool.yaml",
    ] {
        cluster.apply(&serde_json::from_slice(&std::fs::read(made.join(name)).unwrap()).unwrap()).await;
    }
    for object in &users {
        cluster.apply(object).await;
    }
    cluster.apply(&motd).await;
    cluster.control();
    for (pool, name) in &expected {
        wait_for(&cluster.pools, pool, &format!("the target {name}"), |pool| {
            let target = pool.and_then(|pool| pool.spec.configuration.as_ref()?.name.as_ref());
            target == Some(name)
        })
        .await;
    }
}

#[test]
fn a_bootstrap_refuses_what_the_cluster_would_and_says_what_is_missing() {
    let pool = r#"{"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "metadata": {"name": "worker", "labels": {"pools.operator.machineconfiguration.openshift.io/worker": ""}}, "spec": {"machineConfigSelector": {"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}}}}"#;
    let folder = Folder::new(&[("in/pool.yaml", pool)]);
    let bootstrap = || folder.run(&["controller", "bootstrap", "--manifest-dir", "in", "--dest-dir", "out"]);
    assert!(bootstrap().stderr.contains("no controllerconfig found in dir: \"in\""), "{}", bootstrap().stderr);
    folder.write("in/config.yaml", controller_config().to_string().as_bytes());
    assert_eq!(bootstrap().code, 0, "{}", bootstrap().stderr);
    let mut bad = users().remove(0);
    bad["spec"]["kubeletConfig"] = json!({"maxPod": 1});
    folder.write("in/kubelet.yaml", bad.to_string().as_bytes());
    let run = bootstrap();
    assert!(run.code == 1 && run.stderr.contains("spec.kubeletConfig.maxPod"), "{}", run.stderr);
    folder.write("in/kubelet.yaml", pool.as_bytes());
    assert!(bootstrap().stderr.contains("MachineConfigPool \"worker\" is in in/"), "{}", bootstrap().stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_controller_generated_is_adopted_after_a_look_at_what_that_changes() {
    let cluster = Cluster::start().await;
    let theirs = |name: &str, path: &str| {
        let mut config = file_config(name, "worker", path, "theirs");
        let key = "machineconfiguration.openshift.io/generated-by-controller-version".to_owned();
        config.metadata.annotations = Some(BTreeMap::from([(key, "1f2e3d".to_owned())]));
        object(config)
    };
    let names = ["00-worker", "01-worker-kubelet", "01-worker-container-runtime"];
    for name in names {
        cluster.apply(&theirs(name, &format!("/etc/{name}"))).await;
    }
    cluster.apply(&controller_config()).await;
    let selector = json!({"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}});
    let pool = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "metadata": {"name": "worker"},
        "spec": {"machineConfigSelector": selector, "nodeSelector": {"matchLabels": {"node-role.kubernetes.io/worker": ""}}},
    });
    cluster.apply(&pool).await;
    cluster.control();
    wait_for(&cluster.pools, "worker", "a target", |pool| {
        pool.is_some_and(|pool| pool.spec.configuration.as_ref().is_some_and(|it| it.source.len() == 3))
    })
    .await;
    let folder = Folder::new(&[]);
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let adopt = |more: &[&str]| folder.run(&[&["adopt"], more, &["--kubeconfig", &kubeconfig]].concat());
    let shown = tokio::task::block_in_place(|| adopt(&[]));
    assert_eq!(shown.code, 3, "{}{}", shown.stdout, shown.stderr);
    for word in ["removed file /etc/00-worker", "added file /etc/kubernetes/kubelet.conf", "--yes adopts 00-worker"] {
        assert!(shown.stdout.contains(word), "{word}: {}", shown.stdout);
    }
    let kept = cluster.configs.get("00-worker").await.unwrap();
    assert!(!kept.annotations().contains_key("machinist.dev/generated-from"), "nothing was changed");

    let done = tokio::task::block_in_place(|| adopt(&["--yes"]));
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    for name in names {
        wait_for(&cluster.configs, name, "ours in its place", |config| {
            config.is_some_and(|config| config.annotations().contains_key("machinist.dev/generated-from"))
        })
        .await;
    }
    let again = tokio::task::block_in_place(|| adopt(&[]));
    assert_eq!((again.code, again.stdout.starts_with("Nothing to adopt")), (0, true), "{}", again.stdout);
}
