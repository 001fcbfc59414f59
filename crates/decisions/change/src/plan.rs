//! The ordered steps that bring a host from one config to another. Undo is the same function with its arguments swapped.
//!
//! It compares what the two configs say and never looks at a disk, so the same plan can be shown before it is carried out.
//! Order: originals are kept first, units that go are stopped while their files still stand, files come before the units
//! that use them, and the operating system comes last because only it needs a reboot to take effect.

use std::collections::BTreeSet;

use crate::host::HostPath;
use crate::kargs;
use crate::step::Step;
use crate::target::{Target, Unit, dropin_path, unit_path};

/// What the config owned by an MCO-style daemon always leaves in place when its entry goes: other writers keep them fresh.
const NEVER_REMOVED: [&str; 3] = [
    "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt",
    "/etc/kubernetes/kubelet-ca.crt",
    "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem",
];

pub fn plan(from: &Target, to: &Target) -> Vec<Step> {
    let mut steps = keep_originals(from, to);
    let units = UnitSteps::new(from, to);
    steps.extend(units.before);
    steps.extend(write_files(from, to));
    steps.extend(units.write);
    steps.extend(put_back(from, to));
    steps.extend(units.after);
    let moves_keys = steps.iter().any(configures_sshd);
    steps.extend(users(from, to, moves_keys));
    steps.extend(system(from, to));
    steps
}

/// Every path a config writes: files, links, unit files and drop-ins. Folders are not among them: they are never kept.
pub fn managed_paths(target: &Target) -> BTreeSet<HostPath> {
    let mut paths: BTreeSet<HostPath> = target.files.keys().chain(target.links.keys()).cloned().collect();
    for (name, unit) in &target.units {
        if unit.contents.is_some() || unit.mask {
            paths.extend(unit_path(name));
        }
        paths.extend(unit.dropins.keys().filter_map(|dropin| dropin_path(name, dropin)));
    }
    paths
}

fn keep_originals(from: &Target, to: &Target) -> Vec<Step> {
    let before = managed_paths(from);
    let mut steps: Vec<Step> =
        managed_paths(to).into_iter().filter(|path| !before.contains(path)).map(|path| Step::Keep { path }).collect();
    let changes_enablement = |unit: &&Unit| unit.enabled.is_some() || unit.contents.is_some();
    for (name, _) in to.units.iter().filter(|(_, unit)| changes_enablement(unit)) {
        if !from.units.get(name).is_some_and(|unit| changes_enablement(&unit)) {
            steps.push(Step::KeepEnablement { unit: name.clone() });
        }
    }
    steps
}

fn write_files(from: &Target, to: &Target) -> Vec<Step> {
    let mut steps = Vec::new();
    for (path, folder) in &to.folders {
        if from.folders.get(path) != Some(folder) {
            steps.push(Step::MakeFolder { path: path.clone() });
        }
    }
    for (path, file) in &to.files {
        if from.files.get(path) != Some(file) {
            steps.push(Step::WriteFile { path: path.clone() });
        }
    }
    for (path, link) in &to.links {
        if from.links.get(path) != Some(link) {
            steps.push(Step::WriteLink { path: path.clone() });
        }
    }
    steps
}

fn put_back(from: &Target, to: &Target) -> Vec<Step> {
    let after = managed_paths(to);
    let mut steps: Vec<Step> = managed_paths(from)
        .into_iter()
        .filter(|path| !after.contains(path) && !is_never_removed(path))
        .map(|path| Step::PutBack { path })
        .collect();
    // A folder goes after what is in it; it stays if somebody else's files are in it.
    for path in from.folders.keys().rev().filter(|path| !to.folders.contains_key(path)) {
        steps.push(Step::PutBack { path: path.clone() });
    }
    steps
}

fn is_never_removed(path: &HostPath) -> bool {
    NEVER_REMOVED.contains(&path.as_str()) || path.is_beneath("/etc/docker/certs.d")
}

/// Unit steps fall into three places of the plan.
#[derive(Default)]
struct UnitSteps {
    before: Vec<Step>,
    write: Vec<Step>,
    after: Vec<Step>,
}

impl UnitSteps {
    fn new(from: &Target, to: &Target) -> Self {
        let mut steps = Self::default();
        let mut touched = false;
        for (name, old) in from.units.iter().filter(|(name, _)| !to.units.contains_key(*name)) {
            steps.remove(name, old);
            touched = true;
        }
        let nothing = Unit::default();
        for (name, new) in &to.units {
            let old = from.units.get(name);
            if old != Some(new) {
                steps.change(name, old.unwrap_or(&nothing), new);
                touched = true;
            }
        }
        if touched {
            steps.after.insert(0, Step::DaemonReload);
        }
        steps
    }

    fn remove(&mut self, name: &str, old: &Unit) {
        let unit = name.to_owned();
        if old.contents.is_some() {
            self.before.push(Step::StopUnit { unit: unit.clone() });
            self.before.push(Step::DisableUnit { unit: unit.clone() });
        }
        if old.contents.is_some() || old.enabled.is_some() {
            self.after.push(Step::PutBackEnablement { unit });
        }
    }

    fn change(&mut self, name: &str, old: &Unit, new: &Unit) {
        let unit = name.to_owned();
        // What `enable` links depends on the unit's text, so old links go while the old text still stands.
        if old.enabled == Some(true) && old.contents != new.contents && !old.mask {
            self.before.push(Step::DisableUnit { unit: unit.clone() });
        }
        for dropin in new.dropins.iter().filter(|(dropin, text)| old.dropins.get(*dropin) != Some(text)) {
            self.write.push(Step::WriteDropin { unit: unit.clone(), name: dropin.0.clone() });
        }
        if new.mask {
            self.write.push(Step::MaskUnit { unit });
            return;
        }
        if new.contents.is_some() && (old.contents != new.contents || old.mask) {
            self.write.push(Step::WriteUnit { unit: unit.clone() });
        }
        match new.enabled {
            Some(true) => self.after.push(Step::EnableUnit { unit }),
            Some(false) => self.after.push(Step::DisableUnit { unit }),
            None if new.contents.is_some() => self.after.push(Step::PresetUnit { unit }),
            None if old.enabled.is_some() || old.contents.is_some() => {
                self.after.push(Step::PutBackEnablement { unit })
            }
            None => {}
        }
    }
}

/// Whether a step may change where sshd reads keys from.
pub fn configures_sshd(step: &Step) -> bool {
    match step {
        Step::WriteFile { path } | Step::WriteLink { path } | Step::PutBack { path } => {
            path.is_beneath("/etc/ssh/sshd_config") || path.is_beneath("/etc/ssh/sshd_config.d")
        }
        _ => false,
    }
}

fn users(from: &Target, to: &Target, moves_keys: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    let names: BTreeSet<&String> = from.users.keys().chain(to.users.keys()).collect();
    for name in names {
        let (old, new) = (from.users.get(name), to.users.get(name));
        let has_keys = new.is_some_and(|user| !user.keys.is_empty());
        if old.map(|user| &user.keys) != new.map(|user| &user.keys) || (moves_keys && has_keys) {
            steps.push(Step::SetKeys { user: name.clone() });
        }
        let hash = |user: Option<&crate::target::User>| user.and_then(|user| user.password_hash.clone());
        if hash(old) != hash(new) {
            steps.push(Step::SetPassword { user: name.clone() });
        }
    }
    steps
}

pub(crate) fn system(from: &Target, to: &Target) -> Vec<Step> {
    let mut steps = Vec::new();
    if from.os_image != to.os_image && !to.os_image.is_empty() {
        steps.push(Step::StageImage { image: to.os_image.clone() });
    }
    let (old, new) = (kargs::split_all(&from.kernel_arguments), kargs::split_all(&to.kernel_arguments));
    if old != new {
        steps.push(Step::KernelArguments { delete: old, append: new });
    }
    let (old, new) = (packages(&from.extensions), packages(&to.extensions));
    let kernel =
        (kernel_type(from) != kernel_type(to)).then(|| (kernel_type(from).to_owned(), kernel_type(to).to_owned()));
    if old != new || kernel.is_some() {
        let install = new.difference(&old).cloned().collect();
        let uninstall = old.difference(&new).cloned().collect();
        steps.push(Step::Packages { install, uninstall, kernel, image: to.extensions_image.clone() });
    }
    steps
}

/// Empty and `default` are one kernel type.
pub fn kernel_type(target: &Target) -> &str {
    if target.kernel_type.is_empty() { "default" } else { &target.kernel_type }
}

/// The extensions of a config that are not whole, given what is installed.
pub fn missing_extensions<'a>(extensions: &'a [String], installed: &[String]) -> Vec<&'a str> {
    let has = |package: &str| installed.iter().any(|name| name == package);
    let is_whole = |extension: &str| {
        let packages = extension_packages(extension);
        // Older releases of this one came without its last package.
        let optional = if extension == "ipsec" { 1 } else { 0 };
        packages[..packages.len() - optional].iter().all(|package| has(package))
    };
    extensions.iter().map(String::as_str).filter(|extension| !is_whole(extension)).collect()
}

/// The packages behind extension names. An unknown name is refused when the target is built.
pub fn packages(extensions: &[String]) -> BTreeSet<String> {
    extensions.iter().flat_map(|extension| extension_packages(extension)).map(|&package| package.to_owned()).collect()
}

/// Every name of an extension.
const EXTENSIONS: [&str; 7] =
    ["usbguard", "kerberos", "ipsec", "kernel-devel", "sandboxed-containers", "sysstat", "two-node-ha"];

/// Every package that some extension brings.
pub fn all_extension_packages() -> Vec<&'static str> {
    EXTENSIONS.iter().flat_map(|extension| extension_packages(extension)).copied().collect()
}

pub fn extension_packages(extension: &str) -> &'static [&'static str] {
    match extension {
        "usbguard" => &["usbguard"],
        "kerberos" => &["krb5-workstation", "libkadm5"],
        "ipsec" => &["NetworkManager-libreswan", "libreswan", "openvswitch3.5-ipsec"],
        "kernel-devel" => &["kernel-devel", "kernel-headers"],
        "sandboxed-containers" => &["kata-containers"],
        "sysstat" => &["sysstat"],
        "two-node-ha" => &["pacemaker", "pcs", "fence-agents-all"],
        _ => &[],
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
