//! Decides which Ignition version a client gets, from its `Accept` header.
//!
//! Ignition sends one entry per version it understands. The answer never depends on the user agent.

use semver::Version;

/// The media subtype Ignition asks for.
const SUBTYPE: &str = "vnd.coreos.ignition+json";

/// The newest version that is served. A client that accepts a newer 3.x can read this one as well.
const NEWEST: Version = Version::new(3, 5, 0);

/// The version for clients that name none: only old clients send no version.
const OLDEST: Version = Version::new(2, 2, 0);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unsupported Ignition version in Accept header: {header}; ask for {SUBTYPE} with version 2.2.0, or 3.1.0 to {NEWEST}"
)]
pub struct UnsupportedVersion {
    pub header: String,
}

/// Returns the version to serve for an `Accept` header. An empty header means that the client sent none.
pub fn negotiate(header: &str) -> Result<Version, UnsupportedVersion> {
    let mut entries: Vec<Entry> = header.split(',').filter_map(Entry::parse).collect();
    // The sort is stable: entries of equal quality keep the client's order.
    entries.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    let Some(asked) = entries.into_iter().find_map(|entry| entry.version) else { return Ok(OLDEST) };
    match (asked.major, asked.minor) {
        (2, 2..) => Ok(OLDEST),
        (3, minor) => Ok(Version::new(3, minor.min(NEWEST.minor), 0)),
        _ => Err(UnsupportedVersion { header: header.to_owned() }),
    }
}

struct Entry {
    quality: f64,
    /// Set only if the entry asks for Ignition and its version parses.
    version: Option<Version>,
}

impl Entry {
    fn parse(text: &str) -> Option<Entry> {
        let mut parts = text.split(';').map(str::trim);
        let (_, subtype) = parts.next()?.split_once('/')?;
        let mut entry = Entry { quality: 1.0, version: None };
        for (key, value) in parts.filter_map(|parameter| parameter.split_once('=')) {
            match key.trim() {
                "q" => entry.quality = value.trim().parse().unwrap_or(1.0),
                "version" if subtype == SUBTYPE => entry.version = Version::parse(value.trim()).ok(),
                _ => {}
            }
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(header: &str, expected: Option<&str>) {
        let served = negotiate(header).ok().map(|version| version.to_string());
        assert_eq!(served.as_deref(), expected, "for {header:?}");
    }

    #[test]
    fn a_client_that_names_no_version_gets_the_oldest() {
        for header in ["", "*/*", "garbage", "application/vnd.coreos.ignition+json", "text/html;q=0.8,*/*"] {
            check(header, Some("2.2.0"));
        }
    }

    #[test]
    fn the_client_gets_its_own_minor_and_at_most_the_newest() {
        check("application/vnd.coreos.ignition+json;version=3.2.7", Some("3.2.0"));
        check("application/vnd.coreos.ignition+json;version=3.9.0-experimental", Some("3.5.0"));
        check("application/vnd.coreos.ignition+json;version=2.4.0", Some("2.2.0"));
    }

    #[test]
    fn quality_decides_before_order() {
        let header = "application/vnd.coreos.ignition+json;version=3.1.0;q=0.5, \
                      application/vnd.coreos.ignition+json;version=3.4.0;q=0.9";
        check(header, Some("3.4.0"));
    }

    #[test]
    fn an_unsupported_version_is_refused_by_name() {
        check("application/vnd.coreos.ignition+json;version=2.1.0", None);
        check("application/vnd.coreos.ignition+json;version=4.0.0", None);
    }

    #[test]
    fn absurd_qualities_do_not_change_the_order() {
        check("application/vnd.coreos.ignition+json;version=3.1.0;q=NaN", Some("3.1.0"));
        check("application/vnd.coreos.ignition+json;version=3.1.0;q=1e999,x/y;q=-inf", Some("3.1.0"));
    }
}
