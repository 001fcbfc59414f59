//! Which certificates and pull secrets of a ControllerConfig belong on a host, and where.
//!
//! They reach nodes beside the rendered config: without a reboot, and also while their pool is paused. A value that is
//! empty or cannot be read leaves what is on the host alone.

mod trust;

use std::collections::BTreeSet;

use ignition::data_url;
use serde_json::Value;

use crate::host::HostPath;

pub use trust::trusting;

const KUBELET_CA: &str = "/etc/kubernetes/kubelet-ca.crt";
const CLOUD_CA: &str = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem";
const PULL_SECRET: &str = "/etc/mco/internal-registry-pull-secret.json";
/// The folder of CAs of image registries, one folder for each.
pub const REGISTRIES: &str = "/etc/docker/certs.d";

/// What a kubelet speaks to the API with, where there is one: its first kubeconfig, and its own in upstream's place and in
/// that of kubeadm. A kubelet reads them when it starts.
pub const KUBECONFIGS: [&str; 3] =
    ["/etc/kubernetes/kubeconfig", "/var/lib/kubelet/kubeconfig", "/etc/kubernetes/kubelet.conf"];

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    pub path: HostPath,
    pub contents: Vec<u8>,
    pub mode: u32,
}

/// Everything that a ControllerConfig gives to hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    pub files: Vec<Credential>,
    /// Names of the registries' folders.
    pub registries: BTreeSet<String>,
    /// The API's authorities, which the host's kubeconfigs shall trust.
    pub api_ca: Option<String>,
}

/// Reads the spec of a ControllerConfig.
pub fn credentials(spec: &Value) -> Credentials {
    let mut all = Credentials::default();
    for (field, path) in [("kubeAPIServerServingCAData", KUBELET_CA), ("cloudProviderCAData", CLOUD_CA)] {
        if let Some(contents) = bytes(&spec[field]) {
            all.add(path, closed(contents), 0o644);
        }
    }
    all.api_ca = bytes(&spec["kubeAPIServerServingCAData"]).and_then(|bytes| String::from_utf8(bytes).ok());
    if let Some(contents) = bytes(&spec["internalRegistryPullSecret"]).filter(|bytes| is_json(bytes)) {
        all.add(PULL_SECRET, contents, 0o600);
    }
    let bundles = ["imageRegistryBundleData", "imageRegistryBundleUserData"];
    for bundle in bundles.iter().filter_map(|field| spec[field].as_array()).flatten() {
        let Some((name, contents)) = bundle["file"].as_str().and_then(folder).zip(bytes(&bundle["data"])) else {
            continue;
        };
        all.add(&format!("{REGISTRIES}/{name}/ca.crt"), closed(contents), 0o644);
        all.registries.insert(name);
    }
    all
}

/// Folders of registries that an earlier ControllerConfig had and this one has not. What somebody else put there stays.
pub fn stale<'a>(earlier: &'a BTreeSet<String>, now: &'a Credentials) -> impl Iterator<Item = &'a String> {
    earlier.iter().filter(|name| !now.registries.contains(*name))
}

impl Credentials {
    fn add(&mut self, path: &str, contents: Vec<u8>, mode: u32) {
        if let Ok(path) = HostPath::parse(path) {
            self.files.push(Credential { path, contents, mode });
        }
    }
}

/// The registry's folder: its host, with a colon before the port. A name that leads elsewhere is none.
fn folder(file: &str) -> Option<String> {
    let name = file.replace("..", ":");
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    let is_good = !name.is_empty() && name.len() <= 255 && name.bytes().all(is_plain) && name.trim_matches('.') == name;
    is_good.then_some(name)
}

fn bytes(value: &Value) -> Option<Vec<u8>> {
    let text = value.as_str().filter(|text| !text.is_empty())?;
    data_url::decode(&format!("data:;base64,{text}")).ok().filter(|bytes| !bytes.is_empty())
}

/// Bundles are joined by whoever reads them, so each ends with a new line.
fn closed(mut contents: Vec<u8>) -> Vec<u8> {
    if contents.last() != Some(&b'\n') {
        contents.push(b'\n');
    }
    contents
}

fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Value>(bytes).is_ok_and(|value| value.is_object())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn listed(spec: &Value) -> Vec<String> {
        let show = |one: &Credential| {
            format!("{} {:o} {:?}", one.path.as_str(), one.mode, String::from_utf8_lossy(&one.contents))
        };
        credentials(spec).files.iter().map(show).collect()
    }

    #[test]
    fn certificates_the_pull_secret_and_registries_have_their_places() {
        let spec = json!({
            "kubeAPIServerServingCAData": "Q0E=", "cloudProviderCAData": "Q0xPVUQK", "internalRegistryPullSecret": "e30=",
            "imageRegistryBundleUserData": [{"file": "registry.example..5000", "data": "UkVH"}],
        });
        assert_eq!(
            listed(&spec),
            [
                r#"/etc/kubernetes/kubelet-ca.crt 644 "CA\n""#,
                r#"/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem 644 "CLOUD\n""#,
                r#"/etc/mco/internal-registry-pull-secret.json 600 "{}""#,
                r#"/etc/docker/certs.d/registry.example:5000/ca.crt 644 "REG\n""#,
            ]
        );
    }

    #[test]
    fn what_is_empty_or_broken_leaves_the_host_alone() {
        let spec = json!({
            "kubeAPIServerServingCAData": "", "cloudProviderCAData": null, "internalRegistryPullSecret": "bm90IEpTT04=",
            "imageRegistryBundleData": [{"file": "a", "data": "%%"}, {"file": "../../etc/x", "data": "UkVH"}, {"data": "UkVH"}, 7],
        });
        assert_eq!(listed(&spec), Vec::<String>::new());
    }

    #[test]
    fn only_folders_that_came_from_us_are_stale() {
        let now = credentials(&json!({"imageRegistryBundleData": [{"file": "b", "data": "UkVH"}]}));
        let earlier = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        assert_eq!(stale(&earlier, &now).collect::<Vec<_>>(), ["a"]);
    }
}
