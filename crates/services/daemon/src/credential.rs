//! The kubelet's own credential, found on the host and read whole, so that it also works where the host's root is mounted
//! elsewhere.
//!
//! A kubelet renews its certificate by writing another file. Whoever holds a [`Credential`] asks now and then whether it is
//! still the one on the host. Nothing here asks the cluster.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use change::host::{Files, HostPath};
use kube::config::{AuthInfo, Kubeconfig};
use sha2::{Digest as _, Sha256};

/// Where kubelets keep their kubeconfig: upstream's, kubeadm's, and those of k3s, RKE2 and k0s.
pub const PLACES: [&str; 5] = [
    "/var/lib/kubelet/kubeconfig",
    "/etc/kubernetes/kubelet.conf",
    "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
    "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
    "/var/lib/k0s/kubelet.conf",
];

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "no kubeconfig of a kubelet is on the host; looked at {}; give one with --kubeconfig, or in a pod use the pod's account \
         (`machinist install --daemon-account`)",
        PLACES.join(", ")
    )]
    NotFound,
    #[error("{path}, which the kubeconfig {kubeconfig} names, cannot be read: {reason}")]
    Missing { kubeconfig: String, path: String, reason: String },
    #[error("kubeconfig {path} cannot be read: {reason}")]
    Broken { path: String, reason: String },
    #[error(
        "kubeconfig {path} gets its credential from a program, which this daemon does not run; give another one with \
         --kubeconfig, or use the pod's account with --in-cluster (`machinist install --daemon-account`)"
    )]
    Program { path: String },
}

/// A kubeconfig that refers to no file any more.
#[derive(Clone, Debug)]
pub struct Credential {
    pub path: String,
    pub kubeconfig: Kubeconfig,
    /// Differs when anything that was read differs.
    print: u64,
    /// Digest of the kubeconfig and the authorities it names. A kubelet renews its certificate by itself; who changes this
    /// is a config or a person.
    pub way: String,
}

impl Credential {
    pub fn is_same(&self, other: &Self) -> bool {
        self.print == other.print
    }

    /// The API that the current context leads to, or the only one there is.
    pub fn server(&self) -> Option<&str> {
        let named =
            self.kubeconfig.contexts.iter().find(|one| Some(&one.name) == self.kubeconfig.current_context.as_ref());
        let cluster = named.and_then(|named| named.context.as_ref()).map(|context| &context.cluster);
        let clusters = &self.kubeconfig.clusters;
        let found = clusters.iter().find(|one| Some(&one.name) == cluster).or(clusters.first())?;
        found.cluster.as_ref()?.server.as_deref()
    }
}

/// The first kubeconfig of a kubelet on the host.
pub fn find(files: &dyn Files) -> Result<Credential, Error> {
    let read = |path: &str| {
        let path = HostPath::parse(path).map_err(|error| error.to_string())?;
        files.read(&path).map_err(|error| error.to_string())
    };
    for place in PLACES {
        let broken = |reason| Error::Broken { path: place.to_owned(), reason };
        if let Some(text) = read(place).map_err(broken)? {
            return whole(place, &text, read);
        }
    }
    Err(Error::NotFound)
}

/// The kubeconfig at a path of this process.
pub fn load(path: &Path) -> Result<Credential, Error> {
    let name = path.display().to_string();
    let text = std::fs::read(path).map_err(|error| Error::Broken { path: name.clone(), reason: error.to_string() })?;
    whole(&name, &text, |path| std::fs::read(path).map(Some).map_err(|error| error.to_string()))
}

/// Reads the files that a kubeconfig names into it.
fn whole(path: &str, text: &[u8], read: impl Fn(&str) -> Result<Option<Vec<u8>>, String>) -> Result<Credential, Error> {
    let broken = |reason: String| Error::Broken { path: path.to_owned(), reason };
    let text = std::str::from_utf8(text).map_err(|error| broken(error.to_string()))?;
    let mut kubeconfig = Kubeconfig::from_yaml(text).map_err(|error| broken(error.to_string()))?;
    let mut print = DefaultHasher::new();
    text.hash(&mut print);
    let mut way = Sha256::new_with_prefix(text);
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut file = |name: &str| {
        // As everybody reads it: relative to the kubeconfig.
        let full = if name.starts_with('/') { name.to_owned() } else { format!("{folder}/{name}") };
        let missing = |reason: String| Error::Missing { kubeconfig: path.to_owned(), path: full.clone(), reason };
        let bytes = read(&full).map_err(missing)?.ok_or_else(|| missing("there is no such file".to_owned()))?;
        bytes.hash(&mut print);
        Ok(bytes)
    };
    for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        if let Some(name) = cluster.certificate_authority.take() {
            let authority = file(&name)?;
            way.update(&authority);
            cluster.certificate_authority_data = Some(STANDARD.encode(authority));
        }
    }
    for user in kubeconfig.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        if user.exec.is_some() {
            return Err(Error::Program { path: path.to_owned() });
        }
        take_in(user, &mut file)?;
    }
    let way = STANDARD.encode(way.finalize());
    Ok(Credential { path: path.to_owned(), kubeconfig, print: print.finish(), way })
}

fn take_in(user: &mut AuthInfo, file: &mut impl FnMut(&str) -> Result<Vec<u8>, Error>) -> Result<(), Error> {
    if let Some(name) = user.client_certificate.take() {
        user.client_certificate_data = Some(STANDARD.encode(file(&name)?));
    }
    if let Some(name) = user.client_key.take() {
        user.client_key_data = Some(STANDARD.encode(file(&name)?).into());
    }
    if let Some(name) = user.token_file.take() {
        let token = String::from_utf8_lossy(&file(&name)?).trim().to_owned();
        user.token = Some(token.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use change::host::{Attributes, Host as _};
    use host::directory::Directory;

    use super::*;

    const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
current-context: it
contexts: [{name: it, context: {cluster: it, user: it}}]
clusters: [{name: it, cluster: {server: 'https://api:6443', certificate-authority-data: Q0E=}}]
users: [{name: it, user: {client-certificate: /var/lib/kubelet/pki/current.pem, client-key: /var/lib/kubelet/pki/current.pem}}]
";

    fn put(host: &Directory, path: &str, text: &str) {
        host.files().put(&HostPath::parse(path).unwrap(), text.as_bytes(), &Attributes::root(0o600)).unwrap();
    }

    #[test]
    fn a_certificate_behind_an_absolute_link_is_read_below_the_hosts_root_and_a_renewed_one_is_noticed() {
        let root = tempfile::tempdir().unwrap();
        let host = Directory::open(root.path()).unwrap();
        let error = find(host.files()).expect_err("nothing is there");
        assert!(matches!(error, Error::NotFound) && error.to_string().contains("--daemon-account"), "{error}");
        put(&host, "/etc/kubernetes/kubelet.conf", KUBECONFIG);
        put(&host, "/var/lib/kubelet/pki/1.pem", "ONE");
        put(&host, "/var/lib/kubelet/pki/2.pem", "TWO");
        let link = root.path().join("var/lib/kubelet/pki/current.pem");
        std::os::unix::fs::symlink("/var/lib/kubelet/pki/1.pem", &link).unwrap();
        let first = find(host.files()).unwrap();
        let user = first.kubeconfig.auth_infos[0].auth_info.as_ref().unwrap();
        assert_eq!(user.client_certificate_data.as_deref(), Some(STANDARD.encode("ONE").as_str()));
        assert!(user.client_certificate.is_none() && first.is_same(&find(host.files()).unwrap()));
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("2.pem", &link).unwrap();
        let second = find(host.files()).unwrap();
        assert!(!first.is_same(&second));
        assert_eq!(first.way, second.way, "a renewed certificate is for the same cluster");
        put(&host, "/etc/kubernetes/kubelet.conf", &KUBECONFIG.replace("api:6443", "elsewhere:6443"));
        assert_ne!(find(host.files()).unwrap().way, second.way);
    }

    #[test]
    fn what_is_missing_or_comes_from_a_program_is_named() {
        let root = tempfile::tempdir().unwrap();
        let host = Directory::open(root.path()).unwrap();
        put(&host, "/var/lib/kubelet/kubeconfig", KUBECONFIG);
        let error = find(host.files()).unwrap_err().to_string();
        assert!(error.contains("/var/lib/kubelet/pki/current.pem") && error.contains("no such file"), "{error}");
        let program = KUBECONFIG.replace(
            "client-certificate: /var/lib/kubelet/pki/current.pem, client-key: /var/lib/kubelet/pki/current.pem",
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: aws}",
        );
        put(&host, "/var/lib/kubelet/kubeconfig", &program);
        let error = find(host.files()).unwrap_err().to_string();
        assert!(error.contains("--daemon-account"), "{error}");
    }
}
