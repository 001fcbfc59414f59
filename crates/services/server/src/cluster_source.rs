//! Answers from a cluster: small objects are watched, a rendered config is read by name when it is first asked for.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use api::machinist::{BootstrapToken, PoolPolicy};
use api::names;
use cluster::events::Severity;
use cluster::{Events, Problem, Store, Watch, problem};
use jiff::Timestamp;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use serving::token::{self, Refusal};

use crate::source::{BootstrapFiles, Materials, Missing, Pool};
use crate::spend::Spender;

/// How long the age of the token's files is believed.
const FRESH: Duration = Duration::from_secs(1);

pub struct ClusterSource {
    client: Client,
    pools: Store<MachineConfigPool>,
    policies: Store<PoolPolicy>,
    controller_configs: Store<Certificates>,
    tokens: Store<BootstrapToken>,
    files: BootstrapFiles,
    spender: Spender,
    events: Events,
    stamp: Mutex<(Arc<str>, Option<Instant>)>,
}

/// What is kept of a ControllerConfig.
#[derive(Clone, Debug, Default, PartialEq)]
struct Certificates {
    version: String,
    kubelet: Vec<u8>,
    cloud: Vec<u8>,
}

impl ClusterSource {
    /// Starts watching; answers are 503 until the first lists are complete.
    pub fn start(client: Client, files: BootstrapFiles) -> Self {
        Self {
            pools: watch(&client, |pool: MachineConfigPool| pool),
            policies: watch(&client, |policy: PoolPolicy| policy),
            controller_configs: watch(&client, |config: ControllerConfig| Certificates {
                version: config.resource_version().unwrap_or_default(),
                kubelet: config.spec.kube_api_server_serving_ca_data.0,
                cloud: config.spec.cloud_provider_ca_data.unwrap_or_default().0,
            }),
            tokens: watch(&client, |token: BootstrapToken| token),
            files,
            spender: Spender::new(Api::all(client.clone())),
            events: Events::start(client.clone(), "machine-config-server", names::NAMESPACE),
            stamp: Mutex::new((Arc::from(""), None)),
            client,
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.pools.is_synced()
            && self.policies.is_synced()
            && self.controller_configs.is_synced()
            && self.tokens.is_synced()
    }

    pub(crate) fn pool(&self, name: &str) -> Result<Pool, Missing> {
        if !self.is_ready() {
            return Err(Missing::NotYet("the server has not read the cluster's pools yet".to_owned()));
        }
        let pool = self.pools.named(name).ok_or_else(|| Missing::Pool(name.to_owned()))?;
        let policy = self.policies.named(name);
        let open = policy.and_then(|policy| policy.spec.config_server.as_ref()?.open);
        Ok(Pool { config: serving::choose::config(&pool).map(str::to_owned), open: open.unwrap_or(false) })
    }

    pub(crate) async fn materials(&self, config: &str) -> Result<Materials, Missing> {
        let machine_config: MachineConfig = Api::all(self.client.clone()).get(config).await.map_err(|error| {
            let text = format!("cannot read MachineConfig {config}: {error}");
            match problem(&error) {
                Problem::Forbidden | Problem::Invalid => Missing::Broken(text),
                Problem::NotFound | Problem::Conflict | Problem::TooManyRequests | Problem::Unreachable => {
                    Missing::NotYet(text)
                }
            }
        })?;
        let certificates = self
            .controller_configs
            .named(names::CONTROLLER_CONFIG)
            .ok_or_else(|| Missing::NotYet(format!("there is no ControllerConfig {} yet", names::CONTROLLER_CONFIG)))?;
        Ok(Materials {
            machine_config,
            kubelet_ca: certificates.kubelet.clone(),
            cloud_ca: certificates.cloud.clone(),
            kubeconfig: self.files.kubeconfig()?,
        })
    }

    pub(crate) fn stamp(&self) -> Arc<str> {
        let mut stamp = self.stamp.lock();
        if stamp.1.is_none_or(|checked| checked.elapsed() >= FRESH) {
            let modified = ["token", "ca.crt"].map(|name| {
                let modified = std::fs::metadata(self.files.folder.join(name)).and_then(|data| data.modified()).ok();
                modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok())
            });
            let version = self.controller_configs.named(names::CONTROLLER_CONFIG).map(|config| config.version.clone());
            let now: Arc<str> = format!("{version:?} {modified:?}").into();
            *stamp = (now, Some(Instant::now()));
        }
        stamp.0.clone()
    }

    pub(crate) async fn admit(
        &self,
        secret: Option<&str>,
        pool: &str,
        from: IpAddr,
        spent: bool,
    ) -> Result<(), Refusal> {
        let tokens = self.tokens.all();
        let token = token::check(secret, pool, tokens.iter().map(AsRef::as_ref), Timestamp::now())?;
        if spent { self.spender.spend(&token.name_any(), from).await } else { Ok(()) }
    }

    pub(crate) fn served(&self, pool: &str, config: &str, from: IpAddr) {
        let message = format!("gave {config} of pool {pool} to {from}");
        self.events.publish::<MachineConfigPool>(pool, None, Severity::Normal, "ConfigServed", &message);
    }
}

fn watch<K, T>(client: &Client, read: impl Fn(K) -> T + Send + 'static) -> Store<T>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
    T: PartialEq + Send + Sync + 'static,
{
    let watch = Watch::default();
    let store = watch.store();
    let api: Api<K> = Api::all(client.clone());
    tokio::spawn(watch.run(api, watcher::Config::default(), read));
    store
}
