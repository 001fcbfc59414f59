//! Writes what other systems install: tar archives, OCI images, Debian packages and RPMs, without their tools.
//!
//! The same input always gives the same bytes: entries are sorted, belong to root, and their time is given or zero. Nothing here
//! knows which files the product consists of, and nothing here builds them.

mod deb;
mod image;
mod package;
mod rpm;
mod tar;

use std::path::{Path, PathBuf};

pub use deb::deb;
pub use image::{Image, Layout, strip};
pub use package::{File, Package};
pub use rpm::{rpm, rpm_name};
pub use tar::Archive;

/// Why a package was not written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("cannot compress")]
    Compress(#[source] std::io::Error),
    #[error("{path} does not fit into an archive: {reason}")]
    Entry { path: String, reason: &'static str },
    #[error("cannot run {program}")]
    Run { program: &'static str, source: std::io::Error },
    #[error("{program} {}: {said}", path.display())]
    Program { program: &'static str, path: PathBuf, said: String },
}

/// The lower-case hexadecimal SHA-256 of some bytes.
pub fn sha256(content: &[u8]) -> String {
    // Debug builds are large, and this hash is fast in debug builds too: it is written in assembly.
    let digest = ring::digest::digest(&ring::digest::SHA256, content);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The next levels take twice as long for a hundredth less, and developer commands are not optimized.
const LEVEL: u32 = 5;

/// Compresses without a name and a time, so that the same content gives the same bytes.
pub fn gzip(content: &[u8]) -> Result<Vec<u8>, Error> {
    use std::io::Write as _;
    let mut encoder = flate2::GzBuilder::new().write(Vec::new(), flate2::Compression::new(LEVEL));
    encoder.write_all(content).map_err(Error::Compress)?;
    encoder.finish().map_err(Error::Compress)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

fn write(path: &Path, content: &[u8]) -> Result<(), Error> {
    std::fs::write(path, content).map_err(|source| Error::Write { path: path.to_owned(), source })
}
