//! Whether a disk matches its config. Upstream reports the first mismatch, we report all.

use api::machineconfiguration::MachineConfig;
use change::host::{Activity, Attributes, Error, Files, Host, HostPath, Services, System};
use change::target::Target;
use daemon::verify;
use host::memory::Memory;
use serde_json::{Value, json};

use super::judge::{Expected, Judge, Rule};

pub(crate) struct OnDisk;

impl Judge for OnDisk {
    fn file(&self) -> &'static str {
        "on-disk"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let mut config = MachineConfig::default();
        config.spec.config = Some(input["config"].clone());
        let target = Target::read(&config).map_err(|error| error.to_string())?;
        let disk = Disk { memory: Memory::new(), units: input["unitStates"].clone() };
        for entry in input["disk"].as_array().into_iter().flatten() {
            put(&disk, entry);
        }
        let found = verify::verify(&disk, &target);
        if found.is_empty() { Ok(json!({ "ok": true })) } else { Err(verify::list(&found)) }
    }

    fn phrases(&self, error: &str) -> Vec<String> {
        let subject = error.split('"').nth(1).map(str::to_owned);
        if error.contains("append section") {
            // Upstream's message names no file; ours compares appended contents and names the file.
            return vec!["/etc/target.conf".into()];
        }
        match subject {
            Some(subject) if !error.contains("parse Ignition") => vec![subject],
            _ => vec!["failed to parse Ignition".into(), "couldn't decode".into(), "path".into(), "mode".into()],
        }
    }

    fn rules(&self) -> &'static [Rule] {
        &[
            Rule { name: "enablement-is-looked-at", covers: is_not_enabled, answer: refuses_unit },
            Rule { name: "special-modes-match", covers: has_special_mode, answer: accepts_special },
            Rule {
                name: "masks-without-contents-are-looked-at",
                covers: is_masked_without_contents,
                answer: refuses_unit,
            },
            Rule { name: "empty-drop-ins-may-be-absent", covers: is_spec2_empty_dropin, answer: accepts_special },
        ]
    }
}

fn put(disk: &Disk, entry: &Value) {
    let Ok(path) = HostPath::parse(entry["path"].as_str().unwrap_or_default()) else { return };
    let mode = entry["mode"].as_u64().and_then(|mode| u32::try_from(mode).ok()).unwrap_or(0o644);
    let files = disk.memory.files();
    let _ = match entry["type"].as_str() {
        Some("symlink") => files.link(&path, entry["target"].as_str().unwrap_or_default()),
        Some("directory") => files.make_folder(&path, &Attributes::root(mode)),
        _ => files.put(&path, entry["contents"].as_str().unwrap_or_default().as_bytes(), &Attributes::root(mode)),
    };
}

/// Files in memory, and a service manager with the vector's state.
struct Disk {
    memory: Memory,
    units: Value,
}

impl Host for Disk {
    fn files(&self) -> &dyn Files {
        self.memory.files()
    }
    fn services(&self) -> &dyn Services {
        self
    }
    fn system(&self) -> &dyn System {
        self.memory.system()
    }
}

impl Services for Disk {
    fn enablement(&self, unit: &str) -> Result<String, Error> {
        Ok(self.units[unit].as_str().unwrap_or("static").to_owned())
    }
    fn activity(&self, unit: &str) -> Result<Activity, Error> {
        self.memory.services().activity(unit)
    }
    fn enable(&self, units: &[String]) -> Result<(), Error> {
        self.memory.services().enable(units)
    }
    fn disable(&self, units: &[String]) -> Result<(), Error> {
        self.memory.services().disable(units)
    }
    fn preset(&self, unit: &str) -> Result<(), Error> {
        self.memory.services().preset(unit)
    }
    fn daemon_reload(&self) -> Result<(), Error> {
        self.memory.services().daemon_reload()
    }
    fn start(&self, unit: &str) -> Result<(), Error> {
        self.memory.services().start(unit)
    }
    fn stop(&self, unit: &str) -> Result<(), Error> {
        self.memory.services().stop(unit)
    }
    fn restart(&self, unit: &str) -> Result<(), Error> {
        self.memory.services().restart(unit)
    }
    fn reload(&self, unit: &str) -> Result<(), Error> {
        self.memory.services().reload(unit)
    }
}

fn units(input: &Value) -> impl Iterator<Item = &Value> {
    input["config"]["systemd"]["units"].as_array().into_iter().flatten()
}

fn is_not_enabled(input: &Value) -> bool {
    units(input).any(|unit| {
        let state = input["unitStates"][unit["name"].as_str().unwrap_or_default()].as_str();
        let is_masked = unit["mask"] == true;
        !is_masked && unit["enabled"] == true && matches!(state, Some("disabled" | "masked" | "masked-runtime"))
            || !is_masked
                && unit["enabled"] == true
                && state == Some("not-found")
                && unit["contents"].as_str().is_some_and(|text| !text.is_empty())
            || !is_masked && unit["enabled"] == false && matches!(state, Some("enabled" | "enabled-runtime"))
    })
}

fn is_masked_without_contents(input: &Value) -> bool {
    let disk = input["disk"].as_array().cloned().unwrap_or_default();
    units(input).any(|unit| {
        let path = format!("/etc/systemd/system/{}", unit["name"].as_str().unwrap_or_default());
        let is_linked = disk.iter().any(|entry| entry["path"] == path && entry["target"] == "/dev/null");
        unit["mask"] == true && unit["contents"].as_str().unwrap_or_default().is_empty() && !is_linked
    })
}

/// Where upstream accepted or reported something else first, ours reports the unit.
fn refuses_unit(input: &Value, expected: Expected) -> Expected {
    match expected {
        Expected::Output(_) => {
            Expected::Refusal(units(input).filter_map(|unit| unit["name"].as_str().map(str::to_owned)).collect())
        }
        other => other,
    }
}

fn has_special_mode(input: &Value) -> bool {
    let files = input["config"]["storage"]["files"].as_array().cloned().unwrap_or_default();
    let disk = input["disk"].as_array().cloned().unwrap_or_default();
    files.iter().any(|file| {
        let mode = file["mode"].as_u64().unwrap_or(0);
        let is_same = disk.iter().any(|entry| entry["path"] == file["path"] && entry["mode"] == file["mode"]);
        mode > 0o777 && is_same
    })
}

fn is_spec2_empty_dropin(input: &Value) -> bool {
    let is_spec2 = input["config"]["ignition"]["version"].as_str().is_some_and(|version| version.starts_with('2'));
    let is_empty = |dropin: &Value| dropin["contents"].as_str().unwrap_or_default().is_empty();
    is_spec2 && units(input).any(|unit| unit["dropins"].as_array().is_some_and(|dropins| dropins.iter().any(is_empty)))
}

fn accepts_special(_input: &Value, _expected: Expected) -> Expected {
    Expected::Output(json!({ "ok": true }))
}
