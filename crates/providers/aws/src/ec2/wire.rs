//! Answers of EC2, as far as they are read.
//!
//! Lists are elements called `item` inside an element of the list's name. What AWS leaves out is empty here.

use serde::Deserialize;

/// A list.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Items<T> {
    #[serde(default = "Vec::new")]
    pub(crate) item: Vec<T>,
}

impl<T> Default for Items<T> {
    fn default() -> Self {
        Self { item: Vec::new() }
    }
}

/// An answer in which nothing is of interest.
#[derive(Debug, Deserialize)]
pub(crate) struct Done {}

#[derive(Debug, Deserialize)]
pub(crate) struct DescribeInstances {
    #[serde(rename = "reservationSet", default)]
    pub(crate) reservations: Items<Reservation>,
    #[serde(rename = "nextToken", default)]
    pub(crate) next_token: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Reservation {
    #[serde(rename = "instancesSet", default)]
    pub(crate) instances: Items<Instance>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct RunInstances {
    #[serde(rename = "instancesSet", default)]
    pub(crate) instances: Items<Instance>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Instance {
    pub(crate) instance_id: String,
    pub(crate) instance_state: InstanceState,
    pub(crate) state_reason: Option<StateReason>,
    pub(crate) instance_type: String,
    pub(crate) client_token: String,
    pub(crate) launch_time: String,
    pub(crate) placement: Placement,
    pub(crate) private_dns_name: String,
    /// The public name.
    pub(crate) dns_name: String,
    pub(crate) private_ip_address: String,
    /// The public address.
    pub(crate) ip_address: String,
    pub(crate) vpc_id: String,
    /// `spot`, `scheduled` or nothing.
    pub(crate) instance_lifecycle: String,
    #[serde(rename = "tagSet")]
    pub(crate) tags: Items<Tag>,
    #[serde(rename = "networkInterfaceSet")]
    pub(crate) network_interfaces: Items<NetworkInterface>,
}

impl Instance {
    pub(crate) fn tag(&self, key: &str) -> Option<&str> {
        find(&self.tags, key)
    }
}

/// The value of a tag.
pub(crate) fn find<'a>(tags: &'a Items<Tag>, key: &str) -> Option<&'a str> {
    tags.iter().find(|tag| tag.key == key).map(|tag| tag.value.as_str())
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct InstanceState {
    pub(crate) name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct StateReason {
    pub(crate) code: String,
    pub(crate) message: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Placement {
    pub(crate) availability_zone: String,
    pub(crate) host_id: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Tag {
    pub(crate) key: String,
    pub(crate) value: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NetworkInterface {
    pub(crate) status: String,
    #[serde(rename = "ipv6AddressesSet")]
    pub(crate) ipv6_addresses: Items<Ipv6Address>,
    #[serde(rename = "privateIpAddressesSet")]
    pub(crate) private_ip_addresses: Items<PrivateIpAddress>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Ipv6Address {
    pub(crate) ipv6_address: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PrivateIpAddress {
    pub(crate) private_ip_address: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DescribeImages {
    #[serde(rename = "imagesSet", default)]
    pub(crate) images: Items<Image>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Image {
    pub(crate) image_id: String,
    pub(crate) creation_date: String,
    pub(crate) root_device_name: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DescribeSubnets {
    #[serde(rename = "subnetSet", default)]
    pub(crate) subnets: Items<Subnet>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Subnet {
    pub(crate) subnet_id: String,
    pub(crate) availability_zone: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DescribeSecurityGroups {
    #[serde(rename = "securityGroupInfo", default)]
    pub(crate) groups: Items<SecurityGroup>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SecurityGroup {
    #[serde(rename = "groupId")]
    pub(crate) id: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DescribeAvailabilityZones {
    #[serde(rename = "availabilityZoneInfo", default)]
    pub(crate) zones: Items<AvailabilityZone>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AvailabilityZone {
    pub(crate) zone_type: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DescribeInstanceTypes {
    #[serde(rename = "instanceTypeSet", default)]
    pub(crate) types: Items<InstanceType>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct InstanceType {
    pub(crate) v_cpu_info: CpuInfo,
    pub(crate) memory_info: MemoryInfo,
    pub(crate) gpu_info: GpuInfo,
    pub(crate) processor_info: ProcessorInfo,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CpuInfo {
    pub(crate) default_v_cpus: u64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MemoryInfo {
    pub(crate) size_in_mi_b: u64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GpuInfo {
    pub(crate) gpus: Items<Gpu>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Gpu {
    pub(crate) count: u64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ProcessorInfo {
    pub(crate) supported_architectures: Items<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DescribeVolumes {
    #[serde(rename = "volumeSet", default)]
    pub(crate) items: Items<Volume>,
    #[serde(rename = "nextToken", default)]
    pub(crate) next_token: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Volume {
    pub(crate) volume_id: String,
    pub(crate) create_time: String,
    #[serde(rename = "tagSet")]
    pub(crate) tags: Items<Tag>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DescribeHosts {
    #[serde(rename = "hostSet", default)]
    pub(crate) hosts: Items<Host>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Host {
    pub(crate) host_id: String,
    /// `available`, `released` and others.
    pub(crate) state: String,
    pub(crate) allocation_time: String,
    #[serde(rename = "tagSet")]
    pub(crate) tags: Items<Tag>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct AllocateHosts {
    #[serde(rename = "hostIdSet", default)]
    pub(crate) ids: Items<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ReleaseHosts {
    #[serde(default)]
    pub(crate) unsuccessful: Items<Unsuccessful>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Unsuccessful {
    pub(crate) error: Refusal,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Refusal {
    pub(crate) code: String,
    pub(crate) message: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DescribeVpcs {
    #[serde(rename = "vpcSet", default)]
    pub(crate) vpcs: Items<Vpc>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Vpc {
    #[serde(rename = "dhcpOptionsId")]
    pub(crate) dhcp_options: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DescribeDhcpOptions {
    #[serde(rename = "dhcpOptionsSet", default)]
    pub(crate) options: Items<DhcpOptions>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DhcpOptions {
    #[serde(rename = "dhcpConfigurationSet")]
    pub(crate) configuration: Items<DhcpEntry>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DhcpEntry {
    pub(crate) key: String,
    #[serde(rename = "valueSet")]
    pub(crate) values: Items<DhcpValue>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DhcpValue {
    pub(crate) value: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_read_with_what_aws_leaves_out() {
        let text = r#"<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId>
            <reservationSet><item><reservationId>r-1</reservationId><groupSet/><instancesSet><item>
              <instanceId>i-1</instanceId><instanceState><code>16</code><name>running</name></instanceState>
              <privateDnsName>ip-10-0-0-1.ec2.internal</privateDnsName><dnsName/><reason/>
              <placement><availabilityZone>us-east-1a</availabilityZone><groupName/><tenancy>default</tenancy></placement>
              <tagSet><item><key>Name</key><value>m-1</value></item><item><key>empty</key><value/></item></tagSet>
              <networkInterfaceSet><item><status>in-use</status><ipv6AddressesSet/>
                <privateIpAddressesSet><item><privateIpAddress>10.0.0.1</privateIpAddress></item></privateIpAddressesSet>
              </item></networkInterfaceSet>
            </item></instancesSet></item></reservationSet></DescribeInstancesResponse>"#;
        let answer: DescribeInstances = quick_xml::de::from_str(text).expect("well formed");
        let instance = &answer.reservations.item[0].instances.item[0];
        assert_eq!(instance.instance_state.name, "running");
        assert_eq!((instance.tag("Name"), instance.tag("empty"), instance.tag("none")), (Some("m-1"), Some(""), None));
        assert_eq!(instance.network_interfaces.item[0].private_ip_addresses.item[0].private_ip_address, "10.0.0.1");
        assert_eq!(instance.instance_lifecycle, "");
        assert_eq!(answer.next_token, None);
    }

    #[test]
    fn no_instances_are_an_empty_list() {
        let text = "<DescribeInstancesResponse><requestId>r</requestId><reservationSet/></DescribeInstancesResponse>";
        let answer: DescribeInstances = quick_xml::de::from_str(text).expect("well formed");
        assert!(answer.reservations.item.is_empty());
    }
}
