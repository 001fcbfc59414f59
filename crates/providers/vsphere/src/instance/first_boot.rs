//! What a machine reads when it boots for the first time, as `guestinfo` variables.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use machine::provider::{Error, ErrorKind, Request};

use super::create::option;
use crate::claims::Address;
use crate::spec::{NetworkDevice, VsphereSpec};
use crate::xml::Element;

/// The key of user data in its Secret.
const USER_DATA: &str = "userData";
/// A guest gets no more than this of one variable.
const LARGEST: usize = 64 << 10;

pub(super) fn options(
    spec: &VsphereSpec,
    request: &Request,
    addresses: &[Vec<Address>],
) -> Result<Vec<Element>, Error> {
    let found = request.secrets.user_data.as_ref().and_then(|secret| secret.bytes(USER_DATA));
    let user_data = found.ok_or_else(|| {
        let message = format!("the Secret of providerSpec.userDataSecret does not exist or has no key {USER_DATA}");
        Error::new(ErrorKind::NotFound, message)
    })?;
    let (encoding, text) = encoded(user_data)?;
    let mut options = vec![
        option("guestinfo.ignition.config.data", &text),
        option("guestinfo.ignition.config.data.encoding", encoding),
        option("guestinfo.hostname", &request.mark.machine),
        // Without it, hosts that are busy look idle from inside.
        option("stealclock.enable", "TRUE"),
    ];
    let arguments = network_arguments(spec, addresses)?;
    if !arguments.is_empty() {
        options.push(option("guestinfo.afterburn.initrd.network-kargs", &arguments));
    }
    Ok(options)
}

/// Compressed only where it would not fit otherwise, so that people can read it in vCenter.
fn encoded(user_data: &[u8]) -> Result<(&'static str, String), Error> {
    let plain = STANDARD.encode(user_data);
    if plain.len() <= LARGEST {
        return Ok(("base64", plain));
    }
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to memory cannot fail.
    let packed = packer.write_all(user_data).and_then(|()| packer.finish());
    let packed = packed.map(|packed| STANDARD.encode(packed)).unwrap_or(plain);
    if packed.len() <= LARGEST {
        return Ok(("gzip+base64", packed));
    }
    let message = format!(
        "the user data has {} bytes, {} as vSphere passes it on, and a guest gets no more than {LARGEST}; put what is large \
         into a MachineConfig and keep the pointer config",
        user_data.len(),
        packed.len()
    );
    Err(Error::new(ErrorKind::InvalidSpec, message))
}

/// Static addresses as arguments of the kernel, which afterburn adds at the first boot.
fn network_arguments(spec: &VsphereSpec, addresses: &[Vec<Address>]) -> Result<String, Error> {
    let mut arguments = Vec::new();
    for (index, (device, addresses)) in spec.network.devices.iter().zip(addresses).enumerate() {
        for address in addresses {
            arguments.push(address_argument(index, address)?);
        }
        if !addresses.is_empty() {
            arguments.extend(name_servers(index, device)?);
        }
    }
    Ok(arguments.join(" "))
}

fn name_servers(index: usize, device: &NetworkDevice) -> Result<Vec<String>, Error> {
    let one = |server: &String| match server.parse::<std::net::IpAddr>() {
        Ok(server) => Ok(format!("nameserver={server}")),
        Err(_) => Err(wrong(index, "nameservers", server, "is no address")),
    };
    device.nameservers.iter().map(one).collect()
}

fn address_argument(index: usize, address: &Address) -> Result<String, Error> {
    let Address { address: text, gateway } = address;
    let parsed = text
        .split_once('/')
        .and_then(|(address, prefix)| Some((address.parse::<std::net::IpAddr>().ok()?, prefix.parse::<u8>().ok()?)));
    let longest = |address: &std::net::IpAddr| if address.is_ipv4() { 32 } else { 128 };
    let Some((address, prefix)) = parsed.filter(|(address, prefix)| *prefix <= longest(address)) else {
        return Err(wrong(index, "ipAddrs", text, "is no address with its prefix length, such as 192.0.2.10/24"));
    };
    let gateway = match gateway.parse::<std::net::IpAddr>() {
        Ok(gateway) => written(&gateway),
        Err(_) if gateway.is_empty() => String::new(),
        Err(_) => return Err(wrong(index, "gateway", gateway, "is no address")),
    };
    let mask = match address {
        std::net::IpAddr::V4(_) => {
            let bits = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            std::net::Ipv4Addr::from(bits).to_string()
        }
        std::net::IpAddr::V6(_) => prefix.to_string(),
    };
    Ok(format!("ip={}::{gateway}:{mask}:::none", written(&address)))
}

fn written(address: &std::net::IpAddr) -> String {
    match address {
        std::net::IpAddr::V4(address) => address.to_string(),
        std::net::IpAddr::V6(address) => format!("[{address}]"),
    }
}

fn wrong(device: usize, field: &str, value: &str, why: &str) -> Error {
    let message = format!("providerSpec.network.devices[{device}].{field}: {value:?} {why}");
    Error::new(ErrorKind::InvalidSpec, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument(address: &str, gateway: &str) -> Result<String, String> {
        let address = Address { address: address.to_owned(), gateway: gateway.to_owned() };
        address_argument(0, &address).map_err(|error| error.message)
    }

    #[test]
    fn addresses_become_arguments_of_the_kernel() {
        assert_eq!(
            argument("192.0.2.10/24", "192.0.2.1").as_deref(),
            Ok("ip=192.0.2.10::192.0.2.1:255.255.255.0:::none")
        );
        assert_eq!(argument("192.0.2.10/32", "").as_deref(), Ok("ip=192.0.2.10:::255.255.255.255:::none"));
        assert_eq!(argument("192.0.2.10/0", "").as_deref(), Ok("ip=192.0.2.10:::0.0.0.0:::none"));
        assert_eq!(
            argument("2001:db8::5/64", "2001:db8::1").as_deref(),
            Ok("ip=[2001:db8::5]::[2001:db8::1]:64:::none")
        );
        for (address, gateway, field) in [
            ("192.0.2.10", "", "ipAddrs"),
            ("192.0.2.10/33", "", "ipAddrs"),
            ("x/24", "", "ipAddrs"),
            ("192.0.2.1/24", "y", "gateway"),
        ] {
            assert!(argument(address, gateway).unwrap_err().contains(field), "{address}");
        }
    }

    #[test]
    fn user_data_is_compressed_when_it_has_to_be_and_refused_when_that_is_not_enough() {
        assert_eq!(encoded(b"{}").unwrap(), ("base64", "e30=".to_owned()));
        let (encoding, text) = encoded(&vec![b'a'; 100_000]).unwrap();
        assert!(encoding == "gzip+base64" && text.len() < LARGEST);
        // No two blocks alike, so that nothing can be saved.
        let noise: Vec<u8> = (0..4000_u32).flat_map(|number| sha2::Sha256::digest(number.to_be_bytes())).collect();
        let error = encoded(&noise).unwrap_err();
        assert!(error.is_final() && error.message.contains("128000 bytes"), "{error}");
    }

    use sha2::Digest as _;
}
