//! `machinist operator bootstrap`: the ControllerConfig and the pools of a cluster that is not there yet, from an installer's
//! files, as the operator makes them in the cluster later.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use operate::{Facts, Images, Installation, Platform, Sources};
use serde_json::{Value, json};

use crate::server::bootstrap::write;

/// Where an installer puts its manifests.
const MANIFESTS: &str = "/assets/manifests";

#[derive(Args)]
pub(crate) struct Making {
    /// Folder to write into
    #[arg(long, value_name = "DIR")]
    dest_dir: PathBuf,
    /// Image of every process
    #[arg(long, value_name = "IMAGE", default_value_t = Images::default().machine_config_operator)]
    machine_config_operator_image: String,
    /// Authorities of the config server
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/kubernetes/ca.crt")]
    root_ca: PathBuf,
    /// Authorities of the API; absent, those of the config server
    #[arg(long, value_name = "FILE")]
    kube_ca: Option<PathBuf>,
    /// The pull secret, a Secret or a docker config
    #[arg(long, value_name = "FILE", default_value_os_t = Path::new(MANIFESTS).join("pull.json"))]
    pull_secret: PathBuf,
    /// The Infrastructure
    #[arg(long, value_name = "FILE", default_value_os_t = Path::new(MANIFESTS).join("cluster-infrastructure-02-config.yml"))]
    infra_config_file: PathBuf,
    /// The Network
    #[arg(long, value_name = "FILE", default_value_os_t = Path::new(MANIFESTS).join("cluster-network-02-config.yml"))]
    network_config_file: PathBuf,
    /// The Proxy
    #[arg(long, value_name = "FILE", default_value_os_t = Path::new(MANIFESTS).join("cluster-proxy-01-config.yaml"))]
    proxy_config_file: PathBuf,
    /// The DNS
    #[arg(long, value_name = "FILE", default_value_os_t = Path::new(MANIFESTS).join("cluster-dns-02-config.yml"))]
    dns_config_file: PathBuf,
    /// ConfigMap user-ca-bundle; absent, none
    #[arg(long, value_name = "FILE")]
    additional_trust_bundle_config_file: Option<PathBuf>,
    /// ConfigMap of the cloud's configuration; absent, none
    #[arg(long, value_name = "FILE")]
    cloud_config_file: Option<PathBuf>,
    /// Authorities of the cloud; absent, none
    #[arg(long, value_name = "FILE")]
    cloud_provider_ca_file: Option<PathBuf>,
    /// Has no part in what is made
    #[arg(long, value_name = "FILE")]
    config_file: Option<PathBuf>,
    /// Has no part in what is made: hosts keep the OS that they boot
    #[arg(long, value_name = "IMAGE")]
    machine_config_oscontent_image: Option<String>,
    /// Has no part in what is made
    #[arg(long, value_name = "IMAGE")]
    infra_image: Option<String>,
    /// Has no part in what is made
    #[arg(long, value_name = "IMAGE")]
    release_image: Option<String>,
}

pub(crate) fn make(arguments: &Making) -> anyhow::Result<ExitCode> {
    let facts = facts(arguments)?;
    let images =
        Images { machine_config_operator: arguments.machine_config_operator_image.clone(), ..Images::default() };
    let installation = Installation { images, ..Installation::default() };
    let manifests = arguments.dest_dir.join("bootstrap").join("manifests");
    let mut made = 0;
    for desired in operate::found(&installation, &facts) {
        let mut object = desired.object;
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let path = match object["kind"].as_str().unwrap_or_default() {
            "ControllerConfig" => manifests.join("machineconfigcontroller-controllerconfig.yaml"),
            "MachineConfigPool" => manifests.join(pool_file(&name)),
            "ClusterSettings" => {
                // In the cluster nobody could tell that hosts begin from our templates, so it is said there too.
                object["spec"]["profile"] = json!("openshift");
                write(&arguments.dest_dir.join("manifests").join("machinist-clustersettings.yaml"), &object)?;
                manifests.join("machinist-clustersettings.yaml")
            }
            _ => continue,
        };
        write(&path, &object)?;
        anstream::println!("Wrote {}", path.display());
        made += 1;
    }
    if made < 4 {
        bail!("no ControllerConfig could be made; give the authorities with --root-ca");
    }
    if let Some(secret) = &facts.sources.pull_secret {
        write(&manifests.join("machineconfigcontroller-pull-secret"), &secret_of(&installation, secret))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The file of a built-in pool, which gives way to a user's own of the same name.
pub(crate) fn pool_file(name: &str) -> String {
    format!("{name}.machineconfigpool.yaml")
}

fn secret_of(installation: &Installation, docker_config: &[u8]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": "pull-secret", "namespace": installation.source_namespace},
        "data": {".dockerconfigjson": k8s_openapi::ByteString(docker_config.to_vec())},
    })
}

fn facts(arguments: &Making) -> anyhow::Result<Facts> {
    let infrastructure = object(&arguments.infra_config_file, "Infrastructure")?;
    let network = object(&arguments.network_config_file, "Network")?;
    let text = |path: &str| infrastructure.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let server_ca = file(&arguments.root_ca)?;
    let map = |path: &Option<PathBuf>| path.as_deref().map(|path| object(path, "ConfigMap")).transpose();
    let of = |map: &Option<Value>, key: &str| Some(map.as_ref()?["data"].get(key)?.as_str()?.to_owned());
    let (trust, cloud) = (map(&arguments.additional_trust_bundle_config_file)?, map(&arguments.cloud_config_file)?);
    Ok(Facts {
        platform: Platform::OpenShift,
        service_addresses: services(&network, &arguments.network_config_file)?,
        api_ca: Some(arguments.kube_ca.as_deref().map(file).transpose()?.unwrap_or_else(|| server_ca.clone())),
        api_url: text("/status/apiServerInternalURI"),
        server_ca: Some(server_ca),
        sources: Sources {
            pull_secret: Some(super::read_pull_secret(&arguments.pull_secret)?),
            trust_bundle: of(&trust, "ca-bundle.crt"),
            cloud_config: of(&cloud, "cloud.conf"),
            cloud_ca: arguments.cloud_provider_ca_file.as_deref().map(file).transpose()?,
            ..Sources::default()
        },
        topology: text("/status/controlPlaneTopology"),
        dns: Some(object(&arguments.dns_config_file, "DNS")?),
        proxy: object(&arguments.proxy_config_file, "Proxy")?.get("status").cloned(),
        infrastructure: Some(infrastructure),
        ..Facts::default()
    })
}

/// The address that the API's own service gets in each range: the first.
fn services(network: &Value, path: &Path) -> anyhow::Result<Vec<String>> {
    let ranges = [network.pointer("/spec/serviceNetwork"), network.pointer("/status/serviceNetwork")];
    let ranges = ranges.into_iter().flatten().find_map(Value::as_array);
    let ranges = ranges.with_context(|| format!("{}: Network has no spec.serviceNetwork", path.display()))?;
    let first = |range: &Value| {
        let (address, _) = range.as_str()?.split_once('/')?;
        Some(match address.parse().ok()? {
            IpAddr::V4(address) => IpAddr::V4(std::net::Ipv4Addr::from_bits(address.to_bits().checked_add(1)?)),
            IpAddr::V6(address) => IpAddr::V6(std::net::Ipv6Addr::from_bits(address.to_bits().checked_add(1)?)),
        })
    };
    let firsts: Option<Vec<IpAddr>> = ranges.iter().map(first).collect();
    let firsts = firsts.with_context(|| {
        format!("{}: spec.serviceNetwork of the Network has a range that is not like 172.30.0.0/16", path.display())
    })?;
    Ok(firsts.iter().map(ToString::to_string).collect())
}

fn file(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {} file", path.display()))
}

/// The object of a kind in a file.
fn object(path: &Path, kind: &str) -> anyhow::Result<Value> {
    let manifests = crate::manifests::load(&[path.to_owned()], false)?;
    let found = manifests.into_iter().find(|manifest| manifest.kind == kind);
    found.map(|manifest| manifest.value).with_context(|| format!("{} has no {kind}", path.display()))
}
