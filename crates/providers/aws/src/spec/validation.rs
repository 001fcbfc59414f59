//! What a good AWS spec looks like: upstream's rules, with paths that lead to the field.

mod market;
mod placement;

use machine::provider::{Surroundings, Verdict};
use machine::spec::{Path, secret};

use super::types::{AwsSpec, BlockDevice, CpuOptions, ResourceReference, Tag};

/// The range of throughput that gp3 volumes can have, in MiB/s.
const THROUGHPUT: std::ops::RangeInclusive<i32> = 125..=2000;

pub(super) fn check(spec: &AwsSpec, surroundings: &Surroundings, verdict: &mut Verdict) {
    let of_2019 = spec.api_version.starts_with("aws.cluster.k8s.io/");
    let identity = if of_2019 { super::IDENTITY_OF_2019 } else { super::IDENTITY };
    identity.check(&spec.api_version, &spec.kind, verdict);
    check_image(&spec.ami, verdict);
    check_basics(spec, verdict);
    check_secrets(spec, surroundings, verdict);
    check_subnet(&spec.subnet, verdict);
    check_profile(spec.iam_instance_profile.as_ref(), verdict);
    market::check(spec, verdict);
    for (index, device) in spec.block_devices.iter().enumerate() {
        check_block_device(device, &Path::spec().child("blockDevices").index(index), verdict);
    }
    for (index, balancer) in spec.load_balancers.iter().enumerate() {
        if !matches!(balancer.type_.as_str(), "classic" | "network") {
            let path = Path::spec().child("loadBalancers").index(index).child("type");
            verdict.warn(
                &path,
                format!("{:?} is not known, and the balancer is ignored; write classic or network", balancer.type_),
            );
        }
    }
    placement::check(spec, surroundings, verdict);
    check_tags(&spec.tags, verdict);
    check_words(spec, verdict);
}

fn check_image(ami: &ResourceReference, verdict: &mut Verdict) {
    let path = Path::spec().child("ami");
    if ami.id.is_none() {
        verdict.required(&path, "name the image in ami.id");
    }
    if ami.arn.is_some() {
        verdict.warn(&path.child("arn"), "is not used; name the image in ami.id");
    }
    if ami.filters.is_some() {
        verdict.warn(&path.child("filters"), "are not accepted for new machines; name the image in ami.id");
    }
}

fn check_basics(spec: &AwsSpec, verdict: &mut Verdict) {
    if spec.placement.region.is_empty() {
        verdict.required(&Path::spec().child("placement").child("region"), "name the region, such as us-east-1");
    }
    if spec.instance_type.is_empty() {
        verdict.required(&Path::spec().child("instanceType"), "name an instance type, such as m5.large");
    }
}

fn check_secrets(spec: &AwsSpec, surroundings: &Surroundings, verdict: &mut Verdict) {
    secret::check_user_data(spec.user_data_secret.as_ref(), verdict);
    match &spec.credentials_secret {
        None => {
            let detail = format!("name the Secret with credentials, such as {}", super::CREDENTIALS);
            verdict.required(&Path::spec().child("credentialsSecret"), detail);
        }
        Some(reference) => secret::check_presence(reference, surroundings, verdict),
    }
}

fn check_subnet(subnet: &ResourceReference, verdict: &mut Verdict) {
    let path = Path::spec().child("subnet");
    if *subnet == ResourceReference::default() {
        let detail = "none is given: AWS chooses one, and the instance may be unable to reach the cluster";
        verdict.warn(&path, detail);
    }
    if subnet.arn.is_some() {
        verdict.warn(&path.child("arn"), "is not used; name the subnet in subnet.id or describe it in subnet.filters");
    }
}

fn check_profile(profile: Option<&ResourceReference>, verdict: &mut Verdict) {
    let path = Path::spec().child("iamInstanceProfile");
    let Some(profile) = profile else {
        verdict.warn(&path, "none is given: nodes may be unable to join the cluster");
        return;
    };
    if profile.arn.is_some() {
        verdict.warn(&path.child("arn"), "is not used; name the profile in iamInstanceProfile.id");
    }
    if profile.filters.is_some() {
        verdict.warn(&path.child("filters"), "are not used; name the profile in iamInstanceProfile.id");
    }
}

fn check_block_device(device: &BlockDevice, path: &Path, verdict: &mut Verdict) {
    let Some(ebs) = &device.ebs else { return };
    if ebs.delete_on_termination == Some(false) {
        let path = path.child("ebs").child("deleteOnTermination");
        verdict.warn(&path, "is not honoured: volumes go with their machine");
    }
    let (Some(volume_type), Some(throughput)) = (&ebs.volume_type, ebs.throughput_mib) else { return };
    let path = path.child("ebs").child("throughputMib");
    if volume_type != "gp3" {
        verdict.invalid(&path, throughput, "only gp3 volumes have a throughput");
    } else if !THROUGHPUT.contains(&throughput) {
        let detail = format!("must be between {} and {}", THROUGHPUT.start(), THROUGHPUT.end());
        verdict.invalid(&path, throughput, detail);
    }
}

fn check_tags(tags: &[Tag], verdict: &mut Verdict) {
    let mut twice: Vec<&str> = Vec::new();
    for (index, tag) in tags.iter().enumerate() {
        let is_second = tags[..index].iter().filter(|earlier| earlier.name == tag.name).count() == 1;
        if is_second {
            twice.push(&tag.name);
        }
    }
    if !twice.is_empty() {
        let detail = format!("duplicated tag names ({}): the first value of each counts", twice.join(","));
        verdict.warn(&Path::spec().child("tags"), detail);
    }
}

fn check_words(spec: &AwsSpec, verdict: &mut Verdict) {
    verdict.one_of(&Path::spec().child("networkInterfaceType"), &spec.network_interface_type, &["ENA", "EFA"]);
    let path = Path::spec().child("metadataServiceOptions").child("authentication");
    verdict.one_of(&path, &spec.metadata_service_options.authentication, &["Optional", "Required"]);
    let path = Path::spec().child("cpuOptions");
    match &spec.cpu_options {
        None => {}
        Some(CpuOptions { confidential_compute: None }) => {
            verdict.invalid(&path, serde_json::json!({}), "set a field in it, or leave it out");
        }
        Some(CpuOptions { confidential_compute: Some(word) }) => {
            let allowed = ["Disabled", "AMDEncryptedVirtualizationNestedPaging"];
            if !allowed.contains(&word.as_str()) {
                let detail = format!("write {}, or leave it out", allowed.join(" or "));
                verdict.invalid(&path.child("confidentialCompute"), word, detail);
            }
        }
    }
}
