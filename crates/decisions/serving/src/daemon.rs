//! Adds the daemon to the config of a machine whose image lacks it: Ignition downloads the binary from the config
//! server and verifies its hash, and a unit of ours completes the first boot with it.
//!
//! Neither is part of the rendered config, so the running daemon neither compares nor removes them.

use ignition::{Config, File, Resource, Unit, Verification};

/// The path at which our units expect the binary.
pub const PATH: &str = "/usr/local/bin/machinistd";

/// The unit that completes the first boot after Ignition.
pub const UNIT: &str = "machinistd-firstboot.service";

const UNIT_TEXT: &str = include_str!("../../../../manifests/node/machinistd-firstboot.service");

/// Where the binary is downloaded from, and the hash it must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    pub source: String,
    /// The hash in Ignition's format: function, dash, hexadecimal digits.
    pub verification: String,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not how machines can reach this server; write a name or address, and a port after a colon if needed")]
pub struct Error(String);

/// Returns the URL from which a machine downloads a binary.
pub fn source(authority: &str, sha256: &str) -> String {
    format!("https://{authority}/daemon/{sha256}")
}

/// Returns `host:port`, with the served port added if `host` has none.
pub fn authority(host: &str, port: u16) -> Result<String, Error> {
    let wrong = || Error(host.to_owned());
    let is_name = |name: &str| {
        !name.is_empty() && name.len() <= 253 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b))
    };
    let is_address = |text: &str| text.parse::<std::net::Ipv6Addr>().is_ok();
    // An IPv6 address contains colons, so it needs brackets before a port.
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (name, given) = match bracketed {
        Some((address, rest)) if is_address(address) => (
            format!("[{address}]"),
            if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or_else(wrong)?) },
        ),
        Some(_) => return Err(wrong()),
        None if is_address(host) => (format!("[{host}]"), None),
        None => match host.split_once(':') {
            Some((name, given)) if is_name(name) => (name.to_owned(), Some(given)),
            None if is_name(host) => (host.to_owned(), None),
            _ => return Err(wrong()),
        },
    };
    let port = given.map_or(Ok(port), |given| given.parse::<u16>().map_err(|_| wrong()))?;
    Ok(format!("{name}:{port}"))
}

/// Adds binary and unit to a config, unless the config already contains the binary.
pub(crate) fn add(config: &mut Config, fetched: &Fetched) {
    let files = config.storage.get_or_insert_default().files.get_or_insert_default();
    if files.iter().any(|file| file.path == PATH) {
        return;
    }
    let mut file = File::new(PATH.to_owned());
    file.mode = Some(0o755);
    // Replace an older binary that the image may contain.
    file.overwrite = Some(true);
    file.contents = Some(Resource {
        source: Some(fetched.source.clone()),
        verification: Some(Verification { hash: Some(fetched.verification.clone()) }),
        ..Resource::default()
    });
    files.push(file);
    let units = config.systemd.get_or_insert_default().units.get_or_insert_default();
    if !units.iter().any(|unit| unit.name == UNIT) {
        let mut unit = Unit::new(UNIT.to_owned());
        unit.enabled = Some(true);
        unit.contents = Some(UNIT_TEXT.to_owned());
        units.push(unit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_gets_the_port_that_is_served_unless_it_has_its_own() {
        let right = |host: &str| authority(host, 22623).expect("a host");
        assert_eq!(right("api-int.example.com"), "api-int.example.com:22623");
        assert_eq!(right("10.0.0.1:443"), "10.0.0.1:443");
        assert_eq!(right("fd00::1"), "[fd00::1]:22623");
        assert_eq!(right("[fd00::1]"), "[fd00::1]:22623");
        assert_eq!(right("[fd00::1]:443"), "[fd00::1]:443");
    }

    #[test]
    fn an_invalid_host_is_refused() {
        for host in ["", ":443", "a:b", "a:99999", "a/b", "user@a", "https://a", "[a]:1", "[::1]x", "a b", "a:1:2"] {
            assert_eq!(authority(host, 22623), Err(Error(host.to_owned())));
        }
    }
}
