//! Gathers what a plan is made from. Only reads: whether budgets would keep a pod is read from the budgets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use api::known::Reading;
use api::names::{LEASE_CONTROLLER, NAMESPACE};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt as _};
use proposal::generated::{self, Sources, Typed};
use proposal::plan::{Drains, kept_by_budgets};
use proposal::{Change, Cluster, Draft, Manifest, Proposal, machines, manifest};
use serde::de::DeserializeOwned;

use crate::rights::{Kind, Rights};

/// What every plan is made from: without one of these another config, order or disruption would be foretold.
const NEEDED: [Kind; 9] = [
    Kind::Pools,
    Kind::Nodes,
    Kind::NodeReports,
    Kind::Ledgers,
    Kind::PoolPolicies,
    Kind::Configs,
    Kind::ControllerConfigs,
    Kind::Settings,
    Kind::Policies,
];

/// What fragments are generated from, for manifests of those kinds.
const TYPED: [Kind; 11] = [
    Kind::ApiServers,
    Kind::KubeletConfigs,
    Kind::RuntimeConfigs,
    Kind::NodeSettings,
    Kind::FeatureGates,
    Kind::Images,
    Kind::ContentPolicies,
    Kind::DigestMirrors,
    Kind::TagMirrors,
    Kind::ClusterImagePolicies,
    Kind::ImagePolicies,
];

/// How long one reboot takes, for the estimate: what `machinist plan` assumes too.
const REBOOT: SignedDuration = SignedDuration::from_secs(180);

/// What machines are planned from.
const MACHINES: [Kind; 5] =
    [Kind::Machines, Kind::MachineSets, Kind::MachineDeployments, Kind::ControlPlanes, Kind::Nodes];

/// What manifests would do: those of configs to nodes, those of machines to machines.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) configs: Option<Proposal>,
    pub(crate) machines: Option<machines::Plan>,
    pub(crate) notes: Vec<String>,
}

/// What manifests would do, for a visitor with these rights.
///
/// # Errors
/// What is wrong with a manifest, or what cannot be read, in one sentence.
pub(crate) async fn plan(client: &Client, rights: &Rights, text: &str) -> Result<Answer, String> {
    let mut configs = manifest::parse("the manifest", text).map_err(|error| chain(&error))?;
    let machines: Vec<_> = configs.extract_if(.., |it| machines::is_planned(it)).map(|it| it.value).collect();
    if configs.is_empty() && machines.is_empty() {
        return Err("There is no object in the text.".to_owned());
    }
    let mut answer = Answer::default();
    if !machines.is_empty() {
        let change = machines::Change { apply: machines, delete: Vec::new() };
        answer.machines = Some(plan_machines(client, rights, &change, &mut answer.notes).await?);
    }
    if !configs.is_empty() {
        answer.configs = Some(plan_configs(client, rights, configs).await?);
    }
    Ok(answer)
}

async fn plan_machines(
    client: &Client,
    rights: &Rights,
    change: &machines::Change,
    notes: &mut Vec<String>,
) -> Result<machines::Plan, String> {
    if let Some(lack) = rights.lack("A plan of machines", &MACHINES) {
        return Err(lack);
    }
    let reader = Reader { client };
    let (drains, now) = (reader.drains(rights, notes).await, Timestamp::now());
    let fleet = machines::Fleet {
        machines: reader.list().await?,
        sets: reader.list().await?,
        deployments: reader.list().await?,
        control_planes: reader.list().await?,
        nodes: reader.list().await?,
        pods: drains.pods.as_ref().map(|pods| machines::moved(pods, &drains.daemon_sets, now)),
        now,
    };
    let mut plan = machines::plan(&fleet, change).map_err(|error| chain(&error))?;
    if let Some(kept) = reader.kept(rights, &drains, notes).await {
        plan.block(&kept);
    }
    Ok(plan)
}

/// Filling templates in needs the pull secret, which nobody shows to a dashboard.
const TEMPLATES: &str = "A ControllerConfig, an APIServer and another profile or runtime of ClusterSettings change what templates make, which is not planned here: use `machinist plan -f FILE`";

async fn plan_configs(client: &Client, rights: &Rights, manifests: Vec<Manifest>) -> Result<Proposal, String> {
    if let Some(lack) = rights.lack("A plan", &NEEDED) {
        return Err(lack);
    }
    let change = Change::new(manifests, Vec::new()).map_err(|error| chain(&error))?;
    let reader = Reader { client };
    let mut notes = Vec::new();
    let cluster = reader.cluster(rights, &mut notes).await?;
    let generated = match change.manifests.iter().any(generated::has_part) {
        true => {
            if let Some(lack) = rights.lack("A plan of these manifests", &TYPED) {
                return Err(lack);
            }
            let sources = reader.sources().await?;
            let version = env!("CARGO_PKG_VERSION").to_owned();
            let mut typed =
                Typed::over(&cluster, sources, version, &change.manifests).map_err(|error| chain(&error))?;
            match generated::changes_templates(&cluster, &change.manifests) {
                true if typed.objects.has_templates() => return Err(TEMPLATES.to_owned()),
                true => typed.plans_with_templates(None),
                false => typed.plans(),
            }
        }
        false => Vec::new(),
    };
    let draft = Draft::new(&cluster, &change, &generated).map_err(|error| chain(&error))?;
    let mut drains = Drains { pods: Some(Vec::new()), ..Drains::default() };
    if !draft.is_empty() {
        drains = reader.drains(rights, &mut notes).await;
    }
    let mut proposal = draft.plan(&drains, REBOOT).map_err(|error| chain(&error))?;
    if let Some(kept) = reader.kept(rights, &drains, &mut notes).await {
        proposal.plan.block(&kept);
    }
    proposal.notes.extend(notes);
    Ok(proposal)
}

struct Reader<'a> {
    client: &'a Client,
}

impl Reader<'_> {
    async fn list<K>(&self) -> Result<Vec<K>, String>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        match cluster::read::list(&Api::<K>::all(self.client.clone()), ListParams::default()).await {
            Reading::Known { value, .. } => Ok(value),
            Reading::NotInstalled => Ok(Vec::new()),
            Reading::Unknown(why) => Err(format!("{} cannot be read now: {why}", K::plural(&()))),
        }
    }

    async fn cluster(&self, rights: &Rights, notes: &mut Vec<String>) -> Result<Cluster, String> {
        let mut cluster = Cluster {
            pools: self.list().await?,
            nodes: self.list().await?,
            machine_config_nodes: self.list().await?,
            ledgers: self.list().await?,
            pool_policies: self.list().await?,
            leader_node: None,
            etcd: Reading::Unknown(String::new()),
            configs: self.list().await?,
            controller_configs: self.list().await?,
            settings: self.list().await?,
            policies: self.list().await?,
            now: Timestamp::now(),
        };
        cluster.etcd = match rights.why(Kind::Pods) {
            Some(why) => Reading::Unknown(why),
            None => crate::world::etcd(self.client).await,
        };
        cluster.leader_node = self.leader_node(rights, notes).await;
        Ok(cluster)
    }

    /// The node that runs the leader of the controllers, where the visitor may know.
    async fn leader_node(&self, rights: &Rights, notes: &mut Vec<String>) -> Option<String> {
        let why = [Kind::Leases, Kind::Pods].into_iter().find_map(|kind| rights.why(kind));
        if let Some(why) = why {
            notes.push(format!("Which node runs the controller, and therefore goes last, is not known: {why}."));
            return None;
        }
        let (leases, pods) =
            (Api::namespaced(self.client.clone(), NAMESPACE), Api::namespaced(self.client.clone(), NAMESPACE));
        let leases = cluster::read::list::<Lease>(&leases, ListParams::default()).await;
        let pods = cluster::read::list::<Pod>(&pods, ListParams::default()).await;
        match leases.and(pods) {
            Reading::Known { value: (leases, pods), .. } => {
                let lease = leases.iter().find(|lease| lease.name_any() == LEASE_CONTROLLER)?;
                rollout::snapshot::leader_node(lease, &pods)
            }
            Reading::NotInstalled => None,
            Reading::Unknown(why) => {
                notes.push(format!("Which node runs the controller, and therefore goes last, is not known: {why}."));
                None
            }
        }
    }

    async fn sources(&self) -> Result<Sources, String> {
        Ok(Sources {
            api_servers: self.list().await?,
            kubelet_configs: self.list().await?,
            runtimes: self.list().await?,
            nodes: self.list().await?,
            feature_gates: self.list().await?,
            images: self.list().await?,
            content_policies: self.list().await?,
            digest_mirrors: self.list().await?,
            tag_mirrors: self.list().await?,
            cluster_policies: self.list().await?,
            policies: self.list().await?,
        })
    }

    /// Pods that budgets would keep; nothing where pods or budgets are not known.
    async fn kept(
        &self,
        rights: &Rights,
        drains: &Drains,
        notes: &mut Vec<String>,
    ) -> Option<BTreeMap<String, String>> {
        let pods = drains.pods.as_ref()?;
        if let Some(why) = rights.why(Kind::Budgets) {
            notes.push(format!("Disruption budgets are not looked at: {why}."));
            return None;
        }
        let budgets = self.list::<PodDisruptionBudget>().await.map_err(|why| notes.push(why)).ok()?;
        Some(kept_by_budgets(pods, &budgets))
    }

    async fn drains(&self, rights: &Rights, notes: &mut Vec<String>) -> Drains {
        if let Some(why) = rights.why(Kind::Pods) {
            notes.push(format!("Which pods would move is not shown: {why}."));
            return Drains::default();
        }
        let pods = self.list::<Pod>().await.map_err(|why| notes.push(why)).ok();
        let name = |set: &DaemonSet| format!("{}/{}", set.namespace().unwrap_or_default(), set.name_any());
        if let Some(why) = rights.why(Kind::DaemonSets) {
            notes.push(format!("Pods that DaemonSets have left behind are not looked at: {why}."));
            return Drains { pods, daemon_sets: Reading::Unknown(why) };
        }
        let sets = cluster::read::list(&Api::<DaemonSet>::all(self.client.clone()), ListParams::default()).await;
        Drains { pods, daemon_sets: sets.map(|sets| sets.iter().map(name).collect::<BTreeSet<_>>()) }
    }
}

/// An error with its causes, in one sentence.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
