//! What new Machines of a set are called and look like.

use api::machine::{Machine, MachineSet, MachineSpec, TemplateMeta, annotation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use sha2::{Digest, Sha256};

use crate::template::{self, ALPHABET};

const SUFFIX: usize = 5;
/// Names of hosts and values of labels end at 63.
const LONGEST: usize = 63;

/// Names that are not taken, in an order that depends on the set only.
///
/// Equal slots give equal names, so two plans from different views of the world agree about which Machine is missing. A name
/// comes again only when the Machine that had it is gone.
pub(super) fn free_names<'a>(
    set: &'a MachineSet,
    is_taken: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = String> + 'a {
    let mut given = std::collections::BTreeSet::new();
    let names = (0_u64..).map(move |slot| slot_name(set, slot));
    names.filter(move |name| !is_taken(name) && given.insert(name.clone()))
}

/// What the names of a set's Machines begin with.
pub fn name_prefix(set: &str) -> String {
    let base: String = set.chars().take(LONGEST - SUFFIX - 1).collect();
    // A name that is cut behind a dot or a dash would have an empty part, which the API server refuses.
    format!("{}-", base.trim_end_matches(['.', '-']))
}

fn slot_name(set: &MachineSet, slot: u64) -> String {
    let uid = set.metadata.uid.as_deref().unwrap_or_default();
    let digest = Sha256::digest(format!("{uid}/{slot}"));
    let suffix: String =
        digest.iter().take(SUFFIX).map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])).collect();
    format!("{}{suffix}", name_prefix(set.metadata.name.as_deref().unwrap_or_default()))
}

/// A Machine of the set's template.
pub(super) fn machine(set: &MachineSet, name: String) -> Machine {
    let template = set.spec.template.clone().unwrap_or_default();
    let hash = template::hash(&template);
    let TemplateMeta { mut annotations, generate_name: _, labels, name: _, namespace: _, owner_references: _ } =
        template.metadata.unwrap_or_default();
    annotations.insert(annotation::TEMPLATE_HASH.to_owned(), hash);
    annotations.insert(annotation::MATCHES_TEMPLATE.to_owned(), true.to_string());
    // A template that was written from a Machine may still name that Machine's instance.
    let spec = MachineSpec { provider_id: None, ..template.spec.unwrap_or_default() };
    Machine {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference(set)]),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    }
}

/// The owner reference that makes a set the controller of a Machine.
pub(super) fn controller_reference(set: &MachineSet) -> OwnerReference {
    OwnerReference {
        api_version: format!("{}/{}", api::machine::GROUP, api::machine::VERSION),
        kind: "MachineSet".to_owned(),
        name: set.metadata.name.clone().unwrap_or_default(),
        uid: set.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
