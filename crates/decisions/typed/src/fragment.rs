//! A generated fragment: files and kernel arguments, and the MachineConfig that carries them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use api::machineconfiguration::{MachineConfig, MachineConfigSpec};
use api::{annotations, labels};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

/// The version of the Ignition specification that generated fragments are written in.
const IGNITION: &str = "3.5.0";

/// A file that a fragment brings. It always replaces what is there.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    pub path: String,
    pub mode: u32,
    pub contents: String,
}

impl fmt::Debug for File {
    /// Without the content, which may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, mode, contents } = self;
        write!(f, "{path} ({mode:o}, {} bytes)", contents.len())
    }
}

impl File {
    /// A file that everybody may read.
    pub fn new(path: impl Into<String>, contents: impl Into<String>) -> Self {
        Self { path: path.into(), mode: 0o644, contents: contents.into() }
    }

    /// The file with other permissions.
    #[must_use]
    pub fn mode(self, mode: u32) -> Self {
        Self { mode, ..self }
    }

    /// The file in Ignition. Administrators cut the base64 out of the source to see what a file contains.
    pub fn to_ignition(&self) -> Value {
        json!({
            "path": self.path,
            "mode": self.mode,
            "overwrite": true,
            "contents": {"source": data_url(self.contents.as_bytes())},
        })
    }
}

/// A unit that a fragment brings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    pub name: String,
    pub enabled: Option<bool>,
    pub mask: Option<bool>,
    pub contents: Option<String>,
    pub dropins: Vec<(String, String)>,
}

impl Unit {
    fn to_ignition(&self) -> Value {
        let mut unit = json!({"name": self.name});
        if let Some(enabled) = self.enabled {
            unit["enabled"] = enabled.into();
        }
        if let Some(mask) = self.mask {
            unit["mask"] = mask.into();
        }
        if let Some(contents) = &self.contents {
            unit["contents"] = contents.clone().into();
        }
        if !self.dropins.is_empty() {
            let dropins = self.dropins.iter().map(|(name, contents)| json!({"name": name, "contents": contents}));
            unit["dropins"] = dropins.collect();
        }
        unit
    }
}

/// What a generated MachineConfig consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragment {
    pub files: Vec<File>,
    pub units: Vec<Unit>,
    pub kernel_arguments: Vec<String>,
    pub extensions: Vec<String>,
}

impl Fragment {
    /// A fragment of files. Ignition refuses a path that is there twice, so the first file of each path counts.
    pub fn of_files(mut files: Vec<File>) -> Self {
        let mut paths = BTreeSet::new();
        files.retain(|file| paths.insert(file.path.clone()));
        Self { files, ..Self::default() }
    }

    /// Whether it changes nothing on a host.
    pub fn is_empty(&self) -> bool {
        let Self { files, units, kernel_arguments, extensions } = self;
        files.is_empty() && units.is_empty() && kernel_arguments.is_empty() && extensions.is_empty()
    }

    /// Adds a unit, or what it says to a unit of the same name.
    pub fn add_unit(&mut self, unit: Unit) {
        match self.units.iter_mut().find(|known| known.name == unit.name) {
            Some(known) => {
                known.enabled = unit.enabled.or(known.enabled);
                known.mask = unit.mask.or(known.mask);
                known.contents = unit.contents.or_else(|| known.contents.take());
                known.dropins.extend(unit.dropins);
            }
            None => self.units.push(unit),
        }
    }

    /// The content of the file at a path.
    pub fn file(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.contents.as_str())
    }

    /// The MachineConfig of this name for a role, stamped with the version of the controller that makes it.
    pub fn machine_config(
        &self,
        name: &str,
        role: &str,
        version: &str,
        owner: Option<OwnerReference>,
    ) -> MachineConfig {
        let mut config = json!({"ignition": {"version": IGNITION}});
        if !self.files.is_empty() {
            config["storage"]["files"] = self.files.iter().map(File::to_ignition).collect();
        }
        if !self.units.is_empty() {
            config["systemd"]["units"] = self.units.iter().map(Unit::to_ignition).collect();
        }
        let stamp = (annotations::GENERATED_BY_CONTROLLER_VERSION.to_owned(), version.to_owned());
        MachineConfig {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some(BTreeMap::from([(labels::ROLE.to_owned(), role.to_owned())])),
                annotations: Some(BTreeMap::from([stamp])),
                owner_references: owner.map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            spec: MachineConfigSpec {
                config: Some(config),
                kernel_arguments: self.kernel_arguments.clone(),
                extensions: self.extensions.clone(),
                ..MachineConfigSpec::default()
            },
        }
    }
}

/// Bytes as a source that Ignition reads, in the form upstream writes.
fn data_url(bytes: &[u8]) -> String {
    format!("data:text/plain;charset=utf-8;base64,{}", STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_source_of_a_generated_file_is_base64_with_a_charset() {
        let fragment = Fragment::of_files(vec![File::new("/etc/a", "hello\n").mode(0o600)]);
        let config = fragment.machine_config("99-worker-generated-a", "worker", "v1", None);
        expect![[r#"{"ignition":{"version":"3.5.0"},"storage":{"files":[{"contents":{"source":"data:text/plain;charset=utf-8;base64,aGVsbG8K"},"mode":384,"overwrite":true,"path":"/etc/a"}]}}"#]]
            .assert_eq(&config.spec.config.expect("a config").to_string());
    }

    #[test]
    fn an_empty_fragment_still_says_which_ignition_it_is() {
        let config = Fragment::default().machine_config("99-worker-generated-registries", "worker", "v1", None);
        expect![[r#"{"ignition":{"version":"3.5.0"}}"#]].assert_eq(&config.spec.config.expect("a config").to_string());
    }
}
