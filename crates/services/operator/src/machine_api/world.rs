//! What the Machine API's operator watches: its own namespace, and its report.

use std::time::Duration;

use api::config::ClusterOperator;
use api::known::Unread;
use api::names::MACHINE_API_CLUSTER_OPERATOR;
use cluster::watch::Key;
use cluster::{Queue, Store, Watch};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Resource;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::runtime::watcher;
use operate::Id;
use operate::machine_api::OPERATOR;
use serde_json::Value;
use tokio::task::JoinSet;

use super::Context;
use crate::world::{is_off, value};

/// Changes come in bursts; one look at the end of a burst is enough.
const QUIET: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(1);

pub(super) struct World {
    pub(super) deployments: Store<Value>,
    pub(super) services: Store<Value>,
    pub(super) policies: Store<Value>,
    pub(super) config_maps: Store<Option<String>>,
    /// Pods that do not start, with the reason.
    pub(super) pods: Store<Option<(String, String)>>,
    operators: Store<ClusterOperator>,
}

impl World {
    pub(super) fn start(context: &Context, tasks: &mut JoinSet<()>) -> Self {
        let (client, home) = (&context.client, context.settings.namespace.as_str());
        let all = || watcher::Config::default().any_semantic().page_size(500);
        let mut start = Start { queue: &context.queue, tasks };
        let dynamic = |group: &str, kind: &str| -> Api<DynamicObject> {
            let gvk = GroupVersionKind::gvk(group, "v1", kind);
            Api::namespaced_with(client.clone(), home, &ApiResource::from_gvk(&gvk))
        };
        let report = format!("metadata.name={MACHINE_API_CLUSTER_OPERATOR}");
        Self {
            deployments: start.watch(dynamic("apps", "Deployment"), all(), value),
            services: start.watch(dynamic("", "Service"), all(), value),
            policies: start.watch(dynamic("networking.k8s.io", "NetworkPolicy"), all(), value),
            config_maps: start.watch(Api::<ConfigMap>::namespaced(client.clone(), home), all(), images),
            pods: start.watch(Api::<Pod>::namespaced(client.clone(), home), all(), failing),
            operators: start.watch(Api::all(client.clone()), all().fields(&report), |mut object: ClusterOperator| {
                object.metadata.managed_fields = None;
                object
            }),
        }
    }

    /// Returns once every kind is listed, or refused: what is refused is told, and nothing is decided on it.
    pub(super) async fn settled(&self) {
        self.deployments.settled().await;
        self.services.settled().await;
        self.policies.settled().await;
        self.config_maps.settled().await;
        self.pods.settled().await;
        self.operators.settled().await;
    }

    /// The operator's own Deployment is scaled to 0: a person wants hand edits to stand.
    pub(super) fn is_switched_off(&self, namespace: &str) -> Result<bool, Unread> {
        let own = self.deployments.fresh_one("deployments", &Key::in_namespace(namespace, OPERATOR))?;
        Ok(own.is_some_and(|own| is_off(&own)))
    }

    /// An object that is kept, as it was last seen. Nothing of those that are not watched: these are written at each look,
    /// which makes no difference where there is none.
    pub(super) fn seen(&self, id: &Id) -> Option<std::sync::Arc<Value>> {
        let store = match id.kind.as_str() {
            "Deployment" => &self.deployments,
            "Service" => &self.services,
            "NetworkPolicy" => &self.policies,
            _ => return None,
        };
        store.get(&Key::in_namespace(&id.namespace, &id.name))
    }

    /// Whether objects of this kind are watched. Configurations of webhooks are not: a watch would need the right to read
    /// everybody's.
    pub(super) fn watches(id: &Id) -> bool {
        !id.namespace.is_empty()
    }

    /// What cannot be read now, and why.
    pub(super) fn unread(&self) -> Vec<Unread> {
        let contacts = [
            ("deployments", self.deployments.contact()),
            ("services", self.services.contact()),
            ("networkpolicies", self.policies.contact()),
            ("configmaps", self.config_maps.contact()),
            ("pods", self.pods.contact()),
            ("clusteroperators", self.operators.contact()),
        ];
        let now = Timestamp::now();
        contacts.into_iter().filter_map(|(kind, contact)| contact.fresh_or_none(kind, now).err()).collect()
    }
}

/// Starts watches that all ask for the same work.
struct Start<'a> {
    queue: &'a Queue<()>,
    tasks: &'a mut JoinSet<()>,
}

impl Start<'_> {
    fn watch<K, T>(
        &mut self,
        api: Api<K>,
        config: watcher::Config,
        read: impl Fn(K) -> T + Send + Sync + 'static,
    ) -> Store<T>
    where
        K: Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
        T: PartialEq + Send + Sync + 'static,
    {
        let mut watch = Watch::default();
        let (store, mut changes, queue) = (watch.store(), watch.subscribe(), self.queue.clone());
        self.tasks.spawn(watch.run(api, config, read));
        self.tasks.spawn(async move {
            while changes.recv().await.is_some() {
                queue.add_quiet((), QUIET, LONGEST);
            }
        });
        store
    }
}

/// The text of the images, of the ConfigMap that has them.
fn images(map: ConfigMap) -> Option<String> {
    let is_images = map.metadata.name.as_deref() == Some(operate::machine_api::images::CONFIG_MAP);
    map.data.filter(|_| is_images)?.remove(operate::machine_api::images::KEY)
}

fn failing(pod: Pod) -> Option<(String, String)> {
    operate::trouble::pod(&serde_json::to_value(pod).ok()?)
}
