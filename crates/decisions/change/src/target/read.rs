//! From a rendered MachineConfig to a `Target`: decode, check paths, refuse what a node cannot do.

use api::machineconfiguration::MachineConfig;
use ignition::v3_5;

use super::{File, Folder, Link, Owner, Target, Unit, User};
use crate::host::{HostPath, InvalidPath};
use crate::plan::extension_packages;

/// Why a config cannot be carried out on any host. Each names the part that is wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to parse Ignition for validation: {0}")]
    Ignition(#[source] ignition::Error),
    #[error("couldn't decode file \"{path}\": could not decode file content string: {reason}")]
    Contents { path: String, reason: String },
    #[error("contents of file \"{path}\" do not have the hash in verification.hash")]
    Hash { path: String },
    #[error(transparent)]
    Path(#[from] InvalidPath),
    #[error("unit \"{unit}\" has a name that is not one file name")]
    UnitName { unit: String },
    #[error("link \"{path}\" is hard; only symbolic links can be changed on a running node")]
    HardLink { path: String },
    #[error("mode {mode} of \"{path}\" is not between 0 and 07777")]
    Mode { path: String, mode: i64 },
    #[error("invalid extensions found: [{0}]")]
    Extension(String),
    #[error("kernelType \"{0}\" is none of default, realtime and 64k-pages")]
    KernelType(String),
}

impl Target {
    pub fn read(config: &MachineConfig) -> Result<Self, Error> {
        let spec = &config.spec;
        let mut target = match &spec.config {
            Some(value) if value.as_object().is_some_and(|object| !object.is_empty()) => {
                Self::of_ignition(ignition::parse(value).map_err(Error::Ignition)?)?
            }
            _ => Target::default(),
        };
        target.name = config.metadata.name.clone().unwrap_or_default();
        target.kernel_arguments.clone_from(&spec.kernel_arguments);
        target.extensions.clone_from(&spec.extensions);
        target.os_image = spec.os_image_url.clone().unwrap_or_default();
        target.fips = spec.fips.unwrap_or(false);
        target.kernel_type = match spec.kernel_type.as_deref() {
            None | Some("" | "default") => "default".to_owned(),
            Some(kind @ ("realtime" | "64k-pages")) => kind.to_owned(),
            Some(other) => return Err(Error::KernelType(other.to_owned())),
        };
        match target.extensions.iter().find(|name| extension_packages(name).is_empty()) {
            Some(unknown) => Err(Error::Extension(unknown.clone())),
            None => Ok(target),
        }
    }

    pub fn of_ignition(config: v3_5::Config) -> Result<Self, Error> {
        let mut target = Target::default();
        let storage = config.storage.unwrap_or_default();
        for file in storage.files.into_iter().flatten() {
            target.files.insert(HostPath::parse(&file.path)?, read_file(file)?);
        }
        for folder in storage.directories.into_iter().flatten() {
            let path = HostPath::parse(&folder.path)?;
            let mode = mode(&folder.path, folder.mode, 0o755)?;
            let (user, group) = owners(folder.user, folder.group);
            target.folders.insert(path, Folder { mode, user, group });
        }
        for link in storage.links.into_iter().flatten() {
            if link.hard == Some(true) {
                return Err(Error::HardLink { path: link.path });
            }
            target.links.insert(HostPath::parse(&link.path)?, Link { target: link.target.unwrap_or_default() });
        }
        for unit in config.systemd.unwrap_or_default().units.into_iter().flatten() {
            let (name, unit) = read_unit(unit)?;
            target.units.insert(name, unit);
        }
        for user in config.passwd.unwrap_or_default().users.into_iter().flatten() {
            let entry: &mut User = target.users.entry(user.name).or_default();
            entry.keys.extend(user.ssh_authorized_keys.into_iter().flatten());
            entry.password_hash = user.password_hash.or(entry.password_hash.take());
        }
        Ok(target)
    }
}

fn read_file(file: v3_5::File) -> Result<File, Error> {
    let decode = |resource: &v3_5::Resource| {
        let bytes = ignition::decode(resource)
            .map_err(|error| Error::Contents { path: file.path.clone(), reason: reason(&error) })?;
        match ignition::hash_matches(resource, &bytes) {
            Some(false) => Err(Error::Hash { path: file.path.clone() }),
            _ => Ok(bytes),
        }
    };
    let mut append = Vec::new();
    for resource in file.append.iter().flatten() {
        append.extend(decode(resource)?);
    }
    let contents = match &file.contents {
        Some(resource) if resource.source.is_some() => Some(decode(resource)?),
        // A file that is only appended to keeps what the host has.
        _ if !append.is_empty() => None,
        _ => Some(Vec::new()),
    };
    let mode = mode(&file.path, file.mode, 0o644)?;
    let (user, group) = owners(file.user, file.group);
    Ok(File { contents, append, mode, user, group })
}

fn reason(error: &ignition::DecodeError) -> String {
    match error {
        // Rendering inlines remote content, so a remote source that reaches a node never had a data URL.
        ignition::DecodeError::Remote(_) => "missing data prefix".to_owned(),
        other => other.to_string(),
    }
}

fn read_unit(unit: v3_5::Unit) -> Result<(String, Unit), Error> {
    if !is_file_name(&unit.name) {
        return Err(Error::UnitName { unit: unit.name });
    }
    let mut dropins = std::collections::BTreeMap::new();
    for dropin in unit.dropins.into_iter().flatten() {
        if !is_file_name(&dropin.name) {
            return Err(Error::UnitName { unit: format!("{}/{}", unit.name, dropin.name) });
        }
        dropins.insert(dropin.name, dropin.contents.unwrap_or_default());
    }
    let contents = unit.contents.filter(|text| !text.is_empty());
    Ok((unit.name, Unit { contents, enabled: unit.enabled, mask: unit.mask == Some(true), dropins }))
}

fn is_file_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != ".." && name.len() <= 250
}

fn mode(path: &str, mode: Option<i64>, default: u32) -> Result<u32, Error> {
    match mode {
        None => Ok(default),
        Some(mode) => match u32::try_from(mode) {
            Ok(bits) if bits <= 0o7777 => Ok(bits),
            _ => Err(Error::Mode { path: path.to_owned(), mode }),
        },
    }
}

fn owners(user: Option<v3_5::NodeUser>, group: Option<v3_5::NodeGroup>) -> (Owner, Owner) {
    let user = user.map_or(Owner::Id(0), |user| owner(user.id, user.name));
    let group = group.map_or(Owner::Id(0), |group| owner(group.id, group.name));
    (user, group)
}

fn owner(id: Option<i64>, name: Option<String>) -> Owner {
    match (id.and_then(|id| u32::try_from(id).ok()), name) {
        (Some(id), _) => Owner::Id(id),
        (None, Some(name)) if !name.is_empty() => Owner::Name(name),
        _ => Owner::Id(0),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(config: serde_json::Value) -> Result<Target, Error> {
        let mut machine_config = MachineConfig::default();
        machine_config.metadata.name = Some("rendered-worker-1".into());
        machine_config.spec.config = Some(config);
        Target::read(&machine_config)
    }

    #[test]
    fn a_config_is_decoded_whole() {
        let target = read(json!({
            "ignition": {"version": "3.4.0"},
            "storage": {"files": [{"path": "/etc/a", "mode": 384, "contents": {"source": "data:,hello%0A"}}]},
            "systemd": {"units": [{"name": "a.service", "enabled": true, "contents": "[Unit]\n"}]},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 A"]}]},
        }))
        .unwrap();
        let file = &target.files[&HostPath::parse("/etc/a").unwrap()];
        assert_eq!((file.contents.as_deref(), file.mode), (Some(&b"hello\n"[..]), 0o600));
        assert_eq!(target.units["a.service"].enabled, Some(true));
        assert_eq!(target.users["core"].keys, ["ssh-ed25519 A"]);
    }

    #[test]
    fn a_remote_source_is_refused_with_its_path() {
        let error = read(json!({
            "ignition": {"version": "3.4.0"},
            "storage": {"files": [{"path": "/etc/a", "contents": {"source": "https://example.com/x"}}]},
        }))
        .unwrap_err();
        let text = error.to_string();
        assert!(text.contains("\"/etc/a\"") && text.ends_with("missing data prefix"), "{text}");
    }

    #[test]
    fn an_unknown_extension_is_refused_by_name() {
        let mut config = MachineConfig::default();
        config.spec.extensions = vec!["usbguard".into(), "games".into()];
        assert_eq!(Target::read(&config).unwrap_err().to_string(), "invalid extensions found: [games]");
    }
}
