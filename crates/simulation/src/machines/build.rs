//! The world at the start of a run. Its shape depends on the seed alone.

use api::annotations;
use api::machine::{
    ControlPlaneMachineSet, Machine, MachineDeployment, MachineHealthCheck, MachineSet, MachineTemplateSpec,
};
use jiff::SignedDuration;
use machine::provider::Mark;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::cloud::CLUSTER;
use super::world::World;
use crate::random::Random;

pub(crate) const NAMESPACE: &str = "ns";

/// Which things a run has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shape {
    pub(crate) deployment: bool,
    pub(crate) check: bool,
    pub(crate) masters: bool,
}

/// Builds the world of a seed.
pub(crate) fn build(world: &mut World, random: &mut Random) -> Shape {
    let shape = Shape { deployment: random.once_in(2), check: !random.once_in(3), masters: random.once_in(3) };
    world.cloud.settling = SignedDuration::from_secs([0, 0, 20, 60][random.below(4)]);
    world.hosts.named_after_machines = random.once_in(2);
    world.hosts.collects = random.once_in(2);
    // Of a copy, so that the rest of a seed's run stays the same.
    world.etcd.draw(&mut random.clone());
    let mut create = Create { world };
    for name in ["a", "b"] {
        create.set(name, i32::try_from(1 + random.below(4)).unwrap_or(1), ["", "Newest", "Oldest"][random.below(3)]);
    }
    if shape.deployment {
        create.deployment(1 + random.below(3), random.below(2), random.below(2));
    }
    if shape.check {
        let limits = [json!("100%"), json!("40%"), json!(1), json!(3)];
        create.check("workers", "worker", &limits[random.below(4)]);
    }
    if shape.masters {
        create.control_plane();
        if random.once_in(2) {
            create.check("masters", "master", &json!(1));
        }
    }
    create.strangers();
    // Whoever copies one of these does so later.
    world.pass_to(world.now() + SignedDuration::from_mins(1));
    shape
}

/// A template for machines of this size.
pub(crate) fn template(app: &str, size: u64) -> MachineTemplateSpec {
    object(json!({
        "metadata": {"labels": labels(app, "worker")},
        "spec": {"providerSpec": {"value": {"size": size}}},
    }))
}

fn labels(app: &str, role: &str) -> Value {
    json!({
        "app": app,
        "machine.openshift.io/cluster-api-cluster": CLUSTER,
        "machine.openshift.io/cluster-api-machine-role": role,
        "machine.openshift.io/cluster-api-machine-type": role,
    })
}

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("the objects of a run are written here and are well formed")
}

struct Create<'a> {
    world: &'a mut World,
}

impl Create<'_> {
    fn set(&mut self, name: &str, replicas: i32, policy: &str) {
        let mut set: MachineSet = object(json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"replicas": replicas, "deletePolicy": policy, "selector": {"matchLabels": {"app": name}}},
        }));
        set.spec.template = Some(template(name, 1));
        let _new = self.world.api.create(set);
    }

    fn deployment(&mut self, replicas: usize, surge: usize, unavailable: usize) {
        // Both may not be none: nothing could ever move.
        let surge = if unavailable == 0 { surge.max(1) } else { surge };
        let mut deployment: MachineDeployment = object(json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineDeployment",
            "metadata": {"name": "d", "namespace": NAMESPACE},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "d"}},
                "strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
                "template": {},
            },
        }));
        deployment.spec.template = template("d", 1);
        let _new = self.world.api.create(deployment);
    }

    fn check(&mut self, name: &str, role: &str, max_unhealthy: &Value) {
        let check: MachineHealthCheck = object(json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "selector": {"matchLabels": {"machine.openshift.io/cluster-api-machine-role": role}},
                "maxUnhealthy": max_unhealthy,
                "unhealthyConditions": [
                    {"type": "Ready", "status": "Unknown", "timeout": "300s"},
                    {"type": "Ready", "status": "False", "timeout": "300s"},
                ],
            },
        }));
        let _new = self.world.api.create(check);
    }

    /// Three machines that an installer made, and the set that looks after them.
    fn control_plane(&mut self) {
        let set: ControlPlaneMachineSet = object(json!({
            "apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet",
            "metadata": {"name": "cluster", "namespace": NAMESPACE},
            "spec": {
                "state": "Active", "replicas": 3,
                "selector": {"matchLabels": {"app": "master"}},
                "template": {
                    "machineType": "machines_v1beta1_machine_openshift_io",
                    "machines_v1beta1_machine_openshift_io": {
                        "metadata": {"labels": labels("master", "master")},
                        "spec": {"providerSpec": {"value": {"size": 1}}},
                    },
                },
            },
        }));
        let _new = self.world.api.create(set);
        for index in 0..3 {
            self.running(&format!("c-master-{index}"), "master", "master", false);
        }
    }

    /// A Machine that runs already. One of upstream's controllers has an instance without a mark of ours.
    fn running(&mut self, name: &str, app: &str, role: &str, unmarked: bool) {
        let machine: Machine = object(json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "metadata": {
                "name": name, "namespace": NAMESPACE, "labels": labels(app, role),
                "finalizers": ["machine.machine.openshift.io"],
            },
            "spec": {"providerSpec": {"value": {"size": 1}}},
            "status": {"phase": "Running"},
        }));
        let Ok(machine) = self.world.api.create(machine) else { return };
        let uid = if unmarked { String::new() } else { machine.metadata.uid.clone().unwrap_or_default() };
        let mark = Mark { cluster: CLUSTER.into(), namespace: NAMESPACE.into(), machine: name.into(), uid };
        let id = self.world.cloud.place(mark, &format!("token of {name}"), unmarked);
        let _same = self.world.api.edit::<Machine>(name, &super::api::Guard::default(), |it| {
            it.spec.provider_id = Some(id);
        });
    }

    /// Instances of others, and a Machine that upstream's controllers made.
    fn strangers(&mut self) {
        for (cluster, name) in [("other", "a-1"), ("other", "x"), (CLUSTER, "by-hand")] {
            let mark =
                Mark { cluster: cluster.into(), namespace: NAMESPACE.into(), machine: name.into(), uid: String::new() };
            let mark = if cluster == CLUSTER { mark } else { Mark { uid: "uid-elsewhere".to_owned() + name, ..mark } };
            let id = self.world.cloud.place(mark, &format!("stranger {name}"), true);
            if let Some(entry) = self.world.cloud.entries.get_mut(&id) {
                entry.boots = None;
            }
        }
        self.running("old", "old", "worker", true);
    }
}

/// Whether a check is paused.
pub(crate) fn pause(check: &mut MachineHealthCheck, paused: bool) {
    let annotations = check.metadata.annotations.get_or_insert_default();
    if paused {
        annotations.insert(annotations::PAUSED.to_owned(), String::new());
    } else {
        annotations.remove(annotations::PAUSED);
    }
}
