//! The file under the store: one redb database, written by one committer.
//!
//! Opening never changes a file it then refuses. redb repairs a database that was not closed, and that repair writes;
//! here everything written while opening is held in memory until all objects have been read and their checksums agree.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use redb::{Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};

const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
const FACTS: TableDefinition<'_, &str, u64> = TableDefinition::new("facts");

/// The layout of values and keys; a store written by a newer layout is refused, not guessed at.
const FORMAT: u64 = 1;

/// redb's own cache only serves the committer: reads come from the index in memory.
const CACHE: usize = 8 << 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot open the store {path}: {source}. Check that the folder exists and can be written.")]
    Open { path: PathBuf, source: io::Error },
    #[error("the store {path} is used by another process. Stop that process, or use another --data folder.")]
    Locked { path: PathBuf },
    #[error(
        "the store {path} is damaged: {reason}. Nothing was changed. Restore the file from a copy, or move it away to start empty."
    )]
    Damaged { path: PathBuf, reason: String },
    #[error(
        "the store {path} has format {found}, this version reads format {FORMAT}. Nothing was changed. Use a newer version."
    )]
    Newer { path: PathBuf, found: u64 },
    #[error("cannot write the store {path}: {reason}")]
    Write { path: PathBuf, reason: String },
}

/// One change of one object, as it goes to disk.
pub(super) struct Record<'a> {
    pub key: String,
    /// `None` deletes.
    pub value: Option<(u64, &'a [u8])>,
}

pub(super) struct Disk {
    path: PathBuf,
    /// `None` after a failed write, until the file has been opened again.
    database: Option<Database>,
}

pub(super) struct Loaded {
    pub version: u64,
    pub objects: Vec<(String, u64, Vec<u8>)>,
}

impl Disk {
    pub(super) fn open(path: &Path) -> Result<(Self, Loaded), Error> {
        let (database, loaded) = open(path)?;
        Ok((Self { path: path.to_owned(), database: Some(database) }, loaded))
    }

    /// Makes one batch durable, all of it or nothing.
    pub(super) fn write(&mut self, version: u64, records: &[Record<'_>]) -> Result<(), Error> {
        let database = match self.database.take() {
            Some(database) => database,
            // A write failed before (a full disk, most often). The file is whole: redb commits by switching roots.
            None => open(&self.path)?.0,
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| commit(&database, version, records)));
        match outcome {
            Ok(Ok(())) => {
                self.database = Some(database);
                Ok(())
            }
            Ok(Err(error)) => Err(self.write_error(error.to_string())),
            Err(_) => Err(self.write_error("the database refused the batch".to_owned())),
        }
    }

    fn write_error(&self, reason: String) -> Error {
        Error::Write { path: self.path.clone(), reason }
    }
}

fn commit(database: &Database, version: u64, records: &[Record<'_>]) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        let mut buffer = Vec::new();
        for record in records {
            match record.value {
                Some((version, json)) => {
                    buffer.clear();
                    buffer.extend_from_slice(&version.to_le_bytes());
                    buffer.extend_from_slice(&checksum(version, json).to_le_bytes());
                    buffer.extend_from_slice(json);
                    objects.insert(record.key.as_str(), buffer.as_slice())?;
                }
                None => {
                    objects.remove(record.key.as_str())?;
                }
            }
        }
        let mut facts = transaction.open_table(FACTS)?;
        facts.insert("format", FORMAT)?;
        facts.insert("version", version)?;
    }
    transaction.commit()?;
    Ok(())
}

fn checksum(version: u64, json: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(&version.to_le_bytes());
    crc.update(json);
    crc.sum()
}

/// How long a lock is waited for. Whoever was just stopped may still hold it: a child that is being started has a copy of
/// every open file until it runs its own program.
const LOCK: Duration = Duration::from_millis(500);

fn lock(file: &File) -> Result<(), TryLockError> {
    let deadline = Instant::now() + LOCK;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(LOCK / 50),
            answer => return answer,
        }
    }
}

fn open(path: &Path) -> Result<(Database, Loaded), Error> {
    let failed = |source| Error::Open { path: path.to_owned(), source };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    lock(&file).map_err(|error| match error {
        TryLockError::WouldBlock => Error::Locked { path: path.to_owned() },
        TryLockError::Error(source) => failed(source),
    })?;
    let length = file.metadata().map_err(failed)?.len();
    let backend = Careful { file: Arc::new(file), held: Arc::new(Held::new(length)) };
    let held = Arc::clone(&backend.held);
    let file = Arc::clone(&backend.file);

    let attempt = catch_unwind(AssertUnwindSafe(|| -> Result<_, redb::Error> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE);
        let database = builder.create_with_backend(backend)?;
        let loaded = load(&database)?;
        Ok((database, loaded))
    }));
    let damaged = |reason: String| Error::Damaged { path: path.to_owned(), reason };
    let (database, loaded) = match attempt {
        Ok(Ok(opened)) => opened,
        Ok(Err(error)) => return Err(damaged(error.to_string())),
        Err(_) => return Err(damaged("its pages contradict each other".to_owned())),
    };
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(Problem::Damaged(reason)) => return Err(damaged(reason)),
        Err(Problem::Newer(found)) => return Err(Error::Newer { path: path.to_owned(), found }),
    };
    held.release(&file).map_err(|error| Error::Write { path: path.to_owned(), reason: error.to_string() })?;
    Ok((database, loaded))
}

enum Problem {
    Damaged(String),
    Newer(u64),
}

fn load(database: &Database) -> Result<Result<Loaded, Problem>, redb::Error> {
    let transaction = database.begin_read()?;
    let facts = match transaction.open_table(FACTS) {
        Ok(facts) => facts,
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Ok(Loaded { version: 0, objects: Vec::new() })),
        Err(error) => return Err(error.into()),
    };
    let found = facts.get("format")?.map_or(0, |value| value.value());
    if found > FORMAT {
        return Ok(Err(Problem::Newer(found)));
    }
    let version = facts.get("version")?.map_or(0, |value| value.value());
    let mut objects = Vec::new();
    for entry in transaction.open_table(OBJECTS)?.iter()? {
        let (key, value) = entry?;
        let (key, value) = (key.value().to_owned(), value.value());
        let Some((header, json)) = value.split_at_checked(12) else {
            return Ok(Err(Problem::Damaged(format!("the record of {} is too short", key.replace('\0', "/")))));
        };
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&header[..8]);
        let written = u64::from_le_bytes(bytes);
        if header[8..] != checksum(written, json).to_le_bytes() {
            return Ok(Err(Problem::Damaged(format!("the checksum of {} does not match", key.replace('\0', "/")))));
        }
        objects.push((key, written, json.to_vec()));
    }
    Ok(Ok(Loaded { version, objects }))
}

/// A file whose writes are held back until `Held::release`.
#[derive(Debug)]
struct Careful {
    file: Arc<File>,
    held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    holding: std::sync::atomic::AtomicBool,
    state: Mutex<HeldState>,
}

#[derive(Debug)]
struct HeldState {
    length: u64,
    resized: bool,
    /// Pages written so far, by offset. redb writes whole pages, but nothing here relies on it.
    blocks: BTreeMap<u64, Vec<u8>>,
}

impl Held {
    fn new(length: u64) -> Self {
        let state = HeldState { length, resized: false, blocks: BTreeMap::new() };
        Self { holding: true.into(), state: Mutex::new(state) }
    }

    fn is_holding(&self) -> bool {
        self.holding.load(Ordering::Acquire)
    }

    /// Writes what was held, in order, and lets later writes through.
    fn release(&self, file: &File) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.resized {
            file.set_len(state.length)?;
        }
        for (offset, data) in std::mem::take(&mut state.blocks) {
            file.write_all_at(&data, offset)?;
        }
        file.sync_data()?;
        self.holding.store(false, Ordering::Release);
        Ok(())
    }
}

impl StorageBackend for Careful {
    fn len(&self) -> io::Result<u64> {
        if self.held.is_holding() { Ok(self.held.state.lock().length) } else { Ok(self.file.metadata()?.len()) }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if !self.held.is_holding() {
            return self.file.read_exact_at(out, offset);
        }
        let state = self.held.state.lock();
        let end = offset + out.len() as u64;
        if end > state.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let on_disk = self.file.metadata()?.len().saturating_sub(offset).min(out.len() as u64);
        let (from_disk, fresh) = out.split_at_mut(usize::try_from(on_disk).unwrap_or(usize::MAX));
        self.file.read_exact_at(from_disk, offset)?;
        fresh.fill(0);
        for (start, data) in state.blocks.range(..end) {
            let stop = start + data.len() as u64;
            if stop <= offset {
                continue;
            }
            let (from, to) = (offset.max(*start), end.min(stop));
            let index = |position: u64, base: u64| usize::try_from(position - base).unwrap_or(usize::MAX);
            out[index(from, offset)..index(to, offset)].copy_from_slice(&data[index(from, *start)..index(to, *start)]);
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        if !self.held.is_holding() {
            return self.file.set_len(length);
        }
        let mut state = self.held.state.lock();
        state.length = length;
        state.resized = true;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.held.is_holding() { Ok(()) } else { self.file.sync_data() }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if !self.held.is_holding() {
            return self.file.write_all_at(data, offset);
        }
        let mut state = self.held.state.lock();
        overlay(&mut state.blocks, offset, data);
        Ok(())
    }
}

/// Puts `data` over whatever overlaps it, so that blocks never overlap each other.
fn overlay(blocks: &mut BTreeMap<u64, Vec<u8>>, offset: u64, data: &[u8]) {
    let end = offset + data.len() as u64;
    let touched: Vec<u64> = blocks
        .range(..end)
        .filter(|(start, block)| *start + block.len() as u64 > offset)
        .map(|(start, _)| *start)
        .collect();
    for start in touched {
        let Some(block) = blocks.remove(&start) else { continue };
        let stop = start + block.len() as u64;
        let cut = |position: u64| usize::try_from(position - start).unwrap_or(usize::MAX);
        if start < offset {
            blocks.insert(start, block[..cut(offset)].to_vec());
        }
        if stop > end {
            blocks.insert(end, block[cut(end)..].to_vec());
        }
    }
    blocks.insert(offset, data.to_vec());
}
