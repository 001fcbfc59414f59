//! Reads from a cluster what the verbs explain, with only the rights that are there.
//!
//! What a verb cannot do without is an error that names the missing right and the command that grants it; what only adds
//! something is left out, with a note. What could not be read is never shown as if there were none of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::PathBuf;

use anyhow::bail;
use api::known::Reading;
use api::machineconfiguration::{
    ContainerRuntimeConfig, ControllerConfig, KubeletConfig, MachineConfig, MachineConfigPool,
    MachineConfigPoolConfiguration,
};
use api::names::{LEASE_CONTROLLER, MACHINE_API_NAMESPACE, NAMESPACE};
use clap::Args;
use explain::{Certificate, Drains, Objects, Snapshot};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use rollout::NodeFacts;
use rollout::pool_nodes::Refusals;
use serde::de::DeserializeOwned;

/// Objects of one list request. Rendered configs are large, so pages are small.
const PAGE: u32 = 500;

/// The Deployment of the machine controllers.
const MACHINE_CONTROLLERS: &str = "machine-api-controllers";

/// The cluster to talk to.
#[derive(Args, Clone, Debug)]
pub(crate) struct Cluster {
    /// Kubeconfig of the cluster; absent, as kubectl would find it
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

impl Cluster {
    /// Connects, and says in one sentence what is wrong when nobody answers.
    pub(crate) async fn connect(&self) -> anyhow::Result<Client> {
        let client = cluster::connect(self.kubeconfig.as_deref()).await?;
        match cluster::write::in_time(client.apiserver_version()).await {
            // Whoever may not read the version may still read the rest.
            Ok(_) | Err(kube::Error::Api(_)) => Ok(client),
            Err(error) => {
                let file = self.kubeconfig.as_ref().map(|path| format!(" of {}", path.display())).unwrap_or_default();
                Err(anyhow::Error::from(error).context(format!(
                    "the cluster{file} does not answer; is it running, and is the kubeconfig the right one?"
                )))
            }
        }
    }
}

/// Runs a verb that talks to a cluster.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer = runtime.block_on(work);
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    answer
}

/// What was read, and what could not be.
pub(crate) struct World {
    pub(crate) objects: Objects,
    pub(crate) notes: Vec<String>,
    pub(crate) now: Timestamp,
}

/// How much to read: a table needs less than a diagnosis.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Pools, nodes and what they wait for.
    Fleet,
    /// Also Machines and MachineSets.
    Machines,
    /// Also whatever may have failed around them.
    Everything,
}

/// Reads the cluster.
pub(crate) async fn world(client: &Client, depth: Depth) -> anyhow::Result<World> {
    let mut notes = Vec::new();
    let mut objects = Objects {
        pools: list(client).await?,
        nodes: list(client).await?,
        machine_config_nodes: optional(client, &mut notes, "steps of nodes").await,
        ledgers: optional(client, &mut notes, "budgets of pools").await,
        pool_policies: optional(client, &mut notes, "policies of pools").await,
        leader_node: leader_node(client, &mut notes).await,
        ..Objects::default()
    };
    objects.configs = names_of_configs(client, &mut notes).await;
    if depth == Depth::Everything || is_any_config_lost(&objects) {
        objects.provenances = optional(client, &mut notes, "archives of rendered configs").await;
    }
    if objects.pools.iter().any(|pool| rollout::control_plane::is_control_plane(&pool.name_any())) {
        objects.etcd = etcd(client, &mut notes).await;
    }
    let is_drained = objects.nodes.iter().any(|node| NodeFacts::from_object(node).is_draining());
    let mut drains = Drains::default();
    if is_drained {
        drains.pods = optional(client, &mut notes, "pods in the way of drains").await;
        drains.budgets = optional(client, &mut notes, "disruption budgets").await;
        drains.daemon_sets = daemon_sets(client, &mut notes).await;
    }
    // Whoever is on the way waits for the controller, so that is worth a look.
    let is_moving = objects.nodes.iter().any(|node| NodeFacts::from_object(node).is_in_motion());
    if depth == Depth::Everything || is_moving || objects.pools.iter().any(is_unfinished) {
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
        objects.deployments =
            noted(all(deployments, "deployments").await, &mut notes, "our own workloads").unwrap_or_default();
        let ours: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
        objects.pods = noted(all(ours, "pods").await, &mut notes, "our own pods").unwrap_or_default();
    }
    if depth != Depth::Fleet {
        machines(client, &mut objects, &mut notes).await;
    }
    if depth == Depth::Everything {
        objects.health_checks = optional(client, &mut notes, "MachineHealthChecks").await;
        objects.kubelet_configs = optional::<KubeletConfig>(client, &mut notes, "KubeletConfigs").await;
        objects.container_runtime_configs =
            optional::<ContainerRuntimeConfig>(client, &mut notes, "ContainerRuntimeConfigs").await;
        objects.controller_configs = optional::<ControllerConfig>(client, &mut notes, "certificates").await;
        objects.certificates = certificates(client, &objects.controller_configs, &mut notes).await;
        installation(client, &mut objects, &mut notes).await;
    }
    objects.refusals = refusals(client, &objects, &mut notes).await;
    let now = Timestamp::now();
    explain::decided::decide(&mut objects, &drains, now);
    Ok(World { objects, notes, now })
}

/// Whether a pool or node refers to a config that does not exist: whether it can be made again tells its archive.
fn is_any_config_lost(objects: &Objects) -> bool {
    let Reading::Known { value: configs, .. } = &objects.configs else { return false };
    let names: BTreeSet<String> = configs.iter().map(ResourceExt::name_any).collect();
    let wanted = objects.pools.iter().filter_map(|pool| pool.spec.configuration.as_ref()?.name.clone());
    let nodes = objects.nodes.iter().map(NodeFacts::from_object);
    let run = nodes.flat_map(|node| [node.current, node.desired]).flatten();
    wanted.chain(run).any(|config| !config.is_empty() && !names.contains(&config))
}

/// The node that runs the leader of the controllers; nothing where none leads, as on a laptop.
async fn leader_node(client: &Client, notes: &mut Vec<String>) -> Option<String> {
    const WHAT: &str = "which node runs the controller";
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let mut refused = |error: kube::Error, resource: &str| notes.push(explain_refusal(&error, "get", resource, WHAT));
    let lease = cluster::write::in_time(leases.get_opt(LEASE_CONTROLLER)).await;
    let lease = lease.map_err(|error| refused(error, "leases")).ok()??;
    let holder = lease.spec.as_ref()?.holder_identity.clone().filter(|holder| !holder.is_empty())?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    // A holder that is no pod runs outside of the cluster.
    let pod = cluster::write::in_time(pods.get_opt(&holder)).await.map_err(|error| refused(error, "pods")).ok()??;
    rollout::snapshot::leader_node(&lease, &[pod])
}

/// Reads what the installation says of itself.
async fn installation(client: &Client, objects: &mut Objects, notes: &mut Vec<String>) {
    objects.cluster_operators = optional(client, notes, "ClusterOperators").await;
    let sets: Api<DaemonSet> = Api::namespaced(client.clone(), NAMESPACE);
    let sets = noted(all(sets, "daemonsets").await, notes, "the daemon's DaemonSet");
    objects.daemon_sets = sets.unwrap_or_default();
    objects.requests = optional(client, notes, "requests for certificates").await;
    objects.cluster_image_policies = optional(client, notes, "ClusterImagePolicies").await;
    objects.image_policies = optional(client, notes, "ImagePolicies").await;
}

/// Reads Machines, their sets, and the Deployment that looks after them where there are any.
async fn machines(client: &Client, objects: &mut Objects, notes: &mut Vec<String>) {
    objects.machines = optional(client, notes, "Machines").await;
    objects.machine_sets = optional(client, notes, "MachineSets").await;
    if objects.machines.is_empty() && objects.machine_sets.is_empty() {
        return;
    }
    // Others run workloads of their own in this namespace, so only this one is asked for.
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), MACHINE_API_NAMESPACE);
    match cluster::write::in_time(deployments.get_opt(MACHINE_CONTROLLERS)).await {
        Ok(deployment) => objects.deployments.extend(deployment),
        Err(error) => notes.push(explain_refusal(&error, "get", "deployments", "the machine controllers")),
    }
}

/// By pool, why hosts cannot take what it wants. Whole configs are read only where a daemon says that its host cannot do
/// everything, which is those that its nodes run and the one that they shall get.
async fn refusals(client: &Client, objects: &Objects, notes: &mut Vec<String>) -> BTreeMap<String, Refusals> {
    let nodes: Vec<_> = objects.nodes.iter().map(NodeFacts::from_object).collect();
    let mut all = BTreeMap::new();
    for pool in objects.pools.iter().filter(|pool| is_unfinished(pool)) {
        let target = pool.spec.configuration.as_ref().and_then(|it| it.name.clone()).unwrap_or_default();
        let limited = nodes.iter().filter(|node| node.os_updates.as_deref().is_some_and(change::backend::is_limited));
        let told = limited.filter_map(|node| Some((node.current.clone()?, node.os_updates.clone()?)));
        let hosts: BTreeSet<_> = told.filter(|(current, _)| *current != target).collect();
        if hosts.is_empty() {
            continue;
        }
        let Some(new) = config(client, &target, notes).await.filter(|new| change::backend::asks(&new.spec)) else {
            continue;
        };
        let mut refusals = Refusals::new();
        for (current, word) in hosts {
            let old = config(client, &current, notes).await;
            let why = old.and_then(|old| change::backend::refusal(&word, &old.spec, &new.spec));
            refusals.extend(why.map(|why| ((current, word), why)));
        }
        all.insert(pool.name_any(), refusals);
    }
    all
}

/// A whole MachineConfig, if it is there.
async fn config(client: &Client, name: &str, notes: &mut Vec<String>) -> Option<MachineConfig> {
    let api: Api<MachineConfig> = Api::all(client.clone());
    match cluster::write::in_time(api.get_opt(name)).await {
        Ok(config) => config,
        Err(error) => {
            notes.push(explain_refusal(&error, "get", "machineconfigs", "what hosts can take"));
            None
        }
    }
}

/// Whether a pool wants another config than the last one that all its nodes had.
fn is_unfinished(pool: &MachineConfigPool) -> bool {
    let reached = pool.status.as_ref().and_then(|status| status.configuration.as_ref());
    let name = |it: Option<&MachineConfigPoolConfiguration>| it.and_then(|it| it.name.clone()).unwrap_or_default();
    name(pool.spec.configuration.as_ref()) != name(reached)
}

impl World {
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot::from_objects(&self.objects, self.now)
    }
}

/// Certificates that nodes and new machines depend on. Where the ControllerConfig's status tells of them, it is believed.
async fn certificates(client: &Client, configs: &[ControllerConfig], notes: &mut Vec<String>) -> Vec<Certificate> {
    let untold = |config: &&ControllerConfig| {
        config.status.as_ref().is_none_or(|status| status.controller_certificates.is_empty())
    };
    let mut bundles: Vec<(String, Vec<u8>)> = Vec::new();
    for spec in configs.iter().filter(untold).map(|config| &config.spec) {
        bundles.push(("KubeAPIServerServingCAData".to_owned(), spec.kube_api_server_serving_ca_data.0.clone()));
        bundles.push(("RootCAData".to_owned(), spec.root_ca_data.0.clone()));
    }
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    match cluster::write::in_time(secrets.get_opt(operate::certificates::TLS)).await {
        Ok(secret) => {
            let data = secret.and_then(|secret| secret.data).and_then(|mut data| data.remove("tls.crt"));
            bundles.extend(data.map(|data| (operate::certificates::TLS.to_owned(), data.0)));
        }
        Err(error) => notes.push(explain_refusal(&error, "get", "secrets", "the config server's certificate")),
    }
    let read = bundles.into_iter().flat_map(|(bundle, pem)| {
        let all = operate::certificates::read(&pem).unwrap_or_default();
        all.into_iter().map(move |it| Certificate {
            bundle: bundle.clone(),
            subject: it.subject,
            not_after: it.not_after,
        })
    });
    read.collect()
}

/// The DaemonSets that exist, as `namespace/name`.
pub(crate) async fn daemon_sets(client: &Client, notes: &mut Vec<String>) -> Reading<BTreeSet<String>> {
    let as_of = Timestamp::now();
    let sets: Option<Vec<DaemonSet>> = noted_list(client, notes, "pods that DaemonSets have left behind").await;
    let name = |set: &DaemonSet| format!("{}/{}", set.namespace().unwrap_or_default(), set.name_any());
    match sets {
        Some(sets) => Reading::known(sets.iter().map(name).collect(), as_of),
        None => Reading::Unknown("they cannot be listed".to_owned()),
    }
}

/// Only the names of MachineConfigs: their contents would be megabytes.
async fn names_of_configs(client: &Client, notes: &mut Vec<String>) -> Reading<Vec<MachineConfig>> {
    let as_of = Timestamp::now();
    let api: Api<kube::core::PartialObjectMeta<MachineConfig>> = Api::all(client.clone());
    let mut parameters = ListParams::default().limit(PAGE);
    let mut configs = Vec::new();
    loop {
        match cluster::write::in_time(api.list_metadata(&parameters)).await {
            Ok(page) => {
                configs.extend(
                    page.items
                        .into_iter()
                        .map(|it| MachineConfig { metadata: it.metadata, ..MachineConfig::default() }),
                );
                match page.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => parameters = parameters.continue_token(&token),
                    None => return Reading::known(configs, as_of),
                }
            }
            Err(error) => {
                notes.push(explain_refusal(&error, "list", "machineconfigs", "which configs exist"));
                return Reading::Unknown(cluster::error::chain(&error));
            }
        }
    }
}

/// Pods of etcd, from the namespaces where it runs as static pods.
async fn etcd(client: &Client, notes: &mut Vec<String>) -> Reading<Vec<Pod>> {
    let as_of = Timestamp::now();
    let mut pods = Vec::new();
    for (namespace, selector) in rollout::control_plane::ETCD {
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        match all_matching(api, ListParams::default().labels(selector), "pods").await {
            Ok(some) => pods.extend(some),
            Err((error, resource)) => {
                notes.push(explain_refusal(&error, "list", &resource, "members of etcd"));
                return Reading::Unknown(cluster::error::chain(&error));
            }
        }
    }
    Reading::known(pods, as_of)
}

/// Everything of a cluster-wide kind; nothing where the API does not have it.
///
/// # Errors
/// A sentence that names the right that is missing, or what else is wrong.
pub(crate) async fn list_if_installed<K>(client: &Client) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let plural = K::plural(&()).into_owned();
    match all(Api::<K>::all(client.clone()), &plural).await {
        Ok(objects) => Ok(objects),
        Err((error, _)) if cluster::problem(&error) == cluster::Problem::NotFound => Ok(Vec::new()),
        Err((error, resource)) => Err(refusal(error, "list", &resource)),
    }
}

/// Everything of a cluster-wide kind.
///
/// # Errors
/// A sentence that names the right that is missing, or what else is wrong.
pub(crate) async fn list<K>(client: &Client) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let plural = K::plural(&()).into_owned();
    match all(Api::<K>::all(client.clone()), &plural).await {
        Ok(objects) => Ok(objects),
        Err((error, resource)) => Err(refusal(error, "list", &resource)),
    }
}

/// Like [`list_if_installed`], but what cannot be read is noted and absent.
pub(crate) async fn noted_list<K>(client: &Client, notes: &mut Vec<String>, what: &str) -> Option<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let plural = K::plural(&()).into_owned();
    noted(all(Api::<K>::all(client.clone()), &plural).await, notes, what)
}

/// Like [`noted_list`], for what only adds something: the note is all that tells an empty list from an unread one.
pub(crate) async fn optional<K>(client: &Client, notes: &mut Vec<String>, what: &str) -> Vec<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let plural = K::plural(&()).into_owned();
    noted(all(Api::<K>::all(client.clone()), &plural).await, notes, what).unwrap_or_default()
}

fn noted<K>(answer: Result<Vec<K>, (kube::Error, String)>, notes: &mut Vec<String>, what: &str) -> Option<Vec<K>> {
    match answer {
        Ok(objects) => Some(objects),
        // A kind that is not installed has no objects.
        Err((error, _)) if cluster::problem(&error) == cluster::Problem::NotFound => Some(Vec::new()),
        Err((error, resource)) => {
            notes.push(explain_refusal(&error, "list", &resource, what));
            None
        }
    }
}

async fn all<K>(api: Api<K>, resource: &str) -> Result<Vec<K>, (kube::Error, String)>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    all_matching(api, ListParams::default(), resource).await
}

async fn all_matching<K>(api: Api<K>, parameters: ListParams, resource: &str) -> Result<Vec<K>, (kube::Error, String)>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let mut parameters = parameters.limit(PAGE);
    let mut objects = Vec::new();
    loop {
        let page = cluster::write::in_time(api.list(&parameters)).await;
        let page = page.map_err(|error| (error, resource.to_owned()))?;
        objects.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(objects),
        }
    }
}

/// An error of the API as a sentence with a remedy.
pub(crate) fn refusal(error: kube::Error, verb: &str, resource: &str) -> anyhow::Error {
    let sentence = match cluster::problem(&error) {
        cluster::Problem::Forbidden => right(verb, resource),
        cluster::Problem::NotFound if verb == "list" => format!(
            "the cluster has no {resource}; install our kinds with `machinist crds | kubectl apply --server-side -f -`"
        ),
        _ => return anyhow::Error::from(error).context(format!("cannot {verb} {resource}")),
    };
    anyhow::anyhow!(sentence)
}

/// Says which right is missing, and the command with which an administrator grants it.
pub(crate) fn right(verb: &str, resource: &str) -> String {
    let name = format!("machinist-{verb}-{}", resource.replace(['/', '.'], "-"));
    format!(
        "you may not {verb} {resource}; an administrator grants it with `kubectl create clusterrole {name} --verb={verb} \
         --resource={resource}` and `kubectl create clusterrolebinding {name} --clusterrole={name} --user=YOU`"
    )
}

fn explain_refusal(error: &kube::Error, verb: &str, resource: &str, what: &str) -> String {
    match cluster::problem(error) {
        cluster::Problem::Forbidden => format!("{what} not looked at: {}", right(verb, resource)),
        _ => format!("{what} not looked at: cannot {verb} {resource}: {error}"),
    }
}

/// One object by name, or a sentence.
pub(crate) async fn get<K>(client: &Client, name: &str) -> anyhow::Result<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    match cluster::write::in_time(api.get(name)).await {
        Ok(object) => Ok(object),
        Err(error) if cluster::problem(&error) == cluster::Problem::NotFound => {
            bail!("there is no {} {name}", K::kind(&()))
        }
        Err(error) => Err(refusal(error, "get", &K::plural(&()))),
    }
}
