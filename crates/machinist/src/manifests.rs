//! Reads manifests as kubectl would: files, folders or standard input, YAML or JSON, several documents, lists.
//!
//! Every error names the file, the document, the object and the field. Nothing is interpreted here: what an object
//! means is for whoever asked for it.

mod document;
mod yaml;

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

/// What the API takes as one object, in bytes of JSON: the request limit of the store behind it.
pub(crate) const OBJECT_LIMIT: usize = 1_572_864;

/// No manifest comes near this; a file over it is a mistake (an image, a log) and not worth reading.
const FILE_LIMIT: u64 = 64 << 20;

/// One object and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) origin: Origin,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) value: Value,
}

/// Where an object was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The path as the user gave it, or `standard input`.
    pub(crate) file: String,
    /// Which document of the file, from 1.
    pub(crate) document: usize,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, document {}", self.file, self.document)
    }
}

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
    #[error("{origin}: {message}")]
    Document { origin: Origin, message: String },
    #[error("{origin}: {kind} {name:?}: {message}")]
    Object { origin: Origin, kind: String, name: String, message: String },
}

impl Manifest {
    /// The API group; empty for the core group.
    #[must_use]
    pub(crate) fn group(&self) -> &str {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// Reads the object as a type, naming the field that does not fit.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_path_to_error::deserialize(&self.value).map_err(|error| {
            let (field, cause) = (error.path().to_string(), error.inner().to_string());
            self.error(if field == "." { cause } else { format!("{field}: {cause}") })
        })
    }

    /// An error about this object; the message starts with the field it is about.
    pub(crate) fn error(&self, message: impl Into<String>) -> Error {
        Error::Object {
            origin: self.origin.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
            message: message.into(),
        }
    }
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

/// Splits a text into documents and each document into its objects.
pub(crate) fn parse(file: &str, text: &str) -> Result<Vec<Manifest>, Error> {
    let mut manifests = Vec::new();
    for document in document::split(text) {
        let origin = Origin { file: file.to_owned(), document: document.number };
        let value = document.parse().map_err(|message| Error::Document { origin: origin.clone(), message })?;
        collect(&origin, value, &mut manifests)?;
    }
    Ok(manifests)
}

fn load_file(path: &Path) -> Result<Vec<Manifest>, Error> {
    let name = path.display().to_string();
    let file = std::fs::File::open(path).map_err(|source| Error::Read { file: name.clone(), source })?;
    let text = read_text(&name, file)?;
    parse(&name, &text)
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

/// Takes one object, or each object of a list.
fn collect(origin: &Origin, value: Value, into: &mut Vec<Manifest>) -> Result<(), Error> {
    let refused = |message: &str| Error::Document { origin: origin.clone(), message: message.to_owned() };
    if value.is_null() {
        return Ok(());
    }
    if !value.is_object() {
        return Err(refused("not an object with apiVersion and kind"));
    }
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("/apiVersion"), text("/kind"));
    if api_version.is_empty() {
        return Err(refused("apiVersion is not set"));
    }
    if kind.is_empty() {
        return Err(refused("kind is not set"));
    }
    if kind.ends_with("List") && value.get("items").is_some_and(Value::is_array) {
        let Value::Object(mut fields) = value else { return Ok(()) };
        let Some(Value::Array(items)) = fields.remove("items") else { return Ok(()) };
        return items.into_iter().try_for_each(|item| collect(origin, item, into));
    }
    let name = text("/metadata/name");
    let manifest = Manifest { origin: origin.clone(), api_version, kind, name, value };
    if manifest.name.is_empty() {
        return Err(manifest.error("metadata.name: not set"));
    }
    let size = serde_json::to_vec(&manifest.value).map_or(0, |bytes| bytes.len());
    if size > OBJECT_LIMIT {
        return Err(manifest.error(format!(
            "too large: {size} bytes as JSON, and the API takes at most {OBJECT_LIMIT}; split it into several objects"
        )));
    }
    into.push(manifest);
    Ok(())
}
