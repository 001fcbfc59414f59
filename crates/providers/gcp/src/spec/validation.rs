//! What a good GCP spec looks like: upstream's rules, with paths that lead to the field.

mod confidential;
mod devices;

use machine::provider::{Surroundings, Verdict};
use machine::spec::{Path, secret};

use super::types::{GcpSpec, ServiceAccount};

/// Machine types of this family come with GPUs.
const WITH_GPUS: &str = "a2-";

pub(super) fn check(spec: &GcpSpec, surroundings: &Surroundings, verdict: &mut Verdict) {
    super::IDENTITY.check(&spec.api_version, &spec.kind, verdict);
    check_basics(spec, verdict);
    check_schedule(spec, verdict);
    confidential::check(spec, verdict);
    devices::check(spec, verdict);
    check_service_accounts(&spec.service_accounts, verdict);
    check_secrets(spec, surroundings, verdict);
}

fn check_basics(spec: &GcpSpec, verdict: &mut Verdict) {
    if spec.region.is_empty() {
        verdict.required(&Path::spec().child("region"), "name the region, such as us-central1");
    }
    if !spec.zone.starts_with(&spec.region) {
        verdict.invalid(&Path::spec().child("zone"), &spec.zone, format!("must be a zone of region {}", spec.region));
    }
    if spec.machine_type.is_empty() {
        verdict.required(&Path::spec().child("machineType"), "name a machine type, such as n1-standard-4");
    }
}

/// What happens on maintenance and on failure, and how long Google lets the machine live.
fn check_schedule(spec: &GcpSpec, verdict: &mut Verdict) {
    let maintenance_path = Path::spec().child("onHostMaintenance");
    verdict.one_of(&maintenance_path, &spec.on_host_maintenance, &["Migrate", "Terminate"]);
    let has_gpus = !spec.gpus.is_empty() || spec.machine_type.starts_with(WITH_GPUS);
    if has_gpus && spec.on_host_maintenance == "Migrate" {
        verdict.forbidden(&maintenance_path, "machines with GPUs cannot migrate: write Terminate");
    }
    verdict.one_of(&Path::spec().child("restartPolicy"), &spec.restart_policy, &["Always", "Never"]);
    let path = Path::spec().child("provisioningModel");
    match spec.provisioning_model.as_deref() {
        Some("Spot") if spec.preemptible => verdict.forbidden(&path, "a machine is preemptible or Spot, not both"),
        None | Some("Spot") => {}
        Some(other) => verdict.invalid(&path, other, "write Spot, or leave it out for standard provisioning"),
    }
}

fn check_service_accounts(accounts: &[ServiceAccount], verdict: &mut Verdict) {
    let path = Path::spec().child("serviceAccounts");
    match accounts {
        [] => verdict.warn(&path, "none is given: nodes may be unable to join the cluster"),
        [account] => {
            let path = path.index(0);
            if account.email.is_empty() {
                verdict.required(&path.child("email"), "say whose account it is");
            }
            if account.scopes.is_empty() {
                verdict.required(&path.child("scopes"), "give at least 1 scope");
            }
        }
        more => verdict.invalid(&path, more.len(), "an instance has exactly 1 service account"),
    }
}

fn check_secrets(spec: &GcpSpec, surroundings: &Surroundings, verdict: &mut Verdict) {
    secret::check_user_data(spec.user_data_secret.as_ref(), verdict);
    let path = Path::spec().child("credentialsSecret");
    let detail = format!("name the Secret with credentials, such as {}", super::CREDENTIALS);
    match &spec.credentials_secret {
        None => verdict.required(&path, detail),
        Some(reference) if reference.name.is_empty() => verdict.required(&path.child("name"), detail),
        Some(reference) => secret::check_presence(reference, surroundings, verdict),
    }
}
