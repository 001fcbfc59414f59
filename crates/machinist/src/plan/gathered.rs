//! Reads from a cluster what a plan is made from, and tries its evictions.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use api::machineconfiguration::MachineConfig;
use futures::StreamExt as _;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{EvictParams, PostParams};
use kube::{Api, Client};
use proposal::generated::{self, Sources, Typed};
use proposal::plan::{Drains, Left};
use proposal::{Change, Cluster, Comparison, Draft, Manifest, Plan, Proposal};
use typed::objects::Given;

use crate::gather::{self, Depth};

/// Evictions that are tried at once.
const AT_ONCE: usize = 16;

/// A plan, and the cluster it was made for.
pub(crate) struct Proposed {
    pub(crate) plan: Plan,
    pub(crate) cluster: Cluster,
    /// For each pool of the plan, the change from what most of its nodes run.
    pub(crate) comparisons: BTreeMap<String, Comparison>,
    pub(crate) notes: Vec<String>,
    /// Nodes that are not what their pool wants now.
    pub(crate) unwell: Vec<Left>,
}

impl Proposed {
    pub(crate) async fn compute(client: &Client, change: &Change, reboot: SignedDuration) -> anyhow::Result<Self> {
        let (mut cluster, mut notes) = cluster(client).await?;
        let generated = match change.manifests.iter().any(generated::has_part) {
            true => plans(client, &mut cluster, &change.manifests).await?,
            false => Vec::new(),
        };
        notes.extend(generated::pinned(&cluster, &change.manifests));
        Self::with_generated(client, cluster, notes, change, &generated, reboot).await
    }

    /// The same where it is known already what would be generated.
    pub(crate) async fn with_generated(
        client: &Client,
        cluster: Cluster,
        mut notes: Vec<String>,
        change: &Change,
        generated: &[typed::plan::Plan],
        reboot: SignedDuration,
    ) -> anyhow::Result<Self> {
        let draft = Draft::new(&cluster, change, generated)?;
        let mut later = Vec::new();
        let mut drains = Drains { pods: Some(Vec::new()), ..Drains::default() };
        if !draft.is_empty() {
            drains.pods = gather::noted_list(client, &mut later, "pods that would move").await;
        }
        if drains.pods.as_ref().is_some_and(|pods| !pods.is_empty()) {
            drains.daemon_sets = gather::daemon_sets(client, &mut later).await;
        }
        let Proposal { mut plan, comparisons, notes: found, unwell } = draft.plan(&drains, reboot)?;
        notes.extend(found);
        notes.extend(later);
        rehearse(client, &mut plan, &mut notes).await;
        Ok(Self { plan, cluster, comparisons, notes, unwell })
    }
}

/// The cluster, and what of it could not be read.
pub(crate) async fn cluster(client: &Client) -> anyhow::Result<(Cluster, Vec<String>)> {
    let world = gather::world(client, Depth::Fleet).await?;
    let configs: Vec<MachineConfig> = gather::list(client).await?;
    let objects = world.objects;
    let cluster = Cluster {
        pools: objects.pools,
        nodes: objects.nodes,
        machine_config_nodes: objects.machine_config_nodes,
        ledgers: objects.ledgers,
        pool_policies: objects.pool_policies,
        leader_node: objects.leader_node,
        etcd: objects.etcd,
        configs,
        controller_configs: gather::list_if_installed(client).await?,
        settings: gather::list_if_installed(client).await?,
        policies: gather::list_if_installed(client).await?,
        now: world.now,
    };
    Ok((cluster, world.notes))
}

/// What fragments are generated from, with the manifests laid over it.
pub(crate) async fn typed(client: &Client, cluster: &Cluster, manifests: &[Manifest]) -> anyhow::Result<Typed> {
    let sources = Sources {
        api_servers: gather::list_if_installed(client).await?,
        kubelet_configs: gather::list_if_installed(client).await?,
        runtimes: gather::list_if_installed(client).await?,
        nodes: gather::list_if_installed(client).await?,
        feature_gates: gather::list_if_installed(client).await?,
        images: gather::list_if_installed(client).await?,
        content_policies: gather::list_if_installed(client).await?,
        digest_mirrors: gather::list_if_installed(client).await?,
        tag_mirrors: gather::list_if_installed(client).await?,
        cluster_policies: gather::list_if_installed(client).await?,
        policies: gather::list_if_installed(client).await?,
    };
    Ok(Typed::over(cluster, sources, controllers::Settings::default().version, manifests)?)
}

/// What would be generated. Templates are filled in only where a manifest is among what they are filled with.
async fn plans(
    client: &Client,
    cluster: &mut Cluster,
    manifests: &[Manifest],
) -> anyhow::Result<Vec<typed::plan::Plan>> {
    let mut typed = typed(client, cluster, manifests).await?;
    if !generated::changes_templates(cluster, manifests) {
        return Ok(typed.plans());
    }
    let secret = crate::adopt::pull_secret(client, &typed).await?;
    if typed.objects.has_templates() {
        let mut present = self::typed(client, cluster, &[]).await?;
        present.objects.templates = Given::Profile;
        if !present.objects.plan_templates(Ok(secret.clone()), Vec::new()).apply.is_empty() {
            bail!(
                "what templates made in this cluster is not what those of the profile make, so a ControllerConfig, an APIServer or another profile cannot be planned: the controller has templates of its own, or is still at work; `machinist render --templates=DIR` shows what they make"
            );
        }
    }
    cluster.controller_configs = typed.objects.controller_config.iter().cloned().collect();
    Ok(typed.plans_with_templates(secret))
}

/// Tries every eviction without carrying it out.
async fn rehearse(client: &Client, plan: &mut Plan, notes: &mut Vec<String>) {
    let why = refusals(client, plan.pods(), notes).await;
    plan.block(&why);
}

/// Why pods would not be evicted now, by `namespace/name`.
pub(crate) async fn refusals(
    client: &Client,
    pods: BTreeSet<String>,
    notes: &mut Vec<String>,
) -> BTreeMap<String, String> {
    let tries = futures::stream::iter(pods).map(|full| async move {
        let (namespace, name) = full.split_once('/').unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let evicted = api.evict(name, &EvictParams { post_options: dry, ..EvictParams::default() }).await;
        (full, evicted.err())
    });
    let refused: Vec<_> =
        tries.buffer_unordered(AT_ONCE).filter_map(|(pod, error)| async { Some((pod, error?)) }).collect().await;
    let mut why: BTreeMap<String, String> = BTreeMap::new();
    for (pod, error) in refused {
        match cluster::problem(&error) {
            cluster::Problem::NotFound => {}
            cluster::Problem::Forbidden => {
                let note = format!("budgets not rehearsed: {}", gather::right("create", "pods/eviction"));
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
            _ => {
                why.insert(pod, message(&error));
            }
        }
    }
    why
}

fn message(error: &kube::Error) -> String {
    let kube::Error::Api(status) = error else { return error.to_string() };
    let causes = status.details.iter().flat_map(|details| &details.causes).map(|cause| cause.message.as_str());
    let causes: Vec<_> = causes.filter(|cause| !status.message.contains(cause)).collect();
    if causes.is_empty() { status.message.clone() } else { format!("{} {}", status.message, causes.join(" ")) }
}
