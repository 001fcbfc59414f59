//! Many domains in one run: a script of questions, and the answers sorted out again.
//!
//! A run prints the answers one after another, not always on lines of their own, and the errors elsewhere. Each answer is
//! announced by a word that no domain can know in advance.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::fault::Fault;
use crate::xml::Element;

/// The longest single argument on Linux is 128 KiB; a domain needs about 400 bytes of it.
pub(super) const DOMAINS: usize = 200;

/// A domain with everything that is asked about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Described {
    pub(crate) uuid: Uuid,
    pub(crate) definition: Element,
    /// libvirt's word: `running`, `shut off`.
    pub(crate) state: String,
    pub(crate) starts_with_host: bool,
    /// Addresses that were given by DHCP.
    pub(crate) addresses: Vec<String>,
}

/// Errors that say something about one domain, not about the connection: it is gone, or it has no leases to show.
const HARMLESS: [&str; 8] = [
    "failed to get domain",
    "Domain not found",
    "Failed to query for interfaces addresses",
    "is not running",
    "not supported by the connection driver",
    "Network not found",
    "is not active",
    "no domain with matching",
];

pub(super) fn script(domains: &[Uuid], nonce: &str) -> String {
    let questions = domains.iter().map(|uuid| {
        format!(
            "echo {nonce}/{uuid}/info/; dominfo {uuid}; echo {nonce}/{uuid}/xml/; dumpxml {uuid}; \
             echo {nonce}/{uuid}/addresses/; domifaddr {uuid} --source lease; "
        )
    });
    questions.collect::<String>() + &format!("echo {nonce}/end/")
}

/// The domains that are still there. An answer that is missing without a reason is an error: not knowing is not nothing.
pub(super) fn read(domains: &[Uuid], nonce: &str, stdout: &str, stderr: &str) -> Result<Vec<Described>, Fault> {
    let complaints = stderr.lines().map(|line| line.strip_prefix("error: ").unwrap_or(line).trim());
    let serious = |line: &&str| !line.is_empty() && !HARMLESS.iter().any(|words| line.contains(words));
    if complaints.clone().any(|line| serious(&line)) {
        return Err(Fault::refused(stderr));
    }
    let answers = answers(nonce, stdout)?;
    let mut described = Vec::new();
    for uuid in domains {
        let id = uuid.to_string();
        let answer = |about| answers.get(&(id.as_str(), about)).copied().map(str::trim).unwrap_or_default();
        let is_gone = complaints.clone().any(|line| line.contains("failed to get domain") && line.contains(&id));
        let (info, xml) = (info(answer("info")), answer("xml"));
        match (info.get("State"), xml.is_empty()) {
            (Some(state), false) => described.push(Described {
                uuid: *uuid,
                definition: Element::parse(xml).map_err(|error| Fault::Unreadable(error.to_string()))?,
                state: (*state).to_owned(),
                starts_with_host: info.get("Autostart") == Some(&"enable"),
                addresses: addresses(answer("addresses")),
            }),
            _ if is_gone => {}
            _ => return Err(Fault::Unreadable(format!("nothing is said about domain {uuid}"))),
        }
    }
    Ok(described)
}

fn answers<'a>(nonce: &str, stdout: &'a str) -> Result<BTreeMap<(&'a str, &'a str), &'a str>, Fault> {
    let mut answers = BTreeMap::new();
    for announced in stdout.split(nonce).skip(1) {
        let announced = announced.strip_prefix('/').unwrap_or(announced);
        if announced.starts_with("end/") {
            return Ok(answers);
        }
        let mut parts = announced.splitn(3, '/');
        if let (Some(uuid), Some(about), Some(answer)) = (parts.next(), parts.next(), parts.next()) {
            answers.insert((uuid, about), answer);
        }
    }
    Err(Fault::Unreadable("it ends too early".to_owned()))
}

fn info(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once(':')).map(|(key, value)| (key.trim(), value.trim())).collect()
}

/// Lines of name, MAC, protocol and address with its prefix.
fn addresses(text: &str) -> Vec<String> {
    let address = |line: &str| Some(line.split_whitespace().last()?.split_once('/')?.0.to_owned());
    text.lines().filter_map(address).filter(|address| address.parse::<std::net::IpAddr>().is_ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &str = "8f1c";
    const ONE: Uuid = Uuid::from_u128(1);
    const TWO: Uuid = Uuid::from_u128(2);

    fn answer(uuid: Uuid, state: &str, address: &str) -> String {
        format!(
            "{NONCE}/{uuid}/info/Name:    m\nState:   {state}\nAutostart:  enable\n\n{NONCE}/{uuid}/xml/<domain>\n<name>m\n\
             end/</name></domain>\n\n{NONCE}/{uuid}/addresses/{address}\n"
        )
    }

    #[test]
    fn each_domain_gets_its_own_answers() {
        let lease = " vnet0      52:54:00:11:22:33    ipv4         192.168.122.23/24";
        let stdout = answer(ONE, "running", lease) + &answer(TWO, "shut off", "") + NONCE + "/end/";
        let stderr = "error: Failed to query for interfaces addresses\nerror: Requested operation is not valid: domain is not running\n";
        let read = read(&[ONE, TWO], NONCE, &stdout, stderr).unwrap();
        let seen: Vec<_> = read.iter().map(|it| (it.uuid, it.state.as_str(), it.addresses.join(" "))).collect();
        assert_eq!(seen, [(ONE, "running", "192.168.122.23".to_owned()), (TWO, "shut off", String::new())]);
        assert!(read[0].starts_with_host);
    }

    #[test]
    fn a_domain_that_went_away_meanwhile_is_left_out() {
        let stdout = answer(ONE, "running", "") + &format!("{NONCE}/{TWO}/info/{NONCE}/{TWO}/xml/{NONCE}/end/");
        let stderr = format!("error: failed to get domain '{TWO}'\n").repeat(3);
        assert_eq!(read(&[ONE, TWO], NONCE, &stdout, &stderr).unwrap().len(), 1);
    }

    #[test]
    fn not_knowing_is_an_error() {
        let whole = answer(ONE, "running", "") + NONCE + "/end/";
        assert!(read(&[ONE], NONCE, &whole, "").is_ok());
        assert!(read(&[ONE, TWO], NONCE, &whole, "").is_err(), "an answer is missing and nobody says why");
        assert!(read(&[ONE], NONCE, &answer(ONE, "running", ""), "").is_err(), "it was cut off");
        let lost = "error: Disconnected from qemu:///system due to end of file\n";
        assert!(read(&[ONE], NONCE, &whole, lost).is_err(), "the connection was lost");
    }

    #[test]
    fn a_script_for_a_full_batch_fits_into_one_argument() {
        let domains = vec![Uuid::max(); DOMAINS];
        assert!(script(&domains, &Uuid::max().simple().to_string()).len() < 128 * 1024);
    }
}
