//! `machinist controller bootstrap`: renders the pools of a cluster that is not there yet, from a folder of manifests.
//!
//! The planners of the controllers make the same fragments here as they will in the cluster, so the first machines get
//! configs with the names that the cluster's pools ask for later, and nothing is rolled out again.

pub(crate) mod operator;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use api::machineconfiguration::{ControllerConfig, MachineConfig};
use api::machinist::{ClusterSettings, ClusterSettingsSpec};
use api::names;
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Resource, ResourceExt as _};
use proposal::generated::{Typed, refusals};
use serde::de::DeserializeOwned;
use typed::objects::{Given, Kubelets, Memory, Objects, Registries};
use typed::plan::Plan;
use typed::runtime::main_file::Written;
use typed::templates::Templates;

use crate::manifests::{self, Manifest};
use crate::{server, templates};

#[derive(Args)]
pub(crate) struct Rendering {
    /// Folder of manifests: the ControllerConfig, pools, and what else the cluster begins with
    #[arg(long, value_name = "DIR")]
    manifest_dir: PathBuf,
    /// Folder to write machine-pools, machine-configs and controller-config into
    #[arg(long, value_name = "DIR")]
    dest_dir: PathBuf,
    /// The pull secret: a Secret, or the docker config itself
    #[arg(long, value_name = "FILE")]
    pull_secret: Option<PathBuf>,
    /// Folder of templates that hosts start from, instead of those that come with the profile
    #[arg(long, value_name = "DIR")]
    templates: Option<PathBuf>,
}

pub(crate) fn render(arguments: &Rendering) -> anyhow::Result<ExitCode> {
    let folder = &arguments.manifest_dir;
    let mut manifests = one_of_each_pool(manifests::load(std::slice::from_ref(folder), false)?)?;
    if !manifests.iter().any(|manifest| manifest.kind == "ControllerConfig") {
        bail!("no controllerconfig found in dir: {:?}", folder.display().to_string());
    }
    let secret = arguments.pull_secret.as_deref().map(read_pull_secret).transpose()?;
    let given = arguments.templates.as_deref().map(templates::load).transpose()?;
    for config in generate(&manifests, secret, given)? {
        manifests.retain(|manifest| manifest.kind != "MachineConfig" || manifest.name != config.name_any());
        manifests.push(Manifest::of(&config)?);
    }
    let api_server = manifests.iter().find(|manifest| manifest.kind == "APIServer").cloned();
    server::bootstrap::render(manifests, &arguments.dest_dir)?;
    if let Some(api_server) = api_server {
        let path = arguments.dest_dir.join("api-server").join("api-server.yaml");
        server::bootstrap::write(&path, &api_server.value)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The MachineConfigs that the controllers will generate from these manifests.
fn generate(
    manifests: &[Manifest],
    secret: Option<Vec<u8>>,
    given: Option<Templates>,
) -> anyhow::Result<Vec<MachineConfig>> {
    let mut typed = read(manifests, given)?;
    let named = typed.objects.controller_config.as_ref().and_then(|config| config.spec.pull_secret.as_ref());
    let secret = match (named, secret) {
        (None, _) => None,
        (Some(_), Some(secret)) => Some(secret),
        (Some(_), None) if !typed.objects.has_templates() => None,
        (Some(_), None) => bail!("the ControllerConfig names a pull secret; give it with --pull-secret"),
    };
    let made = typed.objects.plan_templates(Ok(secret), Vec::new());
    templates::filled_in(&made)?;
    take(&mut typed.objects.machine_configs, &made);
    let plans = typed.plans();
    let refused = refusals(&plans);
    if !refused.is_empty() {
        bail!("{}", refused.join("\nerror: "));
    }
    for plan in &plans {
        take(&mut typed.objects.machine_configs, plan);
    }
    Ok(typed.objects.machine_configs)
}

fn take(configs: &mut Vec<MachineConfig>, plan: &Plan) {
    for config in &plan.apply {
        configs.retain(|known| known.metadata.name != config.metadata.name);
        configs.push(config.clone());
    }
}

/// Sorts the manifests into what the planners look at.
fn read(manifests: &[Manifest], given: Option<Templates>) -> anyhow::Result<Typed> {
    let settings = one::<ClusterSettings>(manifests, names::CLUSTER)?.unwrap_or_else(|| {
        let spec = ClusterSettingsSpec { profile: Some("openshift".to_owned()), ..ClusterSettingsSpec::default() };
        ClusterSettings::new(names::CLUSTER, spec)
    });
    let machine_configs: Vec<MachineConfig> = all(manifests)?;
    let is_generated = |config: &MachineConfig| typed::objects::is_generated_name(&config.name_any());
    let objects = Objects {
        now: Timestamp::now(),
        version: controllers::Settings::default().version,
        settings: Some(settings),
        templates: given.map_or(Given::Profile, Given::Templates),
        controller_config: one::<ControllerConfig>(manifests, names::CONTROLLER_CONFIG)?
            .map(|config| ControllerConfig { status: None, ..config }),
        api_server: one(manifests, names::CLUSTER)?,
        pools: all(manifests)?,
        nodes: Vec::new(),
        main_files: machine_configs.iter().filter_map(Written::find).collect(),
        machine_configs: machine_configs.into_iter().filter(is_generated).collect(),
        memory: Memory::default(),
    };
    if objects.pools.is_empty() {
        bail!("no MachineConfigPool in the input; `machinist operator bootstrap` makes those of every cluster");
    }
    let kubelets = Kubelets {
        kubelet_configs: all(manifests)?,
        node: one(manifests, names::CLUSTER)?,
        feature_gate: one(manifests, names::CLUSTER)?,
    };
    let registries = Registries {
        image: one(manifests, names::CLUSTER)?,
        content_policies: all(manifests)?,
        digest_mirrors: all(manifests)?,
        tag_mirrors: all(manifests)?,
        cluster_policies: all(manifests)?,
        policies: all(manifests)?,
    };
    Ok(Typed { objects, kubelets, registries, runtimes: all(manifests)?, singles: Vec::new() })
}

/// Every object of a kind.
fn all<K: Resource<DynamicType = ()> + DeserializeOwned>(manifests: &[Manifest]) -> anyhow::Result<Vec<K>> {
    let of_kind = |manifest: &&Manifest| manifest.kind == K::kind(&()) && manifest.group() == K::group(&());
    Ok(manifests.iter().filter(of_kind).map(Manifest::parse).collect::<Result<_, _>>()?)
}

fn one<K: Resource<DynamicType = ()> + DeserializeOwned>(
    manifests: &[Manifest],
    name: &str,
) -> anyhow::Result<Option<K>> {
    Ok(all::<K>(manifests)?.into_iter().find(|object| object.meta().name.as_deref() == Some(name)))
}

/// A user's pool counts in place of the one that `machinist operator bootstrap` made in a file of its own name.
fn one_of_each_pool(manifests: Vec<Manifest>) -> anyhow::Result<Vec<Manifest>> {
    let is_pool = |manifest: &Manifest| manifest.kind == "MachineConfigPool";
    let is_copy = |manifest: &Manifest| manifest.origin.file.ends_with(&operator::pool_file(&manifest.name));
    let mut users: BTreeMap<&str, &Manifest> = BTreeMap::new();
    for manifest in manifests.iter().filter(|manifest| is_pool(manifest) && !is_copy(manifest)) {
        if let Some(first) = users.insert(&manifest.name, manifest) {
            bail!("{}: MachineConfigPool {:?} is in {} already", manifest.origin, manifest.name, first.origin);
        }
    }
    let is_kept =
        |manifest: &&Manifest| !is_pool(manifest) || !is_copy(manifest) || !users.contains_key(manifest.name.as_str());
    Ok(manifests.iter().filter(is_kept).cloned().collect())
}

/// A docker config, as it is or in a Secret.
fn read_pull_secret(path: &std::path::Path) -> anyhow::Result<Vec<u8>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let value: serde_json::Value = serde_saphyr::from_str(&text)
        .map_err(|_| anyhow::anyhow!("{} is neither a Secret nor a docker config", path.display()))?;
    if value["kind"] != "Secret" {
        return match value.get("auths") {
            Some(_) => Ok(text.into_bytes()),
            None => bail!("{} has no auths, so it is no docker config", path.display()),
        };
    }
    let secret: Secret =
        serde_json::from_value(value).map_err(|_| anyhow::anyhow!("{} is no Secret", path.display()))?;
    let data = secret.data.and_then(|mut data| data.remove(".dockerconfigjson"));
    data.map(|data| data.0).with_context(|| format!("the Secret in {} has no .dockerconfigjson", path.display()))
}
