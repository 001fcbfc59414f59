//! The fields of a MachineConfig beside Ignition: how many fragments make one value.

use api::machineconfiguration::{MachineConfig, MachineConfigSpec};
use ignition::Config;

use crate::error::Problem;
use crate::{Settings, is_generated, name_of};

const DEFAULT_KERNEL: &str = "default";

/// What fragments ask for together and no node can have.
pub(crate) fn problems(pool: &str, follows_stream: bool, fragments: &[&MachineConfig]) -> Vec<Problem> {
    let mut problems = Vec::new();
    if follows_stream && overrides_os_image(fragments) {
        let message =
            "cannot override MachineConfig osImageURL and set MachineConfigPool spec.osImageStream.name simultaneously";
        problems.push(Problem::pool(pool, "spec.osImageStream.name", message));
    }
    let kernel = kernel_type(fragments);
    let devel = |fragment: &&&MachineConfig| fragment.spec.extensions.iter().any(|name| name == "kernel-devel");
    if let Some(fragment) = fragments.iter().find(devel).filter(|_| kernel != DEFAULT_KERNEL) {
        let message = format!("installing kernel-devel extension is not supported with kernelType: {kernel}");
        problems.push(Problem::config(name_of(fragment), "spec.extensions", message));
    }
    problems
}

pub(crate) fn merge(fragments: &[&MachineConfig], config: Config, settings: &Settings) -> MachineConfigSpec {
    let kernel = kernel_type(fragments);
    let filled = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    MachineConfigSpec {
        os_image_url: last(fragments, |spec| &spec.os_image_url).or(filled(&settings.os_image)),
        base_os_extensions_container_image: last(fragments, |spec| &spec.base_os_extensions_container_image)
            .or(filled(&settings.extensions_image)),
        config: Some(ignition::to_value(config)),
        kernel_arguments: fragments
            .iter()
            .flat_map(|fragment| fragment.spec.kernel_arguments.iter().cloned())
            .collect(),
        extensions: fragments.iter().flat_map(|fragment| fragment.spec.extensions.iter().cloned()).collect(),
        fips: Some(fragments.iter().any(|fragment| fragment.spec.fips == Some(true))),
        kernel_type: Some(kernel.to_owned()),
    }
}

/// The last kernel that is not the default one wins: a later fragment cannot take a special kernel back.
fn kernel_type<'a>(fragments: &[&'a MachineConfig]) -> &'a str {
    let special = fragments.iter().rev().filter_map(|fragment| fragment.spec.kernel_type.as_deref());
    special.into_iter().find(|kernel| !matches!(*kernel, "" | DEFAULT_KERNEL)).unwrap_or(DEFAULT_KERNEL)
}

/// The last value a person gave; generated fragments repeat the cluster's own value and do not count.
fn last(fragments: &[&MachineConfig], field: impl Fn(&MachineConfigSpec) -> &Option<String>) -> Option<String> {
    let people = fragments.iter().rev().filter(|fragment| !is_generated(fragment));
    people.filter_map(|fragment| field(&fragment.spec).clone()).find(|value| !value.is_empty())
}

pub(crate) fn overrides_os_image(fragments: &[&MachineConfig]) -> bool {
    last(fragments, |spec| &spec.os_image_url).is_some()
}
