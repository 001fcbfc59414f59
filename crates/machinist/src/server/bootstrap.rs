//! `machinist server bootstrap`: renders a folder of manifests with the controllers' code, and serves it without an API.
//!
//! What is rendered is written in upstream's layout of a bootstrap host, so that either server can serve it.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ::server::FolderSource;
use anyhow::{Context, bail};
use api::machineconfiguration::{MachineConfigPoolConfiguration, MachineConfigPoolStatus};
use clap::Args;
use kube::ResourceExt as _;
use serde::Serialize;

use super::Listen;
use crate::manifests::{self, Manifest};
use crate::output;

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    listen: Listen,
    /// Manifests to render first: files or folders; absent, the folder is served as it is
    #[arg(short, long = "filename", value_name = "PATH", num_args = 1..)]
    filename: Vec<PathBuf>,
    /// Look into folders within folders
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Folder that is served: machine-pools, machine-configs, controller-config and bootstrap-tokens
    #[arg(long, value_name = "DIR", default_value = "/etc/mcs/bootstrap")]
    server_basedir: PathBuf,
    /// The kubelet's first kubeconfig, served as it is
    #[arg(long, value_name = "FILE", default_value = "/etc/kubernetes/kubeconfig")]
    bootstrap_kubeconfig: PathBuf,
    /// Authority of a registry that machines need before there is a cluster
    #[arg(long, value_name = "REGISTRY=FILE", value_parser = certificate)]
    bootstrap_certs: Vec<(String, PathBuf)>,
    /// Serve without a token, as upstream's bootstrap host does: whoever reaches the port gets every secret of the pool
    #[arg(long)]
    open: bool,
    /// Render, write the folder and end
    #[arg(long, requires = "filename")]
    render_only: bool,
}

impl Arguments {
    pub(super) fn listen(&self) -> &Listen {
        &self.listen
    }

    /// Renders where there is something to render, and opens the folder; `None` where that was all.
    pub(super) fn source(&self) -> anyhow::Result<Option<FolderSource>> {
        if !self.filename.is_empty() {
            render(manifests::load(&self.filename, self.recursive)?, &self.server_basedir)?;
        }
        if self.render_only {
            return Ok(None);
        }
        let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let registries = self.bootstrap_certs.iter();
        let registries = registries.map(|(registry, path)| Ok((registry.clone(), read(path)?)));
        let ca = self.listen.ca().map(|path| read(&path)).transpose()?;
        let source = FolderSource::new(self.server_basedir.clone(), self.bootstrap_kubeconfig.clone());
        let source = source.open(self.open).server_ca(ca.unwrap_or_default());
        Ok(Some(source.registries(registries.collect::<anyhow::Result<_>>()?)))
    }
}

fn certificate(text: &str) -> Result<(String, PathBuf), String> {
    let (registry, path) = text.split_once('=').ok_or("write REGISTRY=FILE")?;
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-.:".contains(c);
    if registry.is_empty() || registry.contains("..") || !registry.chars().all(is_host) {
        return Err(format!("{registry:?} is not the host of a registry"));
    }
    Ok((registry.to_owned(), path.into()))
}

/// Renders every pool of the manifests and writes the folder.
pub(crate) fn render(manifests: Vec<Manifest>, folder: &Path) -> anyhow::Result<()> {
    let is = |manifest: &&Manifest, kind: &str| manifest.kind == kind;
    let controller_config = manifests.iter().find(|manifest| is(manifest, "ControllerConfig")).cloned();
    let tokens: Vec<Manifest> = manifests.iter().filter(|manifest| is(manifest, "BootstrapToken")).cloned().collect();
    let controller_config = controller_config.context("no ControllerConfig in the input; a machine needs its CAs")?;
    let _: api::machineconfiguration::ControllerConfig = controller_config.parse()?;
    let inputs = proposal::inputs::Inputs::sort(manifests, false)?;
    if inputs.fragments.is_empty() {
        bail!("no MachineConfig to render in the input");
    }
    let rendered = proposal::pools::render_all(&inputs, None)?;
    output::warn(rendered.iter().flat_map(|pool| &pool.warnings));
    let path = folder.join("controller-config").join("machine-config-controller.yaml");
    write(&path, &controller_config.value)?;
    for token in tokens {
        let _: api::machinist::BootstrapToken = token.parse()?;
        write(&folder.join("bootstrap-tokens").join(format!("{}.yaml", token.name)), &token.value)?;
    }
    for pool in &rendered {
        let config = &pool.rendered.machine_config;
        write(&folder.join("machine-configs").join(format!("{}.yaml", config.name_any())), config)?;
        let Some(mut object) = inputs.pools.iter().find(|object| object.name_any() == pool.name).cloned() else {
            continue;
        };
        let configuration = MachineConfigPoolConfiguration {
            name: Some(config.name_any()),
            ..MachineConfigPoolConfiguration::default()
        };
        object.spec.configuration = Some(configuration.clone());
        object.status =
            Some(MachineConfigPoolStatus { configuration: Some(configuration), ..MachineConfigPoolStatus::default() });
        write(&folder.join("machine-pools").join(format!("{}.yaml", pool.name)), &object)?;
        anstream::println!("Rendered {}", config.name_any());
    }
    Ok(())
}

/// Configs hold secrets, so only their owner reads them. JSON is YAML.
pub(crate) fn write(path: &Path, object: &impl Serialize) -> anyhow::Result<()> {
    let folder = path.parent().context("a path has a folder")?;
    let put = || {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(&serde_json::to_vec_pretty(object)?)
    };
    put().with_context(|| format!("cannot write {}", path.display()))
}
