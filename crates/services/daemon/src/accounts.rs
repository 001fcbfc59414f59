//! Users and groups, read and changed in the host's own files.
//!
//! A static program has no name service, and with `--root` the host's users are not this process's users. Only the password
//! field of one user in `/etc/shadow` is ever changed; accounts are neither made nor removed.

use change::host::{Attributes, Error, ErrorKind, Files, HostPath};
use change::target::Owner;

const PASSWD: [&str; 2] = ["/etc/passwd", "/usr/lib/passwd"];
const GROUP: [&str; 2] = ["/etc/group", "/usr/lib/group"];
const SHADOW: &str = "/etc/shadow";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub user: u32,
    pub group: u32,
    pub home: String,
}

pub fn find(files: &dyn Files, name: &str) -> Result<Option<Account>, Error> {
    let Some(fields) = line_of(files, &PASSWD, name)? else { return Ok(None) };
    let account = (|| {
        let home = fields.get(5).filter(|home| home.starts_with('/'))?;
        Some(Account { user: fields.get(2)?.parse().ok()?, group: fields.get(3)?.parse().ok()?, home: home.clone() })
    })();
    Ok(account)
}

pub fn user_id(files: &dyn Files, owner: &Owner, path: &HostPath) -> Result<u32, Error> {
    match owner {
        Owner::Id(id) => Ok(*id),
        Owner::Name(name) => find(files, name)?.map(|account| account.user).ok_or_else(|| {
            let detail = format!("failed to retrieve UserID for username: {name}");
            Error::new(ErrorKind::Unsupported, "find the owner of", path.as_str(), detail)
        }),
    }
}

pub fn group_id(files: &dyn Files, owner: &Owner, path: &HostPath) -> Result<u32, Error> {
    match owner {
        Owner::Id(id) => Ok(*id),
        Owner::Name(name) => {
            let fields = line_of(files, &GROUP, name)?;
            fields.and_then(|fields| fields.get(2)?.parse().ok()).ok_or_else(|| {
                let detail = format!("failed to retrieve GroupID for group: {name}");
                Error::new(ErrorKind::Unsupported, "find the group of", path.as_str(), detail)
            })
        }
    }
}

/// The hash in `/etc/shadow`. `None` when the user has no line there.
pub fn password(files: &dyn Files, user: &str) -> Result<Option<String>, Error> {
    Ok(line_of(files, &[SHADOW], user)?.and_then(|fields| fields.get(1).cloned()))
}

/// Sets the hash; without one the password is locked, never empty.
pub fn set_password(files: &dyn Files, user: &str, hash: Option<&str>) -> Result<(), Error> {
    let wanted = hash.filter(|hash| !hash.is_empty()).unwrap_or("*");
    let refused = |detail: &str| Error::new(ErrorKind::Refused, "set the password of", user, detail);
    if wanted.contains([':', '\n']) {
        return Err(refused("the hash contains a colon or a line break"));
    }
    let path = parse(SHADOW)?;
    let Some(text) = files.read(&path)? else { return Err(refused("/etc/shadow is missing")) };
    let text = String::from_utf8_lossy(&text);
    let mut found = false;
    let lines: Vec<String> = text
        .lines()
        .map(|line| match line.split_once(':') {
            Some((name, rest)) if name == user => {
                found = true;
                let (_, rest) = rest.split_once(':').unwrap_or((rest, ""));
                format!("{name}:{wanted}:{rest}")
            }
            _ => line.to_owned(),
        })
        .collect();
    if !found {
        return Err(refused("the user has no line in /etc/shadow"));
    }
    let changed = lines.join("\n") + "\n";
    if changed == text {
        return Ok(());
    }
    let entry = files.look(&path)?;
    let attributes = entry.map_or(Attributes::root(0), |entry| Attributes {
        mode: entry.mode,
        user: entry.user,
        group: entry.group,
    });
    files.put(&path, changed.as_bytes(), &attributes)
}

/// The colon-separated fields of `name`'s line in the first file that has one.
fn line_of(files: &dyn Files, places: &[&str], name: &str) -> Result<Option<Vec<String>>, Error> {
    for place in places {
        let Some(text) = files.read(&parse(place)?)? else { continue };
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().find(|line| line.split(':').next() == Some(name));
        if let Some(line) = line {
            return Ok(Some(line.split(':').map(str::to_owned).collect()));
        }
    }
    Ok(None)
}

fn parse(path: &str) -> Result<HostPath, Error> {
    HostPath::parse(path).map_err(|error| Error::new(ErrorKind::Refused, "read", path, error.problem))
}
