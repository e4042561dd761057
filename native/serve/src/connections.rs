//! Connections: how many, for how long, and how they end.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::Response;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::answer::plain;
use super::slots::{Claim, RESERVE, Slot, Slots};
use super::stall::Stalling;

/// The most that is buffered of a request's head, and about what is buffered
/// of an answer for a client that is slow.
const BUFFER_BYTES: usize = 64 << 10;

/// Bytes of an answer that the system may hold back in addition to those that the
/// network takes, so that a slow client is seen as one and costs little memory.
const UNSENT_BYTES: u32 = 128 << 10;

/// The time that an idle connection has for the end of its last answer when its place
/// is needed.
const LAST_BYTES: Duration = Duration::from_secs(5);

/// The largest number of connections that is counted.
const MAX_CONNECTIONS: usize = 1 << 20;

/// Pause before another attempt when no connection can be accepted, for lack of
/// descriptors for instance.
const PAUSE: Duration = Duration::from_millis(100);

/// The limits of a server's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Within this time of a connection's beginning, or of the last answer on
    /// it, the head of a request has to be complete.
    pub head: Duration,
    /// The time that a client has to take bytes that are there for it. Waiting for it
    /// uses the time up; every 4 kB that it takes give it a second back. A client
    /// without any time left is dropped.
    pub write: Duration,
    /// Answers in progress at a time. A further request waits for up to 30 seconds,
    /// and is then refused with the status 503. In addition there may be 64 connections
    /// that are idle or wait; one more takes the place of the one that has been idle
    /// longest.
    pub connections: usize,
    /// Answers in progress to one address (of IPv6, a network of 64 bits); 0 for three
    /// quarters of [`Limits::connections`].
    pub connections_per_address: usize,
    /// While requests wait, the client that is furthest behind is dropped if it has
    /// used up this much of the time [`Limits::write`].
    pub give_way: Duration,
    /// The time that a stopping server gives to answers that are under way.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(20),
            write: Duration::from_secs(60),
            connections: 512,
            connections_per_address: 0,
            give_way: Duration::from_secs(5),
            grace: Duration::from_secs(3),
        }
    }
}

impl Limits {
    /// Returns the number of answers to one address.
    pub(super) fn of_an_address(&self) -> usize {
        match self.connections_per_address {
            0 => (self.connections / 4 * 3)
                .max(self.connections.min(4))
                .max(1),
            limit => limit,
        }
    }
}

/// The client of a request.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// All connections of a server.
pub(super) struct Connections {
    limits: Limits,
    /// The path of requests that need no slot.
    health: Option<&'static str>,
    places: Arc<Semaphore>,
    slots: Arc<Slots>,
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
    /// `open` is kept as their number. Requests for the path `health` are answered also
    /// when all slots are taken.
    pub(super) fn new(
        mut limits: Limits,
        health: Option<&'static str>,
        open: Arc<AtomicUsize>,
    ) -> Arc<Self> {
        // Semaphores count no further.
        limits.connections = limits.connections.clamp(1, MAX_CONNECTIONS);
        Arc::new(Self {
            limits,
            health,
            places: Arc::new(Semaphore::new(limits.connections + RESERVE)),
            slots: Slots::new(limits),
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
        let all = u32::try_from(self.limits.connections + RESERVE).unwrap_or(u32::MAX);
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
                Ok((stream, address)) => {
                    let place = self.place().await;
                    let one = Connection::new(Arc::clone(self), address, place);
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
    address: SocketAddr,
    close: Arc<Notify>,
    /// Its key among the idle ones.
    idle_as: Mutex<Option<u64>>,
    was_asked: AtomicBool,
    /// Answers in progress: one, or more where requests follow each other at once.
    busy: AtomicUsize,
    _place: Option<OwnedSemaphorePermit>,
}

impl Connection {
    fn new(
        all: Arc<Connections>,
        address: SocketAddr,
        place: Option<OwnedSemaphorePermit>,
    ) -> Arc<Self> {
        all.open.fetch_add(1, Ordering::SeqCst);
        let one = Arc::new(Self {
            all,
            address,
            close: Arc::default(),
            idle_as: Mutex::default(),
            was_asked: AtomicBool::new(false),
            busy: AtomicUsize::new(0),
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
        A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response> + Send + 'static,
    {
        // The last piece of an answer need not wait for others.
        let _ = stream.set_nodelay(true);
        #[cfg(any(target_os = "android", target_os = "linux"))]
        let _ = socket2::SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_BYTES);
        let limits = self.all.limits;
        let stream = Stalling::new(stream, limits.write);
        let claim = Claim {
            address: self.address.ip(),
            progress: stream.progress(),
            end: Arc::default(),
        };
        let end = Arc::clone(&claim.end);
        let service = service_fn(|mut request: Request<Incoming>| {
            self.was_asked.store(true, Ordering::SeqCst);
            request.extensions_mut().insert(Peer(self.address.ip()));
            let (connection, claim) = (Arc::clone(&self), claim.clone());
            let answer = answer.clone();
            async move {
                // Such an answer is short: the connection counts as idle.
                if connection.all.health == Some(request.uri().path()) {
                    return Ok::<_, Infallible>(answer(request).await.map(Guarded::idle));
                }
                let busy = Busy::new(connection);
                let Ok(slot) = busy.0.all.slots.take(&claim).await else {
                    return Ok(full().map(Guarded::idle));
                };
                let response = answer(request).await;
                Ok(response.map(|body| Guarded {
                    body,
                    _busy: Some((slot, busy)),
                }))
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head)
            .max_buf_size(BUFFER_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let (mut is_ending, mut is_closing) = (false, false);
        loop {
            tokio::select! {
                // A failed connection is the client's affair.
                _ = connection.as_mut() => return,
                // The client is too slow.
                () = end.notified() => return,
                () = self.close.notified() => is_closing = true,
                () = sleep(LAST_BYTES), if is_closing => {
                    if self.busy.load(Ordering::SeqCst) == 0 {
                        return;
                    }
                    continue;
                }
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

/// Refuses a request for which there is no slot.
fn full() -> Response {
    let (mut response, _) = plain(
        StatusCode::SERVICE_UNAVAILABLE,
        "the server sends as many answers as it may; try again soon",
    );
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A request that is answered, or waits for it.
struct Busy(Arc<Connection>);

impl Busy {
    fn new(connection: Arc<Connection>) -> Self {
        connection.busy.fetch_add(1, Ordering::SeqCst);
        connection.is_idle_no_more();
        Self(connection)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
        self.0.becomes_idle();
    }
}

/// A body that keeps its connection busy.
struct Guarded {
    body: Body,
    _busy: Option<(Slot, Busy)>,
}

impl Guarded {
    /// Takes a body that is short.
    fn idle(body: Body) -> Self {
        Self { body, _busy: None }
    }
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
