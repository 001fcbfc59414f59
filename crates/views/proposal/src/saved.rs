//! A plan in a file: the change, what it would do, and the world it was made for.

use std::collections::BTreeMap;

use kube::{Resource, ResourceExt};
use rollout::Membership;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::manifest::{Manifest, Origin};
use crate::plan::Plan;
use crate::request::{self, Change};

/// Files of another version are refused.
const VERSION: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("a plan of version {0}; this machinist reads version {VERSION}")]
    Version(u64),
    #[error("no plan of `machinist plan --save`")]
    NoPlan,
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Saved {
    version: u32,
    /// The objects that will be written, whole.
    objects: Vec<Value>,
    deletes: Vec<String>,
    world: Seen,
    /// What was shown, for whoever signs it.
    pub plan: Value,
}

/// Everything that would make the plan another one if it changed: each object's identity and version, each node's config.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Seen {
    configs: BTreeMap<String, String>,
    pools: BTreeMap<String, String>,
    nodes: BTreeMap<String, String>,
}

impl Saved {
    #[must_use]
    pub fn of(change: &Change, plan: &Plan, cluster: &Cluster) -> Self {
        Self {
            version: VERSION,
            objects: change.manifests.iter().map(|manifest| manifest.value.clone()).collect(),
            deletes: change.deletes.clone(),
            world: Seen::of(cluster),
            plan: comparable(plan),
        }
    }

    /// # Errors
    /// When the text is no plan, or one of another version.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let value: Value = serde_json::from_str(text)?;
        match value.get("version").and_then(Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => Ok(serde_json::from_value(value)?),
            Some(version) => Err(Error::Version(version)),
            None => Err(Error::NoPlan),
        }
    }

    /// The change that was planned.
    ///
    /// # Errors
    /// When it has a kind that no plan is made for.
    pub fn change(&self) -> Result<Change, request::Error> {
        let text = |value: &Value, pointer: &str| {
            value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let manifests = self.objects.iter().enumerate().map(|(index, value)| Manifest {
            origin: Origin { file: "the plan".to_owned(), document: index + 1 },
            api_version: text(value, "/apiVersion"),
            kind: text(value, "/kind"),
            name: text(value, "/metadata/name"),
            value: value.clone(),
        });
        Change::new(manifests.collect(), self.deletes.clone())
    }

    /// What is no longer as it was when the plan was made, a sentence each.
    #[must_use]
    pub fn differences(&self, plan: &Plan, cluster: &Cluster) -> Vec<String> {
        let now = Seen::of(cluster);
        let mut found = Vec::new();
        compare("MachineConfig", &self.world.configs, &now.configs, &mut found);
        compare("MachineConfigPool", &self.world.pools, &now.pools, &mut found);
        compare("node", &self.world.nodes, &now.nodes, &mut found);
        if found.is_empty() && self.plan != comparable(plan) {
            found
                .push("the plan comes out otherwise now: disruption policies, pods or budgets have changed".to_owned());
        }
        found
    }
}

/// The plan without what changes by itself from one minute to the next: pods come and go.
fn comparable(plan: &Plan) -> Value {
    let mut value = serde_json::to_value(plan).unwrap_or_default();
    let pools = value["pools"].as_array_mut().into_iter().flatten();
    for node in pools.flat_map(|pool| pool["nodes"].as_array_mut().into_iter().flatten()) {
        if let Some(node) = node.as_object_mut() {
            node.remove("pods");
            node.remove("blocked");
        }
    }
    for pool in value["pools"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        pool.remove("estimateSeconds");
    }
    if let Some(value) = value.as_object_mut() {
        value.remove("estimateSeconds");
    }
    value
}

impl Seen {
    fn of(cluster: &Cluster) -> Self {
        fn version<K: Resource>(object: &K) -> (String, String) {
            let meta = object.meta();
            let uid = meta.uid.as_deref().unwrap_or_default();
            (object.name_any(), format!("generation {} of {uid}", meta.generation.unwrap_or(0)))
        }
        let members = cluster.members();
        let fragments =
            cluster.configs.iter().filter(|config| !config.name_any().starts_with(api::names::RENDERED_PREFIX));
        let nodes = cluster.nodes.iter().map(|node| {
            let facts = rollout::NodeFacts::from_object(node);
            let pool = match members.get(&facts.name) {
                Some(Membership::Member { primary, .. }) => format!("pool {primary}"),
                Some(Membership::Contested(contested)) => format!("the pools {}", contested.pools.join(" and ")),
                Some(Membership::Unmanaged) | None => "no pool".to_owned(),
            };
            let named = |config: &Option<String>| config.clone().unwrap_or_else(|| "nothing".to_owned());
            let config = match facts.current == facts.desired {
                true => format!("at {}", named(&facts.current)),
                false => format!("on the way from {} to {}", named(&facts.current), named(&facts.desired)),
            };
            let state = format!("{config} in {pool}, {:?}", facts.state);
            (facts.name, state)
        });
        Self {
            configs: fragments.map(version).collect(),
            pools: cluster.pools.iter().map(version).collect(),
            nodes: nodes.collect(),
        }
    }
}

fn compare(kind: &str, then: &BTreeMap<String, String>, now: &BTreeMap<String, String>, found: &mut Vec<String>) {
    for (name, was) in then {
        match now.get(name) {
            None => found.push(format!("{kind} {name} is gone")),
            Some(is) if is != was => found.push(format!("{kind} {name} has changed: it was {was}, it is {is}")),
            Some(_) => {}
        }
    }
    for name in now.keys().filter(|name| !then.contains_key(*name)) {
        found.push(format!("{kind} {name} is new"));
    }
}
