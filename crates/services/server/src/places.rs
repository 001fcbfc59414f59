//! Limits concurrent connections, and closes idle ones when others wait for a place.
//!
//! A connection that transfers data keeps its place, however slow it is. One that transfers nothing (a half-open
//! handshake, a client that stopped reading, an idle connection) is closed as soon as another connection needs the
//! place, and not before.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How often connections are checked while another one waits for a place.
const LOOK: Duration = Duration::from_millis(50);

/// How long a connection that got a response may transfer nothing before it is closed. A link that lost a packet or two
/// recovers within this time.
const STOPPED: Duration = Duration::from_millis(500);

/// How long a connection may transfer almost nothing. The same limit applies to the handshake, much of which is our own
/// CPU time.
const STALLED: Duration = Duration::from_secs(2);

/// How long a connection may send nothing at all. While places are scarce, a machine's first bytes are already in the
/// kernel's buffer.
const SILENT: Duration = Duration::from_millis(250);

/// How many bytes within [`STALLED`] count as progress: a tenth of what the slowest known link transfers.
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

/// Activity of one connection.
#[derive(Default)]
pub(crate) struct Visit {
    /// Bytes transferred in either direction.
    moved: AtomicU64,
    /// When the last byte was transferred or the last response was ready.
    last: Mutex<Option<Instant>>,
    /// Bytes of a request that is not complete yet.
    heard: AtomicU64,
    /// Responses in progress: while there is one, the client waits for us.
    answering: AtomicUsize,
    /// A response was produced.
    answered: AtomicBool,
    leave: Notify,
}

/// A place that is taken. Dropping it frees the place.
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

    /// Waits for a free place.
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

    /// Looks for idle connections. Only one of the waiting tasks does it at a time.
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
            let still = seen.visit.last.lock().map(|last| now.saturating_duration_since(last));
            let since = now.saturating_duration_since(seen.at);
            let is_idle = match still {
                None => since >= SILENT,
                Some(still) if seen.visit.answered.load(Ordering::Relaxed) => still >= STOPPED,
                Some(still) => still >= STALLED,
            };
            let is_slow = since >= STALLED && moved - seen.moved < MOVING;
            let is_ours = seen.visit.answering.load(Ordering::Relaxed) > 0;
            if !is_ours && (is_idle || is_slow) {
                seen.visit.leave.notify_one();
            } else if since >= STALLED {
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
    /// Bytes transferred in either direction so far.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    fn went(&self, bytes: usize) {
        if bytes > 0 {
            self.moved.fetch_add(bytes as u64, Ordering::Relaxed);
            *self.last.lock() = Some(Instant::now());
        }
    }

    /// Whether an incomplete request was received.
    pub(crate) fn is_in_midsentence(&self) -> bool {
        self.heard.load(Ordering::Relaxed) > 0
    }

    /// Returns when another connection needs the place.
    pub(crate) async fn over(&self) {
        self.leave.notified().await;
    }

    /// Awaits `answer`, and meanwhile counts the connection as waiting for us.
    pub(crate) async fn answering<T>(&self, answer: impl Future<Output = T>) -> T {
        struct Ends<'a>(&'a Visit);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                *self.0.last.lock() = Some(Instant::now());
                self.0.answered.store(true, Ordering::Relaxed);
                self.0.answering.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.heard.store(0, Ordering::Relaxed);
        self.answering.fetch_add(1, Ordering::Relaxed);
        let _ends = Ends(self);
        answer.await
    }
}

/// A stream that counts its bytes.
pub(crate) struct Counted<S> {
    stream: S,
    visit: Arc<Visit>,
    layer: Layer,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Layer {
    /// Bytes on the network, in either direction.
    Wire,
    /// Decrypted bytes from the client.
    Words,
}

impl<S> Counted<S> {
    pub(crate) fn wire(stream: S, visit: &Arc<Visit>) -> Self {
        Self { stream, visit: Arc::clone(visit), layer: Layer::Wire }
    }

    pub(crate) fn words(stream: S, visit: &Arc<Visit>) -> Self {
        Self { stream, visit: Arc::clone(visit), layer: Layer::Words }
    }

    fn read(&self, bytes: usize) {
        match self.layer {
            Layer::Wire => self.visit.went(bytes),
            Layer::Words => {
                self.visit.heard.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        }
    }

    fn wrote(&self, polled: &Poll<std::io::Result<usize>>) {
        if let (Poll::Ready(Ok(written)), Layer::Wire) = (polled, self.layer) {
            self.visit.went(*written);
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
        self.read(buffer.filled().len() - before);
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
    async fn only_connections_without_progress_lose_their_place() {
        let places = Places::new(5);
        let silent = places.take().await.expect("a place");
        let greeting = places.take().await.expect("a place");
        let slow = places.take().await.expect("a place");
        let stopped = places.take().await.expect("a place");
        let waiting = places.take().await.expect("a place");
        for spoken in [&greeting, &slow, &stopped, &waiting] {
            spoken.visit.went(1);
        }
        for answered in [&slow, &stopped] {
            answered.visit.answering(async {}).await;
        }
        waiting.visit.answering.fetch_add(1, Ordering::Relaxed);
        places.send_away(Instant::now() + SILENT);
        assert!(is_sent_away(&silent).await, "it has sent nothing");
        for other in [&greeting, &slow, &stopped, &waiting] {
            assert!(!is_sent_away(other).await, "it has sent something");
        }
        *slow.visit.last.lock() = Some(Instant::now() + STOPPED);
        places.send_away(Instant::now() + STOPPED);
        assert!(is_sent_away(&stopped).await, "it got a response and reads nothing");
        assert!(!is_sent_away(&slow).await, "it still reads");
        assert!(!is_sent_away(&greeting).await, "its handshake is partly our own work");
        let later = Instant::now() + STALLED;
        *slow.visit.last.lock() = Some(later);
        places.send_away(later);
        assert!(is_sent_away(&slow).await, "it reads almost nothing");
        assert!(is_sent_away(&greeting).await);
        assert!(!is_sent_away(&waiting).await, "it waits for us");
    }

    #[tokio::test]
    async fn a_machine_that_downloads_keeps_its_place_for_as_long_as_it_does() {
        let places = Places::new(1);
        let place = places.take().await.expect("a place");
        place.visit.answering(async {}).await;
        let start = Instant::now();
        for round in 1..10 {
            place.visit.moved.fetch_add(MOVING, Ordering::Relaxed);
            *place.visit.last.lock() = Some(start + STALLED * round);
            places.send_away(start + STALLED * round);
            assert!(!is_sent_away(&place).await, "in round {round}");
        }
        place.visit.moved.fetch_add(1, Ordering::Relaxed);
        *place.visit.last.lock() = Some(start + STALLED * 10);
        places.send_away(start + STALLED * 10);
        assert!(is_sent_away(&place).await, "earlier progress does not count");
    }

    #[tokio::test]
    async fn connections_are_closed_only_when_places_run_out_and_the_next_one_waiting_gets_the_place() {
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
