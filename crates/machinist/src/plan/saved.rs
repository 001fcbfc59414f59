//! A plan in a file: the change, what it would do, and the world it was made for.

use std::collections::BTreeMap;

use kube::{Resource, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::proposal::{Change, Proposal};
use crate::manifests::{Manifest, Origin};

/// Files of another version are refused.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Saved {
    version: u32,
    /// The objects that will be written, whole.
    objects: Vec<Value>,
    deletes: Vec<String>,
    world: Seen,
    /// What was shown, for whoever signs it.
    pub(crate) plan: Value,
}

/// Everything that would make the plan another one if it changed: each object's identity and version, each node's config.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Seen {
    configs: BTreeMap<String, String>,
    pools: BTreeMap<String, String>,
    nodes: BTreeMap<String, String>,
}

impl Saved {
    pub(crate) fn of(change: &Change, proposal: &Proposal) -> Self {
        Self {
            version: VERSION,
            objects: change.manifests.iter().map(|manifest| manifest.value.clone()).collect(),
            deletes: change.deletes.clone(),
            world: Seen::of(proposal),
            plan: comparable(proposal),
        }
    }

    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let value: Value = serde_json::from_str(text)?;
        match value.get("version").and_then(Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => Ok(serde_json::from_value(value)?),
            Some(version) => anyhow::bail!("a plan of version {version}; this machinist reads version {VERSION}"),
            None => anyhow::bail!("no plan of `machinist plan --save`"),
        }
    }

    pub(crate) fn change(&self) -> anyhow::Result<Change> {
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
    pub(crate) fn differences(&self, proposal: &Proposal) -> Vec<String> {
        let now = Seen::of(proposal);
        let mut found = Vec::new();
        compare("MachineConfig", &self.world.configs, &now.configs, &mut found);
        compare("MachineConfigPool", &self.world.pools, &now.pools, &mut found);
        compare("node", &self.world.nodes, &now.nodes, &mut found);
        if found.is_empty() && self.plan != comparable(proposal) {
            found
                .push("the plan comes out otherwise now: disruption policies, pods or budgets have changed".to_owned());
        }
        found
    }
}

/// The plan without what changes by itself from one minute to the next: pods come and go.
fn comparable(proposal: &Proposal) -> Value {
    let mut value = serde_json::to_value(&proposal.plan).unwrap_or_default();
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
    fn of(proposal: &Proposal) -> Self {
        fn version<K: Resource>(object: &K) -> (String, String) {
            let meta = object.meta();
            let uid = meta.uid.as_deref().unwrap_or_default();
            (object.name_any(), format!("generation {} of {uid}", meta.generation.unwrap_or(0)))
        }
        let objects = &proposal.world.objects;
        let fragments =
            proposal.configs.iter().filter(|config| !config.name_any().starts_with(api::names::RENDERED_PREFIX));
        let nodes = objects.nodes.iter().map(|node| {
            let facts = rollout::NodeFacts::from_object(node);
            let pool = match objects.members.get(&facts.name) {
                Some(explain::Member::Pool(pool)) => format!("pool {pool}"),
                Some(explain::Member::Contested(pools)) => format!("the pools {}", pools.join(" and ")),
                Some(explain::Member::Unmanaged) | None => "no pool".to_owned(),
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
            pools: objects.pools.iter().map(version).collect(),
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
