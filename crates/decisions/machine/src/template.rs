//! Templates of machines: how they are told apart, and whether a machine still looks like its own.

use api::labels::MACHINE_TEMPLATE_HASH;
use api::machine::{Machine, MachineTemplateSpec, annotation};
use sha2::{Digest, Sha256};

/// Letters and digits that do not form words by accident, as Kubernetes uses in generated names.
pub(crate) const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A short text that is equal for equal templates, whatever deployment made them its own.
pub fn hash(template: &MachineTemplateSpec) -> String {
    salted_hash(template, 0)
}

/// Another hash of the same template, for when the first one's name is taken.
pub(crate) fn salted_hash(template: &MachineTemplateSpec, salt: u32) -> String {
    let text = serde_json::to_string(&without_hash(template)).unwrap_or_default();
    let digest = if salt == 0 { Sha256::digest(text) } else { Sha256::digest(format!("{salt}/{text}")) };
    digest.iter().take(10).map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])).collect()
}

/// The template as a person wrote it.
pub fn without_hash(template: &MachineTemplateSpec) -> MachineTemplateSpec {
    let mut template = template.clone();
    if let Some(metadata) = &mut template.metadata {
        metadata.labels.remove(MACHINE_TEMPLATE_HASH);
        if *metadata == Default::default() {
            template.metadata = None;
        }
    }
    template
}

/// Whether two templates ask for the same machine.
pub fn is_same(one: &MachineTemplateSpec, other: &MachineTemplateSpec) -> bool {
    without_hash(one) == without_hash(other)
}

/// A template with its hash, for many comparisons.
pub struct Fingerprint<'a> {
    template: &'a MachineTemplateSpec,
    hash: String,
}

impl<'a> Fingerprint<'a> {
    pub fn of(template: &'a MachineTemplateSpec) -> Self {
        Self { template, hash: hash(template) }
    }

    /// Whether a Machine looks like the template. One that was made by us says which template it came from; admission may
    /// have filled in its spec since, so the specs themselves are compared only where nothing is recorded.
    pub fn matches(&self, machine: &Machine) -> bool {
        let recorded = machine.metadata.annotations.as_ref().and_then(|all| all.get(annotation::TEMPLATE_HASH));
        match (recorded, &self.template.spec) {
            (Some(recorded), _) => *recorded == self.hash,
            (None, None) => machine.spec == Default::default(),
            (None, Some(spec)) => {
                machine.spec.provider_spec == spec.provider_spec
                    && machine.spec.metadata == spec.metadata
                    && machine.spec.taints == spec.taints
            }
        }
    }
}
