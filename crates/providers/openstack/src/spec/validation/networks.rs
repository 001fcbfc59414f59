//! Rules about networks, subnets and ports.

use std::collections::HashSet;
use std::net::IpAddr;

use machine::provider::Verdict;
use machine::spec::Path;

use super::super::port_suffixes;
use super::super::types::{Filter, Network, OpenStackSpec, Port, Subnet, SubnetFilter};
use super::{check_tags, unused};

/// Neutron takes 255; the rest says whose a port is.
pub(crate) const LONGEST_DESCRIPTION: usize = 100;

pub(super) fn check(spec: &OpenStackSpec, verdict: &mut Verdict) {
    for (index, network) in spec.networks.iter().enumerate() {
        check_network(network, &Path::spec().child("networks").index(index), verdict);
    }
    for (index, port) in spec.ports.iter().enumerate() {
        check_port(port, &Path::spec().child("ports").index(index), verdict);
    }
    let mut names = HashSet::new();
    for suffix in port_suffixes(spec) {
        if !names.insert(suffix.clone()) {
            let detail = "two ports would have this name; numbers are those of ports without a suffix";
            verdict.invalid(&Path::spec().child("ports"), suffix, detail);
        }
    }
}

fn check_network(network: &Network, path: &Path, verdict: &mut Verdict) {
    if !network.is_named() && network.subnets.is_empty() {
        verdict.required(path, "name a network by uuid or filter, or name subnets");
    }
    if !network.uuid.is_empty() && network.filter.is_set() {
        verdict.warn(&path.child("filter"), "is not used, because uuid is set");
    }
    check_filter(&network.filter, &path.child("filter"), verdict);
    check_tags(&network.port_tags, &path.child("portTags"), verdict);
    unused(path, verdict, &[("fixedIp", network.fixed_ip.is_empty(), ": write ports with fixedIPs")]);
    for (index, subnet) in network.subnets.iter().enumerate() {
        check_subnet(subnet, &path.child("subnets").index(index), verdict);
    }
}

fn check_subnet(subnet: &Subnet, path: &Path, verdict: &mut Verdict) {
    if subnet.uuid.is_empty() && subnet.filter.query().is_empty() {
        verdict.required(path, "name a subnet by uuid or filter");
    }
    check_tags(&subnet.port_tags, &path.child("portTags"), verdict);
    unused(path, verdict, &[("portSecurity", subnet.port_security.is_none(), ": write it on the network")]);
    let SubnetFilter { network_id, subnetpool_id, enable_dhcp, limit, marker, sort_key, sort_dir, .. } = &subnet.filter;
    let fields = [
        ("networkId", network_id.is_empty(), ": write uuid on the network"),
        ("subnetpoolId", subnetpool_id.is_empty(), ""),
        ("enableDhcp", enable_dhcp.is_none(), ""),
        ("limit", *limit == 0, ""),
        ("marker", marker.is_empty(), ""),
        ("sortKey", sort_key.is_empty(), ""),
        ("sortDir", sort_dir.is_empty(), ""),
    ];
    unused(&path.child("filter"), verdict, &fields);
}

pub(super) fn check_filter(filter: &Filter, path: &Path, verdict: &mut Verdict) {
    let Filter { status, admin_state_up, shared, marker, limit, sort_key, sort_dir, .. } = filter;
    let fields = [
        ("status", status.is_empty(), ""),
        ("adminStateUp", admin_state_up.is_none(), ""),
        ("shared", shared.is_none(), ""),
        ("marker", marker.is_empty(), ""),
        ("limit", *limit == 0, ""),
        ("sortKey", sort_key.is_empty(), ""),
        ("sortDir", sort_dir.is_empty(), ""),
    ];
    unused(path, verdict, &fields);
}

fn check_port(port: &Port, path: &Path, verdict: &mut Verdict) {
    if port.network_id.is_empty() {
        verdict.required(&path.child("networkID"), "write the id of the port's network");
    }
    check_tags(&port.tags, &path.child("tags"), verdict);
    check_addresses(port, path, verdict);
    if port.port_security == Some(false) {
        let detail = "needs portSecurity, which is false";
        if port.security_groups.as_ref().is_some_and(|groups| !groups.is_empty()) {
            verdict.forbidden(&path.child("securityGroups"), detail);
        }
        if !port.allowed_address_pairs.is_empty() {
            verdict.forbidden(&path.child("allowedAddressPairs"), detail);
        }
    }
    if port.description.len() > LONGEST_DESCRIPTION {
        let detail = format!("is cut to {LONGEST_DESCRIPTION} letters: the rest says whose the port is");
        verdict.warn(&path.child("description"), detail);
    }
    if !port.host_id.is_empty() {
        verdict.forbidden(&path.child("hostID"), "the cloud chooses the host of a port; use availabilityZone");
    }
    let why = ": ports are made in the project of the credentials";
    unused(
        path,
        verdict,
        &[("tenantID", port.tenant_id.is_empty(), why), ("projectID", port.project_id.is_empty(), why)],
    );
}

fn check_addresses(port: &Port, path: &Path, verdict: &mut Verdict) {
    let mac = &port.mac_address;
    let is_pair = |pair: &str| pair.len() == 2 && pair.chars().all(|letter| letter.is_ascii_hexdigit());
    let is_mac = mac.split(':').count() == 6 && mac.split(':').all(is_pair);
    if !mac.is_empty() && !is_mac {
        verdict.invalid(&path.child("macAddress"), mac, "must look like fa:16:3e:00:00:01");
    }
    for (index, fixed) in port.fixed_ips.iter().enumerate() {
        let path = path.child("fixedIPs").index(index);
        if fixed.subnet_id.is_empty() && fixed.ip_address.is_empty() {
            verdict.required(&path.child("subnetID"), "write the id of a subnet of the port's network");
        }
        if !fixed.ip_address.is_empty() && fixed.ip_address.parse::<IpAddr>().is_err() {
            verdict.invalid(&path.child("ipAddress"), &fixed.ip_address, "must be an address, such as 10.0.0.7");
        }
    }
    for (index, pair) in port.allowed_address_pairs.iter().enumerate() {
        if pair.ip_address.is_empty() {
            let path = path.child("allowedAddressPairs").index(index).child("ipAddress");
            verdict.required(&path, "write an address or a range, such as 10.0.0.0/24");
        }
    }
}
