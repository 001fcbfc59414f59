//! How this daemon reaches the cluster, and whether the host still says the same.
//!
//! A config can break the kubeconfig, or send it elsewhere. A trial therefore looks at what is on the host now, not at the
//! client that was made before the change.

use std::path::PathBuf;

use change::host::Files;
use kube::Client;

use crate::credential::{self, Credential};

/// Where the credential comes from.
#[derive(Clone, Debug, Default)]
pub enum Source {
    /// The account of the pod, which is not on the host and follows its token by itself.
    #[default]
    Account,
    /// A kubeconfig at a path of this process.
    Kubeconfig(PathBuf),
    /// The kubelet's, below the host's root.
    Kubelet,
}

impl Source {
    /// What is there now; nothing for the pod's account.
    pub fn read(&self, files: &dyn Files) -> Result<Option<Credential>, credential::Error> {
        match self {
            Self::Account => Ok(None),
            Self::Kubeconfig(path) => credential::load(path).map(Some),
            Self::Kubelet => credential::find(files).map(Some),
        }
    }
}

/// What the loop's client was made from.
#[derive(Clone, Debug, Default)]
pub struct Access {
    pub source: Source,
    pub used: Option<Box<Credential>>,
    /// Why there is no client that could reach the cluster, if there is none.
    pub problem: Option<String>,
    /// The client was made from `source` and `used`, so another can be; not so in tests and in `machinist up`.
    pub is_remade: bool,
}

/// What is on the host, next to what is in use and to what was there before a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Another credential than the one in use: connect anew.
    Other,
    /// Nothing that could be used.
    Broken(String),
    /// The one in use. `way` tells whether it leads where another one led.
    Same { way: Option<String> },
}

/// Where the config server listens, on the host of the API.
const CONFIG_SERVER: u16 = 22623;

impl Access {
    /// A client without connections. Those of another may be older than a change, and go on where no new one is let through.
    pub async fn connect_anew(&self) -> Option<Result<Client, cluster::connect::Error>> {
        match &self.used {
            _ if !self.is_remade => None,
            None => Some(cluster::connect(None).await),
            Some(used) => Some(cluster::connect::connect_with(used.kubeconfig.clone(), &used.path).await),
        }
    }

    /// `host:port` of the config server, as far as this host knows without asking the API: beside the API that the
    /// kubeconfig in use names, or else the kubelet's. A kubelet that speaks to a proxy on its own host names none.
    pub fn config_server(&self, files: &dyn Files) -> Option<String> {
        let found = match &self.used {
            Some(_) => None,
            None => credential::find(files).ok(),
        };
        let api: http::Uri = self.used.as_deref().or(found.as_ref())?.server()?.parse().ok()?;
        let host = api.host()?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let is_here =
            bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        (!is_here).then(|| format!("{host}:{CONFIG_SERVER}"))
    }

    pub fn look(&self, files: &dyn Files) -> Found {
        match (self.source.read(files), &self.used) {
            (Err(error), _) => Found::Broken(error.to_string()),
            (Ok(Some(now)), Some(used)) if !now.is_same(used) => Found::Other,
            (Ok(Some(_)), None) => Found::Other,
            (Ok(now), _) => match &self.problem {
                Some(problem) => Found::Broken(problem.clone()),
                None => Found::Same { way: now.map(|now| now.way) },
            },
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use change::host::{Attributes, Host as _, HostPath};
    use host::directory::Directory;

    use super::*;

    #[test]
    fn the_config_server_is_beside_the_api_that_the_kubelets_kubeconfig_names() {
        let root = tempfile::tempdir().unwrap();
        let host = Directory::open(root.path()).unwrap();
        let access = Access::default();
        assert_eq!(access.config_server(host.files()), None);
        let check = |server: &str, expected: Option<&str>| {
            let text = format!(
                "{{current-context: b, contexts: [{{name: a, context: {{cluster: a}}}}, {{name: b, context: {{cluster: b}}}}], \
                 clusters: [{{name: a, cluster: {{server: 'https://other:1'}}}}, {{name: b, cluster: {{server: '{server}'}}}}]}}"
            );
            let path = HostPath::parse("/etc/kubernetes/kubelet.conf").unwrap();
            host.files().put(&path, text.as_bytes(), &Attributes::root(0o600)).unwrap();
            assert_eq!(access.config_server(host.files()).as_deref(), expected, "{server}");
        };
        check("https://api-int.example.com:6443", Some("api-int.example.com:22623"));
        check("https://[fd00::1]:6443/", Some("[fd00::1]:22623"));
        check("https://127.0.0.1:6444", None);
        check("https://localhost:7443", None);
    }
}
