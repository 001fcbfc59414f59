//! Validation rules that several kinds share.
//!
//! The API server evaluates them. Their messages are part of the interface: users read them in errors.

use kube::core::Rule;

/// A name must be a DNS subdomain. `what` is the beginning of the message, which varies in upstream.
pub(crate) fn dns1123_subdomain(what: &str) -> Rule {
    Rule::new("!format.dns1123Subdomain().validate(self).hasValue()").message(
        format!(
            "{what} must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character."
        )
        .as_str(),
    )
}

/// A name must be a DNS label.
pub(crate) fn dns1123_label() -> Rule {
    Rule::new("!format.dns1123Label().validate(self).hasValue()")
        .message("the value must consist of only lowercase alphanumeric characters and hyphens")
}

/// A name must be a DNS label that begins with a letter.
pub(crate) fn dns1035_label() -> Rule {
    Rule::new("!format.dns1035Label().validate(self).hasValue()").message(
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
    )
}

/// An image must be referred to by digest.
pub(crate) fn image_digest() -> Rule {
    Rule::new("(self.split('@').size() == 2 && self.split('@')[1].matches('^sha256:[a-f0-9]{64}$'))").message(
        "the OCI Image reference must end with a valid '@sha256:<digest>' suffix, where '<digest>' is 64 characters long",
    )
}

/// An image's name must have a host and a path.
pub(crate) fn image_name() -> Rule {
    Rule::new(
        r"(self.split('@')[0].matches('^([a-zA-Z0-9-]+\\.)+[a-zA-Z0-9-]+(:[0-9]{2,5})?/([a-zA-Z0-9-_]{0,61}/)?[a-zA-Z0-9-_.]*?$'))",
    )
    .message("the OCI Image name should follow the host[:port][/namespace]/name format, resembling a valid URL without the scheme")
}

/// A reference to which an image can be pushed.
pub(crate) fn image_push_spec() -> Rule {
    Rule::new(
        r"self.matches('^([a-zA-Z0-9-]+\\.)+[a-zA-Z0-9-]+(:[0-9]{2,5})?(/[a-zA-Z0-9-_]{1,61})*/[a-zA-Z0-9-_.]+:[a-zA-Z0-9._-]+$') || self.matches('^[^.]+\\.[^.]+\\.svc:\\d+\\/[^\\/]+\\/[^\\/]+:[^\\/]+$')",
    )
    .message("the OCI Image name should follow the host[:port][/namespace]/name format, resembling a valid URL without the scheme. Or it must be a valid .svc followed by a port, repository, image name, and tag.")
}

/// The elements of a list must be unique.
pub(crate) fn unique() -> Rule {
    Rule::new("self.all(x, self.exists_one(y, x == y))")
}

/// Of two addresses, one must be IPv4 and the other IPv6.
pub(crate) fn one_address_per_family(field: &str) -> Rule {
    Rule::new(TWO_FAMILIES).message(one_address_per_family_message(field).as_str())
}

/// Like [`one_address_per_family`], but accepts values that were stored before the rule existed.
pub(crate) fn unchanged_or_one_address_per_family(field: &str) -> Rule {
    Rule::new(format!("self == oldSelf || ({TWO_FAMILIES})")).message(one_address_per_family_message(field).as_str())
}

const TWO_FAMILIES: &str =
    "size(self) == 2 && isIP(self[0]) && isIP(self[1]) ? ip(self[0]).family() != ip(self[1]).family() : true";

fn one_address_per_family_message(field: &str) -> String {
    format!("{field} must contain at most one IPv4 address and at most one IPv6 address")
}

/// A string must keep its first value.
pub(crate) fn set_once(message: &str) -> Rule {
    Rule::new("oldSelf == '' || self == oldSelf").message(message)
}

/// A version of OpenShift.
pub(crate) fn ocp_version() -> Rule {
    Rule::new(r"self.matches('^[0-9]+\\.[0-9]+\\.[0-9]+$')")
        .message("ocpVersion must match the OCP semver compatible format of x.y.z")
}

/// A version of OpenShift's OS.
pub(crate) fn rhcos_version() -> Rule {
    Rule::new(r"self.matches('^[0-9]+\\.[0-9]+\\.([0-9]{8}|[0-9]{12})-[0-9]+$')").message(
        "rhcosVersion must match format [major].[minor].[datestamp(YYYYMMDD)]-[buildnumber] or must match legacy format [major].[minor].[timestamp(YYYYMMDDHHmm)]-[buildnumber]",
    )
}
