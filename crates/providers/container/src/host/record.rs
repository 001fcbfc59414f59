//! One file for each container. Its name is the container's id; it stays when the container is gone, because a token makes
//! one container only.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use machine::provider::Mark;
use serde::{Deserialize, Serialize};

const SUFFIX: &str = "json";

/// The list of containers cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}, which tells of a container", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} does not tell of a container; remove it if nothing runs in its name", path.display())]
    Content { path: PathBuf, source: serde_json::Error },
    #[error("cannot write {}, which tells of a container", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

/// One container.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) provider_id: String,
    pub(crate) mark: Mark,
    /// The token of the creation; none on an adopted container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    pub(crate) zone: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) user_data: String,
    pub(crate) life: Life,
    pub(crate) created: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Life {
    Running,
    /// It was running when it was adopted, and is not ours to start.
    Adopted,
    Deleting,
    Gone,
}

/// Every record of a folder. What was not written to its end is not there: it has another suffix.
pub(super) fn load(folder: &Path) -> Result<Vec<Record>, Error> {
    let read = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Read { path, source }
    };
    fs::create_dir_all(folder).map_err(|source| Error::Write { path: folder.to_owned(), source })?;
    let mut records = Vec::new();
    for entry in fs::read_dir(folder).map_err(read(folder))? {
        let path = entry.map_err(read(folder))?.path();
        if path.extension().is_some_and(|suffix| suffix == SUFFIX) {
            let text = fs::read(&path).map_err(read(&path))?;
            records.push(serde_json::from_slice(&text).map_err(|source| Error::Content { path, source })?);
        }
    }
    Ok(records)
}

/// Writes a record so that a process that is killed, or a host that loses power, leaves the old file or the new one.
pub(super) fn save(folder: &Path, record: &Record) -> Result<(), Error> {
    let path = folder.join(format!("{}.{SUFFIX}", record.id));
    let beside = path.with_extension("new");
    let write = || {
        // User data holds a token.
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&beside)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.sync_all()?;
        fs::rename(&beside, &path)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(|source| Error::Write { path: path.clone(), source })
}
