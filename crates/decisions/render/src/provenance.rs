//! Who said what: for every part of a rendered config the fragment whose word stands, and those it overrode.
//!
//! Traced over the parsed fragments, before they are merged. It repeats in small what the merge does, and a test holds the
//! two together: every part of the result has exactly one entry, and its fragment says what the result says.

use std::collections::{BTreeMap, HashMap};

use api::machineconfiguration::MachineConfig;
use api::machinist::{Conflict, Entry, EntryKind, Fragment, RenderedProvenanceSpec};
use ignition::{Config, File, Resource, Unit};

use crate::conflict::{self, Word};
use crate::{is_generated, name_of};

/// The provenance of a config, with fragments still by their place.
pub(crate) struct Traced {
    parts: Vec<((EntryKind, String), usize, Vec<usize>)>,
    conflicts: Vec<Conflict>,
    /// Where remote content was asked for, by path and source.
    remote: HashMap<(String, String), usize>,
}

/// One part: the fragment that stands, and earlier ones that do not.
struct Part<'a> {
    from: usize,
    overrode: Vec<usize>,
    word: Word<'a>,
}

impl Traced {
    /// The fragment whose file at `path` names this remote source.
    pub(crate) fn origin(&self, path: &str, source: &str) -> usize {
        self.remote.get(&(path.to_owned(), source.to_owned())).copied().unwrap_or_default()
    }

    pub(crate) fn into_spec(self, pool: &str, fragments: &[&MachineConfig]) -> RenderedProvenanceSpec {
        let name = |index: usize| name_of(fragments[index]).to_owned();
        let entry = |((kind, part), from, overrode): ((EntryKind, String), usize, Vec<usize>)| Entry {
            kind,
            name: part,
            from: name(from),
            overrode: overrode.into_iter().map(name).collect(),
        };
        RenderedProvenanceSpec {
            pool: pool.to_owned(),
            fragments: fragments.iter().map(|fragment| reference(fragment)).collect(),
            entries: self.parts.into_iter().map(entry).collect(),
            conflicts: self.conflicts,
            pins: Vec::new(),
            archive: None,
        }
    }
}

fn reference(fragment: &MachineConfig) -> Fragment {
    Fragment {
        name: name_of(fragment).to_owned(),
        uid: fragment.metadata.uid.clone(),
        generation: fragment.metadata.generation,
    }
}

pub(crate) fn trace<'a>(fragments: &[&'a MachineConfig], configs: &'a [Option<Config>]) -> Traced {
    let mut tracer =
        Tracer { fragments, now: 0, parts: BTreeMap::new(), conflicts: Vec::new(), remote: HashMap::new() };
    for (index, (fragment, config)) in fragments.iter().zip(configs).enumerate() {
        tracer.now = index;
        tracer.spec(fragment);
        if let Some(config) = config {
            tracer.config(config);
        }
    }
    let parts = tracer.parts.into_iter().map(|(key, part)| (key, part.from, part.overrode)).collect();
    Traced { parts, conflicts: tracer.conflicts, remote: tracer.remote }
}

struct Tracer<'t, 'a> {
    fragments: &'t [&'a MachineConfig],
    now: usize,
    parts: BTreeMap<(EntryKind, String), Part<'a>>,
    conflicts: Vec<Conflict>,
    remote: HashMap<(String, String), usize>,
}

impl<'a> Tracer<'_, 'a> {
    /// This fragment's word on a part stands from now on.
    fn wins(&mut self, kind: EntryKind, name: String, word: Word<'a>) {
        match self.parts.get_mut(&(kind, name.clone())) {
            None => {
                self.parts.insert((kind, name), Part { from: self.now, overrode: Vec::new(), word });
            }
            Some(part) => {
                let (before, now) = (self.fragments[part.from], self.fragments[self.now]);
                if let Some(message) = conflict::between(before, now, &part.word, &word) {
                    let fragments = vec![name_of(before).to_owned(), name_of(now).to_owned()];
                    self.conflicts.push(Conflict { kind, name, fragments, message });
                }
                part.overrode.push(part.from);
                part.from = self.now;
                part.word = word;
            }
        }
    }

    /// This fragment's word stands only if nobody spoke before.
    fn adds(&mut self, kind: EntryKind, name: String) {
        self.parts.entry((kind, name)).or_insert(Part { from: self.now, overrode: Vec::new(), word: Word::Nothing });
    }

    fn scalar(&mut self, set: bool, name: impl FnOnce() -> String) {
        if set {
            self.wins(EntryKind::Scalar, name(), Word::Nothing);
        }
    }

    fn spec(&mut self, fragment: &'a MachineConfig) {
        let spec = &fragment.spec;
        for argument in &spec.kernel_arguments {
            self.adds(EntryKind::Argument, argument.clone());
        }
        for extension in &spec.extensions {
            self.adds(EntryKind::Extension, extension.clone());
        }
        if spec.fips == Some(true) {
            self.wins(EntryKind::Scalar, "fips".to_owned(), Word::Nothing);
        }
        if let Some(kernel) = spec.kernel_type.as_deref().filter(|kernel| !matches!(*kernel, "" | "default")) {
            self.wins(EntryKind::Scalar, "kernelType".to_owned(), Word::Text(kernel));
        }
        let images = [
            ("osImageURL", &spec.os_image_url),
            ("baseOSExtensionsContainerImage", &spec.base_os_extensions_container_image),
        ];
        for (name, image) in images {
            let image = image.as_deref().filter(|image| !image.is_empty() && !is_generated(fragment));
            if let Some(image) = image {
                self.wins(EntryKind::Scalar, name.to_owned(), Word::Text(image));
            }
        }
    }

    fn config(&mut self, config: &'a Config) {
        self.storage(config);
        for unit in config.systemd.iter().flat_map(|systemd| systemd.units.iter().flatten()) {
            self.unit(unit);
        }
        for user in config.passwd.iter().flat_map(|passwd| passwd.users.iter().flatten()) {
            self.wins(EntryKind::User, user.name.clone(), Word::Nothing);
            for key in user.ssh_authorized_keys.iter().flatten() {
                self.adds(EntryKind::Key, format!("{}/{key}", user.name));
            }
        }
        for group in config.passwd.iter().flat_map(|passwd| passwd.groups.iter().flatten()) {
            self.scalar(true, || format!("config.passwd.groups[{}]", group.name));
        }
        if let Some(arguments) = &config.kernel_arguments {
            for argument in arguments.should_exist.iter().flatten() {
                self.adds(EntryKind::Scalar, format!("config.kernelArguments.shouldExist[{argument}]"));
            }
            for argument in arguments.should_not_exist.iter().flatten() {
                self.adds(EntryKind::Scalar, format!("config.kernelArguments.shouldNotExist[{argument}]"));
            }
        }
        let ignition = &config.ignition;
        self.scalar(ignition.config.is_some(), || "config.ignition.config".to_owned());
        self.scalar(ignition.proxy.is_some(), || "config.ignition.proxy".to_owned());
        self.scalar(ignition.security.is_some(), || "config.ignition.security".to_owned());
        self.scalar(ignition.timeouts.is_some(), || "config.ignition.timeouts".to_owned());
    }

    fn storage(&mut self, config: &'a Config) {
        let Some(storage) = &config.storage else { return };
        for directory in storage.directories.iter().flatten() {
            self.node(&directory.path);
        }
        for file in storage.files.iter().flatten() {
            self.file(file);
        }
        for link in storage.links.iter().flatten() {
            self.node(&link.path);
        }
        for disk in storage.disks.iter().flatten() {
            self.scalar(true, || format!("config.storage.disks[{}]", disk.device));
        }
        for filesystem in storage.filesystems.iter().flatten() {
            self.scalar(true, || format!("config.storage.filesystems[{}]", filesystem.device));
        }
        for raid in storage.raid.iter().flatten() {
            self.scalar(true, || format!("config.storage.raid[{}]", raid.name));
        }
        for luks in storage.luks.iter().flatten() {
            self.scalar(true, || format!("config.storage.luks[{}]", luks.name));
        }
    }

    /// A directory or link takes its path whole.
    fn node(&mut self, path: &str) {
        self.forget_details(path);
        self.wins(EntryKind::Path, path.to_owned(), Word::Node);
    }

    /// A file's path belongs to whoever brings the contents; whoever only sets its mode or owner is noted for those.
    fn file(&mut self, file: &'a File) {
        let path = &file.path;
        for resource in file.contents.iter().chain(file.append.iter().flatten()) {
            self.note_remote(path, resource);
        }
        let key = (EntryKind::Path, path.clone());
        let was_file = self.parts.get(&key).is_some_and(|part| !matches!(part.word, Word::Node));
        let contents = file.contents.as_ref().filter(|contents| contents.source.is_some());
        if contents.is_some() || !was_file {
            if !was_file {
                self.forget_details(path);
            }
            let word = contents.map_or(Word::Nothing, Word::Contents);
            self.wins(EntryKind::Path, path.clone(), word);
        }
        let details = [
            ("mode", file.mode.is_some()),
            ("user", file.user.is_some()),
            ("group", file.group.is_some()),
            ("overwrite", file.overwrite.is_some()),
            ("append", file.append.as_ref().is_some_and(|parts| !parts.is_empty())),
        ];
        for (detail, _) in details.iter().filter(|(_, set)| *set) {
            let owner = self.parts.get(&key).map(|part| part.from);
            let name = format!("config.storage.files[{path}].{detail}");
            // The entry of the path says it already, unless another fragment spoke on this detail before.
            if owner != Some(self.now) || self.parts.contains_key(&(EntryKind::Scalar, name.clone())) {
                self.wins(EntryKind::Scalar, name, Word::Nothing);
            }
        }
    }

    fn note_remote(&mut self, path: &str, resource: &Resource) {
        if !ignition::is_inline(resource) {
            let source = resource.source.clone().unwrap_or_default();
            self.remote.insert((path.to_owned(), source), self.now);
        }
    }

    /// What was said about the file that was here no longer stands.
    fn forget_details(&mut self, path: &str) {
        let prefix = format!("config.storage.files[{path}].");
        let start = (EntryKind::Scalar, prefix.clone());
        let stale: Vec<_> = self
            .parts
            .range(start..)
            .map(|(key, _)| key)
            .take_while(|key| key.1.starts_with(&prefix))
            .cloned()
            .collect();
        for key in stale {
            self.parts.remove(&key);
        }
    }

    fn unit(&mut self, unit: &'a Unit) {
        let name = &unit.name;
        let key = (EntryKind::Unit, name.clone());
        if unit.contents.is_some() || !self.parts.contains_key(&key) {
            let word = unit.contents.as_deref().map_or(Word::Nothing, Word::Text);
            self.wins(EntryKind::Unit, name.clone(), word);
        }
        for (detail, set) in [("enabled", unit.enabled.is_some()), ("mask", unit.mask.is_some())] {
            let owner = self.parts.get(&key).map(|part| part.from);
            let scalar = format!("config.systemd.units[{name}].{detail}");
            if set && (owner != Some(self.now) || self.parts.contains_key(&(EntryKind::Scalar, scalar.clone()))) {
                self.wins(EntryKind::Scalar, scalar, Word::Nothing);
            }
        }
        for dropin in unit.dropins.iter().flatten() {
            let key = format!("{name}/{}", dropin.name);
            match dropin.contents.as_deref() {
                Some(text) => self.wins(EntryKind::Dropin, key, Word::Text(text)),
                None => self.adds(EntryKind::Dropin, key),
            }
        }
    }
}
