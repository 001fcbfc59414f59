//! Writes tar archives in the ustar format, as far as an image needs them: folders and files of root, without times.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

/// Archives are made of blocks of this size.
const BLOCK: usize = 512;

/// An archive in memory.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
}

impl Archive {
    /// Adds a folder with all its parents; one that is there already is not added again.
    pub(super) fn folder(&mut self, path: &str) -> Result<()> {
        if path.is_empty() || self.folders.contains(path) {
            return Ok(());
        }
        self.parent(path)?;
        self.folders.insert(path.to_owned());
        self.bytes.extend(header(&format!("{path}/"), b'5', 0o755, 0)?);
        Ok(())
    }

    /// Adds a file, and the folders that lead to it.
    pub(super) fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> Result<()> {
        self.parent(path)?;
        self.bytes.extend(header(path, b'0', mode, content.len())?);
        self.bytes.extend(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK), 0);
        Ok(())
    }

    /// The archive's bytes, with the two empty blocks that end it.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 2 * BLOCK, 0);
        self.bytes
    }

    fn parent(&mut self, path: &str) -> Result<()> {
        path.rsplit_once('/').map_or(Ok(()), |(parent, _)| self.folder(parent))
    }
}

/// The header of an entry. Owner, group and time stay zero.
fn header(path: &str, kind: u8, mode: u32, size: usize) -> Result<[u8; BLOCK]> {
    let mut block = [0; BLOCK];
    ensure!(path.len() <= 100, "{path} is too long for an image: 100 bytes at most");
    ensure!(size < 1 << 33, "{path} is too large for an image: 8 GiB at most");
    let mut put = |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, path);
    put(100, &format!("{mode:07o}"));
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{size:011o}"));
    put(136, "00000000000");
    // The checksum is computed as if its own field held spaces.
    put(148, "        ");
    put(257, "ustar");
    put(263, "00");
    block[156] = kind;
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(block)
}
