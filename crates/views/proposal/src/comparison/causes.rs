//! Which fragments a change comes from, told from where the parts come from that differ.

use std::collections::{BTreeMap, BTreeSet};

use api::machinist::{EntryKind, RenderedProvenanceSpec};
use change::diff::{Change, Changed, Diff};

/// What each fragment has to do with a change: the names of the parts that differ. A part that is gone was the fragment's that
/// it came from before.
#[must_use]
pub fn causes(
    diff: &Diff,
    old: Option<&RenderedProvenanceSpec>,
    new: Option<&RenderedProvenanceSpec>,
) -> BTreeMap<String, BTreeSet<String>> {
    let mut all = Causes { old, new, found: BTreeMap::new() };
    all.parts(EntryKind::Path, &diff.files);
    all.parts(EntryKind::Path, &diff.directories);
    all.parts(EntryKind::Path, &diff.links);
    for unit in &diff.units {
        all.named(EntryKind::Unit, &unit.name, unit.after.is_some());
        let dropins = [&unit.before, &unit.after].into_iter().flatten().flat_map(|side| side.dropins.keys());
        for dropin in dropins.collect::<BTreeSet<_>>() {
            let text =
                |side: &Option<change::content::Unit>| side.as_ref().and_then(|it| it.dropins.get(dropin)).cloned();
            if text(&unit.before) != text(&unit.after) {
                all.named(EntryKind::Dropin, &format!("{}/{dropin}", unit.name), text(&unit.after).is_some());
            }
        }
    }
    all.parts(EntryKind::User, &diff.users);
    all.parts(EntryKind::Key, &diff.users);
    all.list(EntryKind::Argument, diff.kernel_arguments.as_ref());
    all.list(EntryKind::Extension, diff.extensions.as_ref());
    for (name, changed) in [
        ("kernelType", diff.kernel_type.is_some()),
        ("fips", diff.fips.is_some()),
        ("osImageURL", diff.os_image.is_some()),
        ("baseOSExtensionsContainerImage", diff.extensions_image.is_some()),
    ] {
        if changed {
            all.named(EntryKind::Scalar, name, true);
            all.named(EntryKind::Scalar, name, false);
        }
    }
    all.found
}

struct Causes<'a> {
    old: Option<&'a RenderedProvenanceSpec>,
    new: Option<&'a RenderedProvenanceSpec>,
    found: BTreeMap<String, BTreeSet<String>>,
}

impl Causes<'_> {
    fn parts<T>(&mut self, kind: EntryKind, changes: &[Change<T>]) {
        for change in changes {
            self.named(kind, &change.name, change.after.is_some());
        }
    }

    fn list(&mut self, kind: EntryKind, change: Option<&Changed<Vec<String>>>) {
        let Some(Changed { before, after }) = change else { return };
        for value in after.iter().filter(|value| !before.contains(value)) {
            self.named(kind, value, true);
        }
        for value in before.iter().filter(|value| !after.contains(value)) {
            self.named(kind, value, false);
        }
    }

    fn named(&mut self, kind: EntryKind, name: &str, is_there: bool) {
        let provenance = if is_there { self.new } else { self.old };
        let entries = provenance.into_iter().flat_map(|it| &it.entries);
        for entry in entries.filter(|entry| entry.kind == kind && entry.name == name) {
            self.found.entry(entry.from.clone()).or_default().insert(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use api::machineconfiguration::{MachineConfig, MachineConfigPool};
    use change::content::Content;
    use serde_json::{Value, json};

    use super::*;

    fn rendered(fragments: &[(&str, Value)]) -> render::Rendered {
        let fragment = |(name, spec): &(&str, Value)| -> MachineConfig {
            serde_json::from_value(json!({
                "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
                "metadata": {"name": name, "labels": {"machineconfiguration.openshift.io/role": "worker"}}, "spec": spec,
            }))
            .unwrap()
        };
        let pool: MachineConfigPool = serde_json::from_value(json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "metadata": {"name": "worker"},
            "spec": {"machineConfigSelector": {"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}}},
        }))
        .unwrap();
        let fragments: Vec<_> = fragments.iter().map(fragment).collect();
        render::render(&pool, &fragments, &render::Settings::default(), &render::Fetched::default()).unwrap()
    }

    fn file(path: &str, text: &str) -> Value {
        let contents = json!({"source": format!("data:,{text}")});
        json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": [
            {"path": path, "mode": 0o644, "overwrite": true, "contents": contents},
        ]}}})
    }

    #[test]
    fn a_change_names_the_fragments_it_comes_from() {
        let quiet = json!({"kernelArguments": ["quiet"]});
        let old = rendered(&[("10-same", file("/a", "1")), ("20-two", file("/b", "1")), ("30-gone", file("/c", "1"))]);
        let new = rendered(&[("10-same", file("/a", "1")), ("20-two", file("/b", "2")), ("40-new", quiet)]);
        let (before, after) = Content::read_both(&old.machine_config, &new.machine_config).unwrap();
        let causes = causes(&Diff::between(&before, &after), Some(&old.provenance), Some(&new.provenance));
        let told: Vec<_> = causes.iter().map(|(from, parts)| format!("{from}: {parts:?}")).collect();
        assert_eq!(told, [r#"20-two: {"/b"}"#, r#"30-gone: {"/c"}"#, r#"40-new: {"quiet"}"#]);
    }
}
