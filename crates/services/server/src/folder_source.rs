//! Serves from a folder of manifests before there is a cluster, in the layout of upstream's bootstrap host.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use api::machinist::BootstrapToken;
use api::names;
use jiff::Timestamp;
use kube::ResourceExt;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serving::report::Report;
use serving::token::{self, Asking, Machine, Machines, Refusal};

use crate::source::{Admitted, Materials, Missing, Pool};

/// Pools whose machines form the cluster. Machines of other pools wait until the cluster serves them itself.
const SERVED: [&str; 2] = [names::POOL_MASTER, names::POOL_ARBITER];

pub struct FolderSource {
    folder: PathBuf,
    kubeconfig: PathBuf,
    open: bool,
    server_ca: Vec<u8>,
    registries: Vec<(String, Vec<u8>)>,
    /// Number of uses of each token. It is kept in memory only, like everything on a bootstrap host.
    uses: Mutex<HashMap<String, i64>>,
}

impl FolderSource {
    /// `folder` holds `machine-pools`, `machine-configs`, `controller-config` and, for machines with a token,
    /// `bootstrap-tokens`; `kubeconfig` is served as it is.
    pub fn new(folder: PathBuf, kubeconfig: PathBuf) -> Self {
        let (server_ca, registries) = (Vec::new(), Vec::new());
        Self { folder, kubeconfig, open: false, server_ca, registries, uses: Mutex::default() }
    }

    /// Serves without a token too, as upstream's bootstrap host does.
    #[must_use]
    pub fn open(mut self, open: bool) -> Self {
        self.open = open;
        self
    }

    /// Sets the CA with which machines verify this server when they report on their first boot.
    #[must_use]
    pub fn server_ca(mut self, ca: Vec<u8>) -> Self {
        self.server_ca = ca;
        self
    }

    /// Sets the CAs of registries that machines need before there is a cluster: host and certificate.
    #[must_use]
    pub fn registries(mut self, registries: Vec<(String, Vec<u8>)>) -> Self {
        self.registries = registries;
        self
    }

    pub(crate) fn pool(&self, name: &str) -> Result<Pool, Missing> {
        if !SERVED.contains(&name) {
            return Err(Missing::NotYet(format!(
                "machines of pool {name} are served by the cluster, once it is there"
            )));
        }
        let path = self.folder.join("machine-pools").join(format!("{name}.yaml"));
        let pool: MachineConfigPool = load(&path)?.ok_or_else(|| Missing::Pool(name.to_owned()))?;
        let config = pool.status.and_then(|status| status.configuration).and_then(|configuration| configuration.name);
        Ok(Pool { config, image: None, open: self.open })
    }

    pub(crate) fn admit(
        &self,
        secret: Option<&str>,
        pool: &str,
        from: IpAddr,
        spent: bool,
    ) -> Result<Admitted, Refusal> {
        // There are no Machines yet, so a token cannot be for one of them.
        if self.open {
            return Ok(Admitted::default());
        }
        let mut uses = self.uses.lock();
        let address = from.to_string();
        let asking = Asking { secret, pool, address: &address, now: Timestamp::now() };
        let token = token::check(asking, self.tokens(&uses), nobody)?;
        if spent {
            *uses.entry(token.name_any()).or_default() += 1;
        }
        Ok(Admitted::default())
    }

    pub(crate) fn report(
        &self,
        secret: Option<&str>,
        pool: &str,
        from: IpAddr,
        report: &Report,
    ) -> Result<(), Refusal> {
        if !self.open {
            token::find(secret, pool, self.tokens(&self.uses.lock()))?;
        }
        let news = report.news(pool, &from.to_string());
        tracing::info!(reason = news.reason, message = news.message, "a machine reported on its first boot");
        Ok(())
    }

    /// Reads the tokens of the folder and adds their uses so far. A token that cannot be read gives no access.
    fn tokens(&self, uses: &HashMap<String, i64>) -> Vec<BootstrapToken> {
        let Ok(entries) = std::fs::read_dir(self.folder.join("bootstrap-tokens")) else { return Vec::new() };
        let mut tokens: Vec<BootstrapToken> = Vec::new();
        for entry in entries.flatten() {
            match load::<BootstrapToken>(&entry.path()) {
                Ok(token) => tokens.extend(token),
                Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "cannot read a token"),
            }
        }
        for token in &mut tokens {
            let used = uses.get(&token.name_any()).copied().unwrap_or_default();
            token.status.get_or_insert_default().uses = used;
        }
        tokens
    }

    pub(crate) fn materials(&self, config: &str) -> Result<Materials, Missing> {
        let machine_config: MachineConfig = self.required(&format!("machine-configs/{config}.yaml"))?;
        let controller: ControllerConfig = self.required("controller-config/machine-config-controller.yaml")?;
        let kubeconfig = std::fs::read_to_string(&self.kubeconfig)
            .map_err(|error| Missing::Broken(format!("cannot read {}: {error}", self.kubeconfig.display())))?;
        Ok(Materials {
            machine_config,
            kubelet_ca: controller.spec.kube_api_server_serving_ca_data.0,
            cloud_ca: controller.spec.cloud_provider_ca_data.unwrap_or_default().0,
            kubeconfig,
            image: None,
            server_ca: self.server_ca.clone(),
            registries: self.registries.clone(),
        })
    }

    fn required<T: DeserializeOwned>(&self, name: &str) -> Result<T, Missing> {
        let path = self.folder.join(name);
        load(&path)?.ok_or_else(|| Missing::NotYet(format!("{} is not there yet", path.display())))
    }
}

fn load<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Missing> {
    let broken = |error: String| Missing::Broken(format!("{}: {error}", path.display()));
    match std::fs::read_to_string(path) {
        Ok(text) => {
            // A snippet of the file in the error would show its secrets.
            let options = serde_saphyr::options! { with_snippet: false };
            serde_saphyr::from_str_with_options(&text, options).map(Some).map_err(|error| broken(error.to_string()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(broken(error.to_string())),
    }
}

/// Before there is a cluster, there are neither Machines nor nodes.
fn nobody() -> Machines<Machine> {
    Machines { all: Vec::new(), has_node: false }
}
