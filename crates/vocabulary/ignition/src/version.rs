//! Spec versions: which ones are supported, and how their text is parsed.

use std::fmt;

use crate::report::{Error, Problem};

/// A spec version that can be parsed, served, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    V2_0,
    V2_1,
    V2_2,
    V3_0,
    V3_1,
    V3_2,
    V3_3,
    V3_4,
    V3_5,
}

impl Version {
    pub const ALL: [Version; 9] = [
        Version::V2_0,
        Version::V2_1,
        Version::V2_2,
        Version::V3_0,
        Version::V3_1,
        Version::V3_2,
        Version::V3_3,
        Version::V3_4,
        Version::V3_5,
    ];
    pub const NEWEST: Version = Version::V3_5;

    /// The versions that a client can be served. Upstream never lowers to 3.0, so neither do we.
    pub const SERVED: [Version; 6] =
        [Version::V2_2, Version::V3_1, Version::V3_2, Version::V3_3, Version::V3_4, Version::V3_5];

    pub fn as_str(self) -> &'static str {
        match self {
            Version::V2_0 => "2.0.0",
            Version::V2_1 => "2.1.0",
            Version::V2_2 => "2.2.0",
            Version::V3_0 => "3.0.0",
            Version::V3_1 => "3.1.0",
            Version::V3_2 => "3.2.0",
            Version::V3_3 => "3.3.0",
            Version::V3_4 => "3.4.0",
            Version::V3_5 => "3.5.0",
        }
    }

    pub(crate) fn is_spec2(self) -> bool {
        self <= Version::V2_2
    }

    /// Parses the text of `ignition.version`.
    pub fn parse(text: &str) -> Result<Version, Error> {
        let Some(numbers) = semver(text) else {
            let message = match text {
                "" => "invalid version: ignition.version is missing".to_owned(),
                _ => format!("invalid version {text:?}"),
            };
            return Err(refusal(message));
        };
        Version::ALL
            .into_iter()
            .find(|version| numbers.is_some() && semver(version.as_str()) == Some(numbers))
            .ok_or_else(|| refusal(format!("unknown version {text}")))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn refusal(message: String) -> Error {
    let allowed = Version::ALL.map(Version::as_str).join(", ");
    Error::one(Problem::new("ignition.version", message).allowed(allowed))
}

/// Returns the three numbers of a version, or `Some(None)` for one with a suffix, which no supported spec has. Text
/// that is not a version at all is distinguished from an unknown version, because users fix the two differently.
fn semver(text: &str) -> Option<Option<[i64; 3]>> {
    let (text, metadata) = text.split_once('+').unwrap_or((text, ""));
    let (core, pre_release) = text.split_once('-').unwrap_or((text, ""));
    let identifier = |part: &str| part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.');
    let numbers: Vec<i64> = core.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let numbers: [i64; 3] = numbers.try_into().ok()?;
    let suffix = !pre_release.is_empty() || !metadata.is_empty();
    (identifier(pre_release) && identifier(metadata)).then_some((!suffix).then_some(numbers))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_version_reads_its_own_text() {
        for version in Version::ALL {
            assert_eq!(Version::parse(version.as_str()).unwrap(), version);
        }
    }

    #[test]
    fn versions_are_numbers() {
        assert_eq!(Version::parse("03.4.00").unwrap(), Version::V3_4);
    }

    #[test]
    fn invalid_versions_and_unknown_versions_are_different_errors() {
        for text in ["", "abc", "3.5", "3.5.0.1", "x.5.0"] {
            assert!(Version::parse(text).unwrap_err().to_string().contains("invalid version"), "{text}");
        }
        for text in ["2.3.0", "2.9.0", "3.6.0", "4.0.0", "3.5.0-experimental", "3.5.1"] {
            assert!(Version::parse(text).unwrap_err().to_string().contains("unknown version"), "{text}");
        }
    }
}
