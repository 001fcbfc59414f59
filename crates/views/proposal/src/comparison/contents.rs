//! What may be shown of files, folders, links and units, in words.

use change::content::{Directory, File, Link, Unit};
use change::target::Owner;

use crate::secrets::{Secrets, mask};

/// What may be shown of a file's contents.
pub enum Shown {
    Text(String),
    /// Contents that are no text, or must not be shown: only what can be said about them.
    Summary(String),
}

impl Shown {
    pub(super) fn summary(&self) -> String {
        match self {
            Shown::Text(text) => format!("<{} bytes of text>", text.len()),
            Shown::Summary(summary) => summary.clone(),
        }
    }
}

/// A file's contents, as far as they may be shown.
#[must_use]
pub fn shown(path: &str, file: &File, secrets: Secrets) -> Shown {
    match file.contents.bytes() {
        // The error may quote the address that the contents are fetched from.
        Err(error) => Shown::Summary(secrets.text(&format!("<{error}>")).into_owned()),
        Ok(bytes) if secrets.covers_file(path, file.mode, &bytes) => Shown::Summary(mask(&bytes)),
        Ok(bytes) => match std::str::from_utf8(&bytes) {
            Ok(text) => Shown::Text(secrets.text(text).into_owned()),
            Err(_) => Shown::Summary(format!("<binary, {} bytes>", bytes.len())),
        },
    }
}

#[must_use]
pub fn describe_file(file: &File) -> Vec<(&'static str, String)> {
    vec![("mode", octal(file.mode)), ("user", owner(&file.user)), ("group", owner(&file.group))]
}

#[must_use]
pub fn describe_directory(directory: &Directory) -> Vec<(&'static str, String)> {
    vec![("mode", octal(directory.mode)), ("user", owner(&directory.user)), ("group", owner(&directory.group))]
}

#[must_use]
pub fn describe_link(link: &Link) -> Vec<(&'static str, String)> {
    vec![("target", link.target.clone()), ("hard", link.hard.to_string())]
}

#[must_use]
pub fn describe_unit(unit: &Unit) -> Vec<(&'static str, String)> {
    let flag = |value: Option<bool>| value.map_or("unset".to_owned(), |value| value.to_string());
    vec![("enabled", flag(unit.enabled)), ("mask", flag(unit.mask))]
}

#[must_use]
pub fn octal(mode: u32) -> String {
    format!("{mode:04o}")
}

#[must_use]
pub fn owner(owner: &Owner) -> String {
    match owner {
        Owner::Id(id) => id.to_string(),
        Owner::Name(name) => name.clone(),
    }
}
