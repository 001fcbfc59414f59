//! Converts the newest spec to an older one for clients that need it.
//!
//! Fields that the older spec cannot express are refused by name: a machine that silently lacks an encrypted disk is
//! worse than one that does not boot. Kernel arguments are the exception: below 3.3 they move to the MachineConfig's
//! own list.

mod spec2;

use serde_json::Value;

use crate::features;
use crate::node::Node as _;
use crate::path::Path;
use crate::report::{Error, Problem, Report};
use crate::url;
use crate::v3_5::{Config, Luks, Resource};
use crate::validate;
use crate::version::Version;

/// A config in an older spec, and the kernel arguments that its MachineConfig must contain.
#[derive(Debug, Clone, PartialEq)]
pub struct Lowered {
    pub config: Value,
    pub kernel_arguments: Vec<String>,
}

/// Converts a config of the newest spec to `version`; `kernel_arguments` are those of its MachineConfig.
pub fn lower(mut config: Config, version: Version, mut kernel_arguments: Vec<String>) -> Result<Lowered, Error> {
    if !Version::SERVED.contains(&version) {
        let allowed = Version::SERVED.map(Version::as_str).join(", ");
        let message = format!("conversion from {} to {version} is not supported", Version::NEWEST);
        return Err(Error::one(Problem::new("ignition.version", message).allowed(allowed)));
    }
    let mut report = Report::default();
    validate::check(&config, Version::NEWEST, &mut report);
    report.stop_on_problems()?;

    if version < Version::V3_3 {
        move_arguments(&mut config, version, &mut kernel_arguments, &mut report);
    }
    refuse(&config, version, &mut report);
    if version.is_spec2() {
        spec2::refuse(&config, &mut report);
    }
    report.stop_on_problems()?;

    let rules = version.max(Version::V3_1);
    features::drop_newer(&mut config, if version.is_spec2() { Version::V3_2 } else { version }, &mut Report::default());
    if !version.is_spec2() {
        validate::check(&config, rules, &mut report);
    }
    report.stop_on_problems()?;
    config.ignition.version = version.as_str().to_owned();
    let config = if version.is_spec2() { spec2::lower(config)? } else { config.write() };
    Ok(Lowered { config, kernel_arguments })
}

fn move_arguments(config: &mut Config, version: Version, kernel_arguments: &mut Vec<String>, report: &mut Report) {
    let Some(arguments) = config.kernel_arguments.take() else {
        return;
    };
    if arguments.should_not_exist.is_some_and(|list| !list.is_empty()) {
        let message = format!("can't serve version {version} with ignition KernelArguments.ShouldNotExist populated");
        report.problem(Problem::new("kernelArguments.shouldNotExist", message).allowed("none below 3.3.0"));
    }
    kernel_arguments.extend(arguments.should_exist.unwrap_or_default());
}

/// Reports everything in the config that `version` cannot express.
fn refuse(config: &Config, version: Version, report: &mut Report) {
    if version < Version::V3_5 {
        for (index, _) in
            luks(config).enumerate().filter(|(_, luks)| luks.cex.as_ref().is_some_and(|cex| cex.enabled == Some(true)))
        {
            let message = format!("luks cex is not supported in spec v{version}");
            report.problem(Problem::new(format!("storage.luks[{index}].cex"), message));
        }
    }
    if version < Version::V3_4 {
        refuse_below_3_4(config, report);
    }
    if version < Version::V3_2 {
        refuse_below_3_2(config, short(version), report);
    }
}

fn refuse_below_3_4(config: &Config, report: &mut Report) {
    let at = Path::Root.key("storage");
    let luks_at = at.key("luks");
    for (index, luks) in luks(config).enumerate() {
        let at = luks_at.index(index);
        let mut refuse = |field: &str, message: &str| {
            let message = format!("{message} is not supported in spec v3.3");
            report.problem(Problem::new(format!("{at}.{field}"), message));
        };
        if luks.discard == Some(true) {
            refuse("discard", "luks discard");
        }
        if luks.open_options.as_ref().is_some_and(|options| !options.is_empty()) {
            refuse("openOptions", "luks openOptions");
        }
        let tang = luks.clevis.iter().flat_map(|clevis| clevis.tang.iter().flatten());
        if tang.into_iter().any(|tang| tang.advertisement.as_deref().is_some_and(|text| !text.is_empty())) {
            refuse("clevis.tang", "tang offline provisioning (advertisement)");
        }
    }
    let mut mode = |list: &'static str, index: usize, mode: Option<i64>| {
        if mode.is_some_and(|mode| mode & 0o7000 != 0) {
            let list = at.key(list);
            let at = list.index(index);
            let message = "special mode bits are not supported in spec v3.3";
            report.problem(Problem::new(at.key("mode").to_string(), message).allowed("octal 0 to 777"));
        }
    };
    let storage = config.storage.iter();
    for (index, file) in storage.clone().flat_map(|storage| storage.files.iter().flatten()).enumerate() {
        mode("files", index, file.mode);
    }
    for (index, directory) in storage.flat_map(|storage| storage.directories.iter().flatten()).enumerate() {
        mode("directories", index, directory.mode);
    }
    for (path, resource) in resources(config) {
        if url::scheme(resource.source.as_deref().unwrap_or_default()).is_ok_and(|scheme| scheme == "arn") {
            let message = "arn: scheme for s3 is not supported in spec v3.3";
            report.problem(Problem::new(format!("{path}.source"), message).allowed(url::allowed(Version::V3_3)));
        }
    }
}

/// `spec` is the short form of the target version that these messages use.
fn refuse_below_3_2(config: &Config, spec: &str, report: &mut Report) {
    if luks(config).next().is_some() {
        report.problem(Problem::new("storage.luks", format!("LUKS is not supported on {spec}")));
    }
    let passwd = config.passwd.iter();
    for (index, user) in passwd.clone().flat_map(|passwd| passwd.users.iter().flatten()).enumerate() {
        if user.should_exist == Some(false) {
            let message = format!("ShouldExist in Passwd.Users is not supported on {spec}");
            report.problem(Problem::new(format!("passwd.users[{index}].shouldExist"), message));
        }
    }
    for (index, group) in passwd.flat_map(|passwd| passwd.groups.iter().flatten()).enumerate() {
        if group.should_exist == Some(false) {
            let message = format!("ShouldExist in Passwd.Groups is not supported on {spec}");
            report.problem(Problem::new(format!("passwd.groups[{index}].shouldExist"), message));
        }
    }
    for (disk, each) in config.storage.iter().flat_map(|storage| storage.disks.iter().flatten()).enumerate() {
        for (index, partition) in each.partitions.iter().flatten().enumerate() {
            if partition.resize == Some(true) {
                let message = format!("Resize in Storage.Disks.Partitions is not supported on {spec}");
                report.problem(Problem::new(format!("storage.disks[{disk}].partitions[{index}].resize"), message));
            }
        }
    }
}

fn short(version: Version) -> &'static str {
    version.as_str().trim_end_matches(".0")
}

fn luks(config: &Config) -> impl Iterator<Item = &Luks> {
    config.storage.iter().flat_map(|storage| storage.luks.iter().flatten())
}

/// Returns all resources of a config with their paths.
fn resources(config: &Config) -> Vec<(String, &Resource)> {
    let mut found: Vec<(String, &Resource)> = Vec::new();
    let ignition = &config.ignition;
    if let Some(references) = &ignition.config {
        let merge = references.merge.iter().flatten().enumerate();
        found.extend(merge.map(|(index, each)| (format!("ignition.config.merge[{index}]"), each)));
        found.extend(references.replace.iter().map(|each| ("ignition.config.replace".to_owned(), each)));
    }
    let tls = ignition.security.iter().flat_map(|security| &security.tls);
    let authorities = tls.flat_map(|tls| tls.certificate_authorities.iter().flatten()).enumerate();
    found.extend(
        authorities.map(|(index, each)| (format!("ignition.security.tls.certificateAuthorities[{index}]"), each)),
    );
    for (index, file) in config.storage.iter().flat_map(|storage| storage.files.iter().flatten()).enumerate() {
        found.extend(file.contents.iter().map(|each| (format!("storage.files[{index}].contents"), each)));
        let append = file.append.iter().flatten().enumerate();
        found.extend(append.map(|(part, each)| (format!("storage.files[{index}].append[{part}]"), each)));
    }
    for (index, luks) in luks(config).enumerate() {
        found.extend(luks.key_file.iter().map(|each| (format!("storage.luks[{index}].keyFile"), each)));
    }
    found
}
