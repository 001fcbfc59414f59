//! Which of our own writes the watches have shown already, and where an object stands in the watches.
//!
//! A plan that is made before they are shown would ask for the same writes again. Nothing is decided from what is kept here:
//! a process that starts anew only looks sooner.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::watch::Key;
use kube::Resource;
use kube::api::ObjectMeta;
use parking_lot::Mutex;
use rollout::ResourceVersion;
use tokio::time::Instant;
use typed::plan::Object;

use crate::world::World;

/// A watch that has not shown a write by then may have lost it; conflicts guard what is written after.
const PATIENCE: Duration = Duration::from_secs(5);

/// Our writes that no watch has shown yet.
#[derive(Default)]
pub(super) struct Written {
    awaited: Mutex<BTreeMap<Object, (Expected, Instant)>>,
}

enum Expected {
    /// The object in this version or a later one, or no object.
    Version(u64),
    /// Not the object with this uid.
    Gone(Option<String>),
}

impl Written {
    /// Notes a write and the version that it made.
    pub(super) fn wrote(&self, object: Object, metadata: &ObjectMeta) {
        let version = number(metadata);
        self.awaited.lock().insert(object, (Expected::Version(version), Instant::now()));
    }

    pub(super) fn deleted(&self, object: Object, uid: Option<String>) {
        self.awaited.lock().insert(object, (Expected::Gone(uid), Instant::now()));
    }

    /// Whether the watches still have to show a write.
    pub(super) fn is_awaited(&self, world: &World) -> bool {
        let mut awaited = self.awaited.lock();
        awaited.retain(|object, (expected, since)| {
            let present = find(world, object);
            let is_shown = match (expected, present) {
                (Expected::Version(version), Some(present)) => number(&present) >= *version,
                (Expected::Gone(uid), Some(present)) => present.uid != *uid,
                // It may not have come yet, or have gone already.
                (Expected::Version(_), None) => false,
                (Expected::Gone(_), None) => true,
            };
            !is_shown && since.elapsed() < PATIENCE
        });
        !awaited.is_empty()
    }
}

fn number(metadata: &ObjectMeta) -> u64 {
    ResourceVersion::parse(metadata.resource_version.as_deref().unwrap_or_default()).number
}

/// Name, uid and version of an object as the watches show it.
pub(super) fn find(world: &World, object: &Object) -> Option<ObjectMeta> {
    let key = Key::in_namespace(object.namespace.as_deref().unwrap_or_default(), &object.name);
    let typed = &world.typed;
    match object.kind {
        "MachineConfig" => world.configs.get(&key).map(|it| meta(&*it)),
        "ControllerConfig" => world.controller_configs.get(&key).map(|it| meta(&*it)),
        "KubeletConfig" => typed.kubelet_configs.get(&key).map(|it| meta(&*it)),
        "ContainerRuntimeConfig" => typed.runtime_configs.get(&key).map(|it| meta(&*it)),
        "Node" => typed.nodes.get(&key).map(|it| meta(&*it)),
        "FeatureGate" => typed.feature_gates.get(&key).map(|it| meta(&*it)),
        "APIServer" => typed.api_servers.get(&key).map(|it| meta(&*it)),
        "Image" => typed.images.get(&key).map(|it| meta(&*it)),
        "ImageContentSourcePolicy" => typed.content_policies.get(&key).map(|it| meta(&*it)),
        "ImageDigestMirrorSet" => typed.digest_mirrors.get(&key).map(|it| meta(&*it)),
        "ImageTagMirrorSet" => typed.tag_mirrors.get(&key).map(|it| meta(&*it)),
        "ClusterImagePolicy" => typed.cluster_policies.get(&key).map(|it| meta(&*it)),
        "ImagePolicy" => typed.policies.get(&key).map(|it| meta(&*it)),
        "MachineOSConfig" => typed.os_configs.get(&key).map(|it| meta(&*it)),
        "MachineOSBuild" => typed.os_builds.get(&key).map(|it| meta(&*it)),
        "PinnedImageSet" => typed.pinned.get(&key).map(|it| meta(&*it)),
        "KeptConfig" => typed.kept.get(&key).map(|it| meta(&*it)),
        "MachineConfiguration" => world.machine_configurations.get(&key).map(|it| meta(&*it)),
        kind => typed.bare(kind)?.get(&key).map(|it| (*it).clone()),
    }
}

fn meta(object: &impl Resource) -> ObjectMeta {
    let metadata = object.meta();
    ObjectMeta {
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        ..ObjectMeta::default()
    }
}
