//! The headers of RPM packages: an index of numbered tags, and the store that it points into.

use std::collections::BTreeMap;

/// The type of a region's entry, which covers the whole header so that nothing can be added to it unnoticed.
const BINARY: u32 = 7;

/// How long an entry of the index is.
const ENTRY: usize = 16;

/// What a tag says.
pub(super) enum Value {
    Halves(Vec<u16>),
    Words(Vec<u32>),
    Text(String),
    Texts(Vec<String>),
    /// A text with one translation, that of the language `C`.
    Translated(String),
}

/// A header in the making.
#[derive(Default)]
pub(super) struct Header {
    tags: BTreeMap<u32, Value>,
}

impl Header {
    pub(super) fn add(&mut self, tag: u32, value: Value) {
        self.tags.insert(tag, value);
    }

    /// The header's bytes, within a region of the given tag.
    pub(super) fn finish(self, region: u32) -> Vec<u8> {
        let count = self.tags.len() + 1;
        let (mut index, mut store) = (Vec::new(), Vec::new());
        for (tag, value) in &self.tags {
            store.resize(usize::next_multiple_of(store.len(), value.alignment()), 0);
            index.extend(entry(*tag, value.kind(), size(store.len()), value.count()));
            value.write(&mut store);
        }
        // The region's entry is the first of the index, and its trailer the last of the store. The trailer points back over the index.
        let first = entry(region, BINARY, size(store.len()), size(ENTRY));
        store.extend(entry(region, BINARY, size(count * ENTRY).wrapping_neg(), size(ENTRY)));
        let mut bytes = vec![0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0];
        bytes.extend(size(count).to_be_bytes());
        bytes.extend(size(store.len()).to_be_bytes());
        bytes.extend(first);
        bytes.extend(index);
        bytes.extend(store);
        bytes
    }
}

impl Value {
    fn kind(&self) -> u32 {
        match self {
            Self::Halves(_) => 3,
            Self::Words(_) => 4,
            Self::Text(_) => 6,
            Self::Texts(_) => 8,
            Self::Translated(_) => 9,
        }
    }

    fn alignment(&self) -> usize {
        match self {
            Self::Halves(_) => 2,
            Self::Words(_) => 4,
            Self::Text(_) | Self::Texts(_) | Self::Translated(_) => 1,
        }
    }

    fn count(&self) -> u32 {
        match self {
            Self::Halves(halves) => size(halves.len()),
            Self::Words(words) => size(words.len()),
            Self::Texts(texts) => size(texts.len()),
            Self::Text(_) | Self::Translated(_) => 1,
        }
    }

    fn write(&self, store: &mut Vec<u8>) {
        let mut put = |text: &String| {
            store.extend(text.bytes());
            store.push(0);
        };
        match self {
            Self::Text(text) | Self::Translated(text) => put(text),
            Self::Texts(texts) => texts.iter().for_each(put),
            Self::Halves(halves) => halves.iter().for_each(|half| store.extend(half.to_be_bytes())),
            Self::Words(words) => words.iter().for_each(|word| store.extend(word.to_be_bytes())),
        }
    }
}

fn entry(tag: u32, kind: u32, offset: u32, count: u32) -> [u8; ENTRY] {
    let mut bytes = [0; ENTRY];
    for (place, word) in bytes.chunks_exact_mut(4).zip([tag, kind, offset, count]) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

/// Headers are far below 4 GiB: their texts are ours.
fn size(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
