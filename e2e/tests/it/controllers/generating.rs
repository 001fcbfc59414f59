//! From typed configuration to nodes: templates, KubeletConfigs, ContainerRuntimeConfigs and registries.

use std::collections::BTreeMap;

use api::config::ImageDigestMirrorSet;
use api::machineconfiguration::{
    ContainerRuntimeConfig, ControllerConfig, KubeletConfig, MachineConfig, MachineConfigPool,
    MachineConfigPoolCondition,
};
use api::machinist::{ClusterSettings, KeptConfig};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use sandbox::fleet::Behaviour;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::objects::{file_config, pool};
use testkit::{Kind, wait_for, wait_for_all};

use super::on_both;
use super::stage::Stage;
use crate::watching::watch_fleet;

on_both!(
    a_kubelet_config_reaches_every_node_and_leaves_with_its_object,
    a_bad_kubelet_config_says_what_is_wrong_and_stops_nobody,
    several_kubelet_configs_of_a_pool_are_merged_and_the_eleventh_is_told,
    hosts_that_are_not_ours_get_drop_ins_and_nothing_unasked,
    a_mirror_set_becomes_registries_conf,
    a_container_runtime_config_becomes_drop_ins_of_the_runtime,
    an_edit_of_a_generated_config_is_put_back_and_another_controllers_is_kept,
    a_hundred_kubelet_configs_settle_with_one_write_for_each_part,
);

const GENERATED: &str = "99-worker-generated-kubelet";

/// Starts a stage with hosts of this profile and a ControllerConfig like the operator's.
async fn stage(kind: Kind, profile: &str) -> Option<Stage> {
    let stage = Stage::start(kind, Behaviour::default()).await?;
    let settings = json!({"metadata": {"name": "cluster"}, "spec": {"profile": profile}});
    apply::<ClusterSettings>(&stage, settings).await;
    apply::<ControllerConfig>(&stage, controller_config()).await;
    Some(stage)
}

fn controller_config() -> Value {
    json!({"metadata": {"name": "machine-config-controller"}, "spec": {
        "additionalTrustBundle": null, "baseOSContainerImage": "", "cloudProviderCAData": null, "cloudProviderConfig": "",
        "clusterDNSIP": "172.30.0.10", "dns": null, "images": {},
        "infra": {"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"}, "spec": {}, "status": {
            "platformStatus": {"type": "None"}, "controlPlaneTopology": "HighlyAvailable",
            "apiServerInternalURI": "https://api-int.lab.local:6443",
        }},
        "ipFamilies": "IPv4", "kubeAPIServerServingCAData": "Y2E=", "network": null, "proxy": null, "releaseImage": "",
        "rootCAData": "cm9vdA==",
    }})
}

/// Applies an object like a user.
async fn apply<K>(stage: &Stage, object: Value) -> K
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut object = object;
    object["apiVersion"] = K::api_version(&()).into();
    object["kind"] = K::kind(&()).into();
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let api: Api<K> = Api::all(stage.client.clone());
    api.patch(&name, &PatchParams::apply("story").force(), &Patch::Apply(&object)).await.unwrap()
}

async fn delete<K>(stage: &Stage, name: &str)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::all(stage.client.clone());
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

fn of_pool(pool: &str) -> Value {
    json!({"matchLabels": {format!("pools.operator.machineconfiguration.openshift.io/{pool}"): ""}})
}

async fn kubelet_config(stage: &Stage, name: &str, pool: &str, fields: Value) -> KubeletConfig {
    let spec = json!({"machineConfigPoolSelector": of_pool(pool), "kubeletConfig": fields});
    apply(stage, json!({"metadata": {"name": name}, "spec": spec})).await
}

/// Waits until the last condition of a KubeletConfig has this type and contains these words.
async fn says(stage: &Stage, name: &str, type_: &str, words: &[&str]) -> KubeletConfig {
    let api: Api<KubeletConfig> = Api::all(stage.client.clone());
    let is_it = |config: Option<&KubeletConfig>| {
        let Some(config) = config else { return false };
        let status = config.status.clone().unwrap_or_default();
        status.observed_generation == config.metadata.generation && has_last(&status.conditions, type_, words)
    };
    wait_for(&api, name, &format!("{type_} with {words:?}"), is_it).await.unwrap()
}

fn has_last(conditions: &[MachineConfigPoolCondition], type_: &str, words: &[&str]) -> bool {
    let last = conditions.last();
    last.is_some_and(|last| last.type_ == type_ && words.iter().all(|word| last.message.contains(word)))
}

/// Waits until a MachineConfig exists.
async fn generated(stage: &Stage, name: &str) -> MachineConfig {
    wait_for(&stage.configs, name, "the MachineConfig", |config| config.is_some()).await.unwrap()
}

async fn gone(stage: &Stage, name: &str) {
    wait_for(&stage.configs, name, "the MachineConfig to be gone", |config| config.is_none()).await;
}

/// Returns a file of a MachineConfig.
fn file(config: &MachineConfig, path: &str) -> Option<String> {
    let ignition = ignition::parse(config.spec.config.as_ref()?).ok()?;
    let contents = ignition.storage?.files?.into_iter().find(|file| file.path == path)?.contents?;
    String::from_utf8(ignition::decode(&contents).ok()?).ok()
}

/// Creates a pool whose nodes run the config from its templates, and returns the name of that config.
async fn settled(stage: &Stage, name: &str, nodes: &[&str]) -> String {
    for part in ["00-worker", "01-worker-kubelet", "01-worker-container-runtime"] {
        generated(stage, part).await;
    }
    stage.pools.create(&Default::default(), &built_in(name)).await.unwrap();
    let names = nodes.iter().map(|node| (*node).to_owned()).collect();
    stage.fleet.create(names, &[name], None).await.unwrap();
    stage.updated(name, "", nodes.len()).await
}

fn built_in(name: &str) -> MachineConfigPool {
    let mut pool = pool(name);
    let label = "machineconfiguration.openshift.io/mco-built-in".to_owned();
    pool.metadata.labels.get_or_insert_default().insert(label, String::new());
    pool
}

async fn a_kubelet_config_reaches_every_node_and_leaves_with_its_object(kind: Kind) {
    let Some(stage) = stage(kind, "openshift").await else { return };
    let first = settled(&stage, "worker", &["a", "b"]).await;
    let seen = watch_fleet(stage.nodes.clone());
    kubelet_config(&stage, "pods", "worker", json!({"maxPods": 321})).await;
    let second = stage.updated("worker", &first, 2).await;
    let rendered = stage.configs.get(&second).await.unwrap();
    let conf = file(&rendered, "/etc/kubernetes/kubelet.conf").unwrap();
    assert!(conf.contains("maxPods: 321") && conf.contains("172.30.0.10"), "{conf}");
    let config = says(&stage, "pods", "Success", &["Success"]).await;
    assert_eq!(config.finalizers(), [GENERATED]);
    assert_eq!(config.annotations()["machineconfiguration.openshift.io/mc-name-suffix"], "");
    let made = stage.configs.get(GENERATED).await.unwrap();
    assert_eq!(made.owner_references()[0].name, "pods");
    let configs: Api<ControllerConfig> = Api::all(stage.client.clone());
    let status = configs.get("machine-config-controller").await.unwrap().status.unwrap();
    let completed = status.conditions.iter().find(|it| it.type_ == "TemplateControllerCompleted").unwrap();
    assert_eq!(completed.status, "True", "{completed:?}");

    delete::<KubeletConfig>(&stage, "pods").await;
    let api: Api<KubeletConfig> = Api::all(stage.client.clone());
    wait_for(&api, "pods", "the KubeletConfig to be gone", |config| config.is_none()).await;
    let third = stage.updated("worker", &second, 2).await;
    assert_eq!(third, first, "without it the pool is what it was");
    assert!(stage.configs.get_opt(GENERATED).await.unwrap().is_none());
    let targeted = seen.lock().unwrap().targeted.clone();
    let moves = targeted.iter().filter(|(_, config)| *config == second).count();
    assert_eq!(moves, 2, "each node moved once for it: {targeted:?}");
}

async fn a_bad_kubelet_config_says_what_is_wrong_and_stops_nobody(kind: Kind) {
    let Some(stage) = stage(kind, "openshift").await else { return };
    let first = settled(&stage, "worker", &["a"]).await;
    kubelet_config(&stage, "bad", "worker", json!({"maxPod": 10})).await;
    says(&stage, "bad", "Failure", &["spec.kubeletConfig.maxPod", "did you mean maxPods?"]).await;
    assert_eq!(stage.target("worker").await, first);

    // It blocks neither other KubeletConfigs nor MachineConfigs of the pool.
    kubelet_config(&stage, "good", "worker", json!({"maxPods": 99})).await;
    let second = stage.updated("worker", &first, 1).await;
    says(&stage, "good", "Success", &[]).await;
    stage.write(&file_config("50-more", "worker", "/etc/more", "more")).await;
    let third = stage.updated("worker", &second, 1).await;

    // After an invalid edit, the last accepted version stays in force.
    kubelet_config(&stage, "good", "worker", json!({"maxPods": -1})).await;
    says(&stage, "good", "Failure", &["maxPods"]).await;
    assert_eq!(stage.target("worker").await, third);
    kubelet_config(&stage, "good", "worker", json!({"maxPods": 98})).await;
    let fourth = stage.updated("worker", &third, 1).await;
    let conf = file(&stage.configs.get(&fourth).await.unwrap(), "/etc/kubernetes/kubelet.conf").unwrap();
    assert!(conf.contains("maxPods: 98"), "{conf}");

    // A KubeletConfig that selects no pool gets a condition that says so.
    let nobody = json!({"metadata": {"name": "nobody"}, "spec": {"kubeletConfig": {"maxPods": 5}}});
    apply::<KubeletConfig>(&stage, nobody).await;
    says(&stage, "nobody", "Failure", &["machineConfigPoolSelector", "selects no pool"]).await;
}

async fn several_kubelet_configs_of_a_pool_are_merged_and_the_eleventh_is_told(kind: Kind) {
    let Some(stage) = stage(kind, "openshift").await else { return };
    stage.pools.create(&Default::default(), &built_in("worker")).await.unwrap();
    kubelet_config(&stage, "a", "worker", json!({"maxPods": 100})).await;
    says(&stage, "a", "Success", &[]).await;
    for (number, letter) in ('b'..='j').enumerate() {
        kubelet_config(&stage, &letter.to_string(), "worker", json!({"podsPerCore": number + 1})).await;
        says(&stage, &letter.to_string(), "Success", &[]).await;
    }
    let last = generated(&stage, "99-worker-generated-kubelet-9").await;
    let conf = file(&last, "/etc/kubernetes/kubelet.conf").unwrap();
    assert!(conf.contains("maxPods: 100") && conf.contains("podsPerCore: 9"), "{conf}");
    kubelet_config(&stage, "k", "worker", json!({"maxPods": 7})).await;
    says(&stage, "k", "Failure", &["max number of supported kubelet config (10) has been reached"]).await;
}

async fn hosts_that_are_not_ours_get_drop_ins_and_nothing_unasked(kind: Kind) {
    let Some(stage) = stage(kind, "kubeadm").await else { return };
    stage.pools.create(&Default::default(), &built_in("worker")).await.unwrap();
    let configs: Api<ControllerConfig> = Api::all(stage.client.clone());
    wait_for(&configs, "machine-config-controller", "templates to be done", |config| {
        let status = config.and_then(|config| config.status.clone()).unwrap_or_default();
        let message = status.conditions.iter().find_map(|it| it.message.clone()).unwrap_or_default();
        message.contains("hosts of profile kubeadm start from nothing")
    })
    .await;
    assert_eq!(stage.configs.list(&Default::default()).await.unwrap().items.len(), 0, "nothing is made unasked");

    kubelet_config(&stage, "pods", "worker", json!({"maxPods": 50})).await;
    says(&stage, "pods", "Success", &[]).await;
    let made = generated(&stage, GENERATED).await;
    let dropin = file(&made, "/etc/kubernetes/kubelet.conf.d/99-machinist-kubelet.conf").unwrap();
    assert!(dropin.contains("maxPods: 50") && !dropin.contains("clusterDNS"), "only what was asked for: {dropin}");
    assert_eq!(file(&made, "/etc/kubernetes/kubelet.conf"), None);

    // Hosts with an unknown profile lead to a condition; existing settings stay in force.
    let settings = json!({"metadata": {"name": "cluster"}, "spec": {"profile": "none"}});
    apply::<ClusterSettings>(&stage, settings).await;
    says(&stage, "pods", "Failure", &["profile none", "spec.profile of ClusterSettings cluster"]).await;
    assert_eq!(stage.configs.get(GENERATED).await.unwrap().spec, made.spec);
}

async fn a_mirror_set_becomes_registries_conf(kind: Kind) {
    let Some(stage) = stage(kind, "openshift").await else { return };
    let first = settled(&stage, "worker", &["a"]).await;
    let name = "99-worker-generated-registries";
    let set = |name: &str, source: &str, mirror: &str| json!({"metadata": {"name": name}, "spec": {"imageDigestMirrors": [{"source": source, "mirrors": [mirror]}]}});
    apply::<ImageDigestMirrorSet>(&stage, set("mirror", "quay.io/team", "mirror.local/team")).await;
    let second = stage.updated("worker", &first, 1).await;
    let conf = file(&stage.configs.get(&second).await.unwrap(), "/etc/containers/registries.conf").unwrap();
    assert!(conf.contains("mirror.local/team") && conf.contains("digest-only"), "{conf}");

    // An invalid set gets a condition, and the others stay in force.
    let mut wrong = set("wrong", "quay.io/other", "quay.io/other");
    wrong["spec"]["imageDigestMirrors"][0]["mirrorSourcePolicy"] = "NeverContactSource".into();
    apply::<ImageDigestMirrorSet>(&stage, wrong).await;
    let words = ["cannot set mirrorSourcePolicy: NeverContactSource", "quay.io/other"];
    let event = stage.event("RegistryConfigurationNotApplied", &words).await;
    assert_eq!(event.regarding.unwrap().name.as_deref(), Some("wrong"));
    delete::<ImageDigestMirrorSet>(&stage, "wrong").await;
    delete::<ImageDigestMirrorSet>(&stage, "mirror").await;
    gone(&stage, name).await;
    assert_eq!(stage.updated("worker", &second, 1).await, first);
}

async fn a_container_runtime_config_becomes_drop_ins_of_the_runtime(kind: Kind) {
    let Some(stage) = stage(kind, "openshift").await else { return };
    let first = settled(&stage, "worker", &["a"]).await;
    let config = |limit: i64| {
        let settings = json!({"pidsLimit": limit, "overlaySize": "8G"});
        let spec = json!({"machineConfigPoolSelector": of_pool("worker"), "containerRuntimeConfig": settings});
        json!({"metadata": {"name": "limits"}, "spec": spec})
    };
    apply::<ContainerRuntimeConfig>(&stage, config(2048)).await;
    let second = stage.updated("worker", &first, 1).await;
    let rendered = stage.configs.get(&second).await.unwrap();
    let limit = file(&rendered, "/etc/crio/crio.conf.d/01-ctrcfg-pidsLimit").unwrap();
    assert!(limit.contains("pids_limit = 2048"), "{limit}");
    let storage = file(&rendered, "/etc/containers/storage.conf").unwrap();
    assert!(storage.contains("size = \"8G\"") && storage.contains("driver"), "{storage}");

    apply::<ContainerRuntimeConfig>(&stage, config(3)).await;
    let api: Api<ContainerRuntimeConfig> = Api::all(stage.client.clone());
    let says = |type_: &'static str, words: &'static [&'static str]| {
        wait_for(&api, "limits", "its last condition", move |config| {
            let status = config.and_then(|config| config.status.clone()).unwrap_or_default();
            has_last(&status.conditions, type_, words)
        })
    };
    says("Failure", &["invalid PidsLimit 3", "for example 4096"]).await;
    assert_eq!(stage.target("worker").await, second);
    delete::<ContainerRuntimeConfig>(&stage, "limits").await;
    wait_for(&api, "limits", "it to be gone", |config| config.is_none()).await;
    assert_eq!(stage.updated("worker", &second, 1).await, first);
}

async fn an_edit_of_a_generated_config_is_put_back_and_another_controllers_is_kept(kind: Kind) {
    let Some(stage) = Stage::start(kind, Behaviour::default()).await else { return };
    // The cluster ran upstream before: its MachineConfigs carry the version of upstream's controller.
    let theirs = |name: &str, path: &str| {
        let mut config = file_config(name, "worker", path, "theirs");
        let key = "machineconfiguration.openshift.io/generated-by-controller-version".to_owned();
        config.metadata.annotations = Some(BTreeMap::from([(key, "1f2e3d".to_owned())]));
        config
    };
    let names = ["00-worker", "01-worker-kubelet", "01-worker-container-runtime"];
    for name in names {
        stage.write(&theirs(name, &format!("/etc/{name}"))).await;
    }
    let before = stage.configs.get("00-worker").await.unwrap();
    apply::<ControllerConfig>(&stage, controller_config()).await;
    let configs: Api<ControllerConfig> = Api::all(stage.client.clone());
    let kept = "kept as another controller made them: 00-worker";
    wait_for(&configs, "machine-config-controller", kept, |config| {
        let status = config.and_then(|config| config.status.clone()).unwrap_or_default();
        status.conditions.iter().any(|it| it.message.clone().unwrap_or_default().contains(kept))
    })
    .await;
    assert_eq!(
        stage.configs.get("00-worker").await.unwrap().metadata.resource_version,
        before.metadata.resource_version
    );

    // An edit of a generated MachineConfig is reverted, and the event names the object to change instead.
    let ours = generated(&stage, "01-master-kubelet").await;
    let edit = Patch::Merge(json!({"spec": {"kernelArguments": ["debug"]}}));
    stage.configs.patch("01-master-kubelet", &PatchParams::default(), &edit).await.unwrap();
    wait_for(&stage.configs, "01-master-kubelet", "the edit to be undone", |config| {
        config.is_some_and(|config| config.spec == ours.spec && config.metadata.generation > Some(2))
    })
    .await;
    let words = ["01-master-kubelet was changed by somebody", "change ControllerConfig machine-config-controller"];
    stage.event("GeneratedConfigRestored", &words).await;

    // An edit of upstream's MachineConfig is reverted to what it was.
    let remembered: Api<KeptConfig> = Api::all(stage.client.clone());
    let original = wait_for(&remembered, "00-worker", "it to be remembered", |kept| kept.is_some()).await.unwrap();
    assert_eq!(original.spec.original, before.spec);
    stage.configs.patch("00-worker", &PatchParams::default(), &edit).await.unwrap();
    let restored = wait_for(&stage.configs, "00-worker", "the edit to be undone", |config| {
        config.is_some_and(|config| config.spec == before.spec && config.metadata.generation > Some(2))
    })
    .await
    .unwrap();
    assert!(restored.annotations().contains_key("machineconfiguration.openshift.io/generated-by-controller-version"));
    assert!(!restored.annotations().contains_key("machinist.dev/generated-from"), "it is still upstream's");
    stage.event("GeneratedConfigRestored", &["00-worker was changed by somebody", "`machinist adopt`"]).await;
    // What upstream writes itself, with another version, is no edit.
    let version = json!({"machineconfiguration.openshift.io/generated-by-controller-version": "4c5b6a"});
    let newer = Patch::Merge(json!({"metadata": {"annotations": version}, "spec": {"kernelArguments": ["theirs"]}}));
    stage.configs.patch("00-worker", &PatchParams::default(), &newer).await.unwrap();
    wait_for(&remembered, "00-worker", "the newer one to be remembered", |kept| {
        kept.is_some_and(|kept| kept.spec.version == "4c5b6a" && kept.spec.original.kernel_arguments == ["theirs"])
    })
    .await;

    // After adoption, upstream's MachineConfig is replaced by ours.
    let adopt = Patch::Merge(json!({"metadata": {"annotations": {"machinist.dev/adopt": ""}}}));
    stage.configs.patch("00-worker", &PatchParams::default(), &adopt).await.unwrap();
    wait_for(&stage.configs, "00-worker", "ours in its place", |config| {
        config.is_some_and(|config| file(config, "/etc/sysctl.d/inotify.conf").is_some())
    })
    .await;
    wait_for(&remembered, "00-worker", "it to be forgotten", |kept| kept.is_none()).await;
}

async fn a_hundred_kubelet_configs_settle_with_one_write_for_each_part(kind: Kind) {
    let Some(stage) = stage(kind, "openshift").await else { return };
    let kubelet_configs = count_versions::<KubeletConfig>(&stage).await;
    let machine_configs = count_versions::<MachineConfig>(&stage).await;
    for number in 0..20 {
        stage.pools.create(&Default::default(), &pool(&format!("pool-{number:02}"))).await.unwrap();
    }
    // The watches of two kinds are not synchronized: a KubeletConfig that is seen before its pool briefly reports that
    // it selects none.
    wait_for_all(&stage.pools, "every pool to be rendered", |all| {
        let is_rendered =
            |pool: &MachineConfigPool| pool.spec.configuration.as_ref().is_some_and(|it| it.name.is_some());
        all.len() == 20 && all.iter().all(is_rendered)
    })
    .await;
    for number in 0..100 {
        let pool = format!("pool-{:02}", number % 20);
        kubelet_config(&stage, &format!("k{number:02}"), &pool, json!({"maxPods": 100 + number})).await;
    }
    let api: Api<KubeletConfig> = Api::all(stage.client.clone());
    let is_done =
        |config: &KubeletConfig| has_last(&config.status.clone().unwrap_or_default().conditions, "Success", &[]);
    wait_for_all(&api, "all to be in force", |all| all.len() == 100 && all.iter().all(is_done)).await;
    // Pending writes are finished before this one is written.
    kubelet_config(&stage, "one-more", "pool-00", json!({"maxPods": 7})).await;
    says(&stage, "one-more", "Success", &[]).await;

    let versions = kubelet_configs.lock().unwrap().clone();
    let most = versions.iter().map(|(name, count)| (*count, name)).max().unwrap();
    assert!(most.0 <= 3, "the user's, its metadata, its status: {most:?}");
    let versions = machine_configs.lock().unwrap().clone();
    let of_kubelets = versions.iter().filter(|(name, _)| name.contains("-generated-kubelet"));
    let written: Vec<(&String, &usize)> = of_kubelets.collect();
    assert_eq!(written.len(), 101);
    let again: Vec<_> = written.into_iter().filter(|(_, count)| **count > 1).collect();
    assert!(again.is_empty(), "written more than once: {again:?}");
}

type Versions = std::sync::Arc<std::sync::Mutex<BTreeMap<String, usize>>>;

/// Counts the versions of each object from now on.
async fn count_versions<K>(stage: &Stage) -> Versions
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    use futures::StreamExt;
    use kube::runtime::watcher::{Config, Event, watcher};

    let versions = Versions::default();
    let notes = versions.clone();
    let (listed, is_listed) = tokio::sync::oneshot::channel();
    let api: Api<K> = Api::all(stage.client.clone());
    tokio::spawn(async move {
        let mut listed = Some(listed);
        let mut events = watcher(api, Config::default()).boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(object)) => {
                    *notes.lock().unwrap().entry(object.name_any()).or_default() += 1;
                }
                Ok(Event::InitDone) => {
                    listed.take().map(|listed| listed.send(()));
                }
                Ok(Event::Init | Event::InitApply(_) | Event::Delete(_)) | Err(_) => {}
            }
        }
    });
    is_listed.await.unwrap();
    versions
}
