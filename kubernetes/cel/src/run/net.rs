//! Addresses, networks and URLs, read as strictly as the real server reads them.

use std::{collections::BTreeMap, fmt, net::IpAddr};

use crate::go::quote as go_quote;

/// Reads an address.
///
/// # Errors
/// The text is none, or one that is not wanted; the error is the real server's.
pub(super) fn address(text: &str) -> Result<IpAddr, String> {
    let failed =
        |why: String| format!("IP Address {} parse error during conversion from string: {why}", go_quote(text));
    let parsed = parse_address(text).map_err(failed)?;
    if text.contains('%') {
        return Err(format!("IP address {} with zone value is not allowed", go_quote(text)));
    }
    unmapped(parsed, text)
}

fn unmapped(parsed: IpAddr, text: &str) -> Result<IpAddr, String> {
    match parsed {
        IpAddr::V6(own) if own.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {} is not allowed", go_quote(text)))
        }
        other => Ok(other),
    }
}

fn parse_address(text: &str) -> Result<IpAddr, String> {
    let (plain, zone) = text.split_once('%').map_or((text, None), |(plain, zone)| (plain, Some(zone)));
    let why = match plain.find(['.', ':']).map(|at| plain.as_bytes()[at]) {
        None if text.contains('%') => "missing IPv6 address".to_owned(),
        None => "unable to parse IP".to_owned(),
        Some(b'.') => match (plain.parse::<std::net::Ipv4Addr>(), zone) {
            (Ok(parsed), None) => return Ok(parsed.into()),
            _ => four(text),
        },
        _ => match (plain.parse::<std::net::Ipv6Addr>(), zone) {
            (Ok(_), Some("")) => "zone must be a non-empty string".to_owned(),
            (Ok(parsed), _) => return Ok(parsed.into()),
            _ => six(plain),
        },
    };
    Err(format!("ParseAddr({}): {why}", go_quote(text)))
}

/// What is wrong with an address of four numbers.
fn four(text: &str) -> String {
    let (mut value, mut digits, mut position) = (0_u32, 0, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return "IPv4 field has octet with leading zero".to_owned();
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return "IPv4 field has value >255".to_owned();
                }
            }
            b'.' => {
                if at == 0 || at == text.len() - 1 || text.as_bytes()[at - 1] == b'.' {
                    return format!("IPv4 field must have at least one digit (at {})", go_quote(&text[at..]));
                }
                if position == 3 {
                    return "IPv4 address too long".to_owned();
                }
                position += 1;
                (value, digits) = (0, 0);
            }
            _ => return format!("unexpected character (at {})", go_quote(&text[at..])),
        }
    }
    "IPv4 address too short".to_owned()
}

/// What is wrong with an address of eight groups.
fn six(text: &str) -> String {
    let mut rest = text;
    let mut groups = 0;
    let mut gap = false;
    if let Some(after) = rest.strip_prefix("::") {
        gap = true;
        rest = after;
    }
    while groups < 8 && !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_hexdigit()).len();
        if digits > 4 {
            return format!("each group must have 4 or less digits (at {})", go_quote(rest));
        }
        if digits == 0 {
            return format!("each colon-separated field must have at least one digit (at {})", go_quote(rest));
        }
        groups += 1;
        rest = &rest[digits..];
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(':') else {
            return format!("unexpected character, want colon (at {})", go_quote(rest));
        };
        if after.is_empty() {
            return format!("colon must be followed by more characters (at {})", go_quote(rest));
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if gap {
                return format!("multiple :: in address (at {})", go_quote(rest));
            }
            gap = true;
            rest = after;
        }
    }
    if !rest.is_empty() {
        return format!("trailing garbage after address (at {})", go_quote(rest));
    }
    "address string too short".to_owned()
}

pub(super) fn is_link_local_multicast(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(own) => own.octets()[..3] == [224, 0, 0],
        IpAddr::V6(own) => own.segments()[0] & 0xff0f == 0xff02,
    }
}

pub(super) fn is_link_local_unicast(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(own) => own.is_link_local(),
        IpAddr::V6(own) => own.is_unicast_link_local(),
    }
}

pub(super) fn is_global_unicast(address: &IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(own) if own.is_broadcast());
    !broadcast
        && !address.is_unspecified()
        && !address.is_loopback()
        && !address.is_multicast()
        && !is_link_local_unicast(address)
}

/// A network: an address, and how many of its bits count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cidr {
    pub(super) address: IpAddr,
    pub(super) length: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl Cidr {
    pub(super) fn parse(text: &str) -> Result<Cidr, String> {
        let failed = |why: &str| {
            Err(format!(
                "network address parse error during conversion from string: netip.ParsePrefix({}): {why}",
                go_quote(text)
            ))
        };
        let Some((address, length)) = text.rsplit_once('/') else { return failed("no '/'") };
        let address = match parse_address(address) {
            Ok(address) => address,
            Err(why) => return failed(&why),
        };
        if text.contains('%') {
            return failed("IPv6 zones cannot be present in a prefix");
        }
        let plain = length.bytes().all(|byte| byte.is_ascii_digit()) && (length.len() == 1 || !length.starts_with('0'));
        let most: u32 = if address.is_ipv4() { 32 } else { 128 };
        let Some(bits) = length.parse::<u32>().ok().filter(|_| plain) else {
            return failed(&format!("bad bits after slash: {}", go_quote(length)));
        };
        if bits > most {
            return failed("prefix length out of range");
        }
        let address = unmapped(address, text)?;
        Ok(Cidr { address, length: u8::try_from(bits).unwrap_or(u8::MAX) })
    }

    /// The bits of an address, from the left.
    fn bits(address: IpAddr) -> u128 {
        match address {
            IpAddr::V4(own) => u128::from(own.to_bits()) << 96,
            IpAddr::V6(own) => own.to_bits(),
        }
    }

    fn mask(length: u8) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
    }

    pub(super) fn contains(&self, other: IpAddr) -> bool {
        let mask = Cidr::mask(self.length);
        self.address.is_ipv4() == other.is_ipv4() && Cidr::bits(self.address) & mask == Cidr::bits(other) & mask
    }

    pub(super) fn covers(&self, other: &Cidr) -> bool {
        self.length <= other.length && self.contains(other.address)
    }

    pub(super) fn masked(&self) -> Cidr {
        let bits = Cidr::bits(self.address) & Cidr::mask(self.length);
        let address = match self.address {
            IpAddr::V4(_) => IpAddr::V4(u32::try_from(bits >> 96).unwrap_or(0).into()),
            IpAddr::V6(_) => IpAddr::V6(bits.into()),
        };
        Cidr { address, length: self.length }
    }
}

/// A URL in its parts.
#[derive(Clone, Debug, Default)]
pub struct Url {
    pub(super) scheme: String,
    user: Option<String>,
    pub(super) host: String,
    /// As it was written.
    pub(super) path: String,
    opaque: String,
    raw_query: Option<String>,
    fragment: Option<String>,
}

impl Url {
    /// Reads what may stand in a request: nothing relative.
    pub(super) fn parse_request(text: &str) -> Result<Url, String> {
        read(text, true).map_err(|why| format!("parse {}: {why}", go_quote(text)))
    }

    pub(super) fn parse(text: &str) -> Result<Url, String> {
        Url::parse_request(text)?;
        let (rest, fragment) = text.split_once('#').map_or((text, None), |(rest, own)| (rest, Some(own)));
        let mut url = read(rest, false).map_err(|why| format!("parse {}: {why}", go_quote(text)))?;
        url.fragment = fragment.map(str::to_owned);
        Ok(url)
    }

    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        if !self.scheme.is_empty() {
            out.push_str(&self.scheme);
            out.push(':');
        }
        out.push_str(&self.opaque);
        if self.user.is_some() || !self.host.is_empty() {
            out.push_str("//");
            if let Some(user) = &self.user {
                out.push_str(user);
                out.push('@');
            }
            out.push_str(&self.host);
        }
        out.push_str(&self.path);
        for (mark, part) in [('?', &self.raw_query), ('#', &self.fragment)] {
            if let Some(part) = part {
                out.push(mark);
                out.push_str(part);
            }
        }
        out
    }

    fn split_host(&self) -> (&str, &str) {
        match self.host.rfind(':') {
            Some(at) if !self.host[at..].contains(']') && self.host[at + 1..].bytes().all(|b| b.is_ascii_digit()) => {
                (&self.host[..at], &self.host[at + 1..])
            }
            _ => (&self.host, ""),
        }
    }

    pub(super) fn hostname(&self) -> &str {
        let (name, _) = self.split_host();
        name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name)
    }

    pub(super) fn port(&self) -> &str {
        self.split_host().1
    }

    pub(super) fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.raw_query.as_deref().unwrap_or_default().split('&') {
            if pair.is_empty() || pair.contains(';') {
                continue;
            }
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Ok(key), Ok(value)) = (unescaped(key, true), unescaped(value, true)) {
                found.entry(key).or_default().push(value);
            }
        }
        found
    }
}

fn read(text: &str, request: bool) -> Result<Url, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && request {
        return Err("empty url".to_owned());
    }
    let mut url = Url::default();
    if text == "*" {
        url.path = "*".to_owned();
        return Ok(url);
    }
    let (scheme, rest) = scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    let (mut rest, query) = rest.split_once('?').map_or((rest, None), |(rest, own)| (rest, Some(own)));
    url.raw_query = query.map(str::to_owned);
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            url.opaque = rest.to_owned();
            return Ok(url);
        }
        if request {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().is_some_and(|first| first.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    if (!url.scheme.is_empty() || (!request && !rest.starts_with("///")))
        && let Some(after) = rest.strip_prefix("//")
    {
        let end = after.find('/').unwrap_or(after.len());
        let (authority, path) = after.split_at(end);
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        if let Some(user) = user
            && !user.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte))
        {
            return Err("net/url: invalid userinfo".to_owned());
        }
        url.user = user.map(str::to_owned);
        check_host(host)?;
        url.host = unescaped_host(host)?;
        rest = path;
    }
    unescaped(rest, false)?;
    url.path = escaped_path(rest);
    Ok(url)
}

fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

fn check_host(host: &str) -> Result<(), String> {
    let port = match (host.starts_with('['), host.rfind(']')) {
        (true, None) => return Err("missing ']' in host".to_owned()),
        (true, Some(end)) => &host[end + 1..],
        (false, _) => host.rfind(':').map_or("", |at| &host[at..]),
    };
    let fits = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
    match fits {
        true => Ok(()),
        false => Err(format!("invalid port {} after host", go_quote(port))),
    }
}

fn unescaped_host(host: &str) -> Result<String, String> {
    if let Some(letter) =
        host.chars().find(|letter| matches!(letter, ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}'))
        && !matches!(letter, '"' | '<' | '>')
    {
        return Err(format!("invalid character {} in host name", go_quote(&letter.to_string())));
    }
    unescaped(host, false)
}

/// Takes escapes out of a text; in a query, a plus is a space.
fn unescaped(text: &str, query: bool) -> Result<String, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                let digits = text.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
                let Some(byte) = digits else {
                    let shown = text.get(at..(at + 3).min(text.len())).unwrap_or("%");
                    return Err(format!("invalid URL escape {}", go_quote(shown)));
                };
                out.push(byte);
                at += 3;
                continue;
            }
            b'+' if query => out.push(b' '),
            byte => out.push(byte),
        }
        at += 1;
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// The path as it was written, if it was written as it should be.
fn escaped_path(path: &str) -> String {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*[]%".contains(&byte);
    let mut out = String::new();
    for byte in path.bytes() {
        if valid(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
