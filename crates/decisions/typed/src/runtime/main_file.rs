//! containerd's main file, which says whether containerd reads what is generated for it.
//!
//! The main file of a host that we do not configure is its own, and no drop-in can make containerd read drop-ins. So what it
//! says has to be known: from a MachineConfig that writes it, or from the ClusterSettings.

use std::collections::BTreeMap;

use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use api::machinist::ContainerdSettings;
use api::selector::Selector;
use toml::{Table, Value};

use super::containerd;
use crate::defaults::content;
use crate::registries::hosts;

/// The main file.
pub const PATH: &str = "/etc/containerd/config.toml";

/// The plugins that read the folder of host files, by the version of the main file: from 3 on, and before.
const IMAGES: [&str; 2] = ["io.containerd.cri.v1.images", "io.containerd.grpc.v1.cri"];

/// A MachineConfig that writes the main file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    name: String,
    labels: BTreeMap<String, String>,
    text: String,
}

impl Written {
    /// What a MachineConfig says about the main file, if it says anything.
    pub fn find(config: &MachineConfig) -> Option<Self> {
        // Most MachineConfigs do not name it, and reading one is dear.
        let files = config.spec.config.as_ref()?.pointer("/storage/files")?.as_array()?;
        files.iter().find(|file| file["path"] == PATH)?;
        Some(Self {
            name: config.metadata.name.clone().unwrap_or_default(),
            labels: config.metadata.labels.clone().unwrap_or_default(),
            text: content(config, PATH)?,
        })
    }
}

/// What is known of the main file of a pool's hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MainFile {
    /// Where that is from; empty where nothing is known.
    from: String,
    reads_hosts: bool,
    reads_dropins: bool,
    content: Option<Table>,
}

impl MainFile {
    /// What the fragments of a pool say, the last of them; without one, what the settings say. `template` is what templates
    /// make of it.
    pub fn of(
        pool: &MachineConfigPool,
        written: &[Written],
        template: Option<&str>,
        settings: Option<&ContainerdSettings>,
    ) -> Self {
        let selector = pool.spec.machine_config_selector.as_ref().and_then(|selector| Selector::parse(selector).ok());
        let mut selected: Vec<&Written> = written
            .iter()
            .filter(|one| selector.as_ref().is_some_and(|it| !it.is_empty() && it.matches(&one.labels)))
            .collect();
        selected.sort_by_key(|one| &one.name);
        let last = selected.last().map(|one| (format!("MachineConfig {}", one.name), one.text.as_str()));
        match last.or_else(|| template.map(|text| ("the templates".to_owned(), text))) {
            Some((from, text)) => Self::parse(&from, text),
            None => Self {
                from: String::new(),
                reads_hosts: settings.is_some_and(|it| it.reads_hosts),
                reads_dropins: settings.is_some_and(|it| it.reads_dropins),
                content: None,
            },
        }
    }

    /// What a text says, and where it is from.
    pub fn parse(from: &str, text: &str) -> Self {
        let from = from.to_owned();
        let Ok(content) = toml::from_str::<Table>(text) else { return Self { from, ..Self::default() } };
        let imports = content.get("imports").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let wanted =
            [format!("{}/*.toml", containerd::FOLDER), format!("{}/*", containerd::FOLDER), "conf.d/*.toml".to_owned()];
        let reads_dropins = imports.into_iter().any(|import| wanted.iter().any(|it| it == import));
        let registry =
            |plugin: &&str| content.get("plugins")?.get(*plugin)?.get("registry")?.get("config_path")?.as_str();
        let folders = IMAGES.iter().filter_map(registry).flat_map(|folders| folders.split(':'));
        let reads_hosts = folders.into_iter().any(|folder| folder.trim_end_matches('/') == hosts::FOLDER);
        Self { from, reads_hosts, reads_dropins, content: Some(content) }
    }

    /// The text, as far as it is known.
    pub(crate) fn content(&self) -> Option<&Table> {
        self.content.as_ref()
    }

    /// Whether containerd is known to read the folder of host files.
    pub fn reads_hosts(&self) -> bool {
        self.reads_hosts
    }

    /// Whether containerd is known to read the folder of drop-ins.
    pub fn reads_dropins(&self) -> bool {
        self.reads_dropins
    }

    /// Why host files are not known to have an effect.
    pub(crate) fn refuses_hosts(&self, pool: &str) -> Option<String> {
        let line = format!("config_path = {:?}", hosts::FOLDER);
        (!self.reads_hosts).then(|| self.refusal(pool, hosts::FOLDER, &line, "readsHosts"))
    }

    /// Why drop-ins are not known to have an effect.
    pub(crate) fn refuses_dropins(&self, pool: &str) -> Option<String> {
        let line = format!("imports = [\"{}/*.toml\"]", containerd::FOLDER);
        (!self.reads_dropins).then(|| self.refusal(pool, containerd::FOLDER, &line, "readsDropins"))
    }

    fn refusal(&self, pool: &str, folder: &str, line: &str, field: &str) -> String {
        let start = format!("containerd of pool {pool:?} is not known to read {folder}");
        match self.from.as_str() {
            "" => format!(
                "{start}: write {PATH} with {line} by a MachineConfig, or set spec.containerd.{field} of ClusterSettings cluster to true where hosts have that line already"
            ),
            from => format!("{start}: {PATH} from {from} has no {line}; add it there"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn pool() -> MachineConfigPool {
        let roles = json!({"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}});
        let pool = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": {"name": "worker"}, "spec": {"machineConfigSelector": roles}});
        serde_json::from_value(pool).unwrap()
    }

    fn written(name: &str, role: &str, text: &str) -> Written {
        let source = ignition::data_url::encode(text.as_bytes());
        let files = json!([{"path": PATH, "contents": {"source": source}}]);
        let config = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": {"name": name, "labels": {"machineconfiguration.openshift.io/role": role}},
            "spec": {"config": {"ignition": {"version": "3.4.0"}, "storage": {"files": files}}}});
        Written::find(&serde_json::from_value(config).unwrap()).unwrap()
    }

    fn says(written: &[Written], settings: Option<&ContainerdSettings>) -> String {
        let file = MainFile::of(&pool(), written, None, settings);
        let said = [file.refuses_hosts("worker"), file.refuses_dropins("worker")];
        said.map(|why| why.unwrap_or_else(|| "reads it".to_owned())).join("\n")
    }

    const NEW: &str = "version = 3\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n[plugins.\"io.containerd.cri.v1.images\".registry]\nconfig_path = \"/etc/containerd/certs.d:/etc/docker/certs.d\"\n";
    const OLD: &str =
        "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = \"/etc/containerd/certs.d/\"\n";

    #[test]
    fn what_nobody_says_is_not_known() {
        expect![[r#"
            containerd of pool "worker" is not known to read /etc/containerd/certs.d: write /etc/containerd/config.toml with config_path = "/etc/containerd/certs.d" by a MachineConfig, or set spec.containerd.readsHosts of ClusterSettings cluster to true where hosts have that line already
            containerd of pool "worker" is not known to read /etc/containerd/conf.d: write /etc/containerd/config.toml with imports = ["/etc/containerd/conf.d/*.toml"] by a MachineConfig, or set spec.containerd.readsDropins of ClusterSettings cluster to true where hosts have that line already"#]]
        .assert_eq(&says(&[], None));
        let settings = ContainerdSettings { reads_hosts: true, reads_dropins: true };
        assert_eq!(says(&[], Some(&settings)), "reads it\nreads it");
    }

    #[test]
    fn a_fragment_of_the_pool_says_what_the_main_file_reads() {
        assert_eq!(says(&[written("a", "worker", NEW)], None), "reads it\nreads it");
        assert!(says(&[written("a", "master", NEW)], None).contains("not known"));
        expect![[r#"
            reads it
            containerd of pool "worker" is not known to read /etc/containerd/conf.d: /etc/containerd/config.toml from MachineConfig b has no imports = ["/etc/containerd/conf.d/*.toml"]; add it there"#]]
        .assert_eq(&says(&[written("b", "worker", OLD), written("a", "worker", NEW)], None));
        // The file counts more than what somebody says about hosts without it.
        let settings = ContainerdSettings { reads_hosts: true, reads_dropins: true };
        assert!(says(&[written("a", "worker", "no = toml = at all")], Some(&settings)).contains("has no config_path"));
    }
}
