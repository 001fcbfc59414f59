//! Templates in a folder: read for the controller, and filled in for `machinist render --templates`.

use std::path::Path;

use anyhow::{Context as _, bail};
use api::machineconfiguration::{ControllerConfig, MachineConfig};
use api::machinist::{ClusterSettings, ClusterSettingsSpec};
use api::names;
use jiff::Timestamp;
use typed::objects::{Given, Memory, Objects};
use typed::plan::Plan;
use typed::templates::{Template, Templates};

use crate::manifests::Manifest;

/// Every file below a folder is a template; its path says when it counts.
pub(crate) fn load(folder: &Path) -> anyhow::Result<Templates> {
    let mut templates = Vec::new();
    read(folder, "", &mut templates)?;
    if templates.is_empty() {
        bail!("there are no templates in {}; write for example common/00/NAME below it", folder.display());
    }
    Ok(Templates::new(templates))
}

fn read(folder: &Path, prefix: &str, templates: &mut Vec<Template>) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        let path = entry.path();
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        // A mounted ConfigMap has hidden folders beside the files that users see.
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        if path.is_dir() {
            read(&path, &format!("{name}/"), templates)?;
        } else {
            let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            templates.push(Template { path: name, text });
        }
    }
    Ok(())
}

/// The MachineConfigs that templates make of the ControllerConfig among the manifests. Pull secrets are left out.
pub(crate) fn fill(manifests: &[Manifest], given: Option<Templates>) -> anyhow::Result<Vec<MachineConfig>> {
    let of_kind = |kind: &str| manifests.iter().find(|manifest| manifest.kind == kind);
    let Some(controller_config) = of_kind("ControllerConfig") else {
        bail!(
            "no ControllerConfig in the input; `kubectl get controllerconfig machine-config-controller -o yaml` prints a cluster's"
        )
    };
    let controller_config: ControllerConfig = controller_config.parse()?;
    let settings = match of_kind("ClusterSettings") {
        Some(settings) => settings.parse()?,
        None => {
            let spec = ClusterSettingsSpec { profile: Some("openshift".to_owned()), ..ClusterSettingsSpec::default() };
            ClusterSettings::new(names::CLUSTER, spec)
        }
    };
    let objects = Objects {
        now: Timestamp::now(),
        version: controllers::Settings::default().version,
        settings: Some(settings),
        templates: given.map_or(Given::Profile, Given::Templates),
        controller_config: Some(ControllerConfig { status: None, ..controller_config }),
        api_server: None,
        pools: Vec::new(),
        nodes: Vec::new(),
        machine_configs: Vec::new(),
        main_files: Vec::new(),
        memory: Memory::default(),
    };
    let plan = objects.plan_templates(Ok(None), Vec::new());
    filled_in(&plan)?;
    Ok(plan.apply)
}

/// Refuses what templates make when they cannot be filled in.
pub(crate) fn filled_in(plan: &Plan) -> anyhow::Result<()> {
    let conditions = plan.updates.iter().filter_map(|update| update.status.as_ref()?.get("conditions")?.as_array());
    let failing = conditions.flatten().find(|it| it["type"] == "TemplateControllerFailing" && it["status"] == "True");
    if let Some(failing) = failing {
        bail!("{}", failing["message"].as_str().unwrap_or_default());
    }
    Ok(())
}
