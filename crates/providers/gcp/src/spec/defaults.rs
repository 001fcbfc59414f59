//! What a spec says when the user says nothing.

use machine::provider::{Architecture, Surroundings};
use machine::spec::secret;

use super::types::{Disk, GcpSpec, NetworkInterface};

const DISK_TYPE: &str = "pd-standard";
const DISK_SIZE_GB: i64 = 128;

pub(super) fn fill(spec: &mut GcpSpec, surroundings: &Surroundings) {
    let Surroundings { cluster, architecture, .. } = surroundings;
    if spec.machine_type.is_empty() {
        spec.machine_type = default_type(*architecture).to_owned();
    }
    if spec.network_interfaces.is_empty() {
        let (network, subnetwork) = (format!("{cluster}-network"), format!("{cluster}-worker-subnet"));
        spec.network_interfaces.push(NetworkInterface { network, subnetwork, ..NetworkInterface::default() });
    }
    fill_disks(&mut spec.disks, *architecture);
    // Nobody asks for a GPU to have none of it. More than one kind is a mistake that validation reports.
    if let Some(gpu) = spec.gpus.first_mut().filter(|gpu| gpu.count == 0) {
        gpu.count = 1;
    }
    if spec.tags.is_empty() {
        spec.tags.push(format!("{cluster}-worker"));
    }
    secret::default_secret(&mut spec.user_data_secret, secret::WORKER_USER_DATA);
    secret::default_secret(&mut spec.credentials_secret, super::CREDENTIALS);
}

fn fill_disks(disks: &mut Vec<Disk>, architecture: Architecture) {
    if disks.is_empty() {
        disks.push(Disk { auto_delete: true, boot: true, size_gb: DISK_SIZE_GB, ..Disk::default() });
    }
    for disk in disks {
        if disk.type_.is_empty() {
            DISK_TYPE.clone_into(&mut disk.type_);
        }
        if disk.boot && disk.image.is_empty() {
            default_image(architecture).clone_into(&mut disk.image);
        }
    }
}

fn default_type(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Arm64 => "t2a-standard-4",
        Architecture::Amd64 | Architecture::Ppc64le | Architecture::S390x => "n1-standard-4",
    }
}

/// The image that upstream's current release names.
fn default_image(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Arm64 => "projects/rhcos-cloud/global/images/rhcos-414-92-202307070025-0-gcp-aarch64",
        Architecture::Amd64 | Architecture::Ppc64le | Architecture::S390x => {
            "projects/rhcos-cloud/global/images/rhcos-414-92-202307070025-0-gcp-x86-64"
        }
    }
}
