//! Gathers what a plan is made from. Only reads: whether budgets would keep a pod is read from the budgets.

use std::collections::BTreeSet;
use std::fmt::Debug;

use api::known::Reading;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt as _};
use proposal::generated::{self, Sources, Typed};
use proposal::plan::{Drains, kept_by_budgets};
use proposal::{Change, Cluster, Draft, Proposal, manifest};
use serde::de::DeserializeOwned;

use crate::rights::{Kind, Rights};

/// How long one reboot takes, for the estimate: what `machinist plan` assumes too.
const REBOOT: SignedDuration = SignedDuration::from_secs(180);

/// What a manifest would do, for a visitor with these rights.
///
/// # Errors
/// What is wrong with the manifest, or what cannot be read, in one sentence.
pub(crate) async fn plan(client: &Client, rights: &Rights, text: &str) -> Result<Proposal, String> {
    let needed = [Kind::Pools, Kind::Nodes, Kind::Configs];
    if let Some(kind) = needed.into_iter().find(|kind| !rights.has(*kind)) {
        return Err(format!("A plan needs the right to list {}, which you do not have.", kind.resource().1));
    }
    let manifests = manifest::parse("the manifest", text).map_err(|error| chain(&error))?;
    if manifests.is_empty() {
        return Err("There is no object in the text.".to_owned());
    }
    let change = Change::new(manifests, Vec::new()).map_err(|error| chain(&error))?;
    let reader = Reader { client };
    let cluster = reader.cluster(rights).await?;
    let generated = match change.manifests.iter().any(generated::is_typed) {
        true => {
            let sources = reader.sources().await?;
            let version = env!("CARGO_PKG_VERSION").to_owned();
            Typed::over(&cluster, sources, version, &change.manifests).map_err(|error| chain(&error))?.plans()
        }
        false => Vec::new(),
    };
    let draft = Draft::new(&cluster, &change, &generated).map_err(|error| chain(&error))?;
    let mut notes = Vec::new();
    let mut drains = Drains { pods: Some(Vec::new()), ..Drains::default() };
    if !draft.is_empty() {
        drains = reader.drains(rights, &mut notes).await;
    }
    let mut proposal = draft.plan(&drains, REBOOT).map_err(|error| chain(&error))?;
    if let Some(pods) = &drains.pods {
        match rights.has(Kind::Budgets).then_some(reader.list::<PodDisruptionBudget>().await) {
            Some(Ok(budgets)) => proposal.plan.block(&kept_by_budgets(pods, &budgets)),
            Some(Err(why)) => notes.push(why),
            None => notes.push("Disruption budgets are not looked at: you may not list them.".to_owned()),
        }
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

    async fn cluster(&self, rights: &Rights) -> Result<Cluster, String> {
        let mut cluster = Cluster {
            pools: self.list().await?,
            nodes: self.list().await?,
            machine_config_nodes: self.list().await?,
            ledgers: self.list().await?,
            etcd: Reading::Unknown("you may not list pods everywhere".to_owned()),
            configs: self.list().await?,
            controller_configs: self.list().await?,
            settings: self.list().await?,
            policies: self.list().await?,
            now: Timestamp::now(),
        };
        if rights.has(Kind::Pods) {
            cluster.etcd = crate::world::etcd(self.client).await;
        }
        Ok(cluster)
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

    async fn drains(&self, rights: &Rights, notes: &mut Vec<String>) -> Drains {
        if !rights.has(Kind::Pods) {
            notes.push("Which pods would move is not shown: you may not list pods everywhere.".to_owned());
            return Drains::default();
        }
        let pods = self.list::<Pod>().await.map_err(|why| notes.push(why)).ok();
        let name = |set: &DaemonSet| format!("{}/{}", set.namespace().unwrap_or_default(), set.name_any());
        let sets = cluster::read::list(&Api::<DaemonSet>::all(self.client.clone()), ListParams::default()).await;
        Drains { pods, daemon_sets: sets.map(|sets| sets.iter().map(name).collect::<BTreeSet<_>>()) }
    }
}

/// An error with its causes, in one sentence.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
