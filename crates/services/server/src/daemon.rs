//! Serves the node daemon's binary from disk, addressed by its hash, for machines whose image does not contain it.
//!
//! The file is read once for its hashes and stays open, so the bytes that are served are the bytes that were hashed,
//! even if the path is replaced.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::bufread::GzDecoder;
use sha2::{Digest as _, Sha256, Sha512};

use crate::parcel::Parcel;

#[derive(Debug, thiserror::Error)]
#[error("cannot read the daemon's binary {path}: {source}")]
pub struct Error {
    path: PathBuf,
    source: io::Error,
}

/// A binary that can be served.
#[derive(Debug)]
pub struct Daemon {
    plain: Stored,
    /// Set if a compressed copy lies beside the binary.
    gzip: Option<Stored>,
    sums: Sums,
}

#[derive(Debug)]
struct Stored {
    file: Arc<File>,
    length: u64,
}

#[derive(Debug, PartialEq, Eq)]
struct Sums {
    sha256: String,
    sha512: String,
}

impl Daemon {
    /// Reads the binary at `path`, and `path.gz` if it contains the same bytes.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let read = || {
            let plain = Stored::open(path)?;
            let sums = sums(&mut &*plain.file)?;
            Ok((plain, sums))
        };
        let (plain, sums): (Stored, Sums) = read().map_err(|source| Error { path: path.to_owned(), source })?;
        let gzip = compressed(path, &sums);
        tracing::info!(path = %path.display(), sha256 = sums.sha256, gzip = gzip.is_some(), "serving the daemon");
        Ok(Self { plain, gzip, sums })
    }

    pub(crate) fn sha256(&self) -> &str {
        &self.sums.sha256
    }

    /// Returns the hash in a format that every version of Ignition verifies; the oldest support only SHA-512.
    pub(crate) fn verification(&self) -> String {
        format!("sha512-{}", self.sums.sha512)
    }

    /// Returns the bytes, their length and whether they are compressed, which they are if the client accepts it and a
    /// copy exists.
    pub(crate) fn parcel(&self, takes_gzip: bool) -> (Parcel, u64, bool) {
        let gzip = self.gzip.as_ref().filter(|_| takes_gzip);
        let stored = gzip.unwrap_or(&self.plain);
        (Parcel::of_file(Arc::clone(&stored.file), stored.length), stored.length, gzip.is_some())
    }
}

impl Stored {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let data = file.metadata()?;
        if !data.is_file() || data.len() == 0 {
            return Err(io::Error::other("it is not a file with something in it"));
        }
        Ok(Self { length: data.len(), file: Arc::new(file) })
    }
}

/// Opens the compressed copy beside a binary. It is decompressed and checked, because every machine would refuse one of
/// another build.
fn compressed(path: &Path, of: &Sums) -> Option<Stored> {
    let mut name = path.as_os_str().to_owned();
    name.push(".gz");
    let path = PathBuf::from(name);
    if !path.exists() {
        return None;
    }
    let checked = Stored::open(&path).and_then(|stored| {
        let found = sums(&mut GzDecoder::new(BufReader::new(&*stored.file)))?;
        if found == *of { Ok(stored) } else { Err(io::Error::other("it holds other bytes than the binary")) }
    });
    checked
        .inspect_err(|error| {
            tracing::warn!(path = %path.display(), error = error as &dyn std::error::Error, "a compressed copy is not used");
        })
        .ok()
}

fn sums(from: &mut impl Read) -> io::Result<Sums> {
    let (mut sha256, mut sha512) = (Sha256::new(), Sha512::new());
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = from.read(&mut buffer)?;
        let Some(read) = buffer.get(..length).filter(|read| !read.is_empty()) else { break };
        sha256.update(read);
        sha512.update(read);
    }
    Ok(Sums { sha256: hex::encode(sha256.finalize()), sha512: hex::encode(sha512.finalize()) })
}
