//! The parts of a URL that Ignition checks: whether the scheme is allowed, and whether Go's parser accepts the rest.

use crate::data_url;
use crate::version::Version;

/// Checks the `source` of a resource for one spec version; the error says what is wrong.
pub(crate) fn check(url: &str, version: Version) -> Result<(), String> {
    let scheme = scheme(url).map_err(str::to_owned)?;
    match scheme.as_str() {
        "http" | "https" | "tftp" => Ok(()),
        "gs" if version >= Version::V3_2 => Ok(()),
        "oem" if version.is_spec2() => Ok(()),
        "s3" => version_id(url),
        "arn" if version >= Version::V3_4 => arn(url),
        "data" => data_url::check(url).map_err(|error| error.to_string()),
        _ => Err("invalid url scheme".to_owned()),
    }
}

pub(crate) fn allowed(version: Version) -> &'static str {
    match version {
        Version::V2_0 | Version::V2_1 | Version::V2_2 => "data, http, https, s3, tftp, oem",
        Version::V3_0 | Version::V3_1 => "data, http, https, s3, tftp",
        Version::V3_2 | Version::V3_3 => "data, http, https, s3, gs, tftp",
        Version::V3_4 | Version::V3_5 => "data, http, https, s3, arn, gs, tftp",
    }
}

/// Returns the scheme in lower case; empty if there is none.
pub(crate) fn scheme(url: &str) -> Result<String, &'static str> {
    const BROKEN: &str = "unable to parse url";
    // Without an early exit the loop is vectorized; most of a config consists of such URLs.
    let has_control = url.bytes().fold(false, |found, byte| found | byte.is_ascii_control());
    if has_control || url.starts_with(':') {
        return Err(BROKEN);
    }
    let end = url.bytes().position(|b| !(b.is_ascii_alphanumeric() || b"+-.".contains(&b))).unwrap_or(url.len());
    let (name, rest) = url.split_at(end);
    let Some(rest) = rest.strip_prefix(':').filter(|_| name.starts_with(|c: char| c.is_ascii_alphabetic())) else {
        return Ok(String::new());
    };
    let hierarchical = rest.starts_with('/');
    if hierarchical && !(authority_is_valid(rest) && escapes_are_valid(path(rest))) {
        return Err(BROKEN);
    }
    Ok(name.to_ascii_lowercase())
}

fn authority_is_valid(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix("//") else {
        return true;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let port = match host.rsplit_once(']') {
        Some((_, after)) => after.strip_prefix(':').unwrap_or_default(),
        None => host.rsplit_once(':').map_or("", |(_, port)| port),
    };
    port.bytes().all(|byte| byte.is_ascii_digit())
        && !host.contains([' ', '<', '>', '"', '\\', '^', '`', '{', '|', '}'])
}

fn path(rest: &str) -> &str {
    rest.split(['?', '#']).next().unwrap_or_default()
}

fn escapes_are_valid(text: &str) -> bool {
    text.split('%').skip(1).all(|part| part.len() >= 2 && part.bytes().take(2).all(|b| b.is_ascii_hexdigit()))
}

/// An empty `versionId` looks pinned but would fetch the newest object.
fn version_id(url: &str) -> Result<(), String> {
    let query = url.split('#').next().unwrap_or_default().split_once('?').map_or("", |(_, query)| query);
    let first = query.split('&').find_map(|pair| match pair.split_once('=') {
        Some(("versionId", value)) => Some(value),
        None if pair == "versionId" => Some(""),
        _ => None,
    });
    match first {
        Some("") => Err("invalid S3 object VersionId".to_owned()),
        _ => Ok(()),
    }
}

fn arn(url: &str) -> Result<(), String> {
    let full = url.split(['?', '#']).next().unwrap_or_default();
    let sections: Vec<&str> = full.splitn(6, ':').collect();
    let [_, _, "s3", _, _, resource] = sections[..] else {
        return Err("invalid S3 ARN format".to_owned());
    };
    let slashes = full.matches('/').count();
    if slashes < if resource.starts_with("accesspoint/") { 2 } else { 1 } {
        return Err("invalid S3 ARN format".to_owned());
    }
    version_id(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_depend_on_the_version() {
        assert_eq!(check("gs://b/o", Version::V3_1), Err("invalid url scheme".to_owned()));
        assert_eq!(check("gs://b/o", Version::V3_2), Ok(()));
        assert_eq!(check("arn:aws:s3:::bucket/key", Version::V3_5), Ok(()));
        assert!(check("arn:aws:s3:::bucket/key", Version::V3_3).is_err());
        assert!(check("arn:aws:ec2:::bucket/key", Version::V3_5).is_err());
        assert!(check("arn:aws:s3:::bucket", Version::V3_5).is_err());
        assert!(check("arn:aws:s3:us-west-1:123:accesspoint/x", Version::V3_5).is_err());
        assert!(check("s3://bucket/key?versionId=", Version::V3_5).is_err());
        assert_eq!(check("s3://bucket/key?versionId=a", Version::V3_5), Ok(()));
        assert!(check("ftp://x/y", Version::V3_5).is_err());
        assert!(check("/etc/passwd", Version::V3_5).is_err());
        assert!(check("http://host:port/x", Version::V3_5).is_err());
        assert!(check("http://host/%zz", Version::V3_5).is_err());
        assert_eq!(check("http://[::1]:80/a%20b?c", Version::V3_5), Ok(()));
    }
}
