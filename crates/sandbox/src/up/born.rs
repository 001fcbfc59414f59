//! The first boot of the machines that `up` begins with: each is born with its pool's config.
//!
//! It is the first boot of any new machine, with a config that comes from the API instead of the config server, so a fleet is up
//! without a rollout. A machine that has a config, or a Node, has booted before and is left alone.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use api::machineconfiguration::MachineConfig;
use change::host::Host;
use daemon::store::Store;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use host::directory::Directory;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use super::{Names, nodes};
use crate::first_boot::{self, Served};

/// A pool is rendered within a second. One that is not has a fragment that somebody must correct first, and its machines start
/// without a config and get one by a rollout.
const PATIENCE: Duration = Duration::from_secs(20);

/// First boots at once: each writes files and waits for the disk.
const AT_ONCE: usize = 8;

/// The machines that have not booted yet, and what they are born with.
#[derive(Clone, Default)]
pub(super) struct Births(Arc<BTreeMap<String, (&'static str, MachineConfig)>>);

impl Births {
    /// Waits for the configs of those that have no Node yet.
    pub(super) async fn expect(client: &Client, names: &Names) -> anyhow::Result<Self> {
        let known = Api::<Node>::all(client.clone()).list_metadata(&ListParams::default()).await;
        let known = known.context("cannot list nodes")?.items;
        let mut births = BTreeMap::new();
        for (pool, role) in nodes::POOLS {
            let is_new = |name: &String| !known.iter().any(|node| node.name_any() == *name);
            let new: Vec<&String> =
                names.iter().filter(|(name, own)| *own == role && is_new(name)).map(|(name, _)| name).collect();
            if new.is_empty() {
                continue;
            }
            let Ok(target) = tokio::time::timeout(PATIENCE, nodes::target_of(client, pool)).await else {
                tracing::warn!(pool, "the pool has no config; its machines start without one");
                continue;
            };
            let target = target?;
            let config = Api::<MachineConfig>::all(client.clone()).get(&target).await;
            let config = config.with_context(|| format!("cannot read MachineConfig {target}"))?;
            births.extend(new.into_iter().map(|name| (name.clone(), (pool, config.clone()))));
        }
        Ok(Self(Arc::new(births)))
    }

    /// The first boots of machines that live in folders.
    pub(super) async fn in_folders(&self, root_of: impl Fn(&str) -> PathBuf) -> anyhow::Result<()> {
        let boots = self.0.keys().map(|name| {
            let (births, name, root) = (self.clone(), name.clone(), root_of(name));
            async move {
                let boot = move || {
                    nodes::furnish(&root).with_context(|| format!("cannot make {}", root.display()))?;
                    let host = Directory::image_based(&root);
                    births.boot(&name, &host.with_context(|| format!("cannot open {}", root.display()))?)
                };
                tokio::task::spawn_blocking(boot).await.context("a first boot was interrupted")?
            }
        });
        stream::iter(boots).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// The first boot of one machine, if it is still to come.
    pub(super) fn boot(&self, name: &str, host: &dyn Host) -> anyhow::Result<()> {
        let Some((pool, config)) = self.0.get(name) else { return Ok(()) };
        let current = Store::new(host.files()).current();
        if current.with_context(|| format!("cannot tell whether {name} has booted before"))?.is_some() {
            return Ok(());
        }
        let served = Served::without_credential(config, pool)?;
        let (ended, _) = first_boot::carry_out(name, host, served);
        ended.with_context(|| format!("the first boot of {name} failed"))?;
        tracing::info!(machine = name, pool, "first boot is over");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn births(text: &str) -> Births {
        let config = json!({
            "ignition": {"version": "3.5.0"},
            "storage": {"files": [{"path": "/etc/motd", "contents": {"source": format!("data:,{text}")}}]},
        });
        let mut rendered = MachineConfig::default();
        rendered.metadata.name = Some(format!("rendered-worker-{text}"));
        rendered.spec.config = Some(config);
        Births(Arc::new(BTreeMap::from([("worker-1".to_owned(), ("worker", rendered))])))
    }

    #[test]
    fn a_machine_is_born_with_its_pools_config_and_without_a_credential() {
        let root = tempfile::tempdir().expect("a folder");
        let host = Directory::open(root.path()).expect("a host");
        births("one").boot("worker-1", &host).expect("it boots");
        assert_eq!(std::fs::read_to_string(root.path().join("etc/motd")).expect("its file"), "one");
        let born = Store::new(host.files()).birth().expect("it can be read").expect("it is told");
        assert_eq!(born[api::annotations::CURRENT_CONFIG], "rendered-worker-one");
        assert!(!root.path().join("etc/kubernetes/kubeconfig").exists());
        births("one").boot("worker-2", &host).expect("nobody expects it");
    }

    #[test]
    fn a_machine_that_knows_its_config_has_booted_before() {
        let root = tempfile::tempdir().expect("a folder");
        let host = Directory::open(root.path()).expect("a host");
        births("one").boot("worker-1", &host).expect("it boots");
        // Cut off before the daemon took over: the same once more.
        births("two").boot("worker-1", &host).expect("it boots again");
        assert_eq!(std::fs::read_to_string(root.path().join("etc/motd")).expect("its file"), "two");
        let (_, config) = births("two").0["worker-1"].clone();
        Store::new(host.files()).save_current(&config).expect("the daemon takes over");
        births("three").boot("worker-1", &host).expect("it is left alone");
        assert_eq!(std::fs::read_to_string(root.path().join("etc/motd")).expect("its file"), "two");
    }
}
