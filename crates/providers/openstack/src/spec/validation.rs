//! What a good OpenStack spec looks like.

mod disks;
mod networks;

use machine::provider::{Surroundings, Verdict};
use machine::spec::{Path, secret};

use super::types::{OpenStackSpec, SecurityGroup};

/// Nova's and, in older releases, neutron's limit for a tag.
const LONGEST_TAG: usize = 60;
/// Nova takes fifty, and two of them are ours.
const MOST_TAGS: usize = 48;
const LONGEST_METADATA: usize = 255;
/// What our own keys in a server's metadata begin with.
pub(crate) const OURS: &str = "machinist.dev:";

pub(super) fn check(spec: &OpenStackSpec, surroundings: &Surroundings, verdict: &mut Verdict) {
    super::IDENTITY.check(&spec.api_version, &spec.kind, verdict);
    let path = Path::spec();
    if spec.cloud_name.is_empty() {
        verdict.required(&path.child("cloudName"), "name the entry of clouds.yaml, such as openstack");
    }
    if spec.clouds_secret.as_ref().is_none_or(|reference| reference.name.is_empty()) {
        let detail = format!("name the Secret with clouds.yaml, such as {}", super::CREDENTIALS);
        verdict.required(&path.child("cloudsSecret").child("name"), detail);
    }
    secret::check_user_data(spec.user_data_secret.as_ref(), verdict);
    if spec.flavor.is_empty() {
        verdict.required(&path.child("flavor"), "name a flavor, such as m1.large");
    }
    disks::check(spec, verdict);
    networks::check(spec, verdict);
    for (index, group) in spec.security_groups.iter().enumerate() {
        check_group(group, &path.child("securityGroups").index(index), verdict);
    }
    check_floating_ip(spec, surroundings, verdict);
    check_tags(&spec.tags, &path.child("tags"), verdict);
    if spec.tags.len() > MOST_TAGS {
        verdict.too_many(&path.child("tags"), spec.tags.len(), MOST_TAGS);
    }
    check_metadata(spec, verdict);
    if !spec.server_group_id.is_empty() && spec.server_group_id.contains(char::is_whitespace) {
        let detail = "must be the id of a server group; its name goes into serverGroupName";
        verdict.invalid(&path.child("serverGroupID"), &spec.server_group_id, detail);
    }
    unused(
        &path,
        verdict,
        &[
            ("sshUserName", spec.ssh_user_name.is_empty(), ""),
            ("primarySubnet", spec.primary_subnet.is_empty(), ": the first of networks is the primary one"),
        ],
    );
}

/// Warns of fields that are set and that nothing is done with.
fn unused(path: &Path, verdict: &mut Verdict, fields: &[(&str, bool, &str)]) {
    for (name, _, why) in fields.iter().filter(|(_, is_empty, _)| !is_empty) {
        verdict.warn(&path.child(name), format!("is not used{why}"));
    }
}

fn check_group(group: &SecurityGroup, path: &Path, verdict: &mut Verdict) {
    if group.uuid.is_empty() && group.name.is_empty() && !group.filter.is_set() {
        verdict.required(path, "name a security group by uuid, name or filter");
    }
    networks::check_filter(&group.filter, &path.child("filter"), verdict);
}

fn check_floating_ip(spec: &OpenStackSpec, surroundings: &Surroundings, verdict: &mut Verdict) {
    let path = Path::spec().child("floatingIP");
    if spec.floating_ip.is_empty() {
        return;
    }
    if spec.floating_ip.parse::<std::net::IpAddr>().is_err() {
        verdict.invalid(&path, &spec.floating_ip, "must be an address, such as 203.0.113.7");
    }
    if surroundings.template {
        verdict.warn(&path, "only one machine of the set can have it");
    }
}

fn check_tags(tags: &[String], path: &Path, verdict: &mut Verdict) {
    for (index, tag) in tags.iter().enumerate() {
        let is_good = !tag.is_empty() && tag.chars().count() <= LONGEST_TAG && !tag.contains([',', '/']);
        if !is_good {
            let detail = format!("must have 1 to {LONGEST_TAG} letters, none of them a comma or a slash");
            verdict.invalid(&path.index(index), tag, detail);
        }
    }
}

fn check_metadata(spec: &OpenStackSpec, verdict: &mut Verdict) {
    let path = Path::spec().child("serverMetadata");
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_:. ".contains(letter);
    for (key, value) in &spec.server_metadata {
        let path = path.child(key);
        if key.is_empty() || key.len() > LONGEST_METADATA || !key.chars().all(is_plain) {
            verdict.invalid(&path, key, "a key has up to 255 letters, digits, spaces and the signs - _ : .");
        } else if key.starts_with(OURS) {
            verdict.forbidden(&path, format!("keys that begin with {OURS} say whose a server is"));
        } else if value.len() > LONGEST_METADATA {
            verdict.invalid(&path, value, "a value has up to 255 letters");
        }
    }
}
