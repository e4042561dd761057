//! Connections: how many, for how long, and how they end.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::Request;
use axum::response::Response;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::stall::Stalling;

/// The most that is buffered of a request's head, and about what is buffered
/// of an answer for a client that is slow.
const BUFFER_BYTES: usize = 64 << 10;

/// Pause before another attempt when no connection can be accepted, for lack of
/// descriptors for instance.
const PAUSE: Duration = Duration::from_millis(100);

/// The limits of a server's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Within this time of a connection's beginning, or of the last answer on
    /// it, the head of a request has to be complete.
    pub head: Duration,
    /// A client that takes nothing for this long is dropped.
    pub write: Duration,
    /// Connections at a time. One more takes the place of the one that has
    /// been idle longest; if all have answers under way, it waits.
    pub connections: usize,
    /// The time that a stopping server gives to answers that are under way.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(20),
            // Sockets take megabytes before a slow client has taken one.
            write: Duration::from_secs(120),
            connections: 512,
            grace: Duration::from_secs(3),
        }
    }
}

/// All connections of a server.
pub(super) struct Connections {
    limits: Limits,
    places: Arc<Semaphore>,
    idle: Mutex<Idle>,
    open: Arc<AtomicUsize>,
}

/// Those without an answer under way, by when they came to be so.
#[derive(Default)]
struct Idle {
    next: u64,
    waiting: BTreeMap<u64, Arc<Notify>>,
}

impl Connections {
    /// `open` is kept as their number.
    pub(super) fn new(limits: Limits, open: Arc<AtomicUsize>) -> Arc<Self> {
        Arc::new(Self {
            limits,
            places: Arc::new(Semaphore::new(limits.connections.max(1))),
            idle: Mutex::default(),
            open,
        })
    }

    /// Accepts connections until `stop` says so, and answers their requests.
    pub(super) async fn serve<A, F>(
        self: Arc<Self>,
        listener: TcpListener,
        mut stop: watch::Receiver<bool>,
        answer: A,
    ) where
        A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response> + Send + 'static,
    {
        let stopped = stop.clone();
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => {}
            () = self.accept(&listener, stopped, answer) => {}
        }
        drop(listener);
        let all = u32::try_from(self.limits.connections.max(1)).unwrap_or(u32::MAX);
        let _ = timeout(self.limits.grace, self.places.acquire_many(all)).await;
    }

    async fn accept<A, F>(
        self: &Arc<Self>,
        listener: &TcpListener,
        stop: watch::Receiver<bool>,
        answer: A,
    ) where
        A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response> + Send + 'static,
    {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let place = self.place().await;
                    let one = Connection::new(Arc::clone(self), place);
                    tokio::spawn(one.run(stream, stop.clone(), answer.clone()));
                }
                Err(error) if is_of_the_client(&error) => {}
                Err(_) => {
                    self.close_an_idle_one();
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn place(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            let place = Arc::clone(&self.places);
            if let Ok(place) = Arc::clone(&place).try_acquire_owned() {
                return Some(place);
            }
            self.close_an_idle_one();
            if let Ok(place) = timeout(PAUSE, place.acquire_owned()).await {
                return place.ok();
            }
        }
    }

    fn close_an_idle_one(&self) {
        if let Some((_, oldest)) = self.idle().waiting.pop_first() {
            oldest.notify_one();
        }
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_of_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}

struct Connection {
    all: Arc<Connections>,
    close: Arc<Notify>,
    /// Its key among the idle ones.
    idle_as: Mutex<Option<u64>>,
    was_asked: AtomicBool,
    _place: Option<OwnedSemaphorePermit>,
}

impl Connection {
    fn new(all: Arc<Connections>, place: Option<OwnedSemaphorePermit>) -> Arc<Self> {
        all.open.fetch_add(1, Ordering::SeqCst);
        let one = Arc::new(Self {
            all,
            close: Arc::default(),
            idle_as: Mutex::default(),
            was_asked: AtomicBool::new(false),
            _place: place,
        });
        one.becomes_idle();
        one
    }

    async fn run<A, F>(
        self: Arc<Self>,
        stream: TcpStream,
        mut stop: watch::Receiver<bool>,
        answer: A,
    ) where
        A: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
        F: Future<Output = Response> + Send + 'static,
    {
        // The last piece of an answer need not wait for others.
        let _ = stream.set_nodelay(true);
        let service = service_fn(|request| {
            let busy = Busy::new(Arc::clone(&self));
            let response = answer(request);
            async move {
                let response = response.await;
                Ok::<_, Infallible>(response.map(|body| Guarded { body, _busy: busy }))
            }
        });
        let limits = self.all.limits;
        let stream = TokioIo::new(Stalling::new(stream, limits.write));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head)
            .max_buf_size(BUFFER_BYTES)
            .serve_connection(stream, service);
        let mut connection = pin!(connection);
        let mut is_ending = false;
        loop {
            tokio::select! {
                // A failed connection is the client's affair.
                _ = connection.as_mut() => return,
                () = self.close.notified() => {}
                _ = stop.wait_for(|stop| *stop), if !is_ending => is_ending = true,
            }
            if !self.was_asked.load(Ordering::SeqCst) {
                return;
            }
            connection.as_mut().graceful_shutdown();
        }
    }

    fn becomes_idle(&self) {
        let mut idle = self.all.idle();
        idle.next += 1;
        let key = idle.next;
        idle.waiting.insert(key, Arc::clone(&self.close));
        *self.idle_as() = Some(key);
    }

    fn is_idle_no_more(&self) {
        let mut idle = self.all.idle();
        if let Some(key) = self.idle_as().take() {
            idle.waiting.remove(&key);
        }
    }

    fn idle_as(&self) -> MutexGuard<'_, Option<u64>> {
        self.idle_as.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.is_idle_no_more();
        self.all.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An answer under way.
struct Busy(Arc<Connection>);

impl Busy {
    fn new(connection: Arc<Connection>) -> Self {
        connection.was_asked.store(true, Ordering::SeqCst);
        connection.is_idle_no_more();
        Self(connection)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.becomes_idle();
    }
}

/// A body that keeps its connection busy.
struct Guarded {
    body: Body,
    _busy: Busy,
}

impl HttpBody for Guarded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
