//! What stood at a path, or how a unit was enabled, before a config took it over.
//!
//! Kept once, put back when the config's entry goes. The places are upstream's, so either daemon understands the other's.

use change::host::{Attributes, EntryKind, Error, ErrorKind, Files, Host, HostPath};

const ORIGINALS: &str = "/etc/machine-config-daemon/orig";
const NO_ORIGINALS: &str = "/etc/machine-config-daemon/noorig";
const ENABLEMENT: &str = "/etc/machine-config-daemon/enablement";

/// Remembers what is at `path` now. The first memory stays: a second call must not take our own file for an original.
pub fn keep(files: &dyn Files, path: &HostPath) -> Result<(), Error> {
    let (original, stamp) = (original(path)?, stamp(path)?);
    if files.look(&original)?.is_some() || files.look(&stamp)?.is_some() {
        return Ok(());
    }
    match files.look(path)? {
        Some(_) => files.copy(path, &original),
        None => files.put(&stamp, b"", &Attributes::root(0o644)),
    }
}

/// Puts back what `keep` remembered; nothing, where nothing stood. The memory stays until [`forget`], so that doing it again
/// after a crash does the same.
///
/// Where nobody remembers, Ignition wrote the file before this daemon came. The distribution's own copy is put back then. A
/// package's file of which there is no copy stays as it is: without it the package's program may not start. So does every file
/// while the package manager cannot tell whose it is, and the step fails.
pub fn put_back(host: &dyn Host, path: &HostPath) -> Result<(), Error> {
    let files = host.files();
    let original = original(path)?;
    if files.look(&original)?.is_some() {
        return files.copy(&original, path);
    }
    if let Some(shipped) = shipped(files, path)? {
        return files.copy(&shipped, path);
    }
    if files.look(&stamp(path)?)?.is_none()
        && files.look(path)?.is_some_and(|entry| entry.kind != EntryKind::Folder)
        && let Some(package) = host.system().package_of(path)?
    {
        let advice =
            "no config has it any more, and its original is not known: install the package again to have it back";
        tracing::warn!(%path, package, "a package's file is left as it is; {advice}");
        return Ok(());
    }
    match files.remove(path) {
        // A folder that somebody else has put files into stays.
        Err(error) if error.kind != ErrorKind::PowerCut && is_folder(files, path) => Ok(()),
        other => other,
    }
}

/// Forgets a path that no config has any more.
pub fn forget(files: &dyn Files, path: &HostPath) -> Result<(), Error> {
    files.remove(&original(path)?)?;
    files.remove(&stamp(path)?)
}

/// The bytes that stood at `path`, for files that are only appended to.
pub fn contents(files: &dyn Files, path: &HostPath) -> Result<Vec<u8>, Error> {
    let place = match files.look(&original(path)?)? {
        Some(_) => Some(original(path)?),
        None => shipped(files, path)?,
    };
    Ok(place.map(|place| files.read(&place)).transpose()?.flatten().unwrap_or_default())
}

/// The distribution's own copy of a file in `/etc`, for a path of which nobody remembers what stood there. Image-based
/// systems keep all of theirs in `/usr/etc`, others some in the folder from which systemd fills an empty `/etc`.
fn shipped(files: &dyn Files, path: &HostPath) -> Result<Option<HostPath>, Error> {
    let Some(rest) = path.as_str().strip_prefix("/etc/") else { return Ok(None) };
    if files.look(&stamp(path)?)?.is_some() {
        return Ok(None);
    }
    for folder in ["/usr/etc", "/usr/share/factory/etc"] {
        let shipped = place(&format!("{folder}/{rest}"))?;
        let kind = files.look(&shipped)?.map(|entry| entry.kind);
        if matches!(kind, Some(EntryKind::File | EntryKind::Link(_))) {
            return Ok(Some(shipped));
        }
    }
    Ok(None)
}

pub fn keep_enablement(host: &dyn Host, unit: &str) -> Result<(), Error> {
    let place = enablement(unit)?;
    if host.files().look(&place)?.is_some() {
        return Ok(());
    }
    let word = host.services().enablement(unit)?;
    host.files().put(&place, word.as_bytes(), &Attributes::root(0o644))
}

pub fn put_back_enablement(host: &dyn Host, unit: &str) -> Result<(), Error> {
    let word = host.files().read(&enablement(unit)?)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let is_there = host.services().enablement(unit)? != "not-found";
    match word.as_deref() {
        Some("enabled" | "enabled-runtime") if is_there => host.services().enable(&[unit.to_owned()]),
        Some("disabled") if is_there => host.services().disable(&[unit.to_owned()]),
        // Nobody remembers: the distribution's presets decide, and a unit they do not know is left alone.
        None if is_there => {
            let _ = host.services().preset(unit);
            Ok(())
        }
        _ => Ok(()),
    }
}

pub fn forget_enablement(files: &dyn Files, unit: &str) -> Result<(), Error> {
    files.remove(&enablement(unit)?)
}

fn is_folder(files: &dyn Files, path: &HostPath) -> bool {
    matches!(files.look(path), Ok(Some(entry)) if entry.kind == EntryKind::Folder)
}

fn original(path: &HostPath) -> Result<HostPath, Error> {
    place(&format!("{ORIGINALS}{path}.mcdorig"))
}

fn stamp(path: &HostPath) -> Result<HostPath, Error> {
    place(&format!("{NO_ORIGINALS}{path}.mcdnoorig"))
}

fn enablement(unit: &str) -> Result<HostPath, Error> {
    place(&format!("{ENABLEMENT}/{unit}"))
}

fn place(path: &str) -> Result<HostPath, Error> {
    HostPath::parse(path).map_err(|error| Error::new(ErrorKind::Refused, "keep", path, error.problem))
}
