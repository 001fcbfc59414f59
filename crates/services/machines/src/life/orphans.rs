//! Looks from time to time for things in the cloud that belong to no Machine, tells of them and removes them if it may.
//!
//! What is an orphan is decided by `machine::orphans`. Nothing is removed that was not told of at an earlier look.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::labels;
use api::machine::{Machine, MachineSet};
use cluster::events::Severity;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use machine::lifecycle::{Record, request_spec};
use machine::orphans::{self, Snapshot};
use machine::provider::{Marked, Search, SecretPurpose, Secrets};
use serde_json::Value;

use super::Machines;
use super::ask::in_time;
use crate::settings::Orphans;

/// A place to search: the cluster's id in the cloud, where, and the namespace whose Secrets lead there.
type Place = (String, String, String);

impl Machines {
    /// Looks once at every place that a Machine or a set names.
    pub(super) async fn look_for_orphans(self: Arc<Self>) {
        let world = &self.context.world;
        if let Err(unread) = world.machines_known().and_then(|()| world.sets_known()) {
            tracing::debug!(%unread, "orphans are not looked for");
            return;
        }
        // Machines are taken before the cloud is asked: an instance that is not among theirs is younger than this list, or
        // an orphan.
        let machines = world.machines.all();
        let known = orphans::Machines {
            uids: machines.iter().filter_map(|machine| machine.metadata.uid.clone()).collect(),
            provider_ids: machines.iter().filter_map(|machine| machine.spec.provider_id.clone()).collect(),
        };
        // Places may overlap, and what was told of in this look is not removed in the same one.
        let told = &self.reported.lock().clone();
        // A place that does not answer must not keep the others from being looked at.
        let looks = self.places(&machines).into_iter().map(|((cluster, _, namespace), place)| {
            let (this, known) = (&self, known.clone());
            async move { this.look_at_place(cluster, &namespace, place, known, told).await }
        });
        futures::future::join_all(looks).await;
    }

    async fn look_at_place(
        &self,
        cluster: String,
        namespace: &str,
        place: Value,
        known: orphans::Machines,
        told: &BTreeSet<String>,
    ) {
        let Some(search) = self.search(cluster, namespace, place).await else { return };
        let marked = match in_time(self.context.provider.marked(&search)).await {
            Ok(marked) => marked,
            Err(error) => {
                tracing::warn!(%error, cluster = search.cluster, "cannot look for orphans");
                return;
            }
        };
        let cluster = search.cluster.clone();
        let plan = orphans::plan(&Snapshot { cluster, marked, machines: Some(known), now: Timestamp::now() });
        for orphan in &plan.remove {
            self.deal_with(&search, orphan, told).await;
        }
    }

    /// Where machines are or may come to be.
    fn places(&self, machines: &[Arc<Machine>]) -> BTreeMap<Place, Value> {
        let rules = self.context.provider.rules();
        let mut places = BTreeMap::new();
        let mut add = |cluster: Option<&String>, namespace: &Option<String>, place: Value| {
            if let Some(cluster) = cluster.filter(|cluster| !cluster.is_empty()) {
                let namespace = namespace.clone().unwrap_or_default();
                places.insert((cluster.clone(), place.to_string(), namespace), place);
            }
        };
        for machine in machines {
            let cluster = machine.metadata.labels.as_ref().and_then(|all| all.get(labels::MACHINE_CLUSTER));
            let recorded = Record::of(machine).map(|record| record.intent.place).filter(|place| !place.is_null());
            let named = request_spec(machine).map(|spec| rules.place(&spec));
            recorded.into_iter().chain(named).for_each(|place| add(cluster, &machine.metadata.namespace, place));
        }
        for set in self.context.world.sets.all() {
            let (cluster, spec) = template(&set);
            if let Some(spec) = spec {
                add(cluster, &set.metadata.namespace, rules.place(spec));
            }
        }
        places
    }

    async fn search(&self, cluster: String, namespace: &str, place: Value) -> Option<Search> {
        let mut secrets = Secrets::default();
        for need in self.context.provider.rules().secrets(&place) {
            let namespace = need.namespace.as_deref().unwrap_or(namespace);
            match (need.purpose, self.secrets.get(namespace, &need.name, &need.field).await) {
                (SecretPurpose::UserData, _) => {}
                (SecretPurpose::Credentials, Ok(data)) => secrets.credentials = data,
                (SecretPurpose::Credentials, Err(error)) => {
                    tracing::warn!(%error, cluster, "cannot look for orphans");
                    return None;
                }
            }
        }
        Some(Search { cluster, place: Arc::new(place), secrets: Arc::new(secrets) })
    }

    /// Tells of an orphan, and removes one that an earlier look has told of; `told` holds those.
    async fn deal_with(&self, search: &Search, orphan: &Marked, told: &BTreeSet<String>) {
        let Marked { mark, kind, id, .. } = orphan;
        let whose = format!("{}/{} (uid {})", mark.namespace, mark.machine, mark.uid);
        let key = format!("{kind} {id}");
        let is_news = self.reported.lock().insert(key.clone());
        let may_remove =
            matches!(&self.context.settings.orphans, Orphans::Remove { cluster } if *cluster == search.cluster);
        if is_news {
            let cluster = &search.cluster;
            let what_now = if may_remove {
                "it will be removed at the next look".to_owned()
            } else {
                format!(
                    "if {cluster} is the id of this cluster alone, remove it in the cloud, or run the machine controllers \
                     with --remove-orphans={cluster}"
                )
            };
            let message = format!("{kind} {id} belongs to machine {whose}, which does not exist; {what_now}");
            tracing::warn!(
                kind,
                id,
                machine = whose,
                may_remove,
                "found something in the cloud that belongs to no machine"
            );
            self.tell_of_cloud(Severity::Warning, "OrphanFound", &message);
            return;
        }
        if !may_remove || !told.contains(&key) {
            return;
        }
        match in_time(self.context.provider.remove(search, orphan)).await {
            Ok(deletion) => {
                tracing::info!(kind, id, machine = whose, ?deletion, "removed what belonged to no machine");
                self.tell_of_cloud(
                    Severity::Normal,
                    "OrphanRemoved",
                    &format!("removed {kind} {id} of machine {whose}"),
                );
            }
            Err(error) => tracing::warn!(kind, id, %error, "cannot remove what belongs to no machine"),
        }
    }

    /// There is no object that this is about, so the namespace of the controllers stands for it.
    fn tell_of_cloud(&self, severity: Severity, reason: &str, message: &str) {
        let namespace = &self.context.settings.namespace;
        let mut about = Namespace::default();
        about.metadata.name = Some(namespace.clone());
        about.metadata.namespace = Some(namespace.clone());
        self.context.publish(&about, severity, reason, message);
    }
}

/// The cluster's id and the provider spec in the template of a set.
fn template(set: &MachineSet) -> (Option<&String>, Option<&Value>) {
    let template = set.spec.template.as_ref();
    let labels = template.and_then(|template| template.metadata.as_ref()).map(|metadata| &metadata.labels);
    let spec = template.and_then(|template| template.spec.as_ref()?.provider_value());
    (labels.and_then(|all| all.get(labels::MACHINE_CLUSTER)), spec)
}
