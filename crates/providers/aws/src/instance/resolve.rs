//! Turns the names and filters of a spec into ids.
//!
//! The same spec gives the same ids as long as the account is the same: where a filter matches several things, the order is
//! ours and not that of AWS's answer. A creation that is repeated is then the same request.

use machine::provider::{Error, ErrorKind};

use crate::client::Client;
use crate::ec2::filter;
use crate::ec2::wire::{Image, Subnet};
use crate::spec::{AwsSpec, Filter, ResourceReference};

/// What a spec means in this account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) image: String,
    /// Known if a block device of the spec is the root device.
    pub(super) root_device: String,
    pub(super) security_groups: Vec<String>,
    pub(super) subnet: String,
    /// Known if somebody needs it.
    pub(super) zone: String,
    /// A public address is one of the carrier, because the subnet is in a Wavelength zone.
    pub(super) carrier: bool,
    /// The dedicated host that was allocated for this machine.
    pub(super) host: Option<String>,
}

pub(super) async fn resolve(client: &Client, spec: &AwsSpec, needs_zone: bool) -> Result<Resolved, Error> {
    let image = image(client, &spec.ami).await?;
    let root_device = if has_root(spec) { root_device(client, &image).await? } else { String::new() };
    let security_groups = security_groups(client, &spec.security_groups).await?;
    let needs_zone = needs_zone || spec.public_ip.is_some();
    let Subnet { subnet_id, availability_zone: zone } = subnet(client, spec, needs_zone).await?;
    let carrier = spec.public_ip.is_some() && is_wavelength(client, &zone).await?;
    Ok(Resolved { image, root_device, security_groups, subnet: subnet_id, zone, carrier, host: None })
}

/// The last part of an ARN, such as `subnet-1` in `arn:aws:ec2:us-east-1:1:subnet/subnet-1`.
fn id(reference: &ResourceReference) -> Option<&str> {
    let of_arn = || reference.arn.as_deref()?.rsplit_once('/').map(|(_, id)| id);
    reference.id.as_deref().filter(|id| !id.is_empty()).or_else(of_arn)
}

fn filters(reference: &ResourceReference) -> &[Filter] {
    reference.filters.as_deref().unwrap_or_default()
}

/// By id, or the newest that the filters match.
async fn image(client: &Client, ami: &ResourceReference) -> Result<String, Error> {
    if let Some(id) = ami.id.as_ref().filter(|id| !id.is_empty()) {
        return Ok(id.clone());
    }
    if filters(ami).is_empty() {
        return Err(Error::new(ErrorKind::InvalidSpec, "providerSpec.ami: name the image in ami.id"));
    }
    let found = client.describe_images(filters(ami)).await;
    let found = found.map_err(|fault| fault.error("cannot look for images"))?;
    let none = || Error::new(ErrorKind::NotFound, "providerSpec.ami.filters: no image matches");
    newest(found).map(|image| image.image_id).ok_or_else(none)
}

/// AWS writes all dates in the same form, so that they sort as text.
fn newest(images: Vec<Image>) -> Option<Image> {
    let age = |image: &Image| (image.creation_date.clone(), image.image_id.clone());
    images.into_iter().max_by_key(age)
}

fn has_root(spec: &AwsSpec) -> bool {
    spec.block_devices.iter().any(|device| device.ebs.is_some() && device.device_name.is_none())
}

async fn root_device(client: &Client, image: &str) -> Result<String, Error> {
    let found = client.describe_image(image).await.map_err(|fault| fault.error("cannot look for the image"))?;
    let none = || Error::new(ErrorKind::NotFound, format!("providerSpec.ami: image {image} has no root device"));
    found.map(|image| image.root_device_name).filter(|name| !name.is_empty()).ok_or_else(none)
}

/// All that the entries name or match. Without any, AWS would choose the VPC's default group, which nobody asked for.
async fn security_groups(client: &Client, references: &[ResourceReference]) -> Result<Vec<String>, Error> {
    let mut groups: Vec<String> = Vec::new();
    for reference in references {
        let mut found = match id(reference) {
            Some(id) => vec![id.to_owned()],
            None if filters(reference).is_empty() => Vec::new(),
            None => {
                let found = client.describe_security_groups(filters(reference)).await;
                found.map_err(|fault| fault.error("cannot look for security groups"))?
            }
        };
        found.sort();
        found.retain(|group| !groups.contains(group));
        groups.extend(found);
    }
    if groups.is_empty() {
        let (kind, words) = if references.is_empty() {
            (ErrorKind::InvalidSpec, "name at least one security group")
        } else {
            (ErrorKind::NotFound, "no security group found")
        };
        return Err(Error::new(kind, format!("providerSpec.securityGroups: {words}")));
    }
    Ok(groups)
}

/// By id, or the first that the filters match in the zone.
async fn subnet(client: &Client, spec: &AwsSpec, needs_zone: bool) -> Result<Subnet, Error> {
    let zone = &spec.placement.availability_zone;
    let by_id = id(&spec.subnet).map(str::to_owned);
    if let Some(id) = &by_id
        && !needs_zone
    {
        return Ok(Subnet { subnet_id: id.clone(), availability_zone: zone.clone() });
    }
    let filters = match &by_id {
        Some(id) => vec![filter("subnet-id", [id])],
        None => {
            let of_zone = (!zone.is_empty()).then(|| filter("availabilityZone", [zone]));
            of_zone.into_iter().chain(filters(&spec.subnet).iter().cloned()).collect()
        }
    };
    let found = client.describe_subnets(&filters).await;
    let found = found.map_err(|fault| fault.error("cannot look for subnets"))?;
    let first = found.into_iter().min_by(|one, other| one.subnet_id.cmp(&other.subnet_id));
    first.ok_or_else(|| {
        let place = if zone.is_empty() { String::new() } else { format!(" in zone {zone}") };
        Error::new(ErrorKind::NotFound, format!("providerSpec.subnet: no subnet matches{place}"))
    })
}

/// Zones of regions are called like the region with a letter; only the others can be Wavelength zones.
async fn is_wavelength(client: &Client, zone: &str) -> Result<bool, Error> {
    let is_plain = zone.strip_prefix(client.region()).is_some_and(|letter| letter.len() <= 1);
    if is_plain {
        return Ok(false);
    }
    let found = client.describe_zone(zone).await.map_err(|fault| fault.error("cannot look for the zone"))?;
    Ok(found.is_some_and(|zone| zone.zone_type == "wavelength-zone"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_image_counts_and_of_two_of_one_age_always_the_same() {
        let image = |id: &str, date: &str| Image {
            image_id: id.to_owned(),
            creation_date: date.to_owned(),
            ..Image::default()
        };
        let [old, new] = ["2025-12-31T23:59:59.000Z", "2026-01-01T00:00:00.000Z"];
        let images = vec![image("ami-1", new), image("ami-3", old), image("ami-2", new)];
        for images in [images.clone(), images.into_iter().rev().collect()] {
            assert_eq!(newest(images).map(|image| image.image_id).as_deref(), Some("ami-2"));
        }
        assert!(newest(Vec::new()).is_none());
    }

    #[test]
    fn an_arn_ends_with_the_id() {
        let reference = |id: Option<&str>, arn: Option<&str>| ResourceReference {
            id: id.map(str::to_owned),
            arn: arn.map(str::to_owned),
            filters: None,
        };
        let arn = Some("arn:aws:ec2:us-east-1:1:security-group/sg-1");
        assert_eq!(id(&reference(None, arn)), Some("sg-1"));
        assert_eq!(id(&reference(Some("sg-2"), arn)), Some("sg-2"));
        assert_eq!(id(&reference(Some(""), arn)), Some("sg-1"));
        assert_eq!(id(&reference(None, Some("nonsense"))), None);
    }
}
