//! What a good libvirt spec looks like.

use machine::provider::Verdict;
use machine::spec::Path;

use super::types::{LibvirtSpec, Volume};
use super::{quantity, uri};
use crate::network::Range;

pub(super) fn check(spec: &LibvirtSpec, verdict: &mut Verdict) {
    super::IDENTITY.check(&spec.api_version, &spec.kind, verdict);
    check_uri(&spec.uri, verdict);
    for (name, value, example) in [
        ("domainMemory", spec.domain_memory, "a number of MiB, such as 8192"),
        ("domainVcpu", spec.domain_vcpu, "such as 4"),
    ] {
        let path = Path::spec().child(name);
        match value {
            0 => verdict.required(&path, format!("say how much, {example}")),
            1..=MOST => {}
            _ => verdict.invalid(&path, value, format!("must be between 1 and {MOST}")),
        }
    }
    check_boot(spec, verdict);
    match &spec.volume {
        None => verdict.required(&Path::spec().child("volume"), "name the pool and the base volume"),
        Some(volume) => check_volume(volume, verdict),
    }
    check_network(spec, verdict);
    check_firmware(spec, verdict);
}

/// More MiB or processors than any host has; it keeps sums from overflowing.
const MOST: i64 = 1 << 30;

fn check_uri(text: &str, verdict: &mut Verdict) {
    let path = Path::spec().child("uri");
    if text.is_empty() {
        verdict.required(&path, "say where libvirt is, such as qemu+tcp://host/system");
    } else if let Some(fault) = uri::fault(text) {
        // The URI is not repeated: it may hold a password.
        verdict.problems.push(machine::provider::Problem::new(path.as_str(), format!("Invalid value: {fault}")));
    }
}

fn check_boot(spec: &LibvirtSpec, verdict: &mut Verdict) {
    let path = Path::spec();
    let given = [
        ("ignition", spec.ignition.is_some()),
        ("ignKey", !spec.ign_key.is_empty()),
        ("cloudInit", spec.cloud_init.is_some()),
    ];
    let mut given = given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name);
    match given.next() {
        None => verdict.required(&path.child("ignition"), "say what the machine reads at its first boot"),
        Some(first) => {
            given.for_each(|other| verdict.warn(&path.child(other), format!("is not used, because {first} is set")))
        }
    }
    if spec.ignition.as_ref().is_some_and(|ignition| ignition.user_data_secret.is_empty()) {
        verdict.required(&path.child("ignition").child("userDataSecret"), "name the Secret, such as worker-user-data");
    }
    if let Some(cloud_init) = &spec.cloud_init {
        let path = path.child("cloudInit");
        if cloud_init.user_data_secret.is_empty() {
            verdict.required(&path.child("userDataSecret"), "name the Secret, such as worker-user-data");
        }
        if cloud_init.ssh_access {
            verdict.forbidden(
                &path.child("sshAccess"),
                "it lets in whoever holds a fixed key; write your SSH keys into the user data",
            );
        }
    }
}

fn check_volume(volume: &Volume, verdict: &mut Verdict) {
    let path = Path::spec().child("volume");
    if volume.pool_name.is_empty() {
        verdict.required(&path.child("poolName"), "name a storage pool, such as default");
    }
    if volume.base_volume_id.is_empty() {
        verdict.required(&path.child("baseVolumeID"), "name the volume with the operating system");
    }
    if !volume.volume_name.is_empty() {
        verdict.warn(&path.child("volumeName"), "is not used: volumes are named after their Machine");
    }
    if let Some(size) = &volume.volume_size {
        match quantity::bytes(size) {
            Some(0) | None => {
                verdict.invalid(&path.child("volumeSize"), size, "must be a quantity of bytes, such as 32Gi");
            }
            Some(_) => {}
        }
    }
}

fn check_network(spec: &LibvirtSpec, verdict: &mut Verdict) {
    let path = Path::spec();
    if spec.network_interface_name.is_empty() {
        verdict.required(&path.child("networkInterfaceName"), "name a network, such as default");
    }
    if !spec.network_interface_address.is_empty()
        && let Err(fault) = spec.network_interface_address.parse::<Range>()
    {
        verdict.invalid(&path.child("networkInterfaceAddress"), &spec.network_interface_address, fault);
    }
    for (name, value) in
        [("networkInterfaceHostname", &spec.network_interface_hostname), ("networkUUID", &spec.network_uuid)]
    {
        if !value.is_empty() {
            verdict.warn(&path.child(name), "is not used");
        }
    }
}

fn check_firmware(spec: &LibvirtSpec, verdict: &mut Verdict) {
    let Some(nvram) = &spec.nvram else { return };
    let path = Path::spec().child("nvram");
    if !nvram.nvram_file.is_empty() {
        verdict.warn(&path.child("nvramFile"), "is not used: each machine gets a file of its own");
    }
    if spec.firmware.is_empty() {
        verdict.warn(&path, "is not used without firmware");
    }
}
