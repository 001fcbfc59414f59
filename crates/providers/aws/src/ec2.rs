//! The calls to EC2 that machines need, typed.

pub(crate) mod wire;

use crate::client::{Client, Fault, Params, Service};
use crate::spec::Filter;
use wire::{
    AllocateHosts, AvailabilityZone, DescribeAvailabilityZones, DescribeDhcpOptions, DescribeHosts, DescribeImages,
    DescribeInstanceTypes, DescribeInstances, DescribeSecurityGroups, DescribeSubnets, DescribeVolumes, DescribeVpcs,
    Done, Host, Image, Instance, InstanceType, Items, ReleaseHosts, RunInstances, Subnet, Volume,
};

/// The largest page that AWS gives.
const PAGE: usize = 1000;

/// A filter for a describe call.
pub(crate) fn filter<V: Into<String>>(name: impl Into<String>, values: impl IntoIterator<Item = V>) -> Filter {
    Filter { name: name.into(), values: values.into_iter().map(Into::into).collect() }
}

impl Client {
    /// Every instance that passes the filters, terminated ones among them.
    pub(crate) async fn describe_instances(&self, filters: &[Filter]) -> Result<Vec<Instance>, Fault> {
        let mut instances = Vec::new();
        let mut page = Params::new().filters(filters).set("MaxResults", PAGE);
        loop {
            let DescribeInstances { reservations, next_token } = self.ec2("DescribeInstances", page).await?;
            instances.extend(reservations.item.into_iter().flat_map(|reservation| reservation.instances.item));
            let Some(token) = next_token.filter(|token| !token.is_empty()) else { return Ok(instances) };
            page = Params::new().filters(filters).set("MaxResults", PAGE).set("NextToken", token);
        }
    }

    pub(crate) async fn run_instance(&self, params: Params) -> Result<Instance, Fault> {
        let RunInstances { instances } = self.ec2("RunInstances", params).await?;
        let nothing = || Fault::Unreadable("RunInstances: no instance in the answer".to_owned());
        instances.item.into_iter().next().ok_or_else(nothing)
    }

    pub(crate) async fn terminate_instances(&self, ids: &[&str]) -> Result<(), Fault> {
        self.done("TerminateInstances", Params::new().list("InstanceId", ids)).await
    }

    pub(crate) async fn start_instance(&self, id: &str) -> Result<(), Fault> {
        self.done("StartInstances", Params::new().list("InstanceId", [id])).await
    }

    /// Takes the power away without asking the operating system.
    pub(crate) async fn stop_instance(&self, id: &str) -> Result<(), Fault> {
        self.done("StopInstances", Params::new().list("InstanceId", [id]).set("Force", true)).await
    }

    pub(crate) async fn reboot_instance(&self, id: &str) -> Result<(), Fault> {
        self.done("RebootInstances", Params::new().list("InstanceId", [id])).await
    }

    pub(crate) async fn create_tags(&self, id: &str, tags: &[(String, String)]) -> Result<(), Fault> {
        let mut params = Params::new().list("ResourceId", [id]);
        for (index, (key, value)) in tags.iter().enumerate() {
            params.push(format!("Tag.{}.Key", index + 1), key);
            params.push(format!("Tag.{}.Value", index + 1), value);
        }
        self.done("CreateTags", params).await
    }

    pub(crate) async fn describe_images(&self, filters: &[Filter]) -> Result<Vec<Image>, Fault> {
        let DescribeImages { images } = self.ec2("DescribeImages", Params::new().filters(filters)).await?;
        Ok(images.item)
    }

    pub(crate) async fn describe_image(&self, id: &str) -> Result<Option<Image>, Fault> {
        let DescribeImages { images } = self.ec2("DescribeImages", Params::new().list("ImageId", [id])).await?;
        Ok(images.item.into_iter().next())
    }

    pub(crate) async fn describe_subnets(&self, filters: &[Filter]) -> Result<Vec<Subnet>, Fault> {
        let DescribeSubnets { subnets } = self.ec2("DescribeSubnets", Params::new().filters(filters)).await?;
        Ok(subnets.item)
    }

    pub(crate) async fn describe_security_groups(&self, filters: &[Filter]) -> Result<Vec<String>, Fault> {
        let params = Params::new().filters(filters);
        let DescribeSecurityGroups { groups } = self.ec2("DescribeSecurityGroups", params).await?;
        Ok(groups.item.into_iter().map(|group| group.id).collect())
    }

    pub(crate) async fn describe_zone(&self, name: &str) -> Result<Option<AvailabilityZone>, Fault> {
        let params = Params::new().list("ZoneName", [name]);
        let DescribeAvailabilityZones { zones } = self.ec2("DescribeAvailabilityZones", params).await?;
        Ok(zones.item.into_iter().next())
    }

    pub(crate) async fn describe_instance_type(&self, name: &str) -> Result<Option<InstanceType>, Fault> {
        let params = Params::new().list("InstanceType", [name]);
        match self.ec2::<DescribeInstanceTypes>("DescribeInstanceTypes", params).await {
            Ok(DescribeInstanceTypes { types }) => Ok(types.item.into_iter().next()),
            Err(fault) if fault.code() == "InvalidInstanceType" => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    pub(crate) async fn describe_volumes(&self, filters: &[Filter]) -> Result<Vec<Volume>, Fault> {
        let mut volumes = Vec::new();
        let mut page = Params::new().filters(filters).set("MaxResults", PAGE);
        loop {
            let DescribeVolumes { items, next_token } = self.ec2("DescribeVolumes", page).await?;
            volumes.extend(items.item);
            let Some(token) = next_token.filter(|token| !token.is_empty()) else { return Ok(volumes) };
            page = Params::new().filters(filters).set("MaxResults", PAGE).set("NextToken", token);
        }
    }

    pub(crate) async fn delete_volume(&self, id: &str) -> Result<(), Fault> {
        self.done("DeleteVolume", Params::new().set("VolumeId", id)).await
    }

    /// Dedicated hosts of the account, released ones among them.
    pub(crate) async fn describe_hosts(&self, filters: &[Filter]) -> Result<Vec<Host>, Fault> {
        let DescribeHosts { hosts } = self.ec2("DescribeHosts", Params::new().filters(filters)).await?;
        Ok(hosts.item)
    }

    pub(crate) async fn allocate_host(&self, params: Params) -> Result<String, Fault> {
        let AllocateHosts { ids } = self.ec2("AllocateHosts", params).await?;
        let nothing = || Fault::Unreadable("AllocateHosts: no host in the answer".to_owned());
        ids.item.into_iter().next().ok_or_else(nothing)
    }

    /// Gives a host back. The answer may be a refusal although the request succeeded.
    pub(crate) async fn release_host(&self, id: &str) -> Result<(), Fault> {
        let ReleaseHosts { unsuccessful } = self.ec2("ReleaseHosts", Params::new().list("HostId", [id])).await?;
        let Some(refusal) = unsuccessful.item.into_iter().next() else { return Ok(()) };
        let wire::Unsuccessful { error: wire::Refusal { code, message } } = refusal;
        Err(Fault::Refused { status: 400, code, message, request_id: None })
    }

    /// The domain names that DHCP gives the machines of a VPC.
    pub(crate) async fn domain_names(&self, vpc: &str) -> Result<Vec<String>, Fault> {
        let DescribeVpcs { vpcs } = self.ec2("DescribeVpcs", Params::new().list("VpcId", [vpc])).await?;
        let Some(options) = vpcs.item.into_iter().next().and_then(|vpc| vpc.dhcp_options) else {
            return Ok(Vec::new());
        };
        // VPCs without options of their own say "default".
        if !options.starts_with("dopt-") {
            return Ok(Vec::new());
        }
        let params = Params::new().list("DhcpOptionsId", [options]);
        let DescribeDhcpOptions { options } = self.ec2("DescribeDhcpOptions", params).await?;
        let entries = options.item.into_iter().flat_map(|options| options.configuration.item);
        let names = entries.filter(|entry| entry.key == "domain-name").flat_map(|entry| entry.values.item);
        // One entry may list several names.
        Ok(names.flat_map(|name| name.value.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect())
    }

    async fn ec2<T: serde::de::DeserializeOwned>(&self, action: &str, params: Params) -> Result<T, Fault> {
        self.query(Service::Ec2, action, params).await
    }

    async fn done(&self, action: &str, params: Params) -> Result<(), Fault> {
        self.ec2::<Done>(action, params).await.map(|_| ())
    }
}

impl<T> Items<T> {
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.item.iter()
    }
}
