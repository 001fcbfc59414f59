//! One fragment at a time: is it fit to be merged; then all of them as one Ignition config.

use api::labels;
use api::machineconfiguration::MachineConfig;
use ignition::merge::Merger;
use ignition::{Config, DECODED_LIMIT, GzipChecker};

use crate::error::{Error, Problem, refuse_if_any};
use crate::{name_of, role};

/// Sets of packages an OS image can be extended with.
pub const EXTENSIONS: [&str; 7] =
    ["two-node-ha", "ipsec", "usbguard", "kerberos", "kernel-devel", "sandboxed-containers", "sysstat"];

/// Everything that is wrong with one fragment by itself, whichever pool it is for.
pub fn check(fragment: &MachineConfig) -> Result<(), Error> {
    let mut problems = Vec::new();
    parse(fragment, &mut problems, &mut Vec::new());
    refuse_if_any(problems)
}

/// The Ignition configs of all fragments, in their order; `None` for a fragment without one, or whose config is refused.
pub(crate) fn parse_all(
    fragments: &[&MachineConfig],
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Problem>,
) -> Vec<Option<Config>> {
    fragments.iter().map(|fragment| parse(fragment, problems, warnings)).collect()
}

fn parse(fragment: &MachineConfig, problems: &mut Vec<Problem>, warnings: &mut Vec<Problem>) -> Option<Config> {
    let name = name_of(fragment);
    if role(fragment).is_none_or(str::is_empty) {
        let field = format!("metadata.labels[{}]", labels::ROLE);
        problems.push(Problem::config(
            name,
            field,
            "cannot find label in MachineConfig: the role it is for is missing",
        ));
    }
    let kernel = fragment.spec.kernel_type.as_deref().unwrap_or_default();
    if !matches!(kernel, "" | "default" | "realtime" | "64k-pages") {
        let message = format!("kernelType={kernel} is invalid (allowed: default, realtime, 64k-pages)");
        problems.push(Problem::config(name, "spec.kernelType", message));
    }
    for (index, extension) in fragment.spec.extensions.iter().enumerate() {
        if !EXTENSIONS.contains(&extension.as_str()) {
            let message = format!("invalid extensions found: [{extension}] (allowed: {})", EXTENSIONS.join(", "));
            problems.push(Problem::config(name, format!("spec.extensions[{index}]"), message));
        }
    }
    let raw = fragment.spec.config.as_ref().filter(|raw| !raw.is_null())?;
    match ignition::read(raw) {
        Ok(parsed) => {
            warnings.extend(parsed.warnings.iter().map(|found| Problem::ignition(name, found)));
            check_modes(name, &parsed.config, problems);
            Some(parsed.config)
        }
        Err(error) => {
            problems.extend(error.problems.iter().map(|found| Problem::ignition(name, found)));
            None
        }
    }
}

/// Set-user-id, set-group-id and sticky bits were never carried to running nodes, so files may not have them.
fn check_modes(name: &str, config: &Config, problems: &mut Vec<Problem>) {
    for (index, file) in config.storage.iter().flat_map(|storage| storage.files.iter().flatten()).enumerate() {
        if let Some(mode) = file.mode.filter(|mode| *mode > 0o777) {
            let message = format!("invalid mode 0{mode:o} for {}, cannot exceed 0777", file.path);
            problems.push(Problem::config(name, format!("spec.config.storage.files[{index}].mode"), message));
        }
    }
}

pub(crate) fn merge(configs: Vec<Option<Config>>) -> Config {
    let mut merger = Merger::new(ignition::empty());
    configs.into_iter().flatten().for_each(|config| merger.add(config));
    merger.finish()
}

/// Last touches to the merged config, and what is wrong with the whole although no fragment is wrong by itself.
pub(crate) fn finish(config: &mut Config, pool: &str) -> Vec<Problem> {
    for file in config.storage.iter_mut().flat_map(|storage| storage.files.iter_mut().flatten()) {
        if let Some(contents) = &mut file.contents {
            contents.compression = contents.compression.take().filter(|compression| !compression.is_empty());
        }
        // New machines then treat files as running nodes do. Without a source there is nothing to write over.
        let has_source = file.contents.as_ref().is_some_and(|contents| contents.source.is_some());
        if has_source && file.overwrite.is_none() {
            file.overwrite = Some(true);
        }
    }
    let mut problems: Vec<Problem> = match ignition::validate_merged(config) {
        Ok(()) => Vec::new(),
        Err(error) => error.problems.iter().map(|found| Problem::pool(pool, &found.path, &found.message)).collect(),
    };
    problems.extend(check_contents(config, pool));
    problems
}

/// What all files of a config may unpack to. A host holds it on its disk twice while it changes from one config to the next,
/// and a few kilobytes of gzip can claim a thousand times their size.
const TOTAL_LIMIT: usize = 256 << 20;
/// How many files a refusal names.
const NAMED: usize = 10;

/// Contents that cannot be unpacked, and files that are too large together. Nothing is unpacked beyond the limit.
fn check_contents(config: &Config, pool: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut gzip = GzipChecker::default();
    let mut sizes: Vec<(usize, &str)> = Vec::new();
    let mut total = 0;
    for file in config.storage.iter().flat_map(|storage| storage.files.iter().flatten()) {
        let mut size = 0;
        for resource in file.contents.iter().chain(file.append.iter().flatten()) {
            match gzip.check(resource, DECODED_LIMIT) {
                Ok(unpacked) => size += unpacked,
                Err(error) => problems.push(Problem::pool(pool, &file.path, error.to_string())),
            }
        }
        sizes.push((size, &file.path));
        total += size;
        if total > TOTAL_LIMIT {
            problems.push(Problem::pool(pool, "storage.files", too_large(sizes)));
            break;
        }
    }
    problems
}

fn too_large(mut sizes: Vec<(usize, &str)>) -> String {
    sizes.sort_by(|(one, first), (two, second)| two.cmp(one).then_with(|| first.cmp(second)));
    let named: Vec<String> = sizes.iter().take(NAMED).map(|(size, path)| format!("{path} ({size})")).collect();
    let named = named.join(", ");
    format!(
        "all files together unpack to more than {TOTAL_LIMIT} bytes: make them fewer or smaller; large ones are {named}"
    )
}
