//! Ends answers that their clients do not take.
//!
//! `Patient` notices when a list or a watch has given a piece and is not asked for the next, be it that the socket is not
//! read or that one HTTP/2 stream is granted nothing. `Socket` notices when a connection cannot write at all, whatever
//! for; it waits longer for a log that somebody reads in a pager or a command's output, since people do take their time.
//! Either way what is held for such a client is small, and it is held for a while only.

use std::{
    convert::Infallible,
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures::Stream;
use hyper::body::{Body, Frame, SizeHint};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep},
};

/// A frame of HTTP/2 holds no more; progress is seen at every piece.
const PIECE: usize = 16 * 1024;

tokio::task_local! {
    static PULSE: Arc<Pulse>;
}

/// Whether the answer that a task is sending moves on: how many pieces it has given, zero if it waits for none to be taken.
#[derive(Debug, Default)]
pub(super) struct Pulse(AtomicU32, AtomicBool);

/// Says that what this task sends is for people. Of an HTTP/1.1 connection that holds from then on.
pub(super) fn at_leisure() {
    let _ = PULSE.try_with(|pulse| pulse.1.store(true, Ordering::Relaxed));
}

/// Runs an answer, or a connection that has one at a time, until its client has taken nothing for too long.
pub(super) struct Patient<F> {
    future: F,
    pulse: Arc<Pulse>,
    patience: Duration,
    waiting: Option<(u32, Pin<Box<Sleep>>)>,
}

impl<F> Patient<F> {
    pub(super) fn new(future: F, patience: Duration, pulse: Arc<Pulse>) -> Self {
        Self { future, pulse, patience, waiting: None }
    }
}

impl<F: Future + Unpin> Future for Patient<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let pulse = Arc::clone(&this.pulse);
        let future = Pin::new(&mut this.future);
        if let Poll::Ready(output) = PULSE.sync_scope(pulse, || future.poll(context)) {
            return Poll::Ready(Some(output));
        }
        let given = this.pulse.0.load(Ordering::Relaxed);
        if given == 0 {
            this.waiting = None;
            return Poll::Pending;
        }
        match &mut this.waiting {
            Some((known, _)) if *known == given => {}
            Some((known, timer)) => {
                *known = given;
                timer.as_mut().reset(Instant::now() + this.patience);
            }
            None => this.waiting = Some((given, Box::pin(sleep(this.patience)))),
        }
        let Some((_, timer)) = &mut this.waiting else { return Poll::Pending };
        ready!(timer.as_mut().poll(context));
        tracing::debug!("an answer was not taken");
        Poll::Ready(None)
    }
}

/// Runs the streams of an HTTP/2 connection, each with the same patience.
#[derive(Debug, Clone)]
pub(super) struct Streams(pub Duration);

impl<F: Future + Send + 'static> hyper::rt::Executor<F> for Streams {
    fn execute(&self, future: F) {
        let patient = Patient::new(Box::pin(future), self.0, Arc::default());
        tokio::spawn(async move { drop(patient.await) });
    }
}

/// A body that is given in small pieces and tells the pulse of its task.
pub(super) struct Pieces<S> {
    stream: S,
    rest: Bytes,
    /// Of a whole answer, what is left of it.
    left: Option<u64>,
    pulse: Option<Arc<Pulse>>,
    given: u32,
}

impl<S> Pieces<S> {
    /// Whatever the stream brings.
    pub(super) fn of(stream: S) -> Self {
        Self { stream, rest: Bytes::new(), left: None, pulse: PULSE.try_with(Arc::clone).ok(), given: 0 }
    }

    /// Never ended for not being taken.
    pub(super) fn leisurely(mut self) -> Self {
        self.pulse = None;
        self
    }

    /// As `of`, where it is known how much that will be.
    pub(super) fn sized(size: u64, stream: S) -> Self {
        let mut pieces = Self::of(stream);
        pieces.left = Some(size);
        pieces
    }

    fn tell(&self, given: u32) {
        if let Some(pulse) = &self.pulse {
            pulse.0.store(given, Ordering::Relaxed);
        }
    }
}

impl Pieces<futures::stream::Empty<Bytes>> {
    /// An answer that is ready.
    pub(super) fn whole(content: Bytes) -> Self {
        let mut pieces = Self::sized(content.len() as u64, futures::stream::empty());
        pieces.rest = content;
        pieces
    }
}

impl<S: Stream<Item = Bytes> + Unpin> Body for Pieces<S> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        this.tell(0);
        while this.rest.is_empty() {
            match ready!(Pin::new(&mut this.stream).poll_next(context)) {
                Some(chunk) => this.rest = chunk,
                None => return Poll::Ready(None),
            }
        }
        let piece = this.rest.split_to(this.rest.len().min(PIECE));
        if let Some(left) = &mut this.left {
            *left -= piece.len() as u64;
        }
        // Nobody asks for more after the last piece of a whole answer.
        if this.left != Some(0) {
            this.given = this.given.wrapping_add(1).max(1);
            this.tell(this.given);
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl<S> Drop for Pieces<S> {
    fn drop(&mut self) {
        self.tell(0);
    }
}

/// A connection that fails when nothing of what it should write is taken for too long.
pub(super) struct Socket {
    stream: TcpStream,
    patience: Duration,
    pulse: Arc<Pulse>,
    waiting: Option<Pin<Box<Sleep>>>,
}

/// How much longer people may take than programs.
const LONGER: u32 = 10;

impl Socket {
    pub(super) fn new(stream: TcpStream, patience: Duration, pulse: Arc<Pulse>) -> Self {
        Self { stream, patience, pulse, waiting: None }
    }

    fn judge(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let longer = if self.pulse.1.load(Ordering::Relaxed) { LONGER } else { 1 };
        let patience = self.patience.saturating_mul(longer);
        let timer = self.waiting.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, data);
        self.judge(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, data);
        self.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
