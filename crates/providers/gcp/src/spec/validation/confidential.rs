//! Shielded and confidential machines.

use machine::provider::Verdict;
use machine::spec::Path;

use crate::spec::types::GcpSpec;

/// The machine series that each technology runs on.
const SEV: &[&str] = &["n2d", "c2d", "c3d"];
const SEV_SNP: &[&str] = &["n2d"];
const TDX: &[&str] = &["c3"];

pub(super) fn check(spec: &GcpSpec, verdict: &mut Verdict) {
    check_shielded(spec, verdict);
    let technology = spec.confidential_compute.as_str();
    if matches!(technology, "" | "Disabled") {
        return;
    }
    if spec.on_host_maintenance != "Terminate" {
        let path = Path::spec().child("onHostMaintenance");
        verdict.invalid(&path, &spec.on_host_maintenance, "confidential machines cannot migrate: write Terminate");
    }
    let Some(series) = series(technology) else {
        let detail = "write Enabled, Disabled, AMDEncryptedVirtualization, AMDEncryptedVirtualizationNestedPaging or \
                      IntelTrustedDomainExtensions";
        verdict.invalid(&Path::spec().child("confidentialCompute"), technology, detail);
        return;
    };
    let ours = spec.machine_type.split('-').next().unwrap_or_default();
    if !series.contains(&ours) {
        let detail = format!("confidentialCompute {technology} needs a machine type of series {}", series.join(", "));
        verdict.invalid(&Path::spec().child("machineType"), &spec.machine_type, detail);
    }
}

fn series(technology: &str) -> Option<&'static [&'static str]> {
    match technology {
        "Enabled" | "AMDEncryptedVirtualization" => Some(SEV),
        "AMDEncryptedVirtualizationNestedPaging" => Some(SEV_SNP),
        "IntelTrustedDomainExtensions" => Some(TDX),
        _ => None,
    }
}

fn check_shielded(spec: &GcpSpec, verdict: &mut Verdict) {
    let config = &spec.shielded_instance_config;
    let path = Path::spec().child("shieldedInstanceConfig");
    let switch = ["Enabled", "Disabled"];
    verdict.one_of(&path.child("secureBoot"), &config.secure_boot, &switch);
    verdict.one_of(&path.child("integrityMonitoring"), &config.integrity_monitoring, &switch);
    let module_path = path.child("virtualizedTrustedPlatformModule");
    let module = &config.virtualized_trusted_platform_module;
    verdict.one_of(&module_path, module, &switch);
    // Monitoring is on unless it is switched off.
    if module == "Disabled" && config.integrity_monitoring != "Disabled" {
        verdict.invalid(&module_path, module, "integrityMonitoring needs it: write Enabled, or disable both");
    }
}
