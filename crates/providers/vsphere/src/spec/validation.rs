//! What a good vSphere spec looks like: upstream's rules, with paths that lead to the field.

use machine::provider::{Surroundings, Verdict};
use machine::spec::{Path, secret};

use super::types::{DataDisk, Network, VsphereSpec, Workspace};

/// Below these, nodes do not boot or do not stay.
const FEWEST_CPUS: i32 = 2;
const LEAST_MEMORY_MIB: i64 = 2048;
const SMALLEST_DISK_GIB: i32 = 120;
/// vSphere's limits for a virtual machine.
const MOST_DEVICES: usize = 10;
const MOST_DATA_DISKS: usize = 29;
const MOST_TAGS: usize = 10;
/// The limit for names of disks and groups.
const LONGEST_NAME: usize = 80;
/// vSphere can do more; upstream stops here, and so do manifests that have to work with both.
const LARGEST_DATA_DISK_GIB: i32 = 16384;
const PROVISIONING_MODES: &[&str] = &["EagerlyZeroed", "Thick", "Thin"];
/// The feature gate behind `workspace.vmGroup`.
pub(super) const VM_GROUP_GATE: &str = "VSphereHostVMGroupZonal";

pub(super) fn check(spec: &VsphereSpec, surroundings: &Surroundings, verdict: &mut Verdict) {
    super::IDENTITY.check(&spec.api_version, &spec.kind, verdict);
    if spec.template.is_empty() {
        verdict.required(&Path::spec().child("template"), "name the template that is cloned");
    }
    match &spec.workspace {
        None => verdict.required(&Path::spec().child("workspace"), "say where in vCenter the machine is made"),
        Some(workspace) => check_workspace(workspace, surroundings, verdict),
    }
    check_network(&spec.network, verdict);
    check_size(spec, verdict);
    check_tags(&spec.tag_ids, verdict);
    check_secrets(spec, surroundings, verdict);
    check_data_disks(&spec.data_disks, verdict);
}

fn check_workspace(workspace: &Workspace, surroundings: &Surroundings, verdict: &mut Verdict) {
    let path = Path::spec().child("workspace");
    if workspace.server.is_empty() {
        verdict.required(&path.child("server"), "name the vCenter");
    }
    if workspace.datacenter.is_empty() {
        let detail = "is not set: machines cannot be made in a vCenter with several datacenters";
        verdict.warn(&path.child("datacenter"), detail);
    }
    let root = format!("/{}/vm/", workspace.datacenter);
    if !workspace.folder.is_empty() && !workspace.folder.starts_with(&root) {
        verdict.invalid(
            &path.child("folder"),
            &workspace.folder,
            format!("must be a whole path, which begins with {root}"),
        );
    }
    let (group, path) = (&workspace.vm_group, path.child("vmGroup"));
    if !group.is_empty() && !surroundings.features.contains(VM_GROUP_GATE) {
        verdict.invalid(&path, group, format!("only clusters with the feature gate {VM_GROUP_GATE} have groups"));
    } else if group.len() > LONGEST_NAME {
        verdict.invalid(&path, group, format!("may have {LONGEST_NAME} characters"));
    }
}

fn check_network(network: &Network, verdict: &mut Verdict) {
    let path = Path::spec().child("network").child("devices");
    if network.devices.is_empty() {
        verdict.required(&path, "give at least 1 network device");
    }
    if network.devices.len() > MOST_DEVICES {
        verdict.too_many(&path, network.devices.len(), MOST_DEVICES);
        return;
    }
    for (index, device) in network.devices.iter().enumerate() {
        if device.network_name.is_empty() {
            verdict.required(&path.index(index).child("networkName"), "name the network");
        }
    }
}

fn check_size(spec: &VsphereSpec, verdict: &mut Verdict) {
    let VsphereSpec { num_cpus, memory_mib, disk_gib, clone_mode, .. } = spec;
    if *num_cpus < FEWEST_CPUS {
        let detail = format!("{num_cpus} is less than the minimum of {FEWEST_CPUS}: the node may not boot");
        verdict.warn(&Path::spec().child("numCPUs"), detail);
    }
    if *memory_mib < LEAST_MEMORY_MIB {
        let detail = format!("{memory_mib} is less than the minimum of {LEAST_MEMORY_MIB}: the node may not boot");
        verdict.warn(&Path::spec().child("memoryMiB"), detail);
    }
    if *disk_gib < SMALLEST_DISK_GIB {
        let detail =
            format!("{disk_gib} is less than the minimum of {SMALLEST_DISK_GIB}: the node may run out of space");
        verdict.warn(&Path::spec().child("diskGiB"), detail);
    }
    if clone_mode == "linkedClone" && *disk_gib > 0 {
        let detail = "a linkedClone has the disk of its template; diskGiB is ignored";
        verdict.warn(&Path::spec().child("cloneMode"), detail);
    }
}

fn check_tags(tags: &[String], verdict: &mut Verdict) {
    let path = Path::spec().child("tagIDs");
    if tags.len() > MOST_TAGS {
        verdict.invalid(&path, tags, format!("give at most {MOST_TAGS} tags"));
    }
    for tag in tags.iter().filter(|tag| !is_tag(tag)) {
        verdict.invalid(&path, tag, "must be urn:vmomi:InventoryServiceTag:<UUID>:GLOBAL");
    }
}

/// `urn:vmomi:InventoryServiceTag:<UUID>:<scope>`.
fn is_tag(tag: &str) -> bool {
    let Some(rest) = tag.strip_prefix("urn:vmomi:InventoryServiceTag:") else { return false };
    let Some((uuid, scope)) = rest.split_once(':') else { return false };
    let groups: Vec<&str> = uuid.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let digits = groups.iter().all(|group| group.bytes().all(|digit| digit.is_ascii_hexdigit()));
    lengths == [8, 4, 4, 4, 12] && digits && !scope.is_empty() && !scope.contains(':')
}

fn check_secrets(spec: &VsphereSpec, surroundings: &Surroundings, verdict: &mut Verdict) {
    secret::check_user_data(spec.user_data_secret.as_ref(), verdict);
    let path = Path::spec().child("credentialsSecret");
    let detail = format!("name the Secret with credentials, such as {}", super::CREDENTIALS);
    match &spec.credentials_secret {
        None => verdict.required(&path, detail),
        Some(reference) if reference.name.is_empty() => verdict.required(&path.child("name"), detail),
        Some(reference) => secret::check_presence(reference, surroundings, verdict),
    }
}

fn check_data_disks(disks: &[DataDisk], verdict: &mut Verdict) {
    let path = Path::spec().child("dataDisks");
    if disks.len() > MOST_DATA_DISKS {
        verdict.invalid(&path, disks.len(), format!("give at most {MOST_DATA_DISKS} data disks"));
    }
    for (index, disk) in disks.iter().enumerate() {
        check_data_disk(disk, &path.index(index), verdict);
    }
}

fn check_data_disk(disk: &DataDisk, path: &Path, verdict: &mut Verdict) {
    let name_path = path.child("name");
    if disk.name.is_empty() {
        verdict.required(&name_path, "name the disk");
    } else {
        if disk.name.len() > LONGEST_NAME {
            verdict.invalid(&name_path, disk.name.len(), format!("may have {LONGEST_NAME} characters"));
        }
        if !is_disk_name(&disk.name) {
            let detail = "must begin and end with a letter or digit, with letters, digits, _ and - in between";
            verdict.invalid(&name_path, &disk.name, detail);
        }
    }
    let size_path = path.child("sizeGiB");
    match disk.size_gib {
        0 => verdict.required(&size_path, "say how large the disk is"),
        size if size < 0 => verdict.invalid(&size_path, size, "must be greater than 0"),
        size if size > LARGEST_DATA_DISK_GIB => {
            verdict.invalid(&size_path, size, format!("must be at most {LARGEST_DATA_DISK_GIB}"));
        }
        _ => {}
    }
    if !disk.provisioning_mode.is_empty() && !PROVISIONING_MODES.contains(&disk.provisioning_mode.as_str()) {
        verdict.unsupported(&path.child("provisioningMode"), &disk.provisioning_mode, PROVISIONING_MODES);
    }
}

fn is_disk_name(name: &str) -> bool {
    let outer = |letter: char| letter.is_ascii_alphanumeric();
    let inner = |letter: char| outer(letter) || matches!(letter, '_' | '-');
    name.starts_with(outer) && name.ends_with(outer) && name.chars().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_a_urn_with_a_uuid_and_a_scope() {
        assert!(is_tag("urn:vmomi:InventoryServiceTag:5736bf56-49f5-4667-b38c-b97e09dc9578:GLOBAL"));
        assert!(is_tag("urn:vmomi:InventoryServiceTag:5736BF56-49f5-4667-b38c-b97e09dc9578:other"));
        let bad = [
            "",
            "urn:vmomi:InventoryServiceTag:5736bf56-49f5-4667-b38c-b97e09dc9578",
            "urn:vmomi:InventoryServiceTag:5736bf56-49f5-4667-b38c-b97e09dc9578:",
            "urn:vmomi:InventoryServiceTag:5736bf56-49f5-4667-b38c-b97e09dc9578:a:b",
            "urn:vmomi:InventoryServiceTag:5736bf5g-49f5-4667-b38c-b97e09dc9578:GLOBAL",
            "urn:vmomi:InventoryServiceTag:5736bf56-49f5-4667-b38c:GLOBAL",
        ];
        for tag in bad {
            assert!(!is_tag(tag), "{tag}");
        }
    }

    #[test]
    fn a_disk_name_begins_and_ends_with_a_letter_or_digit() {
        assert!(is_disk_name("a") && is_disk_name("a_b-c"));
        for bad in ["", "-d", "d-", "a.b", "a\n"] {
            assert!(!is_disk_name(bad), "{bad:?}");
        }
    }
}
