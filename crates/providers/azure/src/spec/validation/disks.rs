//! The OS disk and the data disks.

use std::collections::HashSet;

use machine::provider::{Surroundings, Verdict};
use machine::spec::Path;

use crate::spec::types::{AzureSpec, DataDisk, OsDisk};

/// Azure's disks are smaller than this, in GB.
const DISK_LIMIT: i32 = 32768;
const SMALLEST_DATA_DISK: i32 = 4;
/// Azure's limit for names of disks.
const LONGEST_NAME: usize = 80;

pub(super) fn check(spec: &AzureSpec, surroundings: &Surroundings, verdict: &mut Verdict) {
    check_os_disk(&spec.os_disk, verdict);
    let mut luns = HashSet::new();
    let mut suffixes = HashSet::new();
    for (index, disk) in spec.data_disks.iter().enumerate() {
        let path = Path::spec().child("dataDisks").index(index);
        check_data_disk(disk, &surroundings.machine, &path, verdict);
        if !suffixes.insert(&disk.name_suffix) {
            verdict.invalid(
                &path.child("nameSuffix"),
                &disk.name_suffix,
                "another data disk has it; give each its own",
            );
        }
        if !luns.insert(disk.lun) {
            verdict.invalid(&path.child("lun"), disk.lun, "another data disk has it; give each its own");
        }
    }
}

fn check_os_disk(disk: &OsDisk, verdict: &mut Verdict) {
    let path = Path::spec().child("osDisk");
    if !(1..DISK_LIMIT).contains(&disk.disk_size_gb) {
        let detail = format!("must be greater than 0 and less than {DISK_LIMIT}");
        verdict.invalid(&path.child("diskSizeGB"), disk.disk_size_gb, detail);
    }
    let location = &disk.disk_settings.ephemeral_storage_location;
    verdict.one_of(&path.child("diskSettings").child("ephemeralStorageLocation"), location, &["Local"]);
    let caching_path = path.child("cachingType");
    verdict.one_of(&caching_path, &disk.caching_type, &["None", "ReadOnly", "ReadWrite"]);
    if location == "Local" && disk.caching_type != "ReadOnly" {
        verdict.invalid(&caching_path, &disk.caching_type, "an ephemeral disk can only be cached as ReadOnly");
    }
}

fn check_data_disk(disk: &DataDisk, machine: &str, path: &Path, verdict: &mut Verdict) {
    let suffix_path = path.child("nameSuffix");
    if machine.len() + "_".len() + disk.name_suffix.len() > LONGEST_NAME {
        let detail = format!("too long: <machine>_<suffix> may have {LONGEST_NAME} characters");
        verdict.invalid(&suffix_path, &disk.name_suffix, detail);
    }
    if !is_suffix(&disk.name_suffix) {
        let detail = "must begin and end with a letter or digit, with letters, digits, _, . and - in between";
        verdict.invalid(&suffix_path, &disk.name_suffix, detail);
    }
    if disk.disk_size_gb < SMALLEST_DATA_DISK {
        let detail = format!("must be at least {SMALLEST_DATA_DISK}");
        verdict.invalid(&path.child("diskSizeGB"), disk.disk_size_gb, detail);
    }
    if !(0..64).contains(&disk.lun) {
        verdict.invalid(&path.child("lun"), disk.lun, "must be at least 0 and less than 64");
    }
    let policy_path = path.child("deletionPolicy");
    match disk.deletion_policy.as_str() {
        "Delete" | "Detach" => {}
        "" => verdict.required(&policy_path, "write Delete or Detach"),
        other => verdict.invalid(&policy_path, other, "write Delete or Detach"),
    }
    if disk.managed_disk.storage_account_type == "UltraSSD_LRS" && !matches!(disk.caching_type.as_str(), "" | "None") {
        verdict.invalid(
            &path.child("cachingType"),
            &disk.caching_type,
            "UltraSSD_LRS disks cannot be cached: write None",
        );
    }
}

fn is_suffix(suffix: &str) -> bool {
    let inner = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-');
    let outer = |letter: char| letter.is_ascii_alphanumeric();
    suffix.starts_with(outer) && suffix.ends_with(outer) && suffix.chars().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_begins_and_ends_with_a_letter_or_digit() {
        for good in ["a", "0", "a-b", "a_.b", "etcd1"] {
            assert!(is_suffix(good), "{good}");
        }
        for bad in ["", "-", "-a", "a-", "a b", "é", "a\n"] {
            assert!(!is_suffix(bad), "{bad:?}");
        }
    }
}
