//! What the operator sees: one watch per kind, and which work each change asks for.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, LazyLock};

use api::config::ClusterOperator;
use api::known::Unread;
use api::labels;
use api::machine::Machine;
use api::machineconfiguration::MachineConfigPool;
use api::machinist::{BootstrapToken, ClusterSettings, PoolPolicy};
use api::operator::MachineConfiguration;
use cluster::watch::Key;
use cluster::{Change, Store, Watch};
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Secret, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, PartialObjectMeta};
use kube::core::GroupVersionKind;
use kube::runtime::watcher;
use kube::{Client, Resource, ResourceExt};
use operate::{Id, NodeFacts};
use serde_json::{Map, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use crate::context::{Context, Work};
use crate::gather;

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) nodes: Store<NodeFacts>,
    pub(crate) pools: Store<MachineConfigPool>,
    pub(crate) policies: Store<PoolPolicy>,
    /// Of the installation's namespace.
    pub(crate) config_maps: Store<ConfigMap>,
    pub(crate) secrets: Store<Secret>,
    /// Of the namespace where the user's bundles and pull secret are; the same stores where that is the installation's.
    pub(crate) source_maps: Store<ConfigMap>,
    pub(crate) source_secrets: Store<Secret>,
    /// Of the machines' namespace, only what we made there.
    pub(crate) user_data: Store<Secret>,
    pub(crate) deployments: Store<Value>,
    pub(crate) daemon_sets: Store<Value>,
    /// Pods of the installation that do not start, with the reason.
    pub(crate) pods: Store<Option<(String, String)>>,
    pub(crate) namespaces: Store<Value>,
    pub(crate) services: [Store<Service>; 2],
    pub(crate) definitions: Store<()>,
    pub(crate) requests: Store<CertificateSigningRequest>,
    pub(crate) machines: Store<Machine>,
    pub(crate) tokens: Store<BootstrapToken>,
    pub(crate) configurations: Store<MachineConfiguration>,
    pub(crate) cluster_settings: Store<ClusterSettings>,
}

/// What happened, as work.
pub(crate) struct Changes {
    work: UnboundedReceiver<Hint>,
}

/// What a change may ask for.
enum Hint {
    Do(Work),
    /// An object of the installation looks like this now; `None`, it is gone.
    Looks(Id, Option<u64>),
    /// The operator's own Deployment was scaled up again.
    SwitchedOn,
}

impl World {
    pub(crate) fn start(context: &Context, tasks: &mut JoinSet<()>) -> (Self, Changes) {
        let client = &context.client;
        let installation = &context.settings.installation;
        let (home, sources) = (installation.namespace.as_str(), installation.source_namespace.as_str());
        let (line, work) = unbounded_channel();
        let mut start = Start { line: &line, tasks };
        let all = || watcher::Config::default().any_semantic().page_size(500);
        let config_maps =
            start.watch(Api::namespaced(client.clone(), home), all(), slim::<ConfigMap>, |_| [Work::Facts]);
        let secrets = start
            .watch(Api::namespaced(client.clone(), home), all(), slim::<Secret>, |_| [Work::Credentials, Work::Facts]);
        let (source_maps, source_secrets) = if sources == home {
            (config_maps.clone(), secrets.clone())
        } else {
            let maps =
                start.watch(Api::namespaced(client.clone(), sources), all(), slim::<ConfigMap>, |_| [Work::Facts]);
            let secrets =
                start.watch(Api::namespaced(client.clone(), sources), all(), slim::<Secret>, |_| [Work::Facts]);
            (maps, secrets)
        };
        let own = operate::workloads::OPERATOR;
        let dynamic = |kind: &str| -> Api<DynamicObject> {
            let gvk = GroupVersionKind::gvk("apps", "v1", kind);
            Api::namespaced_with(client.clone(), home, &ApiResource::from_gvk(&gvk))
        };
        let deployments = start.watch_hints(dynamic("Deployment"), all(), value, move |change: &Change<Value>| {
            let was_off = change.old.as_deref().is_some_and(is_off);
            let is_own = change.key.name == own;
            let is_on = is_own && was_off && change.new.as_deref().is_none_or(|new| !is_off(new));
            let mut hints = vec![Hint::Do(Work::Report)];
            hints.extend(is_on.then_some(Hint::SwitchedOn));
            hints
        });
        let world = Self {
            nodes: start.watch(Api::all(client.clone()), all(), node, |_| [Work::Facts]),
            pools: start.watch(Api::all(client.clone()), all(), slim::<MachineConfigPool>, |change| {
                let is_new = change.old.is_none() || change.new.is_none();
                let selects = |pool: &Option<Arc<MachineConfigPool>>| pool.as_deref().map(gather::selected_by);
                let user_data = Work::UserData(change.key.name.clone());
                match (is_new, selects(&change.old) == selects(&change.new)) {
                    (true, _) => vec![Work::Facts, user_data, Work::Report],
                    (false, false) => vec![Work::Facts, Work::Report],
                    (false, true) => vec![Work::Report],
                }
            }),
            policies: start.watch(Api::all(client.clone()), all(), slim::<PoolPolicy>, |change| {
                [Work::UserData(change.key.name.clone())]
            }),
            user_data: start.watch(
                Api::namespaced(client.clone(), &installation.machine_namespace),
                all().labels(operate::user_data::POOL_LABEL),
                slim::<Secret>,
                |change| {
                    let secret = change.new.as_ref().or(change.old.as_ref());
                    let pool = secret.and_then(|secret| secret.labels().get(operate::user_data::POOL_LABEL).cloned());
                    pool.map(Work::UserData)
                },
            ),
            daemon_sets: start.watch(dynamic("DaemonSet"), all(), value, |change| {
                let uses = |set: &Option<Arc<Value>>| set.as_deref().map(operate::workloads::uses_account);
                let is_other = uses(&change.old) != uses(&change.new);
                std::iter::once(Work::Report).chain(is_other.then_some(Work::Facts))
            }),
            pods: start.watch(Api::namespaced(client.clone(), home), all(), pod, |_| [Work::Facts]),
            namespaces: start.watch(
                Api::all(client.clone()),
                all().fields(&format!("metadata.name={home}")),
                |namespace: Namespace| serde_json::to_value(slim(namespace)).unwrap_or_default(),
                |_| [Work::Facts],
            ),
            services: [
                start.watch(
                    Api::namespaced(client.clone(), "default"),
                    all().fields("metadata.name=kubernetes"),
                    slim::<Service>,
                    |_| [Work::Facts],
                ),
                start.watch(
                    Api::namespaced(client.clone(), "kube-system"),
                    all().labels("k8s-app=kube-dns"),
                    slim::<Service>,
                    |_| [Work::Facts],
                ),
            ],
            definitions: start.watch(
                Api::all(client.clone()),
                all(),
                |_: PartialObjectMeta<CustomResourceDefinition>| (),
                |_| [Work::Facts],
            ),
            requests: start.watch(Api::all(client.clone()), all(), slim::<CertificateSigningRequest>, |change| {
                change.new.is_some().then(|| Work::Approve(change.key.name.clone()))
            }),
            machines: start.watch(Api::all(client.clone()), all(), slim::<Machine>, |_| [Work::Approve(String::new())]),
            tokens: start.watch(Api::all(client.clone()), all(), slim::<BootstrapToken>, |change| {
                let token = change.new.as_ref().or(change.old.as_ref());
                let pool = token.map(|token| Work::UserData(token.spec.pool.clone()));
                pool.into_iter().chain([Work::Approve(String::new()), Work::Tokens])
            }),
            configurations: start
                .watch(Api::all(client.clone()), all(), slim::<MachineConfiguration>, |_| [Work::Policies]),
            cluster_settings: start
                .watch(Api::all(client.clone()), all(), slim::<ClusterSettings>, |_| [Work::Policies]),
            config_maps,
            secrets,
            source_maps,
            source_secrets,
            deployments,
        };
        start.watch(
            Api::all(client.clone()),
            all().fields(&format!("metadata.name={}", api::names::CLUSTER_OPERATOR)),
            slim::<ClusterOperator>,
            |_| [Work::Report],
        );
        for (gvk, namespace) in kinds(context) {
            let config = all().labels(&format!("{}={}", labels::PART_OF, labels::PART_OF_MACHINIST));
            let kind = (gvk.api_version(), gvk.kind.clone());
            let api: Api<DynamicObject> = match namespace.as_str() {
                "" => Api::all_with(client.clone(), &resource(&gvk)),
                namespace => Api::namespaced_with(client.clone(), namespace, &resource(&gvk)),
            };
            start.watch_hints(
                api,
                config,
                |object| looks(&value(object)),
                move |change| vec![Hint::Looks(id(&kind, &change.key), change.new.as_deref().copied())],
            );
        }
        (world, Changes { work })
    }

    /// Returns once every kind is listed, or refused: what is refused is told, and nothing is decided on it.
    pub(crate) async fn settled(&self) {
        self.nodes.settled().await;
        self.pools.settled().await;
        self.policies.settled().await;
        self.config_maps.settled().await;
        self.secrets.settled().await;
        self.source_maps.settled().await;
        self.source_secrets.settled().await;
        self.user_data.settled().await;
        self.deployments.settled().await;
        self.daemon_sets.settled().await;
        self.pods.settled().await;
        self.namespaces.settled().await;
        for services in &self.services {
            services.settled().await;
        }
        self.definitions.settled().await;
        self.requests.settled().await;
        self.machines.settled().await;
        self.tokens.settled().await;
        self.configurations.settled().await;
        self.cluster_settings.settled().await;
    }

    /// The operator's own Deployment is scaled to 0: a person wants hand edits to stand.
    pub(crate) fn is_switched_off(&self, namespace: &str) -> Result<bool, Unread> {
        let key = Key::in_namespace(namespace, operate::workloads::OPERATOR);
        let deployment = self.deployments.fresh_one("deployments", &key)?;
        Ok(deployment.is_some_and(|deployment| is_off(&deployment)))
    }

    /// Each kind that is watched, and why it cannot be read now if it cannot.
    pub(crate) fn contacts(&self) -> Vec<(&'static str, Option<Unread>)> {
        let [kubernetes, dns] = &self.services;
        let contacts = [
            ("nodes", self.nodes.contact()),
            ("machineconfigpools", self.pools.contact()),
            ("poolpolicies", self.policies.contact()),
            ("configmaps", self.config_maps.contact().and(self.source_maps.contact()).map(drop)),
            ("secrets", self.secrets.contact().and(self.source_secrets.contact()).map(drop)),
            ("secrets of new machines", self.user_data.contact()),
            ("deployments", self.deployments.contact()),
            ("daemonsets", self.daemon_sets.contact()),
            ("pods", self.pods.contact()),
            ("namespaces", self.namespaces.contact()),
            ("services", kubernetes.contact().and(dns.contact()).map(drop)),
            ("customresourcedefinitions", self.definitions.contact()),
            ("certificatesigningrequests", self.requests.contact()),
            ("machines", self.machines.contact()),
            ("bootstraptokens", self.tokens.contact()),
            ("machineconfigurations", self.configurations.contact()),
            ("clustersettings", self.cluster_settings.contact()),
        ];
        let now = Timestamp::now();
        contacts.into_iter().map(|(kind, contact)| (kind, contact.fresh_or_none(kind, now).err())).collect()
    }
}

pub(crate) fn is_off(deployment: &Value) -> bool {
    deployment.pointer("/spec/replicas").and_then(Value::as_i64) == Some(0)
}

impl Changes {
    /// Turns what happens into work until the process ends.
    pub(crate) async fn follow(mut self, context: Arc<Context>) {
        while let Some(hint) = self.work.recv().await {
            match hint {
                Hint::Do(work) => context.soon(work),
                Hint::SwitchedOn => {
                    tracing::info!("the operator is scaled up again");
                    context.written.lock().clear();
                    let ids: Vec<Id> = context.desired.lock().keys().cloned().collect();
                    ids.into_iter().for_each(|id| context.queue.add(Work::Keep(id)));
                    context.soon(Work::Facts);
                    context.soon(Work::Credentials);
                    context.soon(Work::Policies);
                    context.soon(Work::Tokens);
                    context.soon(Work::Report);
                }
                Hint::Looks(id, looks) => {
                    let is_ours = context.desired.lock().contains_key(&id);
                    if is_ours && (looks.is_none() || context.written.lock().get(&id).copied() != looks) {
                        context.queue.add(Work::Keep(id));
                    }
                }
            }
        }
    }
}

/// Starts watches that all feed one line.
struct Start<'a> {
    line: &'a UnboundedSender<Hint>,
    tasks: &'a mut JoinSet<()>,
}

impl Start<'_> {
    fn watch<K, T, W>(
        &mut self,
        api: Api<K>,
        config: watcher::Config,
        read: impl Fn(K) -> T + Send + Sync + 'static,
        work: impl Fn(&Change<T>) -> W + Send + 'static,
    ) -> Store<T>
    where
        K: Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
        T: PartialEq + Send + Sync + 'static,
        W: IntoIterator<Item = Work>,
    {
        self.watch_hints(api, config, read, move |change| work(change).into_iter().map(Hint::Do).collect())
    }

    fn watch_hints<K, T>(
        &mut self,
        api: Api<K>,
        config: watcher::Config,
        read: impl Fn(K) -> T + Send + Sync + 'static,
        hints: impl Fn(&Change<T>) -> Vec<Hint> + Send + 'static,
    ) -> Store<T>
    where
        K: Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
        T: PartialEq + Send + Sync + 'static,
    {
        let mut watch = Watch::default();
        let (store, mut changes, line) = (watch.store(), watch.subscribe(), self.line.clone());
        self.tasks.spawn(watch.run(api, config, read));
        self.tasks.spawn(async move {
            while let Some(change) = changes.recv().await {
                for hint in hints(&change) {
                    let _ = line.send(hint);
                }
            }
        });
        store
    }
}

/// The kinds of everything that may be kept, each with the namespace it is kept in: the operator has no rights elsewhere.
fn kinds(context: &Context) -> Vec<(GroupVersionKind, String)> {
    let installation = &context.settings.installation;
    let known = operate::Facts {
        api_ca: Some(String::new()),
        server_ca: Some(String::new()),
        api_url: Some(String::new()),
        ..operate::Facts::default()
    };
    let objects = operate::installed(installation).into_iter().chain(operate::found(installation, &known));
    let mut kinds: Vec<_> = objects.map(|one| (gvk(&one.id()), one.id().namespace)).collect();
    kinds.sort_by_key(|(gvk, namespace)| (gvk.group.clone(), gvk.kind.clone(), namespace.clone()));
    kinds.dedup();
    kinds
}

pub(crate) fn gvk(id: &Id) -> GroupVersionKind {
    let (group, version) = id.api_version.split_once('/').unwrap_or(("", &id.api_version));
    GroupVersionKind::gvk(group, version, &id.kind)
}

/// How a kind is spelled in addresses. Our own are in their definitions, and the rest follow the rule.
pub(crate) fn resource(gvk: &GroupVersionKind) -> ApiResource {
    /// Group, kind and plural. Definitions are generated anew on each call, so this is asked once.
    static OURS: LazyLock<Vec<[String; 3]>> = LazyLock::new(|| {
        let spelling = |one: CustomResourceDefinition| [one.spec.group, one.spec.names.kind, one.spec.names.plural];
        api::crds().into_iter().map(spelling).collect()
    });
    match OURS.iter().find(|[group, kind, _]| *group == gvk.group && *kind == gvk.kind) {
        Some([_, _, plural]) => ApiResource::from_gvk_with_plural(gvk, plural),
        None => ApiResource::from_gvk(gvk),
    }
}

pub(crate) fn api(client: &Client, id: &Id) -> Api<DynamicObject> {
    let resource = resource(&gvk(id));
    match id.namespace.as_str() {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    }
}

fn id((api_version, kind): &(String, String), key: &Key) -> Id {
    Id {
        api_version: api_version.clone(),
        kind: kind.clone(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    }
}

/// Annotations in which the cluster's own controllers count, after each write of somebody else.
const BOOKKEEPING: [&str; 2] = ["deployment.kubernetes.io/revision", "deprecated.daemonset.template.generation"];

/// A number that changes whenever somebody changes an object, and not when its status does.
pub(crate) fn looks(object: &Value) -> u64 {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata {
        let keep = |(key, value): (&str, &Value)| Some((key.to_owned(), value.clone()));
        let kept = ["labels", "annotations", "ownerReferences", "finalizers", "deletionTimestamp"];
        let mut kept: Map<String, Value> = kept.iter().filter_map(|key| keep((key, metadata.get(*key)?))).collect();
        if let Some(annotations) = kept.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.retain(|key, _| !BOOKKEEPING.contains(&key.as_str()));
        }
        if kept.get("annotations").is_some_and(|annotations| *annotations == Value::Object(Map::new())) {
            kept.remove("annotations");
        }
        *metadata = kept;
    }
    let mut hasher = DefaultHasher::new();
    object.to_string().hash(&mut hasher);
    hasher.finish()
}

pub(crate) fn value(object: DynamicObject) -> Value {
    serde_json::to_value(slim(object)).unwrap_or_default()
}

fn node(node: Node) -> NodeFacts {
    let status = node.status.clone().unwrap_or_default();
    NodeFacts {
        name: node.name_any(),
        labels: node.labels().keys().filter(|key| key.starts_with(labels::NODE_ROLE_PREFIX)).cloned().collect(),
        runtime: status.node_info.map(|info| info.container_runtime_version).unwrap_or_default(),
        addresses: status.addresses.unwrap_or_default().into_iter().map(|address| address.address).collect(),
    }
}

fn pod(pod: Pod) -> Option<(String, String)> {
    operate::trouble::pod(&serde_json::to_value(pod).ok()?)
}

/// Drops what would make equal objects look different.
fn slim<K: Resource>(mut object: K) -> K {
    object.meta_mut().managed_fields = None;
    object
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_looks_the_same_when_only_the_clusters_own_controllers_have_counted() {
        let written = json!({"metadata": {"name": "a", "labels": {"b": "c"}}, "spec": {"replicas": 1}});
        let mut counted = written.clone();
        counted["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": "3"});
        counted["status"] = json!({"readyReplicas": 1});
        assert_eq!(looks(&written), looks(&counted));
        counted["metadata"]["annotations"]["mine"] = json!("");
        assert_ne!(looks(&written), looks(&counted), "an annotation of somebody else is a change");
    }
}
