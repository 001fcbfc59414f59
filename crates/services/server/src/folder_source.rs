//! Answers from a folder of manifests, before there is a cluster: upstream's layout of a bootstrap host.

use std::path::{Path, PathBuf};

use api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use api::names;
use serde::de::DeserializeOwned;

use crate::source::{Materials, Missing, Pool};

/// Pools whose machines make the cluster; all others wait until it serves them itself.
const SERVED: [&str; 2] = [names::POOL_MASTER, names::POOL_ARBITER];

pub struct FolderSource {
    folder: PathBuf,
    kubeconfig: PathBuf,
}

impl FolderSource {
    /// `folder` holds `machine-pools`, `machine-configs` and `controller-config`; `kubeconfig` is served as it is.
    pub fn new(folder: PathBuf, kubeconfig: PathBuf) -> Self {
        Self { folder, kubeconfig }
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
        Ok(Pool { config, open: true })
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
        Ok(text) => serde_saphyr::from_str(&text).map(Some).map_err(|error| broken(error.to_string())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(broken(error.to_string())),
    }
}
