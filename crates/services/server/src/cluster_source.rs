//! Serves from a cluster: small objects are watched, and a rendered config is read by name when it is first needed.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use api::known::Unread;
use api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool, MachineOSBuild, MachineOSConfig};
use api::machinist::{BootstrapToken, PoolPolicy};
use api::names;
use cluster::events::Severity;
use cluster::watch::State;
use cluster::write::{apply_status, in_time};
use cluster::{Events, Problem, Store, Watch, problem};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use serving::choose::Layered;
use serving::report::{CONDITION, News, Report};
use serving::token::{self, Asking, Machine, Machines};

use crate::source::{Admitted, BootstrapFiles, Denied, Materials, Missing, Pool};
use crate::spend::Spender;

/// How long the modification times of the token's files are cached.
const FRESH: Duration = Duration::from_secs(1);

/// Enough queued events for a fleet that boots at once.
const NEWS: usize = 16 * 1024;

/// The field manager of the server's writes.
const MANAGER: &str = "machine-config-server";

pub struct ClusterSource {
    client: Client,
    pools: Store<MachineConfigPool>,
    policies: Store<PoolPolicy>,
    controller_configs: Store<Certificates>,
    tokens: Store<BootstrapToken>,
    /// Needed only for tokens that are for one machine. The cluster may have no such kind.
    machines: Store<Machine>,
    /// Images built for pools. The cluster may have no such kind.
    images: Store<Image>,
    builds: Store<MachineOSBuild>,
    settings: ClusterSettings,
    spender: Spender,
    events: Events,
    stamp: Mutex<(Arc<str>, Option<Instant>)>,
}

/// How the server works in a cluster.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    pub files: BootstrapFiles,
    /// The CA with which machines verify this server when they report on their first boot.
    pub server_ca: Option<PathBuf>,
    /// The namespace of events about pools.
    pub namespace: String,
}

/// The fields of a ControllerConfig that are kept.
#[derive(Clone, Debug, Default, PartialEq)]
struct Certificates {
    version: String,
    kubelet: Vec<u8>,
    cloud: Vec<u8>,
    /// The cluster's own registries, which cannot be reached before a machine has joined.
    own_registries: Vec<String>,
}

/// The fields of a MachineOSConfig that are kept.
#[derive(Clone, Debug, Default, PartialEq)]
struct Image {
    name: String,
    pool: String,
    image: Option<String>,
}

impl ClusterSource {
    /// Starts the watches. Responses are 503 until the first lists are complete.
    pub fn start(client: Client, settings: ClusterSettings) -> Self {
        let machines: Api<api::machine::Machine> = Api::namespaced(client.clone(), names::MACHINE_API_NAMESPACE);
        Self {
            pools: watch(Api::all(client.clone()), |pool: MachineConfigPool| pool),
            policies: watch(Api::all(client.clone()), |policy: PoolPolicy| policy),
            controller_configs: watch(Api::all(client.clone()), Certificates::of),
            tokens: watch(Api::all(client.clone()), |token: BootstrapToken| token),
            machines: watch(machines, machine),
            images: watch(Api::all(client.clone()), |config: MachineOSConfig| Image {
                name: config.name_any(),
                pool: config.spec.machine_config_pool.name,
                image: config.status.and_then(|status| status.current_image_pull_spec),
            }),
            builds: watch(Api::all(client.clone()), |build: MachineOSBuild| build),
            spender: Spender::new(Api::all(client.clone())),
            events: Events::start_with_room(client.clone(), MANAGER, &settings.namespace, NEWS),
            stamp: Mutex::new((Arc::from(""), None)),
            settings,
            client,
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        // The Machines' first list is awaited too, unless they cannot be listed.
        let has_machines = self.machines.state() != State::Starting;
        self.trouble().is_none() && has_machines
    }

    /// Returns the first kind that could not be read yet, and why.
    pub(crate) fn trouble(&self) -> Option<String> {
        let kinds = [
            ("MachineConfigPools", self.pools.state(), self.pools.has_listed()),
            ("PoolPolicies", self.policies.state(), self.policies.has_listed()),
            ("ControllerConfigs", self.controller_configs.state(), self.controller_configs.has_listed()),
            ("BootstrapTokens", self.tokens.state(), self.tokens.has_listed()),
        ];
        kinds.into_iter().find_map(|(kind, state, has_listed)| match state {
            State::Synced => None,
            // Objects that were listed once are served while the API is away. This is safe because each use of a token
            // is written to the API first.
            State::NotInstalled | State::Failing(_) if has_listed => None,
            State::NotInstalled => Some(format!("cannot read {kind}: the API has no such kind")),
            State::Failing(trouble) => Some(format!("cannot read {kind}: {}", trouble.text)),
            State::Starting => Some(format!("{kind} have not been read yet")),
        })
    }

    pub(crate) fn pool(&self, name: &str) -> Result<Pool, Missing> {
        let pool = self.pools.named(name).ok_or_else(|| Missing::Pool(name.to_owned()))?;
        let policy = self.policies.named(name);
        let open = policy.and_then(|policy| policy.spec.config_server.as_ref()?.open);
        let config = serving::choose::config(&pool).map(str::to_owned);
        let image = match config.as_deref() {
            Some(config) => self.image(&pool, config)?,
            None => None,
        };
        Ok(Pool { config, image, open: open.unwrap_or(false) })
    }

    /// Returns the image built for this config of the pool, if a new machine can boot with it.
    fn image(&self, pool: &MachineConfigPool, config: &str) -> Result<Option<String>, Missing> {
        let (images, builds) = (listed(&self.images, "MachineOSConfigs")?, listed(&self.builds, "MachineOSBuilds")?);
        Ok(self.built_image(pool, config, images, builds))
    }

    fn built_image(
        &self,
        pool: &MachineConfigPool,
        config: &str,
        images: Vec<Arc<Image>>,
        builds: Vec<Arc<MachineOSBuild>>,
    ) -> Option<String> {
        let name = pool.name_any();
        let built = images.into_iter().find(|image| image.pool == name)?;
        let is_for = |build: &Arc<MachineOSBuild>| {
            build.spec.machine_os_config.name == built.name && build.spec.machine_config.name == config
        };
        let build = builds.into_iter().find(is_for)?;
        let conditions = build.status.as_ref().map(|status| &status.conditions);
        let succeeded = conditions
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == "Succeeded" && condition.status == names::status::TRUE);
        let layered = Layered { image: built.image.as_deref()?, config, succeeded };
        let own = self.controller_configs.named(names::CONTROLLER_CONFIG);
        let own = own.as_ref().map_or(&[][..], |config| &config.own_registries);
        serving::choose::image(pool, config, Some(&layered), own).map(str::to_owned)
    }

    pub(crate) async fn materials(&self, config: &str, image: Option<String>) -> Result<Materials, Missing> {
        let machine_config: MachineConfig =
            in_time(Api::all(self.client.clone()).get(config)).await.map_err(|error| {
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
            kubeconfig: self.settings.files.kubeconfig()?,
            image,
            server_ca: self.server_ca(),
            registries: Vec::new(),
        })
    }

    /// Without this CA machines are still served, but they cannot report on their first boot.
    fn server_ca(&self) -> Vec<u8> {
        let Some(path) = &self.settings.server_ca else { return Vec::new() };
        std::fs::read(path).unwrap_or_else(|error| {
            tracing::warn!(path = %path.display(), error = &error as &dyn std::error::Error, "cannot read reports CA");
            Vec::new()
        })
    }

    pub(crate) fn stamp(&self) -> Arc<str> {
        let mut stamp = self.stamp.lock();
        if stamp.1.is_none_or(|checked| checked.elapsed() >= FRESH) {
            let files = ["token", "ca.crt"].map(|name| self.settings.files.folder.join(name));
            let changed: Vec<_> = files.iter().chain(&self.settings.server_ca).map(|path| changed(path)).collect();
            let version = self.controller_configs.named(names::CONTROLLER_CONFIG).map(|config| config.version.clone());
            let now: Arc<str> = format!("{version:?} {changed:?}").into();
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
    ) -> Result<Admitted, Denied> {
        let address = from.to_string();
        let asking = Asking { secret, pool, address: &address, now: Timestamp::now() };
        let candidates = self.candidates(secret, pool);
        let machines = self.machines_for(token::find(secret, pool, candidates.iter().map(|token| &**token))?).await?;
        let token = token::check(asking, candidates, || machines)?;
        if spent {
            self.spender.spend(&token.name_any(), from).await?;
        }
        Ok(Admitted { machine: token.spec.machine.clone() })
    }

    /// Reads the state of the machine that a token is for. If it cannot be read, it is unknown whether the first boot
    /// is over, so the machine has to retry.
    async fn machines_for(&self, token: &BootstrapToken) -> Result<Machines<Arc<Machine>>, Denied> {
        let Some(name) = &token.spec.machine else { return Ok(Machines { all: Vec::new(), has_node: false }) };
        let unread = |unread: Unread| {
            tracing::warn!(error = &unread as &dyn std::error::Error, "cannot check a machine's token");
            Denied::Unavailable
        };
        let now = Timestamp::now();
        let machines = self.machines.reading();
        let machines = machines.fresh_or_none("machines", now).map_err(unread)?;
        let all = machines.map(|machines| machines.into_inner().clone()).unwrap_or_default();
        if all.iter().any(|machine| machine.name == *name) || token.spec.machine_uid.is_some() {
            return Ok(Machines { all, has_node: false });
        }
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = cluster::read::get(&nodes, name).await;
        let has_node = node.fresh("nodes", now).map_err(unread)?.is_some();
        Ok(Machines { all, has_node })
    }

    /// Returns the tokens that may belong to a secret. Tokens that we issued are found by name; for others all tokens
    /// are candidates.
    fn candidates(&self, secret: Option<&str>, pool: &str) -> Vec<Arc<BootstrapToken>> {
        let named = secret.and_then(|secret| self.tokens.named(&token::name(pool, secret)));
        named.map_or_else(|| self.tokens.all(), |token| vec![token])
    }

    pub(crate) fn served(&self, pool: &str, config: &str, from: IpAddr, to: &Admitted) {
        let machine = to.machine.as_ref().map_or_else(String::new, |machine| format!(" (Machine {machine})"));
        let message = format!("gave {config} of pool {pool} to {from}{machine}");
        self.tell_pool(pool, Severity::Normal, "ConfigServed", &message);
    }

    fn tell_pool(&self, pool: &str, severity: Severity, reason: &str, message: &str) {
        let uid = self.pools.named(pool).and_then(|pool| pool.uid());
        self.events.publish::<MachineConfigPool>(pool, uid.as_deref(), severity, reason, message);
    }

    pub(crate) async fn report(
        &self,
        secret: Option<&str>,
        pool: &str,
        from: IpAddr,
        report: &Report,
    ) -> Result<(), Denied> {
        let token = token::find(secret, pool, self.candidates(secret, pool))?;
        let address = from.to_string();
        let news = report.news(pool, &address);
        let severity = if news.is_bad { Severity::Warning } else { Severity::Normal };
        self.tell_pool(pool, severity, news.reason, &news.message);
        let is_there = |machine: &Arc<Machine>| machine.addresses.contains(&address);
        let at_address = || self.machines.all().into_iter().find(is_there).map(|machine| machine.name.clone());
        if let Some(machine) = token.spec.machine.clone().or_else(at_address) {
            self.tell_machine(&machine, severity, &news).await;
        }
        Ok(())
    }

    /// Publishes an event about the Machine and sets its condition. A failed write is only logged.
    async fn tell_machine(&self, name: &str, severity: Severity, news: &News) {
        let about = ObjectReference {
            api_version: Some("machine.openshift.io/v1beta1".to_owned()),
            kind: Some("Machine".to_owned()),
            name: Some(name.to_owned()),
            namespace: Some(names::MACHINE_API_NAMESPACE.to_owned()),
            ..ObjectReference::default()
        };
        self.events.publish_about(about, severity, news.reason, &news.message);
        let machines: Api<api::machine::Machine> = Api::namespaced(self.client.clone(), names::MACHINE_API_NAMESPACE);
        let (status, severity) =
            if news.is_bad { (names::status::FALSE, Some("Error")) } else { (names::status::TRUE, None) };
        let patch = json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "metadata": {"name": name},
            "status": {"conditions": [{
                "type": CONDITION, "status": status, "severity": severity, "reason": news.reason,
                "message": news.message, "lastTransitionTime": Timestamp::now(),
            }]},
        });
        if let Err(error) = apply_status(&machines, MANAGER, name, &without_nulls(patch)).await {
            tracing::warn!(
                machine = name,
                error = &error as &dyn std::error::Error,
                "cannot write the Machine's condition"
            );
        }
    }
}

impl Certificates {
    fn of(config: ControllerConfig) -> Self {
        let version = config.resource_version().unwrap_or_default();
        let pull_secret = config.spec.internal_registry_pull_secret.unwrap_or_default().0;
        let registries = serde_json::from_slice::<BTreeMap<String, Value>>(&pull_secret).unwrap_or_default();
        // In older secrets the map is at the top level, in newer ones under `auths`.
        let auths = registries.get("auths").and_then(Value::as_object).map(|auths| auths.keys().cloned().collect());
        Self {
            version,
            kubelet: config.spec.kube_api_server_serving_ca_data.0,
            cloud: config.spec.cloud_provider_ca_data.unwrap_or_default().0,
            own_registries: auths.unwrap_or_else(|| registries.into_keys().collect()),
        }
    }
}

fn machine(machine: api::machine::Machine) -> Machine {
    let status = machine.status.unwrap_or_default();
    Machine {
        name: machine.metadata.name.unwrap_or_default(),
        uid: machine.metadata.uid,
        addresses: status.addresses.into_iter().map(|address| address.address).collect(),
        is_leaving: machine.metadata.deletion_timestamp.is_some(),
        has_node: status.node_ref.is_some(),
    }
}

fn without_nulls(mut value: Value) -> Value {
    if let Some(condition) = value.pointer_mut("/status/conditions/0").and_then(Value::as_object_mut) {
        condition.retain(|_, value| !value.is_null());
    }
    value
}

fn changed(path: &Path) -> Option<Duration> {
    let modified = std::fs::metadata(path).and_then(|data| data.modified()).ok()?;
    modified.duration_since(SystemTime::UNIX_EPOCH).ok()
}

/// Returns the objects of an optional kind. It is an error if they were not listed yet: a machine served before that
/// would boot with the wrong image.
fn listed<T>(store: &Store<T>, kind: &str) -> Result<Vec<Arc<T>>, Missing> {
    if store.has_listed() || store.state() == State::NotInstalled {
        return Ok(store.all());
    }
    Err(Missing::NotYet(format!("{kind} have not been read yet")))
}

fn watch<K, T>(api: Api<K>, read: impl Fn(K) -> T + Send + Sync + 'static) -> Store<T>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
    T: PartialEq + Send + Sync + 'static,
{
    let watch = Watch::default();
    let store = watch.store();
    tokio::spawn(watch.run(api, watcher::Config::default(), read));
    store
}
