//! A rendered config for reading: every part of it with its decoded contents, and the fragments it comes from.

use api::machineconfiguration::MachineConfig;
use api::machinist::{EntryKind, RenderedProvenanceSpec};
use change::content::{Content, Unit, User};

use crate::comparison::{Shown, describe_directory, describe_file, describe_link, describe_unit, shown};
use crate::secrets::Secrets;

/// One part of a config.
pub struct Part {
    pub kind: PartKind,
    /// A path, a unit, `unit/drop-in`, a user, or the name of a setting.
    pub name: String,
    /// Mode, owner and the like.
    pub attributes: Vec<(&'static str, String)>,
    /// Absent where there is nothing to read, as of a folder.
    pub contents: Option<Shown>,
    pub source: Option<Source>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    File,
    Folder,
    Link,
    Unit,
    Dropin,
    User,
    Setting,
}

/// The fragment whose content is used, and those whose content is not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    pub from: String,
    pub overrode: Vec<String>,
    /// What fragments of equal rank disagree about, a sentence each.
    pub conflicts: Vec<String>,
}

impl PartKind {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Folder => "folder",
            Self::Link => "link",
            Self::Unit => "unit",
            Self::Dropin => "drop-in",
            Self::User => "user",
            Self::Setting => "setting",
        }
    }
}

/// Every part of a config: files by path, then units, users and settings.
///
/// # Errors
/// When the config has no Ignition that can be read.
pub fn parts(
    config: &MachineConfig,
    provenance: Option<&RenderedProvenanceSpec>,
    secrets: Secrets,
) -> Result<Vec<Part>, ignition::Error> {
    let content = Content::read(config)?;
    let reader = Reader { provenance, secrets };
    let mut parts = reader.paths(&content);
    for (name, unit) in &content.units {
        reader.unit(name, unit, &mut parts);
    }
    parts.extend(content.users.iter().map(|(name, user)| reader.user(name, user)));
    parts.extend(reader.settings(&content));
    Ok(parts)
}

struct Reader<'a> {
    provenance: Option<&'a RenderedProvenanceSpec>,
    secrets: Secrets,
}

impl Reader<'_> {
    fn paths(&self, content: &Content) -> Vec<Part> {
        let path = |kind, name: &String, attributes, contents| Part {
            kind,
            name: name.clone(),
            attributes,
            contents,
            source: self.source(EntryKind::Path, name),
        };
        let files = content.files.iter();
        let files =
            files.map(|(name, it)| path(PartKind::File, name, describe_file(it), Some(shown(name, it, self.secrets))));
        let folders = content.directories.iter();
        let folders = folders.map(|(name, it)| path(PartKind::Folder, name, describe_directory(it), None));
        let links = content.links.iter().map(|(name, it)| path(PartKind::Link, name, describe_link(it), None));
        let mut all: Vec<Part> = files.chain(folders).chain(links).collect();
        all.sort_by(|one, two| one.name.cmp(&two.name));
        all
    }

    fn unit(&self, name: &str, unit: &Unit, parts: &mut Vec<Part>) {
        let attributes = describe_unit(unit).into_iter().filter(|(_, value)| value != "unset").collect();
        parts.push(Part {
            kind: PartKind::Unit,
            name: name.to_owned(),
            attributes,
            contents: (!unit.contents.is_empty()).then(|| self.text(&unit.contents)),
            source: self.source(EntryKind::Unit, name),
        });
        let dropins = unit.dropins.iter().map(|(dropin, text)| {
            let name = format!("{name}/{dropin}");
            let source = self.source(EntryKind::Dropin, &name);
            let contents = Some(self.text(text));
            Part { kind: PartKind::Dropin, name, attributes: Vec::new(), contents, source }
        });
        parts.extend(dropins);
    }

    fn user(&self, name: &str, user: &User) -> Part {
        let hash = user.password_hash.iter().map(|hash| format!("password {}", self.secrets.password(hash)));
        let other = user.other.iter().map(|(key, value)| self.secrets.text(&format!("{key}: {value}")).into_owned());
        let lines: Vec<String> = user.keys.iter().cloned().chain(hash).chain(other).collect();
        Part {
            kind: PartKind::User,
            name: name.to_owned(),
            attributes: Vec::new(),
            contents: Some(Shown::Text(lines.join("\n"))),
            source: self.source(EntryKind::User, name),
        }
    }

    fn settings(&self, content: &Content) -> Vec<Part> {
        let list = |kind: EntryKind, values: &[String]| -> Vec<Source> {
            values.iter().filter_map(|value| self.source(kind, value)).collect()
        };
        let together = |sources: Vec<Source>| {
            let names: std::collections::BTreeSet<String> = sources.into_iter().map(|source| source.from).collect();
            let from = names.into_iter().collect::<Vec<_>>().join(", ");
            (!from.is_empty()).then_some(Source { from, ..Source::default() })
        };
        let arguments = together(list(EntryKind::Argument, &content.kernel_arguments));
        let extensions = together(list(EntryKind::Extension, &content.extensions));
        let scalar = |field: &str| self.source(EntryKind::Scalar, field);
        let kernel = content.kernel_type.as_str();
        let all = [
            ("kernel arguments", content.kernel_arguments.join("\n"), arguments),
            ("extensions", content.extensions.join("\n"), extensions),
            ("kernel type", if kernel == "default" { String::new() } else { kernel.to_owned() }, scalar("kernelType")),
            ("FIPS mode", if content.fips { "on".to_owned() } else { String::new() }, scalar("fips")),
            ("OS image", content.os_image.clone(), scalar("osImageURL")),
            ("extensions image", content.extensions_image.clone(), scalar("baseOSExtensionsContainerImage")),
        ];
        let set = all.into_iter().filter(|(_, value, _)| !value.is_empty());
        let part = |(name, value, source): (&str, String, Option<Source>)| Part {
            kind: PartKind::Setting,
            name: name.to_owned(),
            attributes: Vec::new(),
            contents: Some(self.text(&value)),
            source,
        };
        set.map(part).collect()
    }

    fn text(&self, text: &str) -> Shown {
        Shown::Text(self.secrets.text(text).into_owned())
    }

    fn source(&self, kind: EntryKind, name: &str) -> Option<Source> {
        let provenance = self.provenance?;
        let entry = provenance.entries.iter().find(|entry| entry.kind == kind && entry.name == name)?;
        let about = provenance.conflicts.iter().filter(|it| it.kind == kind && it.name == name);
        let conflicts = about.map(|it| format!("{} ({})", self.secrets.text(&it.message), it.fragments.join(", ")));
        Some(Source { from: entry.from.clone(), overrode: entry.overrode.clone(), conflicts: conflicts.collect() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn fragment(name: &str, files: serde_json::Value) -> MachineConfig {
        let user = json!({"name": "core", "passwordHash": "$6$x", "sshAuthorizedKeys": ["ssh-ed25519 AAAA"]});
        let config = json!({
            "ignition": {"version": "3.5.0"}, "storage": {"files": files}, "passwd": {"users": [user]},
            "systemd": {"units": [{"name": "a.service", "enabled": true, "contents": "[Service]\nExecStart=/bin/true\n"}]},
        });
        let labels = json!({"machineconfiguration.openshift.io/role": "worker"});
        serde_json::from_value(json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": {"name": name, "labels": labels}, "spec": {"config": config, "kernelArguments": ["quiet"]},
        }))
        .unwrap()
    }

    fn file(path: &str, mode: u32, text: &str) -> serde_json::Value {
        json!({"path": path, "mode": mode, "overwrite": true, "contents": {"source": format!("data:,{text}")}})
    }

    #[test]
    fn each_part_names_its_fragment_and_what_is_secret_stays_so() {
        let one = fragment("10-one", json!([file("/etc/motd", 0o644, "one"), file("/etc/key", 0o600, "hidden")]));
        let two = fragment("20-two", json!([file("/etc/motd", 0o644, "two")]));
        let pool: api::machineconfiguration::MachineConfigPool = serde_json::from_value(json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "metadata": {"name": "worker"},
            "spec": {"machineConfigSelector": {"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}}},
        }))
        .unwrap();
        let rendered =
            render::render(&pool, &[one, two], &render::Settings::default(), &render::Fetched::default()).unwrap();
        let parts = parts(&rendered.machine_config, Some(&rendered.provenance), Secrets::Masked).unwrap();
        let lines = parts.iter().map(|part| {
            let contents = match &part.contents {
                Some(Shown::Text(text) | Shown::Summary(text)) => text.as_str(),
                None => "",
            };
            let source = part.source.clone().unwrap_or_default();
            let word = part.kind.word();
            format!("{word} {}: {contents:?} from {} overrode {:?}\n", part.name, source.from, source.overrode)
        });
        expect![[r#"
            file /etc/key: "<masked, 6 bytes>" from 10-one overrode []
            file /etc/motd: "two" from 20-two overrode ["10-one"]
            unit a.service: "[Service]\nExecStart=/bin/true\n" from 20-two overrode ["10-one"]
            user core: "ssh-ed25519 AAAA\npassword <masked>" from 20-two overrode ["10-one"]
            setting kernel arguments: "quiet\nquiet" from 10-one overrode []
        "#]]
        .assert_eq(&lines.collect::<String>());
    }
}
