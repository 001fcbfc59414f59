//! Looks at the cluster and decides what should be.

use std::collections::BTreeMap;

use cluster::watch::Key;
use cluster::{Outcome, write};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use operate::trouble::{self, Trouble};
use operate::{Facts, Id, Images, Platform, Sources, Step};
use serde_json::{Value, json};

use crate::context::{Leading, Source, Work};

/// Gathers, decides, and asks for what changed to be written.
pub(crate) async fn look(leading: &Leading) -> Outcome {
    images(leading);
    namespace(leading);
    pods(leading);
    let facts = gather(leading).await;
    let trouble =
        facts.api_ca.is_none().then(|| Trouble::new(Step::RenderConfig, trouble::no_api_ca(leading.namespace())));
    leading.trouble(Source::ApiCa, trouble);
    let installation = leading.installation();
    let mut wanted: BTreeMap<Id, operate::Desired> = BTreeMap::new();
    for desired in operate::installed(&installation).into_iter().chain(operate::found(&installation, &facts)) {
        let id = desired.id();
        // Its own Deployment is a person's switch: made by whoever installs, never by the operator that it starts.
        if id.kind == "Deployment" && id.name == operate::workloads::OPERATOR {
            continue;
        }
        wanted.insert(id, desired);
    }
    let old = std::mem::replace(&mut *leading.desired.lock(), wanted.clone());
    let is_first = old.is_empty();
    for (id, desired) in &wanted {
        // What was written to prepare the cluster is right already.
        let is_prepared = is_first && leading.written.lock().contains_key(id);
        if old.get(id) != Some(desired) && !is_prepared {
            leading.queue.add(Work::Keep(id.clone()));
        }
    }
    for id in old.keys().filter(|id| !wanted.contains_key(*id)) {
        remove(leading, id).await;
    }
    for pool in &facts.pools {
        leading.soon(Work::UserData(pool.clone()));
    }
    leading.soon(Work::Report);
    Outcome::Done
}

/// What is no longer wanted: alert rules whose kind went, say.
async fn remove(leading: &Leading, id: &Id) {
    leading.trouble(Source::Object(id.clone()), None);
    let api = crate::world::api(&leading.client, id);
    if let Err(error) = write::in_time(api.delete(&id.name, &DeleteParams::default())).await {
        tracing::debug!(%id, error = &error as &dyn std::error::Error, "what is not wanted could not be deleted");
    }
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

/// Everything that is known of the cluster now.
pub(crate) async fn gather(leading: &Leading) -> Facts {
    let world = &leading.world;
    let installation = &leading.settings.installation;
    let has = |name: &str| world.definitions.named(name).is_some();
    let platform = if has("infrastructures.config.openshift.io") { Platform::OpenShift } else { Platform::Plain };
    let config = |plural: &'static str, kind: &'static str| async move {
        match platform {
            Platform::Plain => None,
            Platform::OpenShift => openshift(leading, plural, kind).await,
        }
    };
    let infrastructure = config("infrastructures", "Infrastructure").await;
    let text = |path: &str| infrastructure.as_ref().and_then(|one| Some(one.pointer(path)?.as_str()?.to_owned()));
    let found = match (&installation.api_url, text("/status/apiServerInternalURI")) {
        (Some(given), _) => Some(given.clone()),
        (None, Some(internal)) => Some(internal),
        (None, None) => api_url(leading).await,
    };
    let [kubernetes, dns] = &world.services;
    let addresses = |service: &k8s_openapi::api::core::v1::Service| {
        let spec = service.spec.clone().unwrap_or_default();
        spec.cluster_ips.filter(|all| !all.is_empty()).or(spec.cluster_ip.map(|one| vec![one])).unwrap_or_default()
    };
    let mut pools: Vec<String> = world.pools.all().iter().map(|pool| pool.name_any()).collect();
    pools.sort();
    Facts {
        platform,
        nodes: world.nodes.all().iter().map(|node| (**node).clone()).collect(),
        pools,
        service_addresses: kubernetes.all().first().map(|service| addresses(service)).unwrap_or_default(),
        dns_address: dns.all().first().and_then(|service| addresses(service).first().cloned()),
        api_ca: map(&world.config_maps, leading.namespace(), "kube-root-ca.crt", "ca.crt")
            .or_else(|| leading.settings.api_ca.clone()),
        api_url: found,
        server_ca: crate::credentials::bundle(leading),
        sources: sources(leading),
        topology: text("/status/controlPlaneTopology"),
        dns: config("dnses", "DNS").await,
        proxy: config("proxies", "Proxy").await.and_then(|proxy| proxy.get("status").cloned()),
        infrastructure,
        has_prometheus_rules: has("prometheusrules.monitoring.coreos.com"),
        now: Some(leading.now()),
    }
}

fn map(store: &cluster::Store<ConfigMap>, namespace: &str, name: &str, key: &str) -> Option<String> {
    let map = store.get(&Key { namespace: namespace.to_owned(), name: name.to_owned() })?;
    map.data.as_ref()?.get(key).cloned()
}

fn sources(leading: &Leading) -> Sources {
    let installation = &leading.settings.installation;
    let namespace = &installation.source_namespace;
    let text = |name: &str, key: &str| map(&leading.world.source_maps, namespace, name, key);
    let key = Key { namespace: namespace.clone(), name: "pull-secret".to_owned() };
    let pull_secret = leading.world.source_secrets.get(&key).and_then(|secret| docker_config(&secret));
    let registries = leading
        .world
        .source_maps
        .get(&Key { namespace: namespace.clone(), name: "image-registry-ca".to_owned() })
        .and_then(|map| map.data.clone())
        .unwrap_or_default();
    Sources {
        pull_secret,
        trust_bundle: text("user-ca-bundle", "ca-bundle.crt"),
        registries,
        cloud_config: text("kube-cloud-config", "cloud.conf"),
        cloud_ca: text("kube-cloud-config", "ca-bundle.pem"),
    }
}

/// A docker config that can be read as one; anything else would break pulls on every node.
fn docker_config(secret: &Secret) -> Option<Vec<u8>> {
    let bytes = &secret.data.as_ref()?.get(".dockerconfigjson")?.0;
    let read: Value = serde_json::from_slice(bytes).ok()?;
    read.get("auths").is_some().then(|| bytes.clone())
}

/// One object of OpenShift's configuration.
async fn openshift(leading: &Leading, plural: &str, kind: &str) -> Option<Value> {
    let gvk = kube::core::GroupVersionKind::gvk("config.openshift.io", "v1", kind);
    let resource = kube::api::ApiResource::from_gvk_with_plural(&gvk, plural);
    let api: Api<kube::api::DynamicObject> = Api::all_with(leading.client.clone(), &resource);
    let object = write::in_time(api.get_opt(api::names::CLUSTER)).await.ok()??;
    let mut value = crate::world::value(object);
    // What changes with every write would change every node's ControllerConfig.
    value["metadata"] = json!({"name": api::names::CLUSTER});
    Some(value)
}

/// Where kubeadm and its kin publish the API's address, or where the API itself says it is.
async fn api_url(leading: &Leading) -> Option<String> {
    let maps: Api<ConfigMap> = Api::namespaced(leading.client.clone(), "kube-public");
    if let Ok(Some(map)) = write::in_time(maps.get_opt("cluster-info")).await
        && let Some(text) = map.data.as_ref().and_then(|data| data.get("kubeconfig"))
        && let Some(server) = text.lines().find_map(|line| line.trim().strip_prefix("server:"))
    {
        return Some(server.trim().trim_matches('"').to_owned());
    }
    let slices: Api<EndpointSlice> = Api::namespaced(leading.client.clone(), "default");
    let list = ListParams::default().labels("kubernetes.io/service-name=kubernetes");
    let slice = write::in_time(slices.list(&list)).await.ok()?.items.into_iter().next()?;
    let address = slice.endpoints.first()?.addresses.first()?.clone();
    let port = slice.ports?.first()?.port?;
    let host = if address.contains(':') { format!("[{address}]") } else { address };
    Some(format!("https://{host}:{port}"))
}

/// How far the API server's clock is ahead of ours.
pub(crate) async fn skew(leading: &Leading) -> Option<SignedDuration> {
    let request = http::Request::get("/version").body(kube::client::Body::empty()).ok()?;
    let response = write::in_time(leading.client.send(request)).await.ok()?;
    let date = response.headers().get(http::header::DATE)?.to_str().ok()?;
    let date = jiff::fmt::rfc2822::parse(date).ok()?.timestamp();
    Some(date.duration_since(leading.now()))
}
