//! From the content of a config to a `Target`: decode, check paths, refuse what a node cannot do.

use api::machineconfiguration::MachineConfig;

use super::{File, Folder, Link, Target, Unit, User};
use crate::content::{self, Content, Contents, KernelType};
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
    Mode { path: String, mode: u32 },
    #[error("invalid extensions found: [{0}]")]
    Extension(String),
    #[error("kernelType \"{0}\" is none of default, realtime and 64k-pages")]
    KernelType(String),
}

impl Target {
    /// Reads and checks a rendered config.
    pub fn read(config: &MachineConfig) -> Result<Self, Error> {
        Self::of(&Content::read(config).map_err(Error::Ignition)?, config.metadata.name.as_deref().unwrap_or_default())
    }

    /// Checks what was read of the config of this name.
    pub fn of(content: &Content, name: &str) -> Result<Self, Error> {
        let mut target = Target {
            name: name.to_owned(),
            kernel_arguments: content.kernel_arguments.clone(),
            extensions: content.extensions.clone(),
            extensions_image: content.extensions_image.clone(),
            os_image: content.os_image.clone(),
            fips: content.fips,
            kernel_type: match &content.kernel_type {
                KernelType::Unknown(other) => return Err(Error::KernelType(other.clone())),
                known => known.as_str().to_owned(),
            },
            ..Target::default()
        };
        for (path, file) in &content.files {
            target.files.insert(HostPath::parse(path)?, read_file(path, file)?);
        }
        for (path, folder) in &content.directories {
            let folder =
                Folder { mode: mode(path, folder.mode)?, user: folder.user.clone(), group: folder.group.clone() };
            target.folders.insert(HostPath::parse(path)?, folder);
        }
        for (path, link) in &content.links {
            if link.hard {
                return Err(Error::HardLink { path: path.clone() });
            }
            target.links.insert(HostPath::parse(path)?, Link { target: link.target.clone() });
        }
        for (name, unit) in &content.units {
            target.units.insert(name.clone(), read_unit(name, unit)?);
        }
        for (name, user) in &content.users {
            let user = User { keys: user.keys.clone(), password_hash: user.password_hash.clone() };
            target.users.insert(name.clone(), user);
        }
        match target.extensions.iter().find(|name| extension_packages(name).is_empty()) {
            Some(unknown) => Err(Error::Extension(unknown.clone())),
            None => Ok(target),
        }
    }
}

fn read_file(path: &str, file: &content::File) -> Result<File, Error> {
    let append = file.append.iter().map(|part| readable(path, part)).collect::<Result<Vec<_>, _>>()?;
    let contents = match file.contents.source() {
        // A file that is only appended to keeps what the host has.
        None if !append.is_empty() => None,
        _ => Some(readable(path, &file.contents)?),
    };
    Ok(File { contents, append, mode: mode(path, file.mode)?, user: file.user.clone(), group: file.group.clone() })
}

/// Contents that can be read to their end and have the hash the config gives.
fn readable(path: &str, contents: &Contents) -> Result<Contents, Error> {
    let refuse = |reason: String| Error::Contents { path: path.to_owned(), reason };
    // Rendering inlines remote content, so a remote source that reaches a node never had a data URL.
    if !ignition::is_inline(contents.resource()) {
        return Err(refuse("missing data prefix".to_owned()));
    }
    contents.length().map_err(|error| refuse(error.to_string()))?;
    if contents.hash_matches() { Ok(contents.clone()) } else { Err(Error::Hash { path: path.to_owned() }) }
}

fn read_unit(name: &str, unit: &content::Unit) -> Result<Unit, Error> {
    if !is_file_name(name) {
        return Err(Error::UnitName { unit: name.to_owned() });
    }
    if let Some(dropin) = unit.dropins.keys().find(|dropin| !is_file_name(dropin)) {
        return Err(Error::UnitName { unit: format!("{name}/{dropin}") });
    }
    let contents = (!unit.contents.is_empty()).then(|| unit.contents.clone());
    Ok(Unit { contents, enabled: unit.enabled, mask: unit.mask == Some(true), dropins: unit.dropins.clone() })
}

fn is_file_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != ".." && name.len() <= 250
}

fn mode(path: &str, mode: u32) -> Result<u32, Error> {
    if mode <= 0o7777 { Ok(mode) } else { Err(Error::Mode { path: path.to_owned(), mode }) }
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
        let contents = file.contents.as_ref().unwrap();
        assert_eq!((contents.bytes().unwrap().as_ref(), file.mode), (&b"hello\n"[..], 0o600));
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
