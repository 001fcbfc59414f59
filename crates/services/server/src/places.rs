//! Places for connections: so many at once, and those who only hold one give it up when others wait.
//!
//! A machine that downloads, however slowly, keeps its place. One that moves nothing (a half-open handshake, a reader
//! that stopped, an idle connection) is sent away as soon as somebody else needs the place, and not before.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How often places are looked over while somebody waits for one.
const LOOK: Duration = Duration::from_millis(50);

/// How long a connection may move nothing before its place goes to another: a link that lost a packet or two moves again
/// within that time.
const STOPPED: Duration = Duration::from_millis(500);

/// How long a connection may move next to nothing.
const STALLED: Duration = Duration::from_secs(2);

/// How long one may say nothing at all: while places are short, a machine's first words wait in the kernel already.
const SILENT: Duration = Duration::from_millis(250);

/// What counts as moving in that time: a tenth of the slowest link that is met with.
pub(crate) const MOVING: u64 = 8 * 1024;

pub(crate) struct Places {
    free: Arc<Semaphore>,
    looking: tokio::sync::Mutex<()>,
    visits: Mutex<HashMap<u64, Seen>>,
    next: AtomicU64,
}

struct Seen {
    visit: Arc<Visit>,
    moved: u64,
    at: Instant,
}

/// What one connection does with its place.
#[derive(Default)]
pub(crate) struct Visit {
    /// Bytes that went either way.
    pub(crate) moved: Arc<AtomicU64>,
    /// Bytes of a request that is not whole yet.
    pub(crate) heard: Arc<AtomicU64>,
    /// Answers that are being made: while there is one, the machine waits for us.
    answering: AtomicUsize,
    leave: Notify,
}

/// A place that is held; dropping it gives it back.
pub(crate) struct Place {
    pub(crate) places: Arc<Places>,
    number: u64,
    pub(crate) visit: Arc<Visit>,
    _permit: OwnedSemaphorePermit,
}

impl Places {
    pub(crate) fn new(count: usize) -> Arc<Self> {
        let free = Arc::new(Semaphore::new(count));
        Arc::new(Self {
            free,
            looking: tokio::sync::Mutex::default(),
            visits: Mutex::default(),
            next: AtomicU64::new(0),
        })
    }

    /// A place, as soon as there is one.
    pub(crate) async fn take(self: &Arc<Self>) -> Option<Place> {
        let permit = tokio::select! {
            biased;
            permit = Arc::clone(&self.free).acquire_owned() => permit.ok()?,
            never = self.look_around() => match never {},
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let visit = Arc::new(Visit::default());
        self.visits.lock().insert(number, Seen { visit: Arc::clone(&visit), moved: 0, at: Instant::now() });
        Some(Place { places: Arc::clone(self), number, visit, _permit: permit })
    }

    /// While anybody waits, one of them looks for places that are only held.
    async fn look_around(&self) -> std::convert::Infallible {
        let _one = self.looking.lock().await;
        loop {
            tokio::time::sleep(LOOK).await;
            self.send_away(Instant::now());
        }
    }

    fn send_away(&self, now: Instant) {
        for seen in self.visits.lock().values_mut() {
            let moved = seen.visit.moved();
            let patience = match moved - seen.moved {
                _ if moved == 0 => SILENT,
                0 => STOPPED,
                _ => STALLED,
            };
            if now.duration_since(seen.at) < patience {
                continue;
            }
            let is_ours = seen.visit.answering.load(Ordering::Relaxed) > 0;
            if moved - seen.moved < MOVING && !is_ours {
                seen.visit.leave.notify_one();
            } else {
                (seen.moved, seen.at) = (moved, now);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.visits.lock().remove(&self.number);
    }
}

impl Visit {
    /// Bytes that went either way so far.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Returns when the place is needed by others.
    pub(crate) async fn over(&self) {
        self.leave.notified().await;
    }

    /// Waits for an answer that is ours to give.
    pub(crate) async fn answering<T>(&self, answer: impl Future<Output = T>) -> T {
        struct Ends<'a>(&'a AtomicUsize);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.answering.fetch_add(1, Ordering::Relaxed);
        let _ends = Ends(&self.answering);
        answer.await
    }
}

/// A stream whose bytes are counted.
pub(crate) struct Counted<S> {
    stream: S,
    read: Arc<AtomicU64>,
    written: Option<Arc<AtomicU64>>,
}

impl<S> Counted<S> {
    /// Counts both ways.
    pub(crate) fn both(stream: S, count: &Arc<AtomicU64>) -> Self {
        Self { stream, read: Arc::clone(count), written: Some(Arc::clone(count)) }
    }

    /// Counts only what comes in.
    pub(crate) fn read(stream: S, count: &Arc<AtomicU64>) -> Self {
        Self { stream, read: Arc::clone(count), written: None }
    }

    fn wrote(&self, polled: &Poll<std::io::Result<usize>>) {
        if let (Poll::Ready(Ok(written)), Some(count)) = (polled, &self.written) {
            count.fetch_add(*written as u64, Ordering::Relaxed);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.read.fetch_add((buffer.filled().len() - before) as u64, Ordering::Relaxed);
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.wrote(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_sent_away(place: &Place) -> bool {
        tokio::time::timeout(Duration::from_millis(10), place.visit.over()).await.is_ok()
    }

    #[tokio::test]
    async fn only_those_who_move_nothing_lose_their_place() {
        let places = Places::new(3);
        let idle = places.take().await.expect("a place");
        let slow = places.take().await.expect("a place");
        let served = places.take().await.expect("a place");
        served.visit.answering.fetch_add(1, Ordering::Relaxed);
        idle.visit.moved.fetch_add(1, Ordering::Relaxed);
        places.send_away(Instant::now() + SILENT);
        assert!(!is_sent_away(&idle).await, "it has said something");
        assert!(is_sent_away(&slow).await, "it has said nothing");
        let later = Instant::now() + STALLED;
        slow.visit.moved.fetch_add(MOVING, Ordering::Relaxed);
        places.send_away(later);
        assert!(is_sent_away(&idle).await);
        assert!(!is_sent_away(&slow).await, "it downloads");
        assert!(!is_sent_away(&served).await, "it waits for us");
        places.send_away(later + STALLED);
        assert!(is_sent_away(&slow).await, "it has stopped");
    }

    #[tokio::test]
    async fn nobody_is_sent_away_while_there_is_room_and_who_waits_gets_the_first_place() {
        let places = Places::new(1);
        let first = places.take().await.expect("a place");
        let waiting = tokio::spawn({
            let places = Arc::clone(&places);
            async move { places.take().await.is_some() }
        });
        drop(first);
        assert!(waiting.await.expect("no panic"));
    }
}
