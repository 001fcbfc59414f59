//! Writes tar archives in the ustar format, as far as packages need them: folders, files and links of root, with one time for all.

use std::collections::BTreeSet;

use crate::Error;

/// Archives are made of blocks of this size.
const BLOCK: usize = 512;

/// An archive in memory.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    /// What stands before every path, such as the `./` of Debian packages.
    prefix: &'static str,
    time: u64,
}

/// What an entry is.
#[derive(Clone, Copy)]
enum Kind<'a> {
    File,
    Folder,
    Link(&'a str),
}

impl Archive {
    /// An archive whose entries have this time, in seconds since 1970, and begin with this prefix.
    pub fn new(prefix: &'static str, time: u64) -> Self {
        Self { prefix, time, ..Self::default() }
    }

    /// Adds a folder with all its parents; one that is there already is not added again.
    pub fn folder(&mut self, path: &str) -> Result<(), Error> {
        if path.is_empty() || self.folders.contains(path) {
            return Ok(());
        }
        self.parent(path)?;
        self.folders.insert(path.to_owned());
        self.entry(&format!("{path}/"), Kind::Folder, 0o755, &[])
    }

    /// Adds a file, and the folders that lead to it.
    pub fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> Result<(), Error> {
        self.parent(path)?;
        self.entry(path, Kind::File, mode, content)
    }

    /// Adds a symbolic link, and the folders that lead to it.
    pub fn link(&mut self, path: &str, target: &str) -> Result<(), Error> {
        self.parent(path)?;
        self.entry(path, Kind::Link(target), 0o777, &[])
    }

    /// The archive's bytes, with the two empty blocks that end it.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 2 * BLOCK, 0);
        self.bytes
    }

    fn parent(&mut self, path: &str) -> Result<(), Error> {
        path.rsplit_once('/').map_or(Ok(()), |(parent, _)| self.folder(parent))
    }

    fn entry(&mut self, path: &str, kind: Kind, mode: u32, content: &[u8]) -> Result<(), Error> {
        let header = header(&format!("{}{path}", self.prefix), kind, mode, content.len(), self.time)?;
        self.bytes.extend(header);
        self.bytes.extend(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK), 0);
        Ok(())
    }
}

/// The header of an entry. Owner and group stay zero.
fn header(path: &str, kind: Kind, mode: u32, size: usize, time: u64) -> Result<[u8; BLOCK], Error> {
    let refuse = |reason| Err(Error::Entry { path: path.to_owned(), reason });
    let (flag, target) = match kind {
        Kind::File => (b'0', ""),
        Kind::Folder => (b'5', ""),
        Kind::Link(target) => (b'2', target),
    };
    if path.len() > 100 || target.len() > 100 {
        return refuse("a path has 100 bytes at most");
    }
    if size >= 1 << 33 || time >= 1 << 33 {
        return refuse("a file has 8 GiB at most");
    }
    let mut block = [0; BLOCK];
    let mut put = |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, path);
    put(100, &format!("{mode:07o}"));
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{size:011o}"));
    put(136, &format!("{time:011o}"));
    // The checksum is computed as if its own field held spaces.
    put(148, "        ");
    put(157, target);
    put(257, "ustar");
    put(263, "00");
    block[156] = flag;
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(block)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::process::Command;

    use super::*;

    #[test]
    fn tar_lists_files_folders_and_links_as_they_were_added() {
        let folder = tempfile::tempdir().unwrap();
        let mut archive = Archive::new("./", 86_400);
        archive.file("usr/bin/a", 0o755, b"a").unwrap();
        archive.link("usr/bin/b", "a").unwrap();
        let path = folder.path().join("a.tar");
        std::fs::write(&path, archive.finish()).unwrap();
        let listed = Command::new("tar").env("TZ", "UTC").arg("-tvf").arg(&path).output().unwrap();
        let text = String::from_utf8(listed.stdout).unwrap();
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "drwxr-xr-x 0/0 0 1970-01-02 00:00 ./usr/",
                "drwxr-xr-x 0/0 0 1970-01-02 00:00 ./usr/bin/",
                "-rwxr-xr-x 0/0 1 1970-01-02 00:00 ./usr/bin/a",
                "lrwxrwxrwx 0/0 0 1970-01-02 00:00 ./usr/bin/b -> a",
            ]
        );
    }

    #[test]
    fn a_path_that_does_not_fit_is_refused_by_its_name() {
        let long = "a".repeat(101);
        let error = Archive::default().file(&long, 0o644, b"").unwrap_err();
        assert!(error.to_string().starts_with(&long), "{error}");
    }
}
