//! The file that keeps an account: one change a line, shortened whenever it is opened.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::account::{Account, Entry};

/// The account cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the account of the simulated cloud in {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("line {line} of {} is no entry of the account; remove the file to begin with an empty cloud", path.display())]
    Line { path: PathBuf, line: usize, source: serde_json::Error },
    #[error("cannot write the account of the simulated cloud to {}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

pub(crate) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Reads the account and makes the file as short as it can be.
    pub(crate) fn open(path: &Path) -> Result<(Self, Account), Error> {
        let account = Account::replay(load(path)?);
        let write = |source| Error::Write { path: path.to_owned(), source };
        // A process that is killed in between leaves either the old file or the new one.
        let beside = path.with_extension("new");
        let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&beside);
        let mut file = BufWriter::new(file.map_err(write)?);
        account.entries().try_for_each(|entry| append(&mut file, &entry)).map_err(write)?;
        let file = file.into_inner().map_err(|error| write(error.into_error()))?;
        std::fs::rename(&beside, path).map_err(write)?;
        Ok((Self { path: path.to_owned(), file }, account))
    }

    pub(crate) fn append(&mut self, entries: &[Entry]) -> Result<(), Error> {
        let mut lines = Vec::new();
        let written = entries.iter().try_for_each(|entry| append(&mut lines, entry));
        let written = written.and_then(|()| self.file.write_all(&lines));
        written.map_err(|source| Error::Write { path: self.path.clone(), source })
    }
}

fn append(to: &mut impl std::io::Write, entry: &Entry) -> std::io::Result<()> {
    serde_json::to_writer(&mut *to, entry)?;
    to.write_all(b"\n")
}

fn load(path: &Path) -> Result<Vec<Entry>, Error> {
    let read = |source| Error::Read { path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(read(error)),
    };
    let lines = BufReader::new(file).lines().collect::<Result<Vec<_>, _>>().map_err(read)?;
    let last = lines.len();
    let mut entries = Vec::with_capacity(last);
    for (number, line) in (1..).zip(&lines) {
        match serde_json::from_str(line) {
            Ok(entry) => entries.push(entry),
            // A process that was killed while it wrote; nobody was told of what the line says.
            Err(_) if number == last => {}
            Err(source) => return Err(Error::Line { path: path.to_owned(), line: number, source }),
        }
    }
    Ok(entries)
}
