//! Confidential machines and trusted launch: the profile of the machine and that of its disk have to agree.

use machine::provider::Verdict;
use machine::spec::Path;

use crate::spec::types::{AzureSpec, Firmware, SecurityProfile};

/// Reports the first contradiction only, because each of the later questions assumes that the earlier ones are settled.
pub(super) fn check(spec: &AzureSpec, verdict: &mut Verdict) {
    let path = Path::spec().child("securityProfile");
    let encryption = spec.os_disk.managed_disk.security_profile.security_encryption_type.as_str();
    let Some(profile) = &spec.security_profile else {
        if !encryption.is_empty() {
            verdict.required(&path, "osDisk.managedDisk.securityProfile.securityEncryptionType needs one");
        }
        return;
    };
    match profile.settings.security_type.as_str() {
        "ConfidentialVM" => check_confidential(profile, encryption, &path, verdict),
        "TrustedLaunch" if profile.settings.trusted_launch.is_none() => {
            verdict.required(&path.child("settings").child("trustedLaunch"), "securityType TrustedLaunch needs it");
        }
        "TrustedLaunch" => {}
        other => {
            let path = path.child("settings").child("securityType");
            if !encryption.is_empty() {
                verdict.invalid(&path, other, "a securityEncryptionType of the disk needs ConfidentialVM");
            } else if profile.settings.trusted_launch.as_ref().is_some_and(protects) {
                verdict.invalid(&path, other, "the uefiSettings of trustedLaunch need TrustedLaunch");
            }
        }
    }
}

fn check_confidential(profile: &SecurityProfile, encryption: &str, path: &Path, verdict: &mut Verdict) {
    if encryption.is_empty() {
        let path = Path::spec().child("osDisk").child("managedDisk").child("securityProfile");
        verdict.required(&path.child("securityEncryptionType"), "securityType ConfidentialVM needs it");
        return;
    }
    let settings_path = path.child("settings").child("confidentialVM");
    let Some(Firmware { uefi_settings: uefi }) = &profile.settings.confidential_vm else {
        verdict.required(&settings_path, "securityType ConfidentialVM needs it");
        return;
    };
    let uefi_path = settings_path.child("uefiSettings");
    let module = &uefi.virtualized_trusted_platform_module;
    if module != "Enabled" {
        let path = uefi_path.child("virtualizedTrustedPlatformModule");
        verdict.invalid(&path, module, "securityType ConfidentialVM needs Enabled");
    } else if encryption == "DiskWithVMGuestState" {
        if profile.encryption_at_host == Some(true) {
            let detail = "securityEncryptionType DiskWithVMGuestState encrypts the disk already: write false";
            verdict.invalid(&path.child("encryptionAtHost"), true, detail);
        } else if uefi.secure_boot != "Enabled" {
            let detail = "securityEncryptionType DiskWithVMGuestState needs Enabled";
            verdict.invalid(&uefi_path.child("secureBoot"), &uefi.secure_boot, detail);
        }
    }
}

fn protects(firmware: &Firmware) -> bool {
    let uefi = &firmware.uefi_settings;
    uefi.secure_boot == "Enabled" || uefi.virtualized_trusted_platform_module == "Enabled"
}
