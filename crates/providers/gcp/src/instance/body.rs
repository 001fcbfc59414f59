//! The request that makes an instance.

use std::collections::BTreeMap;

use machine::provider::{Error, ErrorKind, Request};
use serde_json::{Map, Value, json};

use super::{Site, convert};
use crate::settings::Settings;
use crate::spec::{Disk, EncryptionKey, GcpSpec, NetworkInterface, disk_name};

/// The key of user data in its Secret, and of the metadata that Ignition reads.
const USER_DATA: &str = "userData";
const METADATA: &str = "user-data";
/// Google takes no more in one value of metadata.
const LARGEST: usize = 256 << 10;

pub(super) fn body(site: &Site, spec: &GcpSpec, request: &Request, settings: &Settings) -> Result<Value, Error> {
    let marks = convert::labels(&request.mark)?;
    let mut labels: BTreeMap<String, String> = settings.labels.iter().cloned().collect();
    labels.extend(spec.labels.clone());
    labels.insert(format!("kubernetes-io-cluster-{}", request.mark.cluster), "owned".to_owned());
    labels.extend(marks.clone());
    let disks =
        spec.disks.iter().enumerate().map(|(index, disk)| disk_body(site, &request.mark.machine, index, disk, &marks));
    let mut body = json!({
        "name": request.mark.machine,
        "machineType": site.zonal(&format!("machineTypes/{}", spec.machine_type)),
        "canIpForward": spec.can_ip_forward,
        "deletionProtection": spec.deletion_protection,
        "labels": labels,
        "disks": disks.collect::<Vec<_>>(),
        "networkInterfaces": spec.network_interfaces.iter().map(|card| card_body(site, card)).collect::<Vec<_>>(),
        "metadata": {"items": metadata(spec, request)?},
        "tags": {"items": spec.tags},
        "serviceAccounts": spec.service_accounts.iter().map(|it| json!({"email": it.email, "scopes": it.scopes})).collect::<Vec<_>>(),
        "scheduling": scheduling(spec),
    });
    if let Some(gpu) = spec.gpus.first() {
        let kind = site.zonal(&format!("acceleratorTypes/{}", gpu.type_));
        body["guestAccelerators"] = json!([{"acceleratorCount": gpu.count, "acceleratorType": kind}]);
    }
    let shielded = shielded(spec);
    if !shielded.is_empty() {
        body["shieldedInstanceConfig"] = Value::Object(shielded);
    }
    if let Some(confidential) = confidential(&spec.confidential_compute) {
        body["confidentialInstanceConfig"] = confidential;
    }
    if !spec.resource_manager_tags.is_empty() {
        let tags =
            spec.resource_manager_tags.iter().map(|tag| (format!("{}/{}", tag.parent_id, tag.key), json!(tag.value)));
        body["params"] = json!({"resourceManagerTags": tags.collect::<Map<_, _>>()});
    }
    Ok(body)
}

fn disk_body(site: &Site, machine: &str, index: usize, disk: &Disk, marks: &BTreeMap<String, String>) -> Value {
    let mut labels = disk.labels.clone();
    // A disk that is to stay is the user's, and no sweep may find it.
    if disk.auto_delete {
        labels.extend(marks.clone());
    }
    let mut params = json!({
        "diskName": disk_name(machine, index),
        "diskSizeGb": disk.size_gb.to_string(),
        "diskType": site.zonal(&format!("diskTypes/{}", disk.type_)),
        "labels": labels,
    });
    if !disk.image.is_empty() {
        params["sourceImage"] = json!(disk.image);
    }
    let mut body = json!({"autoDelete": disk.auto_delete, "boot": disk.boot, "initializeParams": params});
    if let Some(key) = disk.encryption_key.as_ref().and_then(|key| key_body(site, key)) {
        body["diskEncryptionKey"] = key;
    }
    body
}

fn key_body(site: &Site, key: &EncryptionKey) -> Option<Value> {
    let kms = key.kms_key.as_ref()?;
    let project = if kms.project_id.is_empty() { &site.project } else { &kms.project_id };
    let name =
        format!("projects/{project}/locations/{}/keyRings/{}/cryptoKeys/{}", kms.location, kms.key_ring, kms.name);
    let mut body = json!({"kmsKeyName": name});
    if !key.kms_key_service_account.is_empty() {
        body["kmsKeyServiceAccount"] = json!(key.kms_key_service_account);
    }
    Some(body)
}

fn card_body(site: &Site, card: &NetworkInterface) -> Value {
    let project = if card.project_id.is_empty() { &site.project } else { &card.project_id };
    let mut body = json!({});
    if card.public_ip {
        body["accessConfigs"] = json!([{"type": "ONE_TO_ONE_NAT", "name": "External NAT"}]);
    }
    if !card.network.is_empty() {
        body["network"] = json!(format!("projects/{project}/global/networks/{}", card.network));
    }
    if !card.subnetwork.is_empty() {
        body["subnetwork"] =
            json!(format!("projects/{project}/regions/{}/subnetworks/{}", site.region, card.subnetwork));
    }
    body
}

fn metadata(spec: &GcpSpec, request: &Request) -> Result<Vec<Value>, Error> {
    let found = request.secrets.user_data.as_ref().and_then(|secret| secret.text(USER_DATA));
    let user_data = found.ok_or_else(|| {
        let message =
            format!("the Secret of providerSpec.userDataSecret does not exist or has no text under {USER_DATA}");
        Error::new(ErrorKind::NotFound, message)
    })?;
    if user_data.len() > LARGEST {
        let message =
            format!("the user data has {} bytes, and Google takes {LARGEST}; keep the pointer config", user_data.len());
        return Err(Error::new(ErrorKind::InvalidSpec, message));
    }
    let own = spec.gcp_metadata.iter().filter(|it| it.key != METADATA);
    let own = own.map(|it| json!({"key": it.key, "value": it.value.clone().unwrap_or_default()}));
    Ok(own.chain([json!({"key": METADATA, "value": user_data})]).collect())
}

fn scheduling(spec: &GcpSpec) -> Value {
    let is_spot = spec.provisioning_model.as_deref() == Some("Spot");
    let mut body = json!({});
    if spec.preemptible {
        body["preemptible"] = json!(true);
    }
    if is_spot {
        body["provisioningModel"] = json!("SPOT");
        // Stopped ones would be paid for and never used again.
        body["instanceTerminationAction"] = json!("DELETE");
    }
    match spec.on_host_maintenance.as_str() {
        "" => {}
        wish => body["onHostMaintenance"] = json!(wish.to_uppercase()),
    }
    match spec.restart_policy.as_str() {
        "Always" => body["automaticRestart"] = json!(true),
        "Never" => body["automaticRestart"] = json!(false),
        // What Google takes back cannot be restarted.
        _ if spec.preemptible || is_spot => body["automaticRestart"] = json!(false),
        _ => {}
    }
    body
}

fn shielded(spec: &GcpSpec) -> Map<String, Value> {
    let config = &spec.shielded_instance_config;
    let wishes = [
        ("enableSecureBoot", &config.secure_boot),
        ("enableVtpm", &config.virtualized_trusted_platform_module),
        ("enableIntegrityMonitoring", &config.integrity_monitoring),
    ];
    let given = wishes.into_iter().filter(|(_, wish)| !wish.is_empty());
    given.map(|(key, wish)| (key.to_owned(), json!(wish == "Enabled"))).collect()
}

fn confidential(wish: &str) -> Option<Value> {
    let kind = match wish {
        "Enabled" => return Some(json!({"enableConfidentialCompute": true})),
        "AMDEncryptedVirtualization" => "SEV",
        "AMDEncryptedVirtualizationNestedPaging" => "SEV_SNP",
        "IntelTrustedDomainExtensions" => "TDX",
        _ => return None,
    };
    Some(json!({"confidentialInstanceType": kind}))
}
