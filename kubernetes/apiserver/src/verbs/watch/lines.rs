//! The text of a watch on its way out: small events joined, large objects as they are.
//!
//! A large object is never copied: its bytes are shared by the store and by everyone who sends it, so a change that a
//! thousand clients wait for is in memory once.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};

/// Events are joined into chunks of about this size.
const CHUNK: usize = 64 * 1024;
/// From this size on a copy costs more than two more chunks do.
const SHARED: usize = 16 * 1024;

#[derive(Default)]
pub(super) struct Lines {
    chunks: VecDeque<Bytes>,
    open: BytesMut,
    size: usize,
}

impl Lines {
    /// Adds one event.
    pub(super) fn line(&mut self, kind: &str, object: &Bytes) {
        let before = self.open.len();
        let copied = if object.len() < SHARED { object.len() } else { 0 };
        self.open.reserve(copied + 40);
        self.open.put_slice(b"{\"type\":\"");
        self.open.put_slice(kind.as_bytes());
        self.open.put_slice(b"\",\"object\":");
        if object.len() < SHARED {
            self.open.put_slice(object);
            self.size += self.open.len() - before;
        } else {
            self.seal();
            self.chunks.push_back(object.clone());
            self.size += object.len();
        }
        self.open.put_slice(b"}\n");
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.open.is_empty()
    }

    /// Whether to write what there is before adding more.
    pub(super) fn is_full(&self) -> bool {
        self.size >= CHUNK
    }

    /// The next chunk, if there is something to write. Nothing is kept allocated when all is written.
    pub(super) fn pop(&mut self) -> Option<Bytes> {
        self.seal();
        let chunk = self.chunks.pop_front();
        if self.chunks.is_empty() {
            *self = Self::default();
        }
        chunk
    }

    fn seal(&mut self) {
        if !self.open.is_empty() {
            self.chunks.push_back(std::mem::take(&mut self.open).freeze());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn small_events_are_joined_and_large_ones_shared() {
        let mut lines = Lines::default();
        let (small, large) = (Bytes::from_static(b"{}"), Bytes::from(vec![b' '; SHARED]));
        for object in [&small, &large, &small, &small] {
            lines.line("ADDED", object);
        }
        let chunks: Vec<Bytes> = std::iter::from_fn(|| lines.pop()).collect();
        assert_eq!(chunks.len(), 3);
        assert_eq!(chunks[1].as_ptr(), large.as_ptr());
        let text = String::from_utf8(chunks.concat()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines.iter().all(|line| line.starts_with(r#"{"type":"ADDED","object":"#) && line.ends_with('}')));
    }
}
