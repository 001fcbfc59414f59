//! What a deployment's new set looks like.

use std::collections::BTreeMap;

use api::labels::MACHINE_TEMPLATE_HASH;
use api::machine::{MachineDeployment, MachineSet, MachineSetSpec, annotation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::Goal;
use super::facts::{Child, Family};
use crate::template;

/// The set of the deployment's template, before it is made: its name follows from the template, and is another one if that
/// is taken by a set of something else.
pub(super) fn new_set(goal: &Goal, family: &Family, replicas: i32) -> Child {
    let deployment = goal.deployment;
    let base = deployment.metadata.name.as_deref().unwrap_or_default();
    let name_of = |hash: &str| format!("{base}-{hash}");
    let hash = (0..)
        .map(|salt| template::salted_hash(&deployment.spec.template, salt))
        .find(|hash| !family.taken.contains(&name_of(hash)))
        .expect("the salts do not end, and the names that are taken do");
    let mut template = template::without_hash(&deployment.spec.template);
    let label = (MACHINE_TEMPLATE_HASH.to_owned(), hash.clone());
    template.metadata.get_or_insert_default().labels.extend([label.clone()]);
    let labels = template.metadata.clone().unwrap_or_default().labels;
    let mut selector = deployment.spec.selector.clone();
    selector.match_labels.get_or_insert_default().extend([label]);
    let set = MachineSet {
        metadata: ObjectMeta {
            name: Some(name_of(&hash)),
            namespace: deployment.metadata.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![controller_reference(deployment)]),
            ..ObjectMeta::default()
        },
        spec: MachineSetSpec {
            replicas: Some(replicas),
            min_ready_seconds: Some(goal.min_ready_seconds),
            selector: Some(selector),
            template: Some(template),
            delete_policy: None,
        },
        status: None,
    };
    Child { set, replicas }
}

/// The set as it is created, with its annotations.
pub(super) fn finished(child: &Child, annotations: BTreeMap<String, Option<String>>) -> MachineSet {
    let mut set = child.set.clone();
    let mut all: BTreeMap<_, _> = annotations.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
    let template = set.spec.template.clone().unwrap_or_default();
    all.insert(annotation::TEMPLATE_HASH.to_owned(), template::hash(&template));
    set.metadata.annotations = Some(all);
    set.spec.replicas = Some(child.replicas);
    set
}

fn controller_reference(deployment: &MachineDeployment) -> OwnerReference {
    OwnerReference {
        api_version: format!("{}/{}", api::machine::GROUP, api::machine::VERSION),
        kind: "MachineDeployment".to_owned(),
        name: deployment.metadata.name.clone().unwrap_or_default(),
        uid: deployment.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
