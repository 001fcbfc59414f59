//! Networks with DHCP: which addresses are taken, and which one a machine gets. Pure.
//!
//! Nothing is counted in memory. Addresses are chosen from what the network says at that moment, so a restart does not
//! begin again at the first one.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::str::FromStr;

use crate::xml::Element;

/// Upstream leaves the numbers below to the network itself and to machines that people add.
const FIRST: u32 = 51;

/// An IPv4 range in CIDR notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    network: u32,
    /// Number of addresses in it.
    size: u32,
}

impl FromStr for Range {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fault = "must be an IPv4 range such as 192.168.126.0/24";
        let (address, prefix) = text.split_once('/').ok_or(fault)?;
        let address: Ipv4Addr = address.parse().map_err(|_| fault)?;
        let prefix: u32 = prefix.parse().map_err(|_| fault)?;
        if !(1..=32).contains(&prefix) {
            return Err(fault);
        }
        if prefix > 26 {
            return Err("is too small: machines get addresses from the 51st on");
        }
        let size = 1 << (32 - prefix);
        Ok(Self { network: u32::from(address) & !(size - 1), size })
    }
}

impl Range {
    fn addresses(self) -> impl Iterator<Item = Ipv4Addr> {
        // The last one is the broadcast address.
        (FIRST..self.size - 1).map(move |number| Ipv4Addr::from(self.network + number))
    }
}

/// A network as libvirt describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) name: String,
    own: Vec<Ipv4Addr>,
    ranges: Vec<(Ipv4Addr, Ipv4Addr)>,
    reservations: Vec<Reservation>,
}

/// An address that the network keeps for a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reservation {
    pub(crate) mac: String,
    pub(crate) address: Ipv4Addr,
}

/// An address that a machine has at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lease {
    mac: String,
    address: Ipv4Addr,
}

impl Network {
    pub(crate) fn read(network: &Element) -> Self {
        let mut read =
            Self { name: network.at(&["name"]).map(Element::text).unwrap_or_default().to_owned(), ..Self::default() };
        for ip in network.all("ip") {
            read.own.extend(address(ip, "address"));
            for dhcp in ip.all("dhcp") {
                read.ranges
                    .extend(dhcp.all("range").filter_map(|it| Some((address(it, "start")?, address(it, "end")?))));
                read.reservations.extend(dhcp.all("host").filter_map(|host| {
                    let mac = host.attribute("mac").unwrap_or_default().to_lowercase();
                    Some(Reservation { mac, address: address(host, "ip")? })
                }));
            }
        }
        read
    }

    pub(crate) fn has_dhcp(&self) -> bool {
        !self.ranges.is_empty() || !self.reservations.is_empty()
    }

    pub(crate) fn reservation(&self, mac: &str) -> Option<&Reservation> {
        self.reservations.iter().find(|reservation| reservation.mac == mac)
    }

    /// The address that is reserved for a machine already, or the first one of the range that nobody has.
    pub(crate) fn choose(&self, range: Range, leases: &[Lease], mac: &str) -> Option<Ipv4Addr> {
        if let Some(reservation) = self.reservation(mac) {
            return Some(reservation.address);
        }
        let taken = self.taken(leases, mac);
        range.addresses().find(|address| !taken.contains(address))
    }

    /// How many addresses DHCP gives out, if all of them are taken by others.
    pub(crate) fn exhausted(&self, leases: &[Lease], mac: &str) -> Option<u64> {
        if self.ranges.is_empty() || self.reservation(mac).is_some() {
            return None;
        }
        let in_ranges = |address: &Ipv4Addr| self.ranges.iter().any(|(start, end)| start <= address && address <= end);
        let size = |(start, end): &(Ipv4Addr, Ipv4Addr)| {
            (u64::from(u32::from(*end)) + 1).saturating_sub(u32::from(*start).into())
        };
        let all: u64 = self.ranges.iter().map(size).sum();
        let taken = self.taken(leases, mac).into_iter().filter(in_ranges).count();
        (u64::try_from(taken).unwrap_or(u64::MAX) >= all).then_some(all)
    }

    fn taken(&self, leases: &[Lease], mac: &str) -> BTreeSet<Ipv4Addr> {
        let leased = leases.iter().filter(|lease| lease.mac != mac).map(|lease| lease.address);
        let reserved = self.reservations.iter().filter(|it| it.mac != mac).map(|it| it.address);
        self.own.iter().copied().chain(leased).chain(reserved).collect()
    }
}

/// The entry of a network that keeps an address for a machine.
pub(crate) fn entry(mac: &str, address: Ipv4Addr, name: &str) -> String {
    Element::new("host").with("mac", mac).with("name", name).with("ip", address).render().trim().to_owned()
}

/// What `virsh net-dhcp-leases` lists: expiry date and time, MAC, protocol, address, hostname, client id.
pub(crate) fn leases(listing: &str) -> Vec<Lease> {
    let lease = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mac = words.iter().find(|word| word.len() == 17 && word.matches(':').count() == 5)?;
        let address = words.iter().find_map(|word| word.split_once('/')?.0.parse().ok())?;
        Some(Lease { mac: mac.to_lowercase(), address })
    };
    listing.lines().filter_map(lease).collect()
}

fn address(element: &Element, attribute: &str) -> Option<Ipv4Addr> {
    element.attribute(attribute)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: &str = "<network><name>n</name><ip address='10.0.0.1' netmask='255.255.255.0'><dhcp>
        <range start='10.0.0.51' end='10.0.0.53'/><host mac='52:54:00:00:00:01' name='a' ip='10.0.0.51'/></dhcp></ip>
        <ip family='ipv6' address='fd00::1' prefix='64'/></network>";

    const LEASES: &str = " 2026-01-01 10:00:00   52:54:00:00:00:02   ipv4   10.0.0.52/24   b   01:52:54:00:00:00:02\n\
        2026-01-01 10:00:00   52:54:00:00:00:03   ipv6   fd00::3/64   c   -\n\nnonsense";

    fn network() -> Network {
        Network::read(&Element::parse(NETWORK).unwrap())
    }

    fn range(text: &str) -> Range {
        text.parse().unwrap()
    }

    #[test]
    fn the_first_free_address_from_the_51st_on_is_chosen() {
        let leases = leases(LEASES);
        assert_eq!(leases.len(), 1);
        let choose = |mac| network().choose(range("10.0.0.0/24"), &leases, mac).unwrap().to_string();
        assert_eq!(choose("52:54:00:00:00:09"), "10.0.0.53");
        assert_eq!(choose("52:54:00:00:00:02"), "10.0.0.52", "its own lease is free for itself");
        assert_eq!(choose("52:54:00:00:00:01"), "10.0.0.51", "its own reservation stays");
    }

    #[test]
    fn a_range_without_a_free_address_gives_none() {
        let small = range("10.0.0.0/26");
        let mut full = network();
        full.reservations =
            small.addresses().map(|address| Reservation { mac: address.to_string(), address }).collect();
        assert_eq!(full.reservations.len(), 12);
        assert_eq!(full.choose(small, &[], "52:54:00:00:00:09"), None);
    }

    #[test]
    fn dhcp_has_run_out_when_every_address_is_leased_or_reserved() {
        let mut all = leases(LEASES);
        assert_eq!(network().exhausted(&all, "52:54:00:00:00:09"), None);
        all.push(Lease { mac: "52:54:00:00:00:04".to_owned(), address: Ipv4Addr::new(10, 0, 0, 53) });
        assert_eq!(network().exhausted(&all, "52:54:00:00:00:09"), Some(3));
        assert_eq!(network().exhausted(&all, "52:54:00:00:00:04"), None, "it has one");
        assert_eq!(Network::default().exhausted(&all, ""), None, "somebody else gives addresses there");
    }

    #[test]
    fn a_range_is_written_in_cidr_notation() {
        for bad in ["", "10.0.0.0", "10.0.0.0/0", "10.0.0.0/33", "10.0.0.0/27", "fd00::/64", "x/24"] {
            assert!(bad.parse::<Range>().is_err(), "{bad}");
        }
        assert_eq!(range("10.0.0.7/24"), range("10.0.0.0/24"));
        assert_eq!(range("0.0.0.0/1").addresses().next(), Some(Ipv4Addr::new(0, 0, 0, 51)));
    }
}
