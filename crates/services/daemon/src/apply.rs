//! Carries out one step of a plan on a host.
//!
//! A step says what to touch, the target says how it shall look. Doing a step again changes nothing, and a file that already
//! is as it should be is not written again.

use std::io::{Cursor, Read};

use change::content::{self, Undecodable};
use change::host::{Attributes, Entry, EntryKind, Error, ErrorKind, Host, HostPath, KernelChange, PackageChange};
use change::step::Step;
use change::target::{File, Target, dropin_path, unit_path};

use crate::{accounts, keys, originals};

/// Unit files and drop-ins.
const UNIT: Attributes = Attributes::root(0o644);

/// Does `step` on the way to `target`.
pub fn apply(host: &dyn Host, target: &Target, step: &Step) -> Result<(), Error> {
    let (files, services, system) = (host.files(), host.services(), host.system());
    match step {
        Step::Keep { path } => originals::keep(files, path),
        Step::KeepEnablement { unit } => originals::keep_enablement(host, unit),
        Step::StopUnit { unit } => services.stop(unit),
        Step::DisableUnit { unit } => disable(host, unit),
        Step::MakeFolder { path } => make_folder(host, target, path),
        Step::WriteFile { path } => match target.files.get(path) {
            Some(file) => write_file(host, path, file),
            None => Err(vanished(path.as_str())),
        },
        Step::WriteLink { path } => {
            let link = target.links.get(path).ok_or_else(|| vanished(path.as_str()))?;
            match files.look(path)?.map(|entry| entry.kind) {
                Some(EntryKind::Link(present)) if present == link.target => Ok(()),
                _ => files.link(path, &link.target),
            }
        }
        Step::WriteUnit { unit } => {
            let contents = target.units.get(unit).and_then(|unit| unit.contents.as_ref());
            let contents = contents.ok_or_else(|| vanished(unit))?;
            put(host, &path_of(unit_path(unit), unit)?, contents.as_bytes(), &UNIT)
        }
        Step::WriteDropin { unit, name } => {
            let text = target.units.get(unit).and_then(|unit| unit.dropins.get(name)).ok_or_else(|| vanished(name))?;
            let path = path_of(dropin_path(unit, name), name)?;
            if text.is_empty() { files.remove(&path) } else { put(host, &path, text.as_bytes(), &UNIT) }
        }
        Step::MaskUnit { unit } => files.link(&path_of(unit_path(unit), unit)?, "/dev/null"),
        Step::PutBack { path } => originals::put_back(host, path),
        Step::DaemonReload => {
            // The manager must not read what a power cut could still take away.
            files.flush()?;
            services.daemon_reload()
        }
        Step::PutBackEnablement { unit } => originals::put_back_enablement(host, unit),
        Step::EnableUnit { unit } => enable(host, target, unit),
        // Presets are the distribution's wish, not the config's: a unit they cannot be applied to stays as it is.
        Step::PresetUnit { unit } => {
            let _ = services.preset(unit);
            Ok(())
        }
        Step::SetKeys { user } => set_keys(host, target, user),
        Step::SetPassword { user } => set_password(host, target, user),
        Step::StageImage { image } => match system.booted_image()? {
            Some(booted) if booted == *image => Ok(()),
            _ => system.stage_image(image),
        },
        Step::KernelArguments { delete, append } => system.change_kernel_arguments(delete, append),
        Step::Packages { install, uninstall, kernel, image } => system.change_packages(&PackageChange {
            install: install.clone(),
            uninstall: uninstall.clone(),
            kernel: kernel.clone().map(|(from, to)| KernelChange { from, to }),
            image: image.clone(),
        }),
    }
}

/// The path a step may leave a new file at, which then has its folder's SELinux label and not its own.
pub fn written(step: &Step) -> Option<HostPath> {
    match step {
        Step::MakeFolder { path } | Step::WriteFile { path } | Step::WriteLink { path } | Step::PutBack { path } => {
            Some(path.clone())
        }
        Step::WriteUnit { unit } | Step::MaskUnit { unit } => unit_path(unit),
        Step::WriteDropin { unit, name } => dropin_path(unit, name),
        _ => None,
    }
}

/// The bytes a file shall have, with what it is appended to, to be read piece by piece.
pub fn wanted_contents<'a>(host: &dyn Host, path: &HostPath, file: &'a File) -> Result<Box<dyn Read + 'a>, Error> {
    let mut wanted: Box<dyn Read + 'a> = match &file.contents {
        Some(contents) => contents.open().map_err(|error| undecodable(path, &error))?,
        None => Box::new(Cursor::new(originals::contents(host.files(), path)?)),
    };
    for part in &file.append {
        wanted = Box::new(wanted.chain(part.open().map_err(|error| undecodable(path, &error))?));
    }
    Ok(wanted)
}

fn write_file(host: &dyn Host, path: &HostPath, file: &File) -> Result<(), Error> {
    let files = host.files();
    let attributes = Attributes {
        mode: file.mode,
        user: accounts::user_id(files, &file.user, path)?,
        group: accounts::group_id(files, &file.group, path)?,
    };
    if has_attributes(files.look(path)?.as_ref(), &attributes)
        && let Some(present) = files.open(path)?
        && content::same(present, wanted_contents(host, path, file)?).unwrap_or(false)
    {
        return Ok(());
    }
    match &file.contents {
        Some(contents) if file.append.is_empty() && !contents.is_compressed() => {
            let bytes = contents.bytes().map_err(|error| undecodable(path, &error))?;
            files.put(path, &bytes, &attributes)
        }
        _ => files.put_from(path, &mut wanted_contents(host, path, file)?, &attributes),
    }
}

fn undecodable(path: &HostPath, error: &Undecodable) -> Error {
    Error::new(ErrorKind::Refused, "write", path.as_str(), error.to_string())
}

fn has_attributes(entry: Option<&Entry>, attributes: &Attributes) -> bool {
    entry.is_some_and(|entry| {
        entry.kind == EntryKind::File
            && (entry.mode, entry.user, entry.group) == (attributes.mode, attributes.user, attributes.group)
    })
}

/// Writes only what differs.
fn put(host: &dyn Host, path: &HostPath, contents: &[u8], attributes: &Attributes) -> Result<(), Error> {
    let files = host.files();
    let entry = files.look(path)?.filter(|entry| entry.size == contents.len() as u64);
    if has_attributes(entry.as_ref(), attributes) && files.read(path)?.as_deref() == Some(contents) {
        return Ok(());
    }
    files.put(path, contents, attributes)
}

fn make_folder(host: &dyn Host, target: &Target, path: &HostPath) -> Result<(), Error> {
    let files = host.files();
    let folder = target.folders.get(path).ok_or_else(|| vanished(path.as_str()))?;
    let user = accounts::user_id(files, &folder.user, path)?;
    let group = accounts::group_id(files, &folder.group, path)?;
    files.make_folder(path, &Attributes { mode: folder.mode, user, group })
}

/// A config may enable a unit that this host does not have; upstream only notes that, and so do we.
fn enable(host: &dyn Host, target: &Target, unit: &str) -> Result<(), Error> {
    let has_contents = target.units.get(unit).is_some_and(|unit| unit.contents.is_some());
    match host.services().enablement(unit)?.as_str() {
        "not-found" if !has_contents => {
            tracing::warn!(unit, "the config enables a unit that is not on this host");
            Ok(())
        }
        "enabled" => Ok(()),
        _ => host.services().enable(&[unit.to_owned()]),
    }
}

fn disable(host: &dyn Host, unit: &str) -> Result<(), Error> {
    match host.services().enablement(unit)?.as_str() {
        "not-found" | "disabled" | "masked" => Ok(()),
        _ => host.services().disable(&[unit.to_owned()]),
    }
}

fn set_keys(host: &dyn Host, target: &Target, user: &str) -> Result<(), Error> {
    let Some(account) = accounts::find(host.files(), user)? else {
        tracing::warn!(user, "the config sets SSH keys of a user that is not on this host");
        return Ok(());
    };
    let wanted = target.users.get(user).map(|user| user.keys.as_slice()).unwrap_or_default();
    keys::set(host.files(), user, &account, wanted)
}

fn set_password(host: &dyn Host, target: &Target, user: &str) -> Result<(), Error> {
    if accounts::password(host.files(), user)?.is_none() {
        tracing::warn!(user, "the config sets the password of a user that is not on this host");
        return Ok(());
    }
    let hash = target.users.get(user).and_then(|user| user.password_hash.as_deref());
    accounts::set_password(host.files(), user, hash)
}

fn path_of(path: Option<HostPath>, name: &str) -> Result<HostPath, Error> {
    path.ok_or_else(|| Error::new(ErrorKind::Refused, "write", name, "it is not one file name"))
}

/// Steps come from the same config they are applied with, so this is a damaged journal.
fn vanished(name: &str) -> Error {
    Error::new(ErrorKind::Refused, "write", name, "the journal names it but the config does not have it")
}
