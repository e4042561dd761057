//! Request bodies that are read while they are sent.

use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Sleep, sleep};

/// The number of bytes that are read and sent at a time.
const PIECE_BYTES: u64 = 128 << 10;

/// The time that a server has to refuse a request with `Expect: 100-continue` before the
/// body is sent. The HTTP client does not report whether the server has agreed.
const REFUSAL_TIME: Duration = Duration::from_millis(300);

/// Sends a request with a body of `len_bytes` bytes. `send` gets the body and sends the
/// request; `read` returns the bytes of a range of the body, and is called when the
/// connection can take them. If `may_be_refused`, the body is delayed for a moment, so
/// that the server can refuse the request by its head. Returns `None` if the server
/// neither takes bytes nor answers for `patience`.
///
/// # Errors
/// The errors of `send` and `read`. An error of `read` ends the request before the
/// server receives these bytes.
pub async fn upload<T, E, F: Future<Output = Result<T, E>>>(
    len_bytes: u64,
    may_be_refused: bool,
    patience: Duration,
    send: impl FnOnce(reqwest::Body) -> F,
    mut read: impl FnMut(Range<u64>) -> Result<Vec<u8>, E>,
) -> Result<Option<T>, E> {
    let (asks, mut asked) = mpsc::channel(1);
    let body = Pieces {
        len_bytes,
        sent_bytes: 0,
        delay: may_be_refused.then_some(REFUSAL_TIME),
        sleep: None,
        asks,
        coming: None,
    };
    let mut answer = pin!(send(reqwest::Body::wrap(body)));
    loop {
        tokio::select! {
            biased;
            answer = &mut answer => return answer.map(Some),
            Some(Asked { range, to }) = asked.recv() => {
                // The body is dropped if the answer comes early.
                let _ = to.send(read(range)?.into());
            }
            () = sleep(patience) => return Ok(None),
        }
    }
}

/// A range of the body that the connection can take.
struct Asked {
    range: Range<u64>,
    to: oneshot::Sender<Bytes>,
}

struct Pieces {
    len_bytes: u64,
    sent_bytes: u64,
    /// The delay before the first bytes are sent; `None` once it has begun.
    delay: Option<Duration>,
    sleep: Option<Pin<Box<Sleep>>>,
    asks: mpsc::Sender<Asked>,
    coming: Option<oneshot::Receiver<Bytes>>,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        if this.is_end_stream() {
            return Poll::Ready(None);
        }
        if let Some(delay) = this.delay.take() {
            this.sleep = Some(Box::pin(sleep(delay)));
        }
        if let Some(sleep) = &mut this.sleep {
            ready!(sleep.as_mut().poll(context));
            this.sleep = None;
        }
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let mut coming = match this.coming.take() {
            Some(coming) => coming,
            None => {
                let (to, coming) = oneshot::channel();
                let end = this.len_bytes.min(this.sent_bytes + PIECE_BYTES);
                let range = this.sent_bytes..end;
                // The channel has capacity, because each piece is taken out of it before
                // the next one is requested.
                if this.asks.try_send(Asked { range, to }).is_err() {
                    return Poll::Ready(Some(Err(broken())));
                }
                coming
            }
        };
        match Pin::new(&mut coming).poll(context) {
            Poll::Ready(Ok(bytes)) => {
                this.sent_bytes += bytes.len() as u64;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Some(Err(broken()))),
            Poll::Pending => {
                this.coming = Some(coming);
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.sent_bytes >= self.len_bytes
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len_bytes - self.sent_bytes)
    }
}
