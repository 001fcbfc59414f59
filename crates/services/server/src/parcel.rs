//! A response body that is sent in chunks, so that a client that does not read costs one chunk and not a whole config.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::task::JoinHandle;

/// Two TLS records.
const PIECE: usize = 32 * 1024;

/// The body of a response.
#[derive(Default)]
pub(crate) struct Parcel {
    rest: Rest,
}

enum Rest {
    /// Shared with all other responses of the same bytes.
    Memory(Bytes),
    /// Read while it is sent: only the chunk in transit is in memory.
    Disk { file: Arc<File>, at: u64, end: u64, reading: Option<JoinHandle<io::Result<Bytes>>> },
}

impl Default for Rest {
    fn default() -> Self {
        Rest::Memory(Bytes::new())
    }
}

impl Parcel {
    /// Sends the first `length` bytes of a file.
    pub(crate) fn of_file(file: Arc<File>, length: u64) -> Self {
        Self { rest: Rest::Disk { file, at: 0, end: length, reading: None } }
    }

    fn left(&self) -> u64 {
        match &self.rest {
            Rest::Memory(bytes) => bytes.len() as u64,
            Rest::Disk { at, end, .. } => end - at,
        }
    }
}

impl<B: Into<Bytes>> From<B> for Parcel {
    fn from(bytes: B) -> Self {
        Self { rest: Rest::Memory(bytes.into()) }
    }
}

impl Body for Parcel {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let piece = match &mut self.rest {
            Rest::Memory(bytes) => bytes.split_to(bytes.len().min(PIECE)),
            Rest::Disk { at, end, .. } if at == end => Bytes::new(),
            Rest::Disk { file, at, end, reading } => {
                let task = reading.get_or_insert_with(|| read(Arc::clone(file), *at, *end));
                let piece = ready!(Pin::new(task).poll(context)).unwrap_or_else(|error| Err(io::Error::other(error)));
                *reading = None;
                match piece {
                    Ok(piece) => {
                        *at += piece.len() as u64;
                        piece
                    }
                    Err(error) => {
                        *at = *end;
                        return Poll::Ready(Some(Err(error)));
                    }
                }
            }
        };
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left())
    }
}

/// Reads the chunk at `at` on a blocking thread, because a disk may be slow.
fn read(file: Arc<File>, at: u64, end: u64) -> JoinHandle<io::Result<Bytes>> {
    tokio::task::spawn_blocking(move || {
        let length = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
        let mut piece = vec![0; length];
        file.read_exact_at(&mut piece, at)?;
        Ok(piece.into())
    })
}
