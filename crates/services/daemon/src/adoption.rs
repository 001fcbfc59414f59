//! What the first config of a host really changes there.
//!
//! A host that never had a config still has files, units and kernel arguments, and often those that the config asks for:
//! it was set up by another tool, or the config was written after it. Only what differs has to take effect, so only that
//! decides whether the node is drained and rebooted. What cannot be looked at counts as different.

use std::collections::BTreeSet;

use change::diff::Diff;
use change::host::{EntryKind, Host, HostPath};
use change::step::Step;
use change::target::{Target, unit_path};

use crate::{accounts, verify};

/// The difference between the host as it is and its first config; `diff` is the one from nothing.
pub(crate) fn difference(host: &dyn Host, mut diff: Diff, target: &Target) -> Diff {
    let found: BTreeSet<String> =
        verify::verify_everything(host, target).into_iter().map(|mismatch| mismatch.subject).collect();
    diff.files.retain(|change| found.contains(&change.name));
    diff.links.retain(|change| found.contains(&change.name));
    diff.users.retain(|change| found.contains(&change.name));
    diff.units.retain(|change| found.iter().any(|subject| is_of_unit(subject, &change.name)));
    diff.directories.retain(|change| !has_folder(host, target, &change.name));
    let system = host.system();
    let is_known = system.backend().is_some();
    let is_right = |subject: &str| is_known && !found.contains(subject);
    let is_booted = matches!(system.booted_image(), Ok(Some(_)));
    diff.os_image = diff.os_image.filter(|_| !(is_right("osImageURL") && is_booted));
    let are_read = system.kernel_arguments().is_ok();
    diff.kernel_arguments = diff.kernel_arguments.filter(|_| !(is_right("kernelArguments") && are_read));
    diff.extensions = diff.extensions.filter(|_| !is_right("extensions"));
    diff.fips = diff.fips.filter(|_| system.fips() != target.fips);
    diff
}

/// The steps without those that would do over what the host has already. Whatever is written is compared first, so only
/// what has no such look before it is left out.
pub(crate) fn steps(steps: Vec<Step>, remaining: &Diff) -> Vec<Step> {
    let is_needed = |step: &Step| match step {
        Step::StageImage { .. } => remaining.os_image.is_some(),
        Step::KernelArguments { .. } => remaining.kernel_arguments.is_some(),
        Step::Packages { .. } => remaining.extensions.is_some() || remaining.kernel_type.is_some(),
        Step::PresetUnit { unit } => remaining.units.iter().any(|change| change.name == *unit),
        _ => true,
    };
    steps.into_iter().filter(is_needed).collect()
}

/// Mismatches name a unit by its name, its file or one of its drop-ins.
fn is_of_unit(subject: &str, unit: &str) -> bool {
    let Some(path) = unit_path(unit) else { return subject == unit };
    let rest = subject.strip_prefix(path.as_str());
    subject == unit || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(".d/"))
}

fn has_folder(host: &dyn Host, target: &Target, name: &str) -> bool {
    let Ok(path) = HostPath::parse(name) else { return false };
    let (Some(folder), Ok(Some(entry))) = (target.folders.get(&path), host.files().look(&path)) else { return false };
    let user = accounts::user_id(host.files(), &folder.user, &path);
    let group = accounts::group_id(host.files(), &folder.group, &path);
    entry.kind == EntryKind::Folder
        && entry.mode == folder.mode
        && user.is_ok_and(|user| user == entry.user)
        && group.is_ok_and(|group| group == entry.group)
}
