//! The `apiVersion` and `kind` that a providerSpec carries.
//!
//! Nothing is read differently because of them, so a wrong one is a warning: it usually means that a spec was copied from
//! another platform, whose fields then show up as unknown.

use crate::provider::Verdict;

use super::field::{Path, listed};

/// The identities of a platform's spec that are expected.
#[derive(Debug, Clone, Copy)]
pub struct Identity {
    pub kind: &'static str,
    /// Today's group first.
    pub groups: &'static [&'static str],
    pub versions: &'static [&'static str],
}

impl Identity {
    /// Warns of an `apiVersion` or `kind` that is not this platform's.
    pub fn check(&self, api_version: &str, kind: &str, verdict: &mut Verdict) {
        let (group, version) = split(api_version);
        if kind == self.kind && self.groups.contains(&group) && self.versions.contains(&version) {
            return;
        }
        let expected = format!("{}/{}", self.groups.first().unwrap_or(&""), listed(self.versions));
        let detail = format!(
            "incorrect GroupVersionKind {api_version:?} {kind:?}: expected apiVersion {expected} and kind {}; the spec is \
             read as if it said so",
            self.kind
        );
        verdict.warn(&Path::spec().child("value"), detail);
    }
}

/// Group and version. Text with more than one slash is neither.
fn split(api_version: &str) -> (&str, &str) {
    match api_version.split_once('/') {
        None => ("", api_version),
        Some((_, rest)) if rest.contains('/') => ("", ""),
        Some(parts) => parts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: Identity =
        Identity { kind: "SomeSpec", groups: &["machine.openshift.io", "old.example"], versions: &["v1beta1", "v1"] };

    fn warnings(api_version: &str, kind: &str) -> Vec<String> {
        let mut verdict = Verdict::default();
        SPEC.check(api_version, kind, &mut verdict);
        assert!(verdict.problems.is_empty());
        verdict.warnings
    }

    #[test]
    fn old_and_new_groups_are_accepted() {
        for good in ["machine.openshift.io/v1beta1", "machine.openshift.io/v1", "old.example/v1beta1"] {
            assert!(warnings(good, "SomeSpec").is_empty(), "{good}");
        }
    }

    #[test]
    fn a_wrong_or_missing_identity_is_a_warning() {
        let bad = [
            ("machine.openshift.io/v1alpha1", "SomeSpec"),
            ("machine.openshift.io/v1beta1", ""),
            ("v1beta1", "SomeSpec"),
            ("", "SomeSpec"),
            ("machine.openshift.io/v1beta1/x", "SomeSpec"),
            ("machine.openshift.io/v1beta1", "OtherSpec"),
        ];
        for (api_version, kind) in bad {
            assert_eq!(warnings(api_version, kind).len(), 1, "{api_version} {kind}");
        }
    }
}
