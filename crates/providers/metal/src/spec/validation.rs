//! What a good bare metal spec looks like.

use machine::provider::Verdict;
use machine::spec::Path;

use super::types::{MetalSpec, Requirement};

pub(super) fn check(spec: &MetalSpec, verdict: &mut Verdict) {
    super::IDENTITY.check(&spec.api_version, &spec.kind, verdict);
    let path = Path::spec();
    let has_image = !spec.image.url.is_empty();
    let has_method = !spec.custom_deploy.method.is_empty();
    if !has_image && !has_method {
        verdict.required(&path.child("image").child("url"), "write where the image is, or customDeploy.method");
    }
    if has_image && spec.image.checksum.is_empty() && !has_method {
        verdict.required(&path.child("image").child("checksum"), "write the image's checksum, or where it is");
    }
    if spec.user_data.as_ref().is_none_or(|reference| reference.name.is_empty()) {
        let detail = "name the Secret with user data, such as worker-user-data-managed";
        verdict.required(&path.child("userData").child("name"), detail);
    }
    for (index, requirement) in spec.host_selector.match_expressions.iter().enumerate() {
        check_requirement(requirement, &path.child("hostSelector").child("matchExpressions").index(index), verdict);
    }
}

fn check_requirement(requirement: &Requirement, path: &Path, verdict: &mut Verdict) {
    if requirement.key.is_empty() {
        verdict.required(&path.child("key"), "name the label");
    }
    let operation = requirement.operation();
    let count = requirement.values.len();
    let values = path.child("values");
    match operation.as_str() {
        "in" | "notin" if count == 0 => verdict.required(&values, "write at least one"),
        "exists" | "!" if count > 0 => verdict.forbidden(&values, "this operator takes none"),
        "=" | "==" | "!=" | "gt" | "lt" if count != 1 => verdict.invalid(&values, count, "write exactly one"),
        "gt" | "lt" if requirement.values[0].parse::<i64>().is_err() => {
            verdict.invalid(&values.index(0), &requirement.values[0], "must be a whole number");
        }
        known if Requirement::OPERATORS.contains(&known) => {}
        _ => verdict.unsupported(&path.child("operator"), &requirement.operator, &Requirement::OPERATORS),
    }
}
