//! What a good Azure spec looks like: upstream's rules, with paths that lead to the field.

mod disks;
mod resource_id;
mod security;

use machine::provider::{Surroundings, Verdict};
use machine::spec::{Path, secret};

use super::types::{AzureSpec, Diagnostics, Image};

pub(super) fn check(spec: &AzureSpec, surroundings: &Surroundings, verdict: &mut Verdict) {
    super::IDENTITY.check(&spec.api_version, &spec.kind, verdict);
    if spec.vm_size.is_empty() {
        verdict.required(&Path::spec().child("vmSize"), "name a size, such as Standard_D4s_V3");
    }
    check_network(spec, surroundings, verdict);
    check_image(&spec.image, verdict);
    check_secrets(spec, surroundings, verdict);
    disks::check(spec, surroundings, verdict);
    check_reservation(&spec.capacity_reservation_group_id, verdict);
    let path = Path::spec().child("ultraSSDCapability");
    verdict.one_of(&path, &spec.ultra_ssd_capability, &["Enabled", "Disabled"]);
    security::check(spec, verdict);
    check_diagnostics(&spec.diagnostics, verdict);
    if spec.spot_vm_options.is_some() && is_other_cloud(surroundings) {
        verdict
            .warn(&Path::spec().child("spotVMOptions"), "clouds other than the public one may have no spot machines");
    }
}

fn check_network(spec: &AzureSpec, surroundings: &Surroundings, verdict: &mut Verdict) {
    if spec.public_ip && !surroundings.public_dns {
        let detail = "a cluster without a public DNS zone is private; its machines get no public addresses";
        verdict.forbidden(&Path::spec().child("publicIP"), detail);
    }
    match (spec.vnet.is_empty(), spec.subnet.is_empty()) {
        (false, true) => {
            verdict.required(&Path::spec().child("subnet"), "name a subnet of the vnet, or leave out both")
        }
        (true, false) => {
            verdict.required(&Path::spec().child("vnet"), "name the vnet of the subnet, or leave out both")
        }
        (true, true) | (false, false) => {}
    }
}

fn check_image(image: &Image, verdict: &mut Verdict) {
    let path = Path::spec().child("image");
    if *image == Image::default() {
        verdict.required(&path, "name an image by resourceID, or by publisher, offer, sku and version");
        return;
    }
    if !image.resource_id.is_empty() {
        let alone = Image { resource_id: image.resource_id.clone(), ..Image::default() };
        if *image != alone {
            let detail = "an image with a resourceID has no publisher, offer, sku, version or type";
            verdict.invalid(&path.child("resourceID"), &image.resource_id, detail);
        }
        return;
    }
    let parts =
        [("offer", &image.offer), ("publisher", &image.publisher), ("sku", &image.sku), ("version", &image.version)];
    for (field, _) in parts.into_iter().filter(|(_, value)| value.is_empty()) {
        verdict.required(&path.child(field), "an image of the marketplace has publisher, offer, sku and version");
    }
}

fn check_secrets(spec: &AzureSpec, surroundings: &Surroundings, verdict: &mut Verdict) {
    secret::check_user_data(spec.user_data_secret.as_ref(), verdict);
    let path = Path::spec().child("credentialsSecret");
    let Some(reference) = &spec.credentials_secret else {
        verdict.required(&path, format!("name the Secret with credentials, such as {}", super::CREDENTIALS));
        return;
    };
    if reference.namespace.is_empty() {
        verdict.required(&path.child("namespace"), "say in which namespace the Secret is");
    }
    if reference.name.is_empty() {
        verdict.required(&path.child("name"), format!("name the Secret, such as {}", super::CREDENTIALS));
    }
    if !reference.namespace.is_empty() && !reference.name.is_empty() {
        secret::check_presence(reference, surroundings, verdict);
    }
}

fn check_reservation(id: &str, verdict: &mut Verdict) {
    if let Some(fault) = resource_id::fault(id).filter(|_| !id.is_empty()) {
        verdict.invalid(&Path::spec().child("capacityReservationGroupID"), id, fault);
    }
}

fn check_diagnostics(diagnostics: &Diagnostics, verdict: &mut Verdict) {
    let Some(boot) = &diagnostics.boot else { return };
    let path = Path::spec().child("diagnostics").child("boot");
    let managed_path = path.child("customerManaged");
    match (boot.storage_account_type.as_str(), &boot.customer_managed) {
        ("CustomerManaged", None) => verdict.required(&managed_path, "name the storage account"),
        ("CustomerManaged", Some(managed)) if managed.storage_account_uri.is_empty() => {
            verdict.required(&managed_path.child("storageAccountURI"), "name the storage account");
        }
        ("AzureManaged", Some(managed)) => {
            verdict.invalid(&managed_path, managed, "Azure chooses the account when the type is AzureManaged");
        }
        ("CustomerManaged", Some(_)) | ("AzureManaged", None) => {}
        (other, _) => {
            verdict.invalid(&path.child("storageAccountType"), other, "write AzureManaged or CustomerManaged");
        }
    }
}

/// A government, national or private cloud. Where the platform's status does not say, it is the public one.
fn is_other_cloud(surroundings: &Surroundings) -> bool {
    let azure = &surroundings.platform_status["azure"];
    azure.is_object() && azure["cloudName"] != "AzurePublicCloud"
}
