//! Templates of machines: how they are told apart, and whether a machine still looks like its own.

use api::labels::MACHINE_TEMPLATE_HASH;
use api::machine::{Machine, MachineSpec, MachineTemplateSpec, ProviderSpec, annotation};
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

/// The template as a person wrote it, in today's spelling.
pub fn without_hash(template: &MachineTemplateSpec) -> MachineTemplateSpec {
    let mut template = template.clone();
    if let Some(spec) = &mut template.spec {
        spec.provider_spec = provider(spec);
        spec.provider_config = None;
    }
    if let Some(metadata) = &mut template.metadata {
        metadata.labels.remove(MACHINE_TEMPLATE_HASH);
        if *metadata == Default::default() {
            template.metadata = None;
        }
    }
    template
}

/// The provider's part: the older spelling only where today's says nothing.
fn provider(spec: &MachineSpec) -> Option<ProviderSpec> {
    let says = |one: &&ProviderSpec| one.value.is_some();
    spec.provider_spec.as_ref().filter(says).or(spec.provider_config.as_ref()).or(spec.provider_spec.as_ref()).cloned()
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
                provider(&machine.spec) == provider(spec)
                    && machine.spec.metadata == spec.metadata
                    && machine.spec.taints == spec.taints
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn the_older_spelling_asks_for_the_same_machine() {
        let template = |field: &str, size: u32| -> MachineTemplateSpec {
            serde_json::from_value(json!({"spec": {field: {"value": {"size": size}}}})).unwrap()
        };
        let (older, today) = (template("providerConfig", 1), template("providerSpec", 1));
        assert_eq!(hash(&older), hash(&today));
        assert!(is_same(&older, &today));
        assert!(!is_same(&older, &template("providerSpec", 2)));
        let machine: Machine =
            serde_json::from_value(json!({"metadata": {}, "spec": {"providerConfig": {"value": {"size": 1}}}}))
                .unwrap();
        assert!(Fingerprint::of(&today).matches(&machine));
        assert!(!Fingerprint::of(&template("providerConfig", 2)).matches(&machine));
    }
}
