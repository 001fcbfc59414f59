//! A new Machine made from an old one.
//!
//! People add a master by exporting a Machine, changing its name and creating the result. Such a copy still names the
//! original's instance; if it kept that, deleting the copy would delete the original.

use api::annotations;
use api::machine::{Machine, annotation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Annotations that speak of one particular instance, or of the template that the original was made from: a copy is made to
/// be changed, and would go on saying that it looks like the template.
const INSTANCE_ANNOTATIONS: &[&str] = &[
    annotations::INSTANCE_STATE,
    annotation::INSTANCE_INTENT,
    annotation::TEMPLATE_HASH,
    annotation::MATCHES_TEMPLATE,
    "VmId",
    "openstack-resourceId",
    "metal3.io/BareMetalHost",
];

/// What is taken off a new Machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    pub provider_id: bool,
    pub annotations: Vec<String>,
    pub owner_references: bool,
    pub warning: String,
}

/// What a new Machine loses because `holder` holds its provider ID.
pub fn settle_copy(new: &Machine, holder: Option<&str>) -> Option<Change> {
    let holder = holder?;
    let id = new.spec.provider_id.as_deref().filter(|id| !id.is_empty())?;
    let present = new.metadata.annotations.as_ref();
    let annotations: Vec<_> = INSTANCE_ANNOTATIONS
        .iter()
        .filter(|key| present.is_some_and(|all| all.contains_key(**key)))
        .map(|key| (*key).to_owned())
        .collect();
    Some(Change {
        provider_id: true,
        annotations,
        owner_references: new.metadata.owner_references.as_ref().is_some_and(|owners| !owners.is_empty()),
        warning: format!(
            "spec.providerID {id} was removed, because machine {holder} holds that instance; a new instance will be made"
        ),
    })
}

impl Change {
    /// The Machine without what it loses.
    pub fn applied(&self, mut machine: Machine) -> Machine {
        let Self { provider_id, annotations, owner_references, warning: _ } = self;
        if *provider_id {
            machine.spec.provider_id = None;
        }
        if let Some(present) = &mut machine.metadata.annotations {
            present.retain(|key, _| !annotations.contains(key));
        }
        if *owner_references {
            machine.metadata.owner_references = None;
        }
        machine
    }
}

/// A Machine as one would write it to make another: without what the server and the controllers put there, and without
/// what names its instance.
pub fn export(machine: &Machine) -> Machine {
    let ObjectMeta { name, namespace, labels, mut annotations, .. } = machine.metadata.clone();
    if let Some(annotations) = &mut annotations {
        annotations.retain(|key, _| !INSTANCE_ANNOTATIONS.contains(&key.as_str()));
    }
    let annotations = annotations.filter(|annotations| !annotations.is_empty());
    let metadata = ObjectMeta { name, namespace, labels, annotations, ..ObjectMeta::default() };
    let mut spec = machine.spec.clone();
    spec.provider_id = None;
    Machine { metadata, spec, status: None }
}

/// What to know before a copy of this Machine is made: the labels of a MachineSet's machine make its copy one of the set's.
pub fn adoption_warning(machine: &Machine) -> Option<String> {
    let owner = machine.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    let (kind, set) = (&owner.kind, &owner.name);
    let way = if kind == "MachineSet" { "scale the set to have one more" } else { "it makes its machines itself" };
    Some(format!(
        "{kind} {set} takes a copy with the same labels for its own, and then has one machine too many; {way}, or change the \
         labels of the copy"
    ))
}
