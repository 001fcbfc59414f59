//! Loads manifests from where kubectl would: files, folders or standard input.

use std::io::Read;
use std::path::{Path, PathBuf};

pub(crate) use proposal::manifest::Manifest;
use proposal::manifest::parse;

/// No manifest comes near this; a file over it is a mistake (an image, a log) and not worth reading.
const FILE_LIMIT: u64 = 64 << 20;

/// What is wrong with the input. One line for people, from the file down to the field.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot read {file}")]
    Read {
        file: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{0}: no manifests found (files end in .yaml, .yml or .json)")]
    Empty(String),
    #[error("{0}: over {limit} MiB, which is no manifest", limit = FILE_LIMIT >> 20)]
    TooLarge(String),
    #[error("{file}: not UTF-8 text: byte {offset} is wrong")]
    NotText { file: String, offset: usize },
    #[error(transparent)]
    Manifest(#[from] proposal::manifest::Error),
}

/// Loads every object behind `paths`, in the order given; `-` is standard input, a folder its manifests by name.
///
/// # Errors
/// The first thing that cannot be read; nothing is returned then.
pub(crate) fn load(paths: &[PathBuf], recursive: bool) -> Result<Vec<Manifest>, Error> {
    let mut manifests = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            let text = read_text("standard input", std::io::stdin().lock())?;
            manifests.extend(parse("standard input", &text)?);
            continue;
        }
        for file in files(path, recursive)? {
            manifests.extend(load_file(&file)?);
        }
    }
    Ok(manifests)
}

fn load_file(path: &Path) -> Result<Vec<Manifest>, Error> {
    let name = path.display().to_string();
    let file = std::fs::File::open(path).map_err(|source| Error::Read { file: name.clone(), source })?;
    let text = read_text(&name, file)?;
    Ok(parse(&name, &text)?)
}

fn read_text(name: &str, reader: impl Read) -> Result<String, Error> {
    let mut bytes = Vec::new();
    let read = reader.take(FILE_LIMIT + 1).read_to_end(&mut bytes);
    read.map_err(|source| Error::Read { file: name.to_owned(), source })?;
    if bytes.len() as u64 > FILE_LIMIT {
        return Err(Error::TooLarge(name.to_owned()));
    }
    String::from_utf8(bytes)
        .map_err(|error| Error::NotText { file: name.to_owned(), offset: error.utf8_error().valid_up_to() })
}

/// The files behind a path: itself, or a folder's manifests sorted by name.
fn files(path: &Path, recursive: bool) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::Read { file: path.display().to_string(), source };
    if !std::fs::metadata(path).map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?.path();
            if entry.is_dir() {
                // A link back up would never end.
                if recursive && !entry.is_symlink() {
                    folders.push(entry);
                }
            } else if is_manifest(&entry) {
                found.push(entry);
            }
        }
    }
    if found.is_empty() {
        return Err(Error::Empty(path.display().to_string()));
    }
    found.sort();
    Ok(found)
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("yaml" | "yml" | "json"))
}
