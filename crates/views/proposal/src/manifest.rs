//! Manifests as kubectl would read them: YAML or JSON, several documents, lists.
//!
//! Every error names the file, the document, the object and the field. Nothing is interpreted here: what an object
//! means is for whoever asked for it.

mod document;
mod yaml;

use std::fmt;

use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What the API takes as one object, in bytes of JSON: the request limit of the store behind it.
pub const OBJECT_LIMIT: usize = 1_572_864;

/// One object and where it stands.
#[derive(Clone, Debug)]
pub struct Manifest {
    pub origin: Origin,
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub value: Value,
}

/// Where an object was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The path as the user gave it, or `standard input`.
    pub file: String,
    /// Which document of the file, from 1.
    pub document: usize,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, document {}", self.file, self.document)
    }
}

/// What is wrong with a text. One line for people, from the file down to the field.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{origin}: {message}")]
    Document { origin: Origin, message: String },
    #[error("{origin}: {kind} {name:?}: {message}")]
    Object { origin: Origin, kind: String, name: String, message: String },
}

impl Manifest {
    /// The API group; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// Reads the object as a type.
    ///
    /// # Errors
    /// One that names the field that does not fit.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_path_to_error::deserialize(&self.value).map_err(|error| {
            let (field, cause) = (error.path().to_string(), error.inner().to_string());
            self.error(if field == "." { cause } else { format!("{field}: {cause}") })
        })
    }

    /// An error about this object; the message starts with the field it is about.
    pub fn error(&self, message: impl Into<String>) -> Error {
        Error::Object {
            origin: self.origin.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
            message: message.into(),
        }
    }

    /// An object of the cluster, as a manifest would give it.
    ///
    /// # Errors
    /// When the object cannot be written as JSON.
    pub fn of<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Result<Self, serde_json::Error> {
        let mut value = serde_json::to_value(object)?;
        value["apiVersion"] = K::api_version(&()).into();
        value["kind"] = K::kind(&()).into();
        Ok(Self {
            origin: Origin { file: "the cluster".to_owned(), document: 1 },
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            name: object.meta().name.clone().unwrap_or_default(),
            value,
        })
    }

    /// Whether this is an object of a kind.
    #[must_use]
    pub fn is<K: Resource<DynamicType = ()>>(&self) -> bool {
        self.kind == K::kind(&()) && self.group() == K::group(&())
    }
}

/// Splits a text into documents and each document into its objects. `file` is the name that errors give it.
///
/// # Errors
/// The first document or object that cannot be read.
pub fn parse(file: &str, text: &str) -> Result<Vec<Manifest>, Error> {
    let mut manifests = Vec::new();
    for document in document::split(text) {
        let origin = Origin { file: file.to_owned(), document: document.number };
        let value = document.parse().map_err(|message| Error::Document { origin: origin.clone(), message })?;
        collect(&origin, value, &mut manifests)?;
    }
    Ok(manifests)
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
