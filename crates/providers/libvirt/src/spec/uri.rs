//! Which connection URIs are accepted.
//!
//! A URI is written by whoever may write Machines, and `virsh` opens it as the machine controllers. Some URIs make the
//! client run programs, so those are refused: a Machine must not become a shell.

use url::Url;

/// Transports that reach a libvirt daemon. `ext` is missing because it runs any program.
const TRANSPORTS: [&str; 7] = ["", "unix", "tcp", "tls", "ssh", "libssh", "libssh2"];

/// Parameters that only say where the daemon and the keys are. Others make the client run a program (`command`, `netcat`,
/// `proxy`) or let it talk to a host that it does not know (`no_verify`, `known_hosts_verify`).
const PARAMETERS: [&str; 7] = ["socket", "keyfile", "pkipath", "name", "mode", "sshauth", "no_tty"];

/// What is wrong with a URI, if anything is.
pub(crate) fn fault(uri: &str) -> Option<String> {
    let Ok(url) = Url::parse(uri) else {
        return Some("must be a URI such as qemu+tcp://host/system".to_owned());
    };
    let transport = url.scheme().split_once('+').map_or("", |(_, transport)| transport);
    if !TRANSPORTS.contains(&transport) {
        return Some(format!("transport {transport:?} is not accepted; use tcp, tls, ssh or unix"));
    }
    if url.password().is_some() {
        return Some("must not contain a password: everybody who reads Machines would see it".to_owned());
    }
    let starts_with_dash = |text: &str| text.starts_with('-') || text.starts_with("%2D") || text.starts_with("%2d");
    if url.host_str().is_some_and(starts_with_dash) || starts_with_dash(url.username()) {
        return Some("host and user must not begin with a dash".to_owned());
    }
    // libvirt begins a new parameter at a semicolon too, where this parser sees one long value.
    if url.query().is_some_and(|query| query.contains(';')) {
        return Some("must separate parameters by &, and contain no semicolon".to_owned());
    }
    let unknown = url.query_pairs().find(|(key, _)| !PARAMETERS.contains(&key.as_ref()));
    unknown.map(|(key, _)| format!("parameter {key:?} is not accepted; use {}", PARAMETERS.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::fault;

    #[test]
    fn ordinary_uris_are_accepted() {
        for uri in [
            "qemu:///system",
            "qemu+tcp://192.168.122.1/system",
            "qemu+tls://host.example/system?pkipath=/certs",
            "qemu+ssh://root@host.example:22/system?keyfile=/keys/id",
            "qemu+unix:///system?socket=/run/libvirt/libvirt-sock",
            "test:///default",
        ] {
            assert_eq!(fault(uri), None, "{uri}");
        }
    }

    #[test]
    fn a_uri_that_runs_programs_or_gives_secrets_away_is_refused() {
        for uri in [
            "",
            "host",
            "qemu+ext:///system?command=/bin/sh",
            "qemu+ssh://host/system?command=/bin/sh",
            "qemu+ssh://host/system?Command=/bin/sh",
            "qemu+ssh://host/system?no_verify=1",
            "qemu+ssh://host/system?keyfile=/k;command=/bin/sh",
            "qemu+ssh://host/system?mode=direct;NO_VERIFY=1",
            "qemu+libssh2://host/system?known_hosts_verify=ignore",
            "qemu+ssh://-oProxyCommand=x/system",
            "qemu+ssh://-l@host/system",
            "qemu+tcp://user:secret@host/system",
        ] {
            assert!(fault(uri).is_some(), "{uri}");
        }
    }
}
