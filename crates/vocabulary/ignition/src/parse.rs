//! Converts raw JSON to the newest spec and back.

use serde_json::Value;

use crate::features;
use crate::node::Node as _;
use crate::path::Path;
use crate::report::{Error, Problem, Report};
use crate::spec2;
use crate::v3_5::Config;
use crate::validate;
use crate::version::Version;

/// A config lifted to the newest spec, and the warnings.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    pub config: Config,
    /// The version that the config was written in.
    pub version: Version,
    pub warnings: Vec<Problem>,
}

/// Parses and validates a config of any supported version, and lifts it to the newest.
pub fn parse(raw: &Value) -> Result<Config, Error> {
    read(raw).map(|parsed| parsed.config)
}

/// Like [`parse`], with the original version and the warnings.
pub fn read(raw: &Value) -> Result<Parsed, Error> {
    let version = version(raw)?;
    let mut report = Report::default();
    let config = if version.is_spec2() {
        spec2::read(raw, version, &mut report)?
    } else {
        let mut config = Config::read(raw, Path::Root, &mut report);
        unnumber(&mut config);
        features::drop_newer(&mut config, version, &mut report);
        if report.problems.is_empty() {
            validate::check(&config, version, &mut report);
        }
        config.ignition.version = Version::NEWEST.as_str().to_owned();
        config
    };
    let warnings = std::mem::take(&mut report.warnings);
    report.into_result()?;
    Ok(Parsed { config, version, warnings })
}

/// Returns the config as JSON. Unset fields, empty lists and empty records are omitted.
pub fn to_value(config: Config) -> Value {
    config.write()
}

/// Returns an empty config of the newest version.
pub fn empty() -> Config {
    Config::default()
}

/// Partition number 0 means "the next free one", the same as no number.
fn unnumber(config: &mut Config) {
    let disks = config.storage.iter_mut().flat_map(|storage| storage.disks.iter_mut().flatten());
    for partition in disks.flat_map(|disk| disk.partitions.iter_mut().flatten()) {
        partition.number = partition.number.filter(|number| *number != 0);
    }
}

fn version(raw: &Value) -> Result<Version, Error> {
    let Value::Object(object) = raw else {
        return Err(Error::one(Problem::new("", "not an Ignition config: expected an object")));
    };
    let member = |object: &serde_json::Map<String, Value>, name: &str| {
        let other_letters =
            || object.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone());
        object.get(name).cloned().or_else(other_letters)
    };
    let ignition = member(object, "ignition");
    match ignition.as_ref().and_then(Value::as_object).and_then(|ignition| member(ignition, "version")) {
        Some(Value::String(text)) => Version::parse(&text),
        Some(other) if !other.is_null() => {
            Err(Error::one(Problem::new("ignition.version", format!("invalid version {other}: expected a string"))))
        }
        _ => Version::parse(""),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_config_survives_parsing_and_writing() {
        let raw = json!({
            "ignition": {"version": "3.5.0"},
            "storage": {"files": [{"path": "/etc/x", "mode": 0, "overwrite": false, "contents": {"source": ""}}]},
            "systemd": {"units": [{"name": "a.service", "enabled": false}]},
        });
        assert_eq!(to_value(parse(&raw).unwrap()), raw);
    }

    #[test]
    fn every_error_is_reported_with_its_path() {
        let raw = json!({
            "ignition": {"version": "3.2.0"},
            "storage": {"files": [{"path": "/a", "mode": "0644"}, 7], "links": {}},
        });
        let error = parse(&raw).unwrap_err().to_string();
        for part in [
            "storage.files[0].mode: expected a whole number, found a string",
            "storage.files[1]: expected an object",
            "storage.links: expected a list, found an object",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn unknown_keys_and_newer_fields_are_warnings() {
        let raw = json!({
            "ignition": {"version": "3.2.0"},
            "kernelArguments": {"shouldExist": ["quiet"]},
            "storage": {"files": [{"path": "/a", "Mode": 420, "moed": 1}]},
        });
        let parsed = read(&raw).unwrap();
        assert!(parsed.config.kernel_arguments.is_none());
        assert_eq!(parsed.config.storage.unwrap().files.unwrap()[0].mode, Some(420));
        let warnings: Vec<String> = parsed.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            warnings,
            [
                "storage.files[0].Mode: key \"Mode\" is read as \"mode\"",
                "storage.files[0].moed: unused key \"moed\"",
                "kernelArguments: unused key: spec 3.2.0 does not know it",
            ]
        );
    }
}
