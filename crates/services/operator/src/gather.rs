//! Looks at the cluster and decides what should be.
//!
//! It decides only on what was read. While something cannot be read, everything stays as it was decided before, and what
//! could not be read is told.

use std::collections::{BTreeMap, BTreeSet};

use api::known::Unread;
use api::machineconfiguration::MachineConfigPool;
use cluster::watch::Key;
use cluster::{Outcome, Store, read, write};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use operate::trouble::{self, Trouble};
use operate::{Facts, Id, Images, Platform, Sources, Step};
use serde_json::{Value, json};

use crate::context::{Leading, Source, Work};

/// Gathers, decides, and asks for what changed to be written.
pub(crate) async fn look(leading: &Leading) -> Outcome {
    images(leading);
    namespace(leading);
    pods(leading);
    let known = match gather(leading).await {
        Ok(facts) => account_is_used(leading).map(|is_used| (facts, is_used)),
        Err(unread) => Err(unread),
    };
    let (facts, account_is_used) = match known {
        Ok(known) => known,
        Err(unread) => {
            leading.unread(Source::Facts, Some(unread));
            want(leading, &operate::installed(&leading.installation()), |_| true);
            return Outcome::Retry;
        }
    };
    leading.unread(Source::Facts, None);
    let trouble =
        facts.api_ca.is_none().then(|| Trouble::new(Step::RenderConfig, trouble::no_api_ca(leading.namespace())));
    leading.trouble(Source::ApiCa, trouble);
    let installation = leading.installation();
    let mut wanted = operate::installed(&installation);
    wanted.extend(operate::found(&installation, &facts));
    if !account_is_used {
        wanted.extend(operate::workloads::narrowed(&installation));
    }
    // Of all kinds that are kept, only these come from somebody else and may go.
    want(leading, &wanted, |id| match id.kind.as_str() {
        "PrometheusRule" => facts.has_prometheus_rules,
        "ServiceMonitor" => facts.has_service_monitors,
        _ => true,
    });
    for pool in &facts.pools {
        leading.soon(Work::UserData(pool.clone()));
    }
    leading.soon(Work::Report);
    Outcome::Done
}

/// Asks for what changed to be written. What was wanted before and is not now stays as it was decided then, if its kind
/// `exists`: that a node, an address or a certificate is not there today is no reason to take a server or its config
/// away from machines that run by it.
fn want(leading: &Leading, objects: &[operate::Desired], exists: impl Fn(&Id) -> bool) {
    let old = leading.desired.lock().clone();
    let is_first = old.is_empty();
    let mut wanted: BTreeMap<Id, operate::Desired> = old.clone();
    wanted.retain(|id, _| exists(id));
    // Its own Deployment is a person's switch: made by whoever installs, never by the operator that it starts.
    let is_switch = |id: &Id| id.kind == "Deployment" && id.name == operate::workloads::OPERATOR;
    let objects = objects.iter().map(|desired| (desired.id(), desired.clone()));
    wanted.extend(objects.filter(|(id, _)| !is_switch(id)));
    leading.desired.lock().clone_from(&wanted);
    for (id, desired) in &wanted {
        // What was written to prepare the cluster is right already.
        let is_prepared = is_first && leading.written.lock().contains_key(id);
        if old.get(id) != Some(desired) && !is_prepared {
            leading.queue.add(Work::Keep(id.clone()));
        }
    }
    for id in old.keys().filter(|id| !wanted.contains_key(*id)) {
        leading.trouble(Source::Object(id.clone()), None);
    }
}

/// Whether daemons run that need the rights of their shared account; then nothing is taken from it.
fn account_is_used(leading: &Leading) -> Result<bool, Unread> {
    let key = Key::in_namespace(leading.namespace(), operate::workloads::DAEMON);
    let daemons = leading.world.daemon_sets.fresh_one("daemonsets", &key)?;
    Ok(daemons.is_some_and(|daemons| operate::workloads::uses_account(&daemons)))
}

/// The ConfigMap of images, as far as it can be believed; the last good ones stay in force.
fn images(leading: &Leading) {
    let key = Key { namespace: leading.namespace().to_owned(), name: Images::CONFIG_MAP.to_owned() };
    let Some(map) = leading.world.config_maps.get(&key) else { return };
    let text = map.data.as_ref().and_then(|data| data.get(Images::KEY)).cloned().unwrap_or_default();
    let own = &leading.settings.installation.images.release_version;
    let trouble = match Images::parse(&text, own, leading.namespace()) {
        Ok(images) => {
            leading.installation.lock().images = images;
            None
        }
        Err(error) => Some(Trouble::new(Step::RenderConfig, error.to_string())),
    };
    leading.trouble(Source::Images, trouble);
}

fn namespace(leading: &Leading) {
    let text = leading.world.namespaces.named(leading.namespace()).and_then(|one| trouble::terminating(&one));
    leading.trouble(Source::Namespace, text.map(|text| Trouble::new(Step::RenderConfig, text)));
}

/// Pods that do not start, for the step whose workload they belong to.
fn pods(leading: &Leading) {
    let failing = leading.world.pods.all().into_iter().find_map(|pod| (*pod).clone());
    let trouble = failing.map(|(app, text)| Trouble::new(step_of(&app), text));
    leading.trouble(Source::Pods, trouble);
}

pub(crate) fn step_of(app: &str) -> Step {
    match app {
        operate::workloads::CONTROLLER => Step::MachineConfigController,
        operate::workloads::SERVER => Step::MachineConfigServer,
        operate::workloads::DAEMON => Step::MachineConfigDaemon,
        _ => Step::RenderConfig,
    }
}

/// The kind by which OpenShift is known. We install others of its group ourselves, so those tell nothing.
const OPENSHIFT: &str = "clusterversions.config.openshift.io";

/// Everything that is known of the cluster now.
///
/// # Errors
/// When any of it could not be read: half of the facts would be other facts.
pub(crate) async fn gather(leading: &Leading) -> Result<Facts, Unread> {
    let world = &leading.world;
    let installation = &leading.settings.installation;
    let has = |name: &str| Ok(world.definitions.fresh_one("customresourcedefinitions", &Key::cluster(name))?.is_some());
    let platform = if has(OPENSHIFT)? { Platform::OpenShift } else { Platform::Plain };
    let config = |plural: &'static str, kind: &'static str| async move {
        match platform {
            Platform::Plain => Ok(None),
            Platform::OpenShift => openshift(leading, plural, kind).await,
        }
    };
    let infrastructure = config("infrastructures", "Infrastructure").await?;
    let text = |path: &str| infrastructure.as_ref().and_then(|one| Some(one.pointer(path)?.as_str()?.to_owned()));
    let found = match (&installation.api_url, text("/status/apiServerInternalURI")) {
        (Some(given), _) => Some(given.clone()),
        (None, Some(internal)) => Some(internal),
        (None, None) => api_url(leading).await?,
    };
    let [kubernetes, dns] = &world.services;
    let addresses = |service: &k8s_openapi::api::core::v1::Service| {
        let spec = service.spec.clone().unwrap_or_default();
        spec.cluster_ips.filter(|all| !all.is_empty()).or(spec.cluster_ip.map(|one| vec![one])).unwrap_or_default()
    };
    let mut pools: Vec<String> = world.pools.fresh("machineconfigpools")?.iter().map(|pool| pool.name_any()).collect();
    pools.sort();
    let pool_labels = world.pools.fresh("machineconfigpools")?.iter().flat_map(|pool| selected_by(pool)).collect();
    let root = map(&world.config_maps, leading.namespace(), "kube-root-ca.crt")?;
    Ok(Facts {
        platform,
        nodes: world.nodes.fresh("nodes")?.iter().map(|node| (**node).clone()).collect(),
        pools,
        pool_labels,
        service_addresses: kubernetes.fresh("services")?.first().map(|one| addresses(one)).unwrap_or_default(),
        dns_address: dns.fresh("services")?.first().and_then(|service| addresses(service).first().cloned()),
        api_ca: root.get("ca.crt").cloned().or_else(|| leading.settings.api_ca.clone()),
        api_url: found,
        server_ca: crate::credentials::bundle(leading)?,
        sources: sources(leading)?,
        topology: text("/status/controlPlaneTopology"),
        dns: config("dnses", "DNS").await?,
        proxy: config("proxies", "Proxy").await?.and_then(|proxy| proxy.get("status").cloned()),
        infrastructure,
        has_prometheus_rules: has("prometheusrules.monitoring.coreos.com")?,
        has_service_monitors: has("servicemonitors.monitoring.coreos.com")?,
        now: Some(leading.now()),
    })
}

/// The keys of the labels by which a pool selects nodes, also under the selector's older name.
pub(crate) fn selected_by(pool: &MachineConfigPool) -> BTreeSet<String> {
    let spec = &pool.spec;
    let selector = spec.node_selector.as_ref().or(spec.machine_selector.as_ref()).cloned().unwrap_or_default();
    let labels = selector.match_labels.unwrap_or_default().into_keys();
    labels.chain(selector.match_expressions.unwrap_or_default().into_iter().map(|one| one.key)).collect()
}

/// What a ConfigMap says; nothing where there is none.
fn map(store: &Store<ConfigMap>, namespace: &str, name: &str) -> Result<BTreeMap<String, String>, Unread> {
    let map = store.fresh_one("configmaps", &Key::in_namespace(namespace, name))?;
    Ok(map.and_then(|map| map.data.clone()).unwrap_or_default())
}

fn sources(leading: &Leading) -> Result<Sources, Unread> {
    let namespace = &leading.settings.installation.source_namespace;
    let map = |name: &str| map(&leading.world.source_maps, namespace, name);
    let pull_secret =
        leading.world.source_secrets.fresh_one("secrets", &Key::in_namespace(namespace, "pull-secret"))?;
    let cloud = map("kube-cloud-config")?;
    Ok(Sources {
        pull_secret: pull_secret.and_then(|secret| docker_config(&secret)),
        trust_bundle: map("user-ca-bundle")?.get("ca-bundle.crt").cloned(),
        registries: map("image-registry-ca")?,
        cloud_config: cloud.get("cloud.conf").cloned(),
        cloud_ca: cloud.get("ca-bundle.pem").cloned(),
    })
}

/// A docker config that can be read as one; anything else would break pulls on every node.
fn docker_config(secret: &Secret) -> Option<Vec<u8>> {
    let bytes = &secret.data.as_ref()?.get(".dockerconfigjson")?.0;
    let read: Value = serde_json::from_slice(bytes).ok()?;
    read.get("auths").is_some().then(|| bytes.clone())
}

/// One object of OpenShift's configuration.
async fn openshift(leading: &Leading, plural: &str, kind: &str) -> Result<Option<Value>, Unread> {
    let gvk = kube::core::GroupVersionKind::gvk("config.openshift.io", "v1", kind);
    let resource = kube::api::ApiResource::from_gvk_with_plural(&gvk, plural);
    let api: Api<kube::api::DynamicObject> = Api::all_with(leading.client.clone(), &resource);
    let object = read::get(&api, api::names::CLUSTER).await.fresh(plural, Timestamp::now())?.into_inner().clone();
    Ok(object.map(|object| {
        let mut value = crate::world::value(object);
        // What changes with every write would change every node's ControllerConfig.
        value["metadata"] = json!({"name": api::names::CLUSTER});
        value
    }))
}

/// Where kubeadm and its kin publish the API's address, or where the API itself says it is.
async fn api_url(leading: &Leading) -> Result<Option<String>, Unread> {
    let maps: Api<ConfigMap> = Api::namespaced(leading.client.clone(), "kube-public");
    let map = read::get(&maps, "cluster-info").await;
    let map = map.fresh("configmaps", Timestamp::now())?;
    if let Some(text) = map.as_ref().and_then(|map| map.data.as_ref()?.get("kubeconfig"))
        && let Some(server) = text.lines().find_map(|line| line.trim().strip_prefix("server:"))
    {
        return Ok(Some(server.trim().trim_matches('"').to_owned()));
    }
    let slices: Api<EndpointSlice> = Api::namespaced(leading.client.clone(), "default");
    let slices = read::list(&slices, ListParams::default().labels("kubernetes.io/service-name=kubernetes")).await;
    Ok(slices.fresh("endpointslices", Timestamp::now())?.first().and_then(address))
}

/// The address of the first endpoint.
fn address(slice: &EndpointSlice) -> Option<String> {
    let address = slice.endpoints.first()?.addresses.first()?.clone();
    let port = slice.ports.as_ref()?.first()?.port?;
    let host = if address.contains(':') { format!("[{address}]") } else { address };
    Some(format!("https://{host}:{port}"))
}

/// How far the API server's clock is ahead of ours; nothing where it does not tell.
pub(crate) async fn skew(leading: &Leading) -> Result<Option<SignedDuration>, Unread> {
    let request = http::Request::get("/version").body(kube::client::Body::empty());
    let request = request.map_err(|error| Unread::new("the API's clock", error.to_string()))?;
    let response = write::in_time(leading.client.send(request)).await;
    let response = response.map_err(|error| Unread::new("the API's clock", cluster::error::chain(&error)))?;
    let told = response.headers().get(http::header::DATE).and_then(|date| date.to_str().ok());
    let told = told.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
    Ok(told.map(|date| date.timestamp().duration_since(leading.now())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_says_machine_selector_is_guarded_by_its_labels_too() {
        let keys = |spec: Value| {
            let pool = json!({
                "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
                "metadata": {"name": "gpu"}, "spec": spec,
            });
            let pool: MachineConfigPool = serde_json::from_value(pool).expect("a pool");
            selected_by(&pool).into_iter().collect::<Vec<String>>()
        };
        let older = json!({"matchLabels": {"env": "gpu"}, "matchExpressions": [{"key": "rack", "operator": "Exists"}]});
        assert_eq!(keys(json!({"machineSelector": older})), ["env", "rack"]);
        // As membership is decided: the newer name counts where both are given.
        assert_eq!(keys(json!({"machineSelector": older, "nodeSelector": {"matchLabels": {"a": "b"}}})), ["a"]);
    }
}
