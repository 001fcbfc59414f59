//! Network interfaces, disks and GPUs.

use machine::provider::Verdict;
use machine::spec::Path;

use crate::spec::types::{Disk, GcpSpec};

const SMALLEST_DISK_GB: i64 = 16;
const LARGEST_DISK_GB: i64 = 65536;
const DISK_TYPES: &[&str] = &["hyperdisk-balanced", "pd-balanced", "pd-ssd", "pd-standard"];
/// Google sells these only built into machines of the A2 family.
const BUILT_IN: &str = "nvidia-tesla-a100";

pub(super) fn check(spec: &GcpSpec, verdict: &mut Verdict) {
    check_interfaces(spec, verdict);
    let path = Path::spec().child("disks");
    if spec.disks.is_empty() {
        verdict.required(&path, "give at least 1 disk");
    }
    for (index, disk) in spec.disks.iter().enumerate() {
        check_disk(disk, &path.index(index), verdict);
    }
    check_gpus(spec, verdict);
}

fn check_interfaces(spec: &GcpSpec, verdict: &mut Verdict) {
    let path = Path::spec().child("networkInterfaces");
    if spec.network_interfaces.is_empty() {
        verdict.required(&path, "give at least 1 network interface");
    }
    for (index, interface) in spec.network_interfaces.iter().enumerate() {
        let path = path.index(index);
        if interface.network.is_empty() {
            verdict.required(&path.child("network"), "name the network");
        }
        if interface.subnetwork.is_empty() {
            verdict.required(&path.child("subnetwork"), "name a subnetwork of the network");
        }
    }
}

fn check_disk(disk: &Disk, path: &Path, verdict: &mut Verdict) {
    // Without a size, the disk is as large as its image.
    if disk.size_gb != 0 && !(SMALLEST_DISK_GB..=LARGEST_DISK_GB).contains(&disk.size_gb) {
        let detail = format!("must be between {SMALLEST_DISK_GB} and {LARGEST_DISK_GB}");
        verdict.invalid(&path.child("sizeGb"), disk.size_gb, detail);
    }
    if !disk.type_.is_empty() && !DISK_TYPES.contains(&disk.type_.as_str()) {
        verdict.unsupported(&path.child("type"), &disk.type_, DISK_TYPES);
    }
}

fn check_gpus(spec: &GcpSpec, verdict: &mut Verdict) {
    let path = Path::spec().child("gpus");
    match spec.gpus.as_slice() {
        [] => {}
        [gpu] => {
            let type_path = path.index(0).child("type");
            if gpu.type_.is_empty() {
                verdict.required(&type_path, "name the kind of GPU");
            }
            if gpu.type_ == BUILT_IN {
                verdict.invalid(
                    &type_path,
                    &gpu.type_,
                    "only machine types of the A2 family have it; choose one of them",
                );
            }
            if spec.machine_type.starts_with(super::WITH_GPUS) {
                verdict.invalid(&path, &gpu.type_, "machine types of the A2 family have GPUs; leave these out");
            }
        }
        more => verdict.too_many(&path, more.len(), 1),
    }
}
