//! A stream that times out if the client takes too few bytes.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// Bytes per second that a client has to take on average while bytes are ready for it.
const MIN_BYTES_PER_SECOND: f64 = 4096.0;

/// The time budget of a client. It decreases while the server waits for the client to
/// take bytes, and bytes that are taken restore it.
#[derive(Debug)]
pub(super) struct Progress(Mutex<State>);

#[derive(Debug)]
struct State {
    left: Duration,
    /// When the server began to wait for the client, if it is waiting.
    waits_since: Option<Instant>,
}

impl Progress {
    fn new(limit: Duration) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            left: limit,
            waits_since: None,
        })))
    }

    /// Returns how much of the budget `limit` the client has used up.
    pub(super) fn behind(&self, limit: Duration) -> Duration {
        let state = self.state();
        let waited = state.waits_since.map(|since| since.elapsed());
        limit.saturating_sub(state.left) + waited.unwrap_or_default()
    }

    /// Records that the client has taken `len` bytes.
    fn took(&self, len: usize, limit: Duration) {
        let mut state = self.state();
        if let Some(since) = state.waits_since.take() {
            state.left = state.left.saturating_sub(since.elapsed());
        }
        #[expect(clippy::cast_precision_loss, reason = "a write is short")]
        let gained = Duration::from_secs_f64(len as f64 / MIN_BYTES_PER_SECOND);
        state.left = (state.left + gained).min(limit);
    }

    /// Records that the server waits for the client. Returns when the budget will be
    /// used up.
    fn waits(&self) -> Option<Instant> {
        let mut state = self.state();
        let since = *state.waits_since.get_or_insert_with(Instant::now);
        since.checked_add(state.left)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream whose writes fail once the client's time budget is used up.
pub(super) struct Stalling<S> {
    stream: S,
    limit: Duration,
    progress: Arc<Progress>,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Stalling<S> {
    /// Wraps a stream. `limit` is the initial and maximum time budget.
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        Self {
            stream,
            limit,
            progress: Progress::new(limit),
            waiting: None,
        }
    }

    /// Returns the time budget of the client.
    pub(super) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Updates the budget with the result of a write, whose length `len` returns.
    /// Returns an error if the budget is used up.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
        len: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(result) = &polled {
            self.waiting = None;
            self.progress
                .took(result.as_ref().map_or(0, len), self.limit);
            return polled;
        }
        let Some(end) = self.progress.waits() else {
            return Poll::Pending;
        };
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(sleep_until(end)));
        ready!(waiting.as_mut().poll(context));
        let sentence = "the client reads the answer too slowly";
        Poll::Ready(Err(io::Error::new(ErrorKind::TimedOut, sentence)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalling<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, polled, |len| *len)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.judge(context, polled, |len| *len)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, polled, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, polled, |()| 0)
    }
}
