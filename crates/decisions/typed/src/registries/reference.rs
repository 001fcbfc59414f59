//! Image references: `host[:port]/path[:tag][@digest]`.

use std::net::Ipv6Addr;

/// A reference whose name has a registry in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference<'a> {
    /// Registry and path, without tag and digest.
    pub(super) name: &'a str,
    pub(super) has_digest: bool,
}

/// The longest name that registries accept.
const LONGEST: usize = 255;

/// Reads a reference that names its registry and needs no completion: `ubuntu` and `docker.io/ubuntu` do.
pub(super) fn parse(text: &str) -> Option<Reference<'_>> {
    let reference = parse_any(text)?;
    let (domain, path) = reference.name.split_once('/')?;
    let is_complete = domain != "index.docker.io" && (domain != "docker.io" || path.contains('/'));
    (is_registry(domain) && is_complete).then_some(reference)
}

/// Reads a reference that may leave its registry out.
pub(super) fn parse_any(text: &str) -> Option<Reference<'_>> {
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (text, None),
    };
    // The last colon separates a tag unless it belongs to a port, after which a path follows.
    let (name, tag) = match rest.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') && name.contains('/') || !rest.contains('/') => (name, Some(tag)),
        _ => (rest, None),
    };
    let well_formed = is_name(name) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest);
    well_formed.then_some(Reference { name, has_digest: digest.is_some() })
}

fn is_name(name: &str) -> bool {
    if name.is_empty() || name.len() > LONGEST {
        return false;
    }
    match name.split_once('/') {
        Some((first, path)) => {
            let starts_well = if is_registry(first) { is_domain(first) } else { is_component(first) };
            starts_well && path.split('/').all(is_component)
        }
        None => is_component(name),
    }
}

/// Whether the first part of a name is taken for a registry and not for a namespace of the default one.
fn is_registry(part: &str) -> bool {
    part.contains(['.', ':']) || part == "localhost"
}

/// A host with an optional port. An IPv6 address stands in brackets, as in `[fd00::1]:5000`.
pub(super) fn is_domain(text: &str) -> bool {
    if let Some((address, port)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let is_port = |port: &str| port.strip_prefix(':').is_some_and(is_number);
        return address.parse::<Ipv6Addr>().is_ok() && (port.is_empty() || is_port(port));
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let is_label = |label: &str| {
        let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = label.as_bytes();
        ends(bytes.first())
            && ends(bytes.last())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    };
    host.split('.').all(is_label) && port.is_none_or(is_number)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A part of a path: lower-case letters and digits, separated by one dot, one or two underscores, or dashes.
pub(super) fn is_component(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let separated = |separator: &str| {
        matches!(separator, "." | "_" | "__") || !separator.is_empty() && separator.bytes().all(|byte| byte == b'-')
    };
    let mut rest = text;
    loop {
        let word = rest.len() - rest.trim_start_matches(plain).len();
        if word == 0 {
            return false;
        }
        rest = &rest[word..];
        if rest.is_empty() {
            return true;
        }
        let end = rest.find(plain).unwrap_or(rest.len());
        if !separated(&rest[..end]) {
            return false;
        }
        rest = &rest[end..];
    }
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let bytes = tag.as_bytes();
    (1..=128).contains(&bytes.len())
        && word(&bytes[0])
        && bytes.iter().all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let length = match digest.split_once(':') {
        Some(("sha256", hex)) => (hex, 64),
        Some(("sha384", hex)) => (hex, 96),
        Some(("sha512", hex)) => (hex, 128),
        Some(_) | None => return false,
    };
    let (hex, length) = length;
    hex.len() == length && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:abababababababababababababababababababababababababababababababab";

    #[test]
    fn a_reference_has_a_registry_a_path_and_perhaps_tag_and_digest() {
        for (text, name, has_digest) in [
            ("quay.io/a/b", "quay.io/a/b", false),
            ("quay.io/a/b:1.2", "quay.io/a/b", false),
            ("localhost:5000/a", "localhost:5000/a", false),
            ("localhost:5000/a:x", "localhost:5000/a", false),
            ("docker.io/library/a", "docker.io/library/a", false),
        ] {
            assert_eq!(parse(text), Some(Reference { name, has_digest }), "{text}");
        }
        for text in ["[fd00::1]:5000/a:x", "[fd00::1]/a", "[2001:db8::5]:443/a/b"] {
            assert!(parse(text).is_some_and(|found| is_name(found.name)), "{text}");
        }
        let digested = format!("quay.io/a:b@{DIGEST}");
        assert_eq!(parse(&digested), Some(Reference { name: "quay.io/a", has_digest: true }));
    }

    #[test]
    fn what_a_registry_would_have_to_guess_is_refused() {
        for text in
            ["", "quay.io", "ubuntu", "ns/ubuntu", "docker.io/ubuntu", "index.docker.io/a/b", "not a ref", "quay.io/UP"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse("quay.io/a@sha256:short"), None);
        assert_eq!(parse("UPPER/x"), None);
        for text in ["[fd00::1/a", "[fd00::g]/a", "fd00::1/a", "[]/a", "[fd00::1]x/a", "[fd00::1]:/a", "[10.0.0.1]/a"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert!(parse_any("ubuntu:24.04").is_some());
    }
}
