//! Numbers about Machines and MachineSets, made when somebody asks: ten thousand of them cost nothing in between, and no
//! series outlives its object.

use std::fmt;
use std::sync::{Arc, OnceLock};

use api::machine::{GROUP, Machine, MachineSet, VERSION};
use cluster::Store;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;

use crate::world::World;

#[derive(Clone, Default)]
pub(super) struct Fleet(Arc<OnceLock<Stores>>);

struct Stores {
    machines: Store<Machine>,
    sets: Store<MachineSet>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct MachineLabels {
    name: String,
    namespace: String,
    spec_provider_id: String,
    node: String,
    api_version: String,
    phase: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SetLabels {
    name: String,
    namespace: String,
    api_version: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Object {
    name: String,
    namespace: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

impl Fleet {
    pub(super) fn observe(&self, world: &World) {
        // A process leads once.
        let _ = self.0.set(Stores { machines: world.machines.clone(), sets: world.sets.clone() });
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fleet")
    }
}

impl Collector for Fleet {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let Some(Stores { machines, sets }) = self.0.get() else { return Ok(()) };
        let [machines_up, sets_up] = [machines.contact(), sets.contact()].map(|contact| is_known(&contact));
        let up = [("mapi_machine_items", machines_up), ("mapi_machineset_items", sets_up)];
        let up = up.map(|(kind, up)| (Kind { kind }, i64::from(up)));
        family(&mut encoder, "mapi_mao_collector_up", "Whether the objects could be read", up)?;
        if machines_up {
            self.encode_machines(&mut encoder, &machines.all())?;
        }
        if sets_up {
            self.encode_sets(&mut encoder, &sets.all())?;
        }
        Ok(())
    }
}

impl Fleet {
    fn encode_machines(&self, encoder: &mut DescriptorEncoder, machines: &[Arc<Machine>]) -> fmt::Result {
        single(encoder, "mapi_machine_items", "Machines", machines.len())?;
        let created = machines.iter().filter_map(|machine| {
            let status = machine.status.as_ref()?;
            let node = status.node_ref.as_ref().and_then(|node| node.name.clone());
            let Object { name, namespace } = Object::of(&machine.metadata);
            let labels = MachineLabels {
                name,
                namespace,
                spec_provider_id: machine.spec.provider_id.clone().unwrap_or_default(),
                node: node.unwrap_or_default(),
                api_version: api_version(),
                phase: status.phase.clone().filter(|phase| !phase.is_empty())?,
            };
            Some((labels, created(&machine.metadata)))
        });
        family(encoder, "mapi_machine_created_timestamp_seconds", "When the machine was created", created)
    }

    fn encode_sets(&self, encoder: &mut DescriptorEncoder, sets: &[Arc<MachineSet>]) -> fmt::Result {
        single(encoder, "mapi_machineset_items", "Machine sets", sets.len())?;
        let made = sets.iter().map(|set| {
            let Object { name, namespace } = Object::of(&set.metadata);
            (SetLabels { name, namespace, api_version: api_version() }, created(&set.metadata))
        });
        family(encoder, "mapi_machineset_created_timestamp_seconds", "When the set was created", made)?;
        type Count = fn(&MachineSet) -> Option<i32>;
        let counts: [(&str, &str, Count); 3] = [
            ("mapi_machine_set_status_replicas", "Machines of the set", |set| set.status.as_ref()?.replicas),
            ("mapi_machine_set_status_replicas_ready", "Ready machines of the set", |set| {
                set.status.as_ref()?.ready_replicas
            }),
            ("mapi_machine_set_status_replicas_available", "Available machines of the set", |set| {
                set.status.as_ref()?.available_replicas
            }),
        ];
        for (name, help, count) in counts {
            let numbers = sets.iter().map(|set| (Object::of(&set.metadata), i64::from(count(set).unwrap_or(0))));
            family(encoder, name, help, numbers)?;
        }
        Ok(())
    }
}

fn single(encoder: &mut DescriptorEncoder, name: &str, help: &str, count: usize) -> fmt::Result {
    let gauge = ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
    gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
}

fn family<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    series: impl IntoIterator<Item = (L, i64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, ConstGauge::new(0_i64).metric_type())?;
    for (labels, value) in series {
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn is_known(contact: &api::known::Reading<()>) -> bool {
    matches!(contact, api::known::Reading::Known { .. })
}

fn created(metadata: &ObjectMeta) -> i64 {
    metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second())
}

fn api_version() -> String {
    format!("{GROUP}/{VERSION}")
}

impl Object {
    fn of(metadata: &ObjectMeta) -> Self {
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
        }
    }
}
