//! The request that launches an instance.

use machine::provider::{Error, ErrorKind};

use super::devices;
use crate::IpFamily;
use crate::client::Params;
use crate::instance::resolve::Resolved;
use crate::instance::tags;
use crate::spec::AwsSpec;

/// Everything that a launch depends on.
pub(super) struct Launch<'a> {
    pub(super) spec: &'a AwsSpec,
    pub(super) resolved: &'a Resolved,
    pub(super) tags: &'a [(String, String)],
    pub(super) ip_family: IpFamily,
    /// Encoded.
    pub(super) user_data: Option<&'a str>,
    pub(super) token: &'a str,
}

impl Launch<'_> {
    pub(super) fn params(&self) -> Result<Params, Error> {
        let AwsSpec { instance_type, key_name, iam_instance_profile, .. } = self.spec;
        let mut params = Params::new()
            .set("ImageId", &self.resolved.image)
            .set("InstanceType", instance_type)
            .set("MinCount", 1)
            .set("MaxCount", 1)
            .set("ClientToken", self.token);
        params.push_some("KeyName", key_name.as_ref());
        params.push_some("UserData", self.user_data);
        let profile = iam_instance_profile.as_ref().and_then(|profile| profile.id.as_ref());
        params.push_some("IamInstanceProfile.Name", profile);
        tags::specify(&mut params, &["instance", "volume"], self.tags);
        self.network(&mut params)?;
        devices::push(&mut params, &self.spec.block_devices, &self.resolved.root_device)?;
        self.placement(&mut params)?;
        self.market(&mut params);
        self.options(&mut params);
        Ok(params)
    }

    fn network(&self, params: &mut Params) -> Result<(), Error> {
        let prefix = "NetworkInterface.1";
        params.push(format!("{prefix}.DeviceIndex"), self.spec.device_index);
        params.push(format!("{prefix}.SubnetId"), &self.resolved.subnet);
        params.push(format!("{prefix}.DeleteOnTermination"), true);
        for (index, group) in self.resolved.security_groups.iter().enumerate() {
            params.push(format!("{prefix}.SecurityGroupId.{}", index + 1), group);
        }
        let public = if self.resolved.carrier { "AssociateCarrierIpAddress" } else { "AssociatePublicIpAddress" };
        params.push_some(format!("{prefix}.{public}"), self.spec.public_ip);
        match self.spec.network_interface_type.as_str() {
            "" => {}
            "ENA" => params.push(format!("{prefix}.InterfaceType"), "interface"),
            "EFA" => params.push(format!("{prefix}.InterfaceType"), "efa"),
            other => return Err(invalid("networkInterfaceType", other)),
        }
        if self.ip_family == IpFamily::DualStackIpv6Primary {
            params.push(format!("{prefix}.PrimaryIpv6"), true);
            params.push(format!("{prefix}.Ipv6AddressCount"), 1);
        }
        Ok(())
    }

    fn placement(&self, params: &mut Params) -> Result<(), Error> {
        let AwsSpec { placement, subnet, placement_group_name: group, placement_group_partition, .. } = self.spec;
        // A subnet is in a zone already.
        if subnet.id.is_none() && !placement.availability_zone.is_empty() {
            params.push("Placement.AvailabilityZone", &placement.availability_zone);
        }
        if !group.is_empty() {
            params.push("Placement.GroupName", group);
            params.push_some("Placement.PartitionNumber", *placement_group_partition);
        }
        if !placement.tenancy.is_empty() {
            params.push("Placement.Tenancy", &placement.tenancy);
        }
        let Some(host) = &placement.host else { return Ok(()) };
        match host.affinity.as_deref() {
            Some("AnyAvailable") => params.push("Placement.Affinity", "default"),
            Some("DedicatedHost") => params.push("Placement.Affinity", "host"),
            other => return Err(invalid("placement.host.affinity", other.unwrap_or_default())),
        }
        let own = host.dedicated_host.as_ref().map(|host| &host.id).filter(|id| !id.is_empty());
        params.push_some("Placement.HostId", self.resolved.host.as_ref().or(own));
        Ok(())
    }

    fn market(&self, params: &mut Params) {
        let AwsSpec { market_type, spot_market_options, capacity_reservation_id: reservation, .. } = self.spec;
        let prefix = "InstanceMarketOptions";
        if market_type == "CapacityBlock" {
            params.push(format!("{prefix}.MarketType"), "capacity-block");
        } else if market_type == "Spot" || spot_market_options.is_some() {
            params.push(format!("{prefix}.MarketType"), "spot");
            // A machine is one instance: it is not replaced and not stopped, it ends.
            params.push(format!("{prefix}.SpotOptions.SpotInstanceType"), "one-time");
            params.push(format!("{prefix}.SpotOptions.InstanceInterruptionBehavior"), "terminate");
            let price = spot_market_options.as_ref().and_then(|options| options.max_price.as_ref());
            params.push_some(format!("{prefix}.SpotOptions.MaxPrice"), price.filter(|price| !price.is_empty()));
        }
        if !reservation.is_empty() {
            let name = "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId";
            params.push(name, reservation);
        }
    }

    fn options(&self, params: &mut Params) {
        match self.spec.metadata_service_options.authentication.as_str() {
            "Required" => params.push("MetadataOptions.HttpTokens", "required"),
            "Optional" => params.push("MetadataOptions.HttpTokens", "optional"),
            _ => {}
        }
        if self.ip_family.is_dual_stack() {
            params.push("MetadataOptions.HttpProtocolIpv6", "enabled");
            // Names made of addresses are of IPv4 only.
            params.push("PrivateDnsNameOptions.HostnameType", "resource-name");
            params.push("PrivateDnsNameOptions.EnableResourceNameDnsARecord", true);
            params.push("PrivateDnsNameOptions.EnableResourceNameDnsAAAARecord", true);
        }
        let confidential = self.spec.cpu_options.as_ref().and_then(|options| options.confidential_compute.as_deref());
        match confidential {
            Some("AMDEncryptedVirtualizationNestedPaging") => params.push("CpuOptions.AmdSevSnp", "enabled"),
            Some("Disabled") => params.push("CpuOptions.AmdSevSnp", "disabled"),
            _ => {}
        }
    }
}

fn invalid(field: &str, value: &str) -> Error {
    Error::new(ErrorKind::InvalidSpec, format!("providerSpec.{field}: {value:?} is not known"))
}

#[cfg(test)]
mod tests;
