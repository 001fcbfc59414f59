//! Unit files without a service manager: what `systemctl --root` does, on the `Files` port.
//!
//! Enablement is what it is on a real host: links in `*.wants` and `*.requires` folders that follow the `[Install]` section.
//! The directory and the memory host share it.

use change::host::{EntryKind, Error, ErrorKind, Files, HostPath};
use change::target::UNIT_FOLDER;

/// Where units may stand, the strongest first.
const FOLDERS: [&str; 4] = [UNIT_FOLDER, "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];

pub(crate) fn enablement(files: &dyn Files, unit: &str) -> Result<String, Error> {
    let Some(path) = find(files, unit)? else { return Ok("not-found".into()) };
    if is_masked(files, &path)? {
        return Ok("masked".into());
    }
    let install = install_section(files, &path)?;
    for link in wanted_links(unit, &install)? {
        if files.look(&link)?.is_some() {
            return Ok("enabled".into());
        }
    }
    Ok(if install.is_empty() { "static" } else { "disabled" }.into())
}

pub(crate) fn enable(files: &dyn Files, unit: &str) -> Result<(), Error> {
    let Some(path) = find(files, unit)? else {
        return Err(Error::new(ErrorKind::Unsupported, "enable", unit, "no such unit"));
    };
    if is_masked(files, &path)? {
        return Err(Error::new(ErrorKind::Failed, "enable", unit, "the unit is masked"));
    }
    for link in wanted_links(unit, &install_section(files, &path)?)? {
        files.link(&link, path.as_str())?;
    }
    Ok(())
}

/// Takes every link to the unit away, whatever its text says now.
pub(crate) fn disable(files: &dyn Files, unit: &str) -> Result<(), Error> {
    let folder = parse(UNIT_FOLDER)?;
    for name in files.list(&folder)? {
        if name.ends_with(".wants") || name.ends_with(".requires") {
            files.remove(&parse(&format!("{UNIT_FOLDER}/{name}/{unit}"))?)?;
        }
    }
    Ok(())
}

/// The text of a unit, where it has any.
pub(crate) fn text(files: &dyn Files, unit: &str) -> Result<Option<String>, Error> {
    let Some(path) = find(files, unit)? else { return Ok(None) };
    if is_masked(files, &path)? {
        return Ok(None);
    }
    Ok(files.read(&path)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

pub(crate) fn exists(files: &dyn Files, unit: &str) -> Result<bool, Error> {
    Ok(find(files, unit)?.is_some())
}

fn find(files: &dyn Files, unit: &str) -> Result<Option<HostPath>, Error> {
    for folder in FOLDERS {
        let path = parse(&format!("{folder}/{unit}"))?;
        if files.look(&path)?.is_some() {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

fn is_masked(files: &dyn Files, path: &HostPath) -> Result<bool, Error> {
    Ok(matches!(files.look(path)?.map(|entry| entry.kind), Some(EntryKind::Link(target)) if target == "/dev/null"))
}

/// `(key, value)` of the `[Install]` section.
fn install_section(files: &dyn Files, path: &HostPath) -> Result<Vec<(String, String)>, Error> {
    let text = files.read(path)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().skip_while(|line| line.trim() != "[Install]").skip(1);
    let section = lines.take_while(|line| !line.trim_start().starts_with('['));
    let pairs = section.filter_map(|line| line.split_once('='));
    Ok(pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect())
}

fn wanted_links(unit: &str, install: &[(String, String)]) -> Result<Vec<HostPath>, Error> {
    let mut links = Vec::new();
    for (key, value) in install {
        let suffix = match key.as_str() {
            "WantedBy" => "wants",
            "RequiredBy" => "requires",
            _ => continue,
        };
        for target in value.split_whitespace() {
            links.push(parse(&format!("{UNIT_FOLDER}/{target}.{suffix}/{unit}"))?);
        }
    }
    Ok(links)
}

fn parse(path: &str) -> Result<HostPath, Error> {
    HostPath::parse(path).map_err(|error| Error::new(ErrorKind::Refused, "find", path, error.problem))
}
