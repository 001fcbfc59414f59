//! The first boot of a simulated machine, from its user data to a root that the daemon can start on.
//!
//! It plays Ignition: fetches the config that the user data points to, with the token in it, and writes what it says. The
//! rest of a first boot is the daemon's own code. Nothing here knows Machines or nodes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use api::machineconfiguration::MachineConfig;
use change::host::Host;
use change::step::Step;
use change::target::Target;
use daemon::engine::{self, Engine};
use daemon::report::{self, Credential};
use daemon::{once, store};
use ignition::{Config, Version};
use serving::Parts;
use serving::report::{Report, Stage};

/// Ignition asks again until it is answered; a laptop's config server is there within a moment.
const AGAIN: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);

const ACCEPT: &str = "application/vnd.coreos.ignition+json;version=3.5.0";

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the user data is not an Ignition config: {0}")]
    UserData(String),
    #[error("the user data points to no config: ignition.config.merge is empty")]
    NoPointer,
    #[error("{0} is not the address of a config")]
    Address(String),
    #[error("cannot connect to the config server")]
    Connect(#[from] cluster::connect::Error),
    #[error("the config server refused: {0}")]
    Fetch(#[from] kube::Error),
    #[error("the served config is not Ignition: {0}")]
    Served(String),
    #[error(transparent)]
    Compose(#[from] serving::Error),
    #[error("the served config cannot be written")]
    Write(#[from] engine::Error),
    #[error("{0}")]
    Host(#[from] change::host::Error),
    #[error("the served config has no {}", store::ENCAPSULATED)]
    Encapsulated,
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("the first boot was interrupted")]
    Interrupted,
}

/// What a machine was served.
pub(crate) struct Served {
    /// The pointer config and the served one, merged as Ignition does.
    config: Config,
    /// The pool that the address names.
    pub(crate) pool: String,
}

impl Served {
    /// What the config server serves of a rendered config, for a machine that needs no credential: its kubelet and its daemon
    /// are parts of this process. It is there as soon as the config is, before there is a server to ask.
    pub(crate) fn without_credential(rendered: &MachineConfig, pool: &str) -> Result<Self, Error> {
        let parts = Parts {
            machine_config: rendered,
            image: None,
            kubelet_ca: b"",
            cloud_ca: b"",
            kubeconfig: "",
            server_ca: b"",
            registries: &[],
            daemon: None,
        };
        let served = serving::compose(&parts, Version::V3_5)?;
        let mut config = ignition::parse(&served).map_err(|error| Error::Served(error.to_string()))?;
        let files = config.storage.as_mut().and_then(|storage| storage.files.as_mut());
        if let Some(files) = files {
            files.retain(|file| file.path != store::KUBECONFIG);
        }
        Ok(Self { config, pool: pool.to_owned() })
    }

    /// The annotations that the daemon will write on its Node.
    pub(crate) fn node_annotations(&self) -> BTreeMap<String, String> {
        let files = self.config.storage.as_ref().and_then(|storage| storage.files.as_ref());
        let file = files.into_iter().flatten().find(|file| file.path == store::NODE_ANNOTATIONS);
        let bytes = file.and_then(|file| file.contents.as_ref()).and_then(|contents| ignition::decode(contents).ok());
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }
}

/// Asks for the config until there is one.
pub(crate) async fn fetch(machine: &str, user_data: &[u8]) -> Result<Served, Error> {
    let pointer = Pointer::read(user_data)?;
    let mut pause = AGAIN;
    loop {
        match pointer.follow().await {
            Ok(served) => return Ok(served),
            Err(error @ (Error::Fetch(_) | Error::Connect(_))) => {
                tracing::warn!(error = &error as &dyn std::error::Error, machine, "no config yet; asking again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Writes what was served and finishes the first boot. The config server is told how it went.
pub(crate) async fn complete(name: &str, root: &Path, host: Arc<dyn Host>, served: Served) -> Result<(), Error> {
    let of = name.to_owned();
    let working = tokio::task::spawn_blocking(move || carry_out(&of, &*host, served));
    let (ended, report) = working.await.map_err(|_| Error::Interrupted)?;
    if let Some(credential) = Credential::on(root)
        && let Err(error) = report::send(root, &credential, report).await
    {
        tracing::warn!(error = &error as &dyn std::error::Error, machine = name, "the config server was not told");
    }
    if ended.is_ok() {
        report::forget(root);
    }
    ended
}

/// Writes what was served and finishes the first boot; also what there is to tell of it.
pub(crate) fn carry_out(name: &str, host: &dyn Host, served: Served) -> (Result<(), Error>, Report) {
    let mut report = Report { stage: Stage::Ignition, host: Some(name.to_owned()), ..Report::default() };
    let ended = write(host, served.config).and_then(|()| {
        report.stage = Stage::FirstBoot;
        finish(host, &mut report)
    });
    report.error = ended.as_ref().err().map(causes);
    (ended, report)
}

/// What Ignition does: files, units and users, with nothing remembered of what stood there before.
fn write(host: &dyn Host, config: Config) -> Result<(), Error> {
    let mut machine_config = MachineConfig::default();
    machine_config.metadata.name = Some("ignition".to_owned());
    machine_config.spec.config = Some(ignition::to_value(config));
    let target = engine::read(&machine_config)?;
    for step in Engine::new(host).plan(&Target::default(), &target)? {
        if !matches!(step, Step::Keep { .. } | Step::KeepEnablement { .. }) {
            daemon::apply::apply(host, &target, &step)?;
        }
    }
    Ok(())
}

/// What `machinistd firstboot` does: the operating system, as the config wants it.
fn finish(host: &dyn Host, report: &mut Report) -> Result<(), Error> {
    let engine = Engine::new(host);
    let config: MachineConfig = engine.store().load(store::ENCAPSULATED)?.ok_or(Error::Encapsulated)?;
    report.config = Some(engine::name(&config));
    let outcome = once::first_boot(host, &config, &mut |step| report.steps.push(step.to_owned()))?;
    report.reboots = outcome == once::Outcome::NeedsReboot;
    if report.reboots {
        once::reboot(host, "the first boot is over")?;
        once::first_boot(host, &config, &mut |_| {})?;
    }
    Ok(())
}

/// An error with everything that led to it, in one line.
fn causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// User data: where the config is, and what it is asked for with.
struct Pointer {
    config: Config,
    server: String,
    path: String,
    pool: String,
    ca: Vec<u8>,
    /// Empty for a pool that is open.
    token: String,
}

impl Pointer {
    fn read(user_data: &[u8]) -> Result<Self, Error> {
        let value: serde_json::Value =
            serde_json::from_slice(user_data).map_err(|error| Error::UserData(error.to_string()))?;
        let token = serving::pointer::token(&value).unwrap_or_default().to_owned();
        let mut config = ignition::parse(&value).map_err(|error| Error::UserData(error.to_string()))?;
        let merged = config.ignition.config.take().and_then(|config| config.merge).unwrap_or_default();
        let source = merged.into_iter().next().and_then(|first| first.source).ok_or(Error::NoPointer)?;
        let security = config.ignition.security.take().and_then(|security| security.tls);
        let authorities = security.and_then(|tls| tls.certificate_authorities).unwrap_or_default();
        let ca: Vec<Vec<u8>> = authorities.iter().filter_map(|authority| ignition::decode(authority).ok()).collect();
        let uri: http::Uri = source.parse().map_err(|_| Error::Address(source.clone()))?;
        let authority = uri.authority().ok_or_else(|| Error::Address(source.clone()))?;
        let pool = uri.path().rsplit('/').next().unwrap_or_default().to_owned();
        let (server, path) = (format!("https://{authority}"), uri.path().to_owned());
        Ok(Self { config, server, path, pool, ca: ca.concat(), token })
    }

    async fn follow(&self) -> Result<Served, Error> {
        let client = cluster::connect::connect_with_token(&self.server, &self.ca, &self.token).await?;
        let request = http::Request::get(&self.path).header("accept", ACCEPT).body(Vec::new());
        let request = request.map_err(|_| Error::Address(self.path.clone()))?;
        self.merge(&client.request_text(request).await?)
    }

    fn merge(&self, served: &str) -> Result<Served, Error> {
        let value = serde_json::from_str(served).map_err(|error| Error::Served(error.to_string()))?;
        let served = ignition::parse(&value).map_err(|error| Error::Served(error.to_string()))?;
        let config = ignition::merge::merge(self.config.clone(), served);
        Ok(Served { config, pool: self.pool.clone() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CONFIG: &str = "rendered-worker-1";

    fn pointer() -> Pointer {
        let user_data = serving::pointer::pointer("127.0.0.1:1", "worker", b"CA\n", Some("secret"));
        Pointer::read(user_data.to_string().as_bytes()).expect("it is a pointer")
    }

    /// What the config server answers for a pool with one file and one unit.
    fn answer() -> String {
        let config = json!({
            "ignition": {"version": "3.5.0"},
            "storage": {"files": [{"path": "/etc/motd", "mode": 0o600, "contents": {"source": "data:,hello"}}]},
            "systemd": {"units": [{"name": "kubelet.service", "enabled": true, "contents": "[Unit]\n[Install]\nWantedBy=a.target\n"}]},
        });
        let mut machine_config = MachineConfig::default();
        machine_config.metadata.name = Some(CONFIG.to_owned());
        machine_config.spec.config = Some(config);
        let parts = Parts {
            machine_config: &machine_config,
            image: None,
            kubelet_ca: b"",
            cloud_ca: b"",
            kubeconfig: "clusters: []\n",
            server_ca: b"CA\n",
            registries: &[],
            daemon: None,
        };
        serving::compose(&parts, Version::V3_5).expect("it can be served").to_string()
    }

    #[test]
    fn user_data_says_where_the_config_is_and_carries_the_token() {
        let pointer = pointer();
        assert_eq!((pointer.server.as_str(), pointer.path.as_str()), ("https://127.0.0.1:1", "/config/worker"));
        assert_eq!((pointer.pool.as_str(), pointer.token.as_str()), ("worker", "secret"));
        assert_eq!(pointer.ca, b"CA\n");
    }

    #[test]
    fn user_data_that_points_nowhere_is_refused() {
        let refusal = |text: &str| Pointer::read(text.as_bytes()).err().map(|error| error.to_string());
        let nowhere = refusal(r#"{"ignition": {"version": "3.1.0"}}"#).expect("it is refused");
        assert!(nowhere.contains("ignition.config.merge"), "{nowhere}");
        assert!(refusal("#cloud-config").expect("it is refused").contains("not an Ignition config"));
    }

    #[tokio::test]
    async fn a_first_boot_leaves_a_root_that_the_daemon_takes_for_its_own() {
        let root = tempfile::tempdir().expect("a folder");
        let host = || host::directory::Directory::open(root.path()).expect("a host");
        let served = pointer().merge(&answer()).expect("it is Ignition");
        assert_eq!(served.node_annotations()[api::annotations::CURRENT_CONFIG], CONFIG);
        // Nobody listens where the report goes: a machine that cannot tell comes up all the same.
        complete("new", root.path(), Arc::new(host()), served).await.expect("it boots");
        let read = |path: &str| std::fs::read_to_string(root.path().join(path)).expect("it was written");
        assert_eq!(read("etc/motd"), "hello");
        assert!(read("etc/systemd/system/kubelet.service").contains("WantedBy"));
        let host = host();
        let engine = Engine::new(&host);
        let born = engine.store().birth().expect("it can be read").expect("it is there");
        assert_eq!(born[api::annotations::DESIRED_CONFIG], CONFIG);
        assert!(engine.store().current().expect("it can be read").is_none(), "the daemon has not adopted it yet");
        assert!(!root.path().join("etc/machinist/firstboot.json").exists(), "the credential is still there");
        assert!(!root.path().join("etc/ignition-machine-config-encapsulated.json").exists());
    }

    #[tokio::test]
    async fn a_config_without_the_encapsulated_one_fails_and_says_so() {
        let root = tempfile::tempdir().expect("a folder");
        let host = host::directory::Directory::open(root.path()).expect("a host");
        let served = pointer().merge(r#"{"ignition": {"version": "3.5.0"}}"#).expect("it is Ignition");
        let error = complete("new", root.path(), Arc::new(host), served).await.expect_err("it fails").to_string();
        assert!(error.contains("encapsulated"), "{error}");
    }
}
