//! Brings certificates and pull secrets of the ControllerConfig to the host; `delivered` says where they come from.
//!
//! It runs beside the main loop: neither a paused pool nor an update under way holds it up, and nothing here reboots or
//! drains. What is on disk already is not written again. Only a kubelet that learns of a new authority of the API is
//! restarted, which its pods do not notice.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::annotations;
use change::credentials::{Credentials, KUBECONFIGS, REGISTRIES, credentials, stale, trusting};
use change::host::{Attributes, EntryKind, Error, ErrorKind, Host, HostPath};
use cluster::Events;
use cluster::events::Severity;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;

use crate::delivered::{self, Delivered};

/// Which registries' folders came from a ControllerConfig, so that only those are ever removed.
const MEMORY: &str = "/etc/machine-config-daemon/registries.json";
/// A field manager of its own: the node's report is applied whole by another.
const MANAGER: &str = "machinist-daemon-certificates";
const KUBELET: &str = "kubelet.service";
/// There while a kubeconfig has changed and the kubelet has not been restarted since.
const RESTART_OWED: &str = "/etc/machine-config-daemon/kubelet-restart-owed";
/// Pauses before what failed is tried again; they double.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Follows what is delivered until the task is dropped.
pub(crate) async fn follow(host: Arc<dyn Host>, client: Client, node: String, namespace: String, events: Events) {
    let (tell, mut heard) = tokio::sync::mpsc::channel(1);
    let mut source = std::pin::pin!(delivered::follow(client.clone(), namespace, tell));
    let mut sync = Sync { host, client, node, events, wanted: None, retry: None, told: String::new() };
    loop {
        tokio::select! {
            () = &mut source => return,
            Some(delivered) = heard.recv() => sync.want(&delivered),
            () = sync.due() => {}
        }
        sync.step().await;
    }
}

/// The newest ControllerConfig on its way to the host.
struct Sync {
    host: Arc<dyn Host>,
    client: Client,
    node: String,
    events: Events,
    /// Its version and what it says, until all of it has arrived.
    wanted: Option<(String, Credentials)>,
    /// When what failed is tried again, and the pause before that.
    retry: Option<(Instant, Duration)>,
    /// The last trouble that was told.
    told: String,
}

impl Sync {
    fn want(&mut self, delivered: &Delivered) {
        self.wanted = Some((delivered.version.clone(), credentials(&delivered.spec)));
        self.retry = None;
    }

    /// Returns when what failed shall be tried again; never, while nothing has.
    async fn due(&self) {
        match self.retry {
            Some((at, _)) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    async fn step(&mut self) {
        let Some((version, wanted)) = self.wanted.clone() else { return };
        match self.bring(&version, wanted).await {
            Ok(()) => {
                tracing::info!("Certificate was synced from controllerconfig resourceVersion {version}");
                (self.wanted, self.retry) = (None, None);
                self.told.clear();
            }
            Err(reason) => {
                let pause = self.retry.map_or(FIRST_PAUSE, |(_, pause)| (pause * 2).min(LONGEST_PAUSE));
                self.retry = Some((Instant::now() + pause, pause));
                tracing::error!(pause = pause.as_secs(), "{reason}");
                if self.told != reason {
                    self.events.publish::<Node>(&self.node, None, Severity::Warning, "CertificateSyncFailed", &reason);
                    self.told = reason;
                }
            }
        }
    }

    /// To the disk, to the kubelet, and back to the Node. Each can be done again.
    async fn bring(&self, version: &str, wanted: Credentials) -> Result<(), String> {
        let host = Arc::clone(&self.host);
        let working = tokio::task::spawn_blocking(move || {
            write(&*host, &wanted)
                .map_err(|error| format!("certificates of the ControllerConfig cannot be written: {error}"))?;
            teach(&*host, &wanted)
                .map_err(|error| format!("the kubelet cannot learn of a new authority of the API: {error}"))
        });
        working.await.map_err(|error| format!("writing certificates panicked: {error}"))??;
        let reported = report(&self.client, &self.node, version).await;
        reported.map_err(|error| format!("the synced ControllerConfig cannot be reported: {error}"))
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
    let owed = HostPath::parse(RESTART_OWED)
        .map_err(|error| Error::new(ErrorKind::Refused, "write", RESTART_OWED, error.problem))?;
    let mut changed = false;
    for path in KUBECONFIGS {
        let Ok(path) = HostPath::parse(path) else { continue };
        let present = files.look(&path)?.filter(|entry| entry.kind == EntryKind::File);
        let Some(present) = present else { continue };
        let text = files.read(&path)?.and_then(|bytes| String::from_utf8(bytes).ok());
        if let Some(new) = text.and_then(|text| trusting(&text, bundle)) {
            // Before the kubeconfig: whoever finds it written also finds that the kubelet may not have read it.
            if !changed {
                files.put(&owed, b"", &Attributes::root(0o600))?;
                files.flush()?;
            }
            files.put(&path, new.as_bytes(), &Attributes::root(present.mode))?;
            tracing::info!(path = path.as_str(), "a kubeconfig learned of a new authority of the API");
            changed = true;
        }
    }
    let is_owed = files.look(&owed)?.is_some();
    if !is_owed {
        return Ok(());
    }
    files.flush()?;
    // One that was not started reads them when it is; one that failed to restart is restarted.
    if ["active", "activating", "failed"].contains(&host.services().activity(KUBELET)?.active.as_str()) {
        host.services().restart(KUBELET)?;
    }
    files.remove(&owed)?;
    files.flush()
}

/// Says on the Node which ControllerConfig is on disk.
async fn report(client: &Client, node: &str, version: &str) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = json!({"metadata": {"annotations": {annotations::LAST_SYNCED_CONTROLLER_CONFIG: version}}});
    let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    cluster::write::in_time(nodes.patch_metadata(node, &parameters, &Patch::Merge(patch))).await.map(drop)
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

    #[test]
    fn a_kubelet_that_could_not_be_restarted_is_restarted_at_the_next_try() {
        let certificate = |body: &str| format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
        let encode = |text: &str| ignition::data_url::encode(text.as_bytes()).rsplit(',').next().unwrap().to_owned();
        let host = host::memory::Memory::new();
        let put = |path: &str, text: &str| {
            host.files().put(&HostPath::parse(path).unwrap(), text.as_bytes(), &Attributes::root(0o600)).unwrap();
        };
        let unit = "/etc/systemd/system/kubelet.service";
        put("/var/lib/kubelet/kubeconfig", &format!("certificate-authority-data: {}\n", encode(&certificate("b2xk"))));
        put(unit, "[Service]\nExecStart=/usr/bin/kubelet\n");
        host.services().start(KUBELET).unwrap();
        put(unit, "[Service]\nExecStart=/bin/false\n");
        let wanted = credentials(&spec(&encode(&certificate("bmV3")), &[]));
        teach(&host, &wanted).unwrap_err();
        put(unit, "[Service]\nExecStart=/usr/bin/kubelet\n");
        host.take_actions();
        teach(&host, &wanted).unwrap();
        teach(&host, &wanted).unwrap();
        assert_eq!(host.take_actions(), ["restart kubelet.service"]);
    }
}
