//! Brings certificates and pull secrets of the ControllerConfig to the host.
//!
//! It runs beside the main loop: neither a paused pool nor an update under way holds it up, and nothing here reboots or
//! drains. What is on disk already is not written again. Only a kubelet that learns of a new authority of the API is
//! restarted, which its pods do not notice.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::{annotations, names};
use change::credentials::{Credentials, KUBECONFIGS, REGISTRIES, credentials, stale, trusting};
use change::host::{Attributes, EntryKind, Error, Host, HostPath};
use cluster::events::Severity;
use cluster::{Events, Patience};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::json;

/// Which registries' folders came from a ControllerConfig, so that only those are ever removed.
const MEMORY: &str = "/etc/machine-config-daemon/registries.json";
/// A field manager of its own: the node's report is applied whole by another.
const MANAGER: &str = "machinist-daemon-certificates";
const KUBELET: &str = "kubelet.service";

/// Follows the ControllerConfig until the task is dropped.
pub(crate) async fn follow(host: Arc<dyn Host>, client: Client, node: String, events: Events) {
    let kind = GroupVersionKind::gvk("machineconfiguration.openshift.io", "v1", "ControllerConfig");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let config = watcher::Config::default().fields(&format!("metadata.name={}", names::CONTROLLER_CONFIG));
    let mut watch = std::pin::pin!(watcher(api, config));
    let mut patience = Patience::up_to(crate::LONGEST_PAUSE);
    let mut synced = String::new();
    while let Some(event) = patience.then(watch.next()).await {
        if let Ok(event) = &event {
            patience.hear(event);
        }
        let object = match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => object,
            Ok(Event::Init | Event::InitDone | Event::Delete(_)) => continue,
            Err(error) => {
                // A cluster without an operator has none, and hosts do without.
                tracing::debug!(error = &error as &dyn std::error::Error, "the ControllerConfig cannot be followed");
                patience.lose();
                continue;
            }
        };
        let version = object.metadata.resource_version.clone().unwrap_or_default();
        if version == synced {
            continue;
        }
        let wanted = credentials(&object.data["spec"]);
        let files = Arc::clone(&host);
        let written =
            tokio::task::spawn_blocking(move || write(&*files, &wanted).map(|()| teach(&*files, &wanted))).await;
        match written {
            Ok(Ok(taught)) => {
                if let Err(error) = taught {
                    let reason = format!("the kubelet cannot learn of a new authority of the API: {error}");
                    tracing::error!("{reason}");
                    events.publish::<Node>(&node, None, Severity::Warning, "CertificateSyncFailed", &reason);
                }
                tracing::info!("Certificate was synced from controllerconfig resourceVersion {version}");
                report(&client, &node, &version).await;
                synced = version;
            }
            Ok(Err(error)) => {
                let reason = format!("certificates of the ControllerConfig cannot be written: {error}");
                tracing::error!("{reason}");
                events.publish::<Node>(&node, None, Severity::Warning, "CertificateSyncFailed", &reason);
            }
            Err(error) => tracing::error!(%error, "writing certificates panicked"),
        }
    }
}

/// Writes what differs and removes what an earlier ControllerConfig brought.
fn write(host: &dyn Host, wanted: &Credentials) -> Result<(), Error> {
    let files = host.files();
    let mut changed = false;
    for one in &wanted.files {
        if files.read(&one.path)?.as_deref() == Some(&one.contents[..]) {
            continue;
        }
        // An administrator may have narrowed the mode of a file that is there.
        let present = files.look(&one.path)?.filter(|entry| entry.kind == EntryKind::File);
        let mode = present.map_or(one.mode, |entry| entry.mode & one.mode);
        files.put(&one.path, &one.contents, &Attributes::root(mode))?;
        changed = true;
    }
    let Ok(memory) = HostPath::parse(MEMORY) else { return Ok(()) };
    let remembered = files.read(&memory)?.unwrap_or_default();
    let earlier: BTreeSet<String> = serde_json::from_slice(&remembered).unwrap_or_default();
    for name in stale(&earlier, wanted) {
        for path in [format!("{REGISTRIES}/{name}/ca.crt"), format!("{REGISTRIES}/{name}")] {
            let Ok(path) = HostPath::parse(&path) else { continue };
            // A folder in which somebody keeps more than the CA stays.
            let is_full = files.look(&path)?.is_some_and(|entry| entry.kind == EntryKind::Folder)
                && !files.list(&path)?.is_empty();
            if !is_full {
                files.remove(&path)?;
            }
        }
        changed = true;
    }
    if earlier != wanted.registries {
        let text = serde_json::to_vec(&wanted.registries).unwrap_or_default();
        files.put(&memory, &text, &Attributes::root(0o600))?;
        changed = true;
    }
    if changed { files.flush() } else { Ok(()) }
}

/// Lets the host's kubeconfigs trust the API's new authorities, before the API shows one of them.
fn teach(host: &dyn Host, wanted: &Credentials) -> Result<(), Error> {
    let Some(bundle) = &wanted.api_ca else { return Ok(()) };
    let files = host.files();
    let mut changed = false;
    for path in KUBECONFIGS {
        let Ok(path) = HostPath::parse(path) else { continue };
        let present = files.look(&path)?.filter(|entry| entry.kind == EntryKind::File);
        let Some(present) = present else { continue };
        let text = files.read(&path)?.and_then(|bytes| String::from_utf8(bytes).ok());
        if let Some(new) = text.and_then(|text| trusting(&text, bundle)) {
            files.put(&path, new.as_bytes(), &Attributes::root(present.mode))?;
            tracing::info!(path = path.as_str(), "a kubeconfig learned of a new authority of the API");
            changed = true;
        }
    }
    if !changed {
        return Ok(());
    }
    files.flush()?;
    // One that does not run reads them when it starts.
    let is_running = host.services().activity(KUBELET)?.active == "active";
    if is_running { host.services().restart(KUBELET) } else { Ok(()) }
}

/// Says on the Node which ControllerConfig is on disk.
async fn report(client: &Client, node: &str, version: &str) {
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = json!({"metadata": {"annotations": {annotations::LAST_SYNCED_CONTROLLER_CONFIG: version}}});
    let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let written = cluster::write::in_time(nodes.patch_metadata(node, &parameters, &Patch::Merge(patch))).await;
    if let Err(error) = written {
        tracing::debug!(error = &error as &dyn std::error::Error, "the synced ControllerConfig could not be reported");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use host::directory::Directory;
    use serde_json::Value;

    use super::*;

    fn spec(ca: &str, registries: &[&str]) -> Value {
        let bundles: Vec<Value> = registries.iter().map(|name| json!({"file": name, "data": "UkVH"})).collect();
        json!({"kubeAPIServerServingCAData": ca, "internalRegistryPullSecret": "e30=", "imageRegistryBundleData": bundles})
    }

    #[test]
    fn certificates_come_change_and_go_and_foreign_files_stay() {
        let root = tempfile::tempdir().unwrap();
        let host = Directory::open(root.path()).unwrap();
        let read = |path: &str| std::fs::read_to_string(root.path().join(path)).ok();
        write(&host, &credentials(&spec("T05F", &["a", "b..5000"]))).unwrap();
        assert_eq!(read("etc/kubernetes/kubelet-ca.crt").as_deref(), Some("ONE\n"));
        assert_eq!(read("etc/docker/certs.d/b:5000/ca.crt").as_deref(), Some("REG\n"));
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(root.path().join("etc/mco/internal-registry-pull-secret.json")).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);

        let mine = root.path().join("etc/docker/certs.d/mine");
        std::fs::create_dir(&mine).unwrap();
        std::fs::write(mine.join("ca.crt"), "x").unwrap();
        std::fs::write(root.path().join("etc/docker/certs.d/a/client.key"), "x").unwrap();
        write(&host, &credentials(&spec("VFdP", &[]))).unwrap();
        assert_eq!(read("etc/kubernetes/kubelet-ca.crt").as_deref(), Some("TWO\n"));
        assert_eq!(read("etc/docker/certs.d/b:5000/ca.crt"), None);
        assert!(!root.path().join("etc/docker/certs.d/b:5000").exists());
        assert_eq!(read("etc/docker/certs.d/mine/ca.crt").as_deref(), Some("x"), "not ours");
        assert_eq!(read("etc/docker/certs.d/a/client.key").as_deref(), Some("x"), "not ours");
    }

    #[test]
    fn what_is_right_is_not_written_again() {
        let root = tempfile::tempdir().unwrap();
        let host = Directory::open(root.path()).unwrap();
        let wanted = credentials(&spec("T05F", &["a"]));
        write(&host, &wanted).unwrap();
        let inode =
            |path: &str| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(root.path().join(path)).unwrap());
        let before = inode("etc/kubernetes/kubelet-ca.crt");
        write(&host, &wanted).unwrap();
        assert_eq!(inode("etc/kubernetes/kubelet-ca.crt"), before);
    }

    #[test]
    fn a_kubelet_learns_of_a_new_authority_of_the_api_and_only_then_is_restarted() {
        let certificate = |body: &str| format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
        let (old, new) = (certificate("b2xk"), certificate("bmV3"));
        let encode = |text: &str| ignition::data_url::encode(text.as_bytes()).rsplit(',').next().unwrap().to_owned();
        let host = host::memory::Memory::new();
        let path = HostPath::parse("/var/lib/kubelet/kubeconfig").unwrap();
        let kubeconfig = format!("certificate-authority-data: {}\nserver: https://a\n", encode(&old));
        host.files().put(&path, kubeconfig.as_bytes(), &Attributes::root(0o600)).unwrap();
        let unit = HostPath::parse("/etc/systemd/system/kubelet.service").unwrap();
        host.files().put(&unit, b"[Service]\nExecStart=/usr/bin/kubelet\n", &Attributes::root(0o644)).unwrap();
        host.services().start(KUBELET).unwrap();
        host.take_actions();
        teach(&host, &credentials(&spec(&encode(&old), &[]))).unwrap();
        assert_eq!(host.take_actions(), [""; 0], "it knew that one");
        let wanted = credentials(&spec(&encode(&(old.clone() + &new)), &[]));
        teach(&host, &wanted).unwrap();
        teach(&host, &wanted).unwrap();
        assert_eq!(host.take_actions(), ["restart kubelet.service"]);
        let text = String::from_utf8(host.files().read(&path).unwrap().unwrap()).unwrap();
        assert_eq!(text, format!("certificate-authority-data: {}\nserver: https://a\n", encode(&(old + &new))));
        assert_eq!(host.files().look(&path).unwrap().unwrap().mode & 0o777, 0o600);
    }
}
