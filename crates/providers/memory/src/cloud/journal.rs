//! The file that keeps an account: one change a line, shortened whenever it is opened.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead as _, BufReader, BufWriter, Seek as _, SeekFrom, Write};
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
    #[error("another process uses the account of the simulated cloud in {}; end it, or give this one a file of its own", path.display())]
    Used { path: PathBuf },
    #[error("cannot write the account of the simulated cloud to {}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

pub(crate) struct Journal {
    path: PathBuf,
    file: Box<dyn Storage>,
    /// How much of the file is whole lines.
    length: u64,
    /// A line was written in part and could not be taken back.
    is_torn: bool,
    /// Held for as long as this process uses the account.
    _lock: File,
}

/// Where lines are written.
trait Storage: Write + Send {
    /// Forgets everything behind `length`.
    fn cut(&mut self, length: u64) -> std::io::Result<()>;
}

impl Storage for File {
    fn cut(&mut self, length: u64) -> std::io::Result<()> {
        self.set_len(length)?;
        self.seek(SeekFrom::Start(length)).map(drop)
    }
}

impl Journal {
    /// Reads the account and makes the file as short as it can be.
    pub(crate) fn open(path: &Path) -> Result<(Self, Account), Error> {
        let write = |source| Error::Write { path: path.to_owned(), source };
        // The account itself is replaced by another file below, so it cannot be what is locked.
        let lock =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path.with_extension("lock"));
        let lock = lock.map_err(write)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Error::Used { path: path.to_owned() },
            TryLockError::Error(source) => write(source),
        })?;
        let account = Account::replay(load(path)?);
        // A process that is killed in between leaves either the old file or the new one.
        let beside = path.with_extension("new");
        let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&beside);
        let mut file = BufWriter::new(file.map_err(write)?);
        account.entries().try_for_each(|entry| append(&mut file, &entry)).map_err(write)?;
        let file = file.into_inner().map_err(|error| write(error.into_error()))?;
        let length = file.metadata().map_err(write)?.len();
        std::fs::rename(&beside, path).map_err(write)?;
        let journal = Self { path: path.to_owned(), file: Box::new(file), length, is_torn: false, _lock: lock };
        Ok((journal, account))
    }

    /// Refuses every further line, as after one that could not be taken back.
    #[cfg(test)]
    pub(crate) fn tear(&mut self) {
        self.is_torn = true;
    }

    /// Writes whole lines or none.
    pub(crate) fn append(&mut self, entries: &[Entry]) -> Result<(), Error> {
        let fail = |source| Error::Write { path: self.path.clone(), source };
        if self.is_torn {
            let message = "an earlier line was written in part; make room on the disk and start again";
            return Err(fail(std::io::Error::other(message)));
        }
        let mut lines = Vec::new();
        let written = entries.iter().try_for_each(|entry| append(&mut lines, entry));
        let written = written.and_then(|()| self.file.write_all(&lines));
        match written {
            Ok(()) => {
                self.length += u64::try_from(lines.len()).unwrap_or(u64::MAX);
                Ok(())
            }
            // What follows half a line would make the file unreadable.
            Err(source) => {
                let error = fail(source);
                self.is_torn = self.file.cut(self.length).is_err();
                Err(error)
            }
        }
    }
}

fn append(to: &mut impl Write, entry: &Entry) -> std::io::Result<()> {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A disk that is full after so many more bytes.
    struct Full {
        file: File,
        left: usize,
        /// Not even the end can be cut off.
        is_stuck: bool,
    }

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.left == 0 {
                return Err(std::io::ErrorKind::StorageFull.into());
            }
            let written = self.file.write(&bytes[..bytes.len().min(self.left)])?;
            self.left -= written;
            Ok(written)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Storage for Full {
        fn cut(&mut self, length: u64) -> std::io::Result<()> {
            if self.is_stuck {
                return Err(std::io::ErrorKind::StorageFull.into());
            }
            self.left = usize::MAX;
            Storage::cut(&mut self.file, length)
        }
    }

    fn gone(number: u32) -> Entry {
        Entry::Gone { id: format!("i-{number:06}"), token: None }
    }

    #[test]
    fn half_a_line_is_taken_back_before_the_next_one() {
        for is_stuck in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("account");
            let (mut journal, _) = Journal::open(&path).unwrap();
            journal.append(&[gone(1)]).unwrap();
            let file = OpenOptions::new().append(true).open(&path).unwrap();
            journal.file = Box::new(Full { file, left: 7, is_stuck });
            assert!(journal.append(&[gone(2)]).is_err());
            assert_eq!(journal.append(&[gone(3)]).is_ok(), !is_stuck);
            drop(journal);
            let expected = if is_stuck { 1 } else { 2 };
            assert_eq!(load(&path).unwrap().len(), expected, "stuck: {is_stuck}");
        }
    }
}
