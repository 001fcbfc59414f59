//! Semantic versions: how they are read, and which is older.

use std::cmp::Ordering;

#[derive(Clone, Debug)]
pub struct Version {
    pub(super) numbers: [u64; 3],
    before: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Number(u64),
    Text(String),
}

const NAMES: [&str; 3] = ["major", "minor", "patch"];

impl Version {
    pub(super) fn parse(text: &str) -> Result<Version, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts.as_slice() else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (*rest, None),
        };
        let (patch, before) = match rest.split_once('-') {
            Some((patch, before)) => (patch, Some(before)),
            None => (rest, None),
        };
        let mut numbers = [0; 3];
        for ((number, text), name) in numbers.iter_mut().zip([major, minor, patch]).zip(NAMES) {
            *number = count(text, name)?;
        }
        let before = match before {
            Some(before) => before.split('.').map(part).collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        for build in build.into_iter().flat_map(|build| build.split('.')) {
            if build.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_plain(build) {
                return Err(format!("Invalid character(s) found in build meta data {build:?}"));
            }
        }
        Ok(Version { numbers, before })
    }

    /// Reads a version that leaves out what is usual to leave out.
    pub(super) fn parse_loosely(text: &str) -> Result<Version, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text
            .splitn(3, '.')
            .map(|part| {
                if part.len() <= 1 {
                    return part.to_owned();
                }
                let trimmed = part.trim_start_matches('0');
                match trimmed.starts_with(|c: char| c.is_ascii_digit()) {
                    true => trimmed.to_owned(),
                    false => format!("0{trimmed}"),
                }
            })
            .collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("Short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Version::parse(&parts.join("."))
    }

    pub(crate) fn cmp(&self, other: &Version) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| match (self.before.is_empty(), other.before.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let order = |(one, two): (&Part, &Part)| match (one, two) {
                    (Part::Number(one), Part::Number(two)) => one.cmp(two),
                    (Part::Number(_), Part::Text(_)) => Ordering::Less,
                    (Part::Text(_), Part::Number(_)) => Ordering::Greater,
                    (Part::Text(one), Part::Text(two)) => one.cmp(two),
                };
                let differs = self.before.iter().zip(&other.before).map(order).find(|order| order.is_ne());
                differs.unwrap_or_else(|| self.before.len().cmp(&other.before.len()))
            }
        })
    }
}

fn count(text: &str, name: &str) -> Result<u64, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return match text.is_empty() {
            true => Err("strconv.ParseUint: parsing \"\": invalid syntax".to_owned()),
            false => Err(format!("Invalid character(s) found in {name} number {text:?}")),
        };
    }
    if text.len() > 1 && text.starts_with('0') {
        let mut name = name.to_owned();
        name[..1].make_ascii_uppercase();
        return Err(format!("{name} number must not contain leading zeroes {text:?}"));
    }
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {text:?}: value out of range"))
}

fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn part(text: &str) -> Result<Part, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {text:?}"));
        }
        return text
            .parse()
            .map(Part::Number)
            .map_err(|_| format!("strconv.ParseUint: parsing {text:?}: value out of range"));
    }
    if !is_plain(text) {
        return Err(format!("Invalid character(s) found in prerelease {text:?}"));
    }
    Ok(Part::Text(text.to_owned()))
}
