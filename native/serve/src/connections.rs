//! The connections of a server: accepting them, answering their requests within the
//! limits, and closing them.

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
use super::limits::{Claim, Limits, RESERVE, Slot, Slots, TimedStream};

/// Maximum buffer for the head of a request, and approximate buffer for an answer to a
/// slow client.
const BUFFER_BYTES: usize = 64 << 10;

/// Bytes of an answer that the operating system may buffer beyond those in flight. A
/// small value exposes slow clients early and saves memory.
const UNSENT_BYTES: u32 = 128 << 10;

/// Time that an idle connection has to deliver the end of its last answer after the
/// server has begun to close it.
const LAST_BYTES: Duration = Duration::from_secs(5);

/// Upper bound of [`Limits::connections`].
const MAX_CONNECTIONS: usize = 1 << 20;

/// Delay before the next attempt when a connection cannot be accepted, for example
/// because file descriptors have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// The IP address of a request's client.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// All connections of a server.
pub(super) struct Connections {
    limits: Limits,
    /// The path of health checks, which are answered without a slot.
    health: Option<&'static str>,
    places: Arc<Semaphore>,
    slots: Arc<Slots>,
    idle: Mutex<Idle>,
    open: Arc<AtomicUsize>,
}

/// Connections without an answer in progress, ordered by when they became idle.
#[derive(Default)]
struct Idle {
    next: u64,
    waiting: BTreeMap<u64, Arc<Notify>>,
}

impl Connections {
    /// Creates the limits for one server. `open` counts the open connections. Requests
    /// for the path `health` are answered even when all slots are taken.
    pub(super) fn new(
        mut limits: Limits,
        health: Option<&'static str>,
        open: Arc<AtomicUsize>,
    ) -> Arc<Self> {
        // This keeps the number within the limits of a semaphore.
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

    /// Accepts connections and answers their requests until `stop` is set. Then waits
    /// until the connections have ended, for at most [`Limits::grace`].
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
    /// The key of this connection in [`Idle::waiting`], if it is idle.
    idle_as: Mutex<Option<u64>>,
    was_asked: AtomicBool,
    /// Answers in progress, including requests that wait for a slot.
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
        // Disables Nagle's algorithm, so that the last bytes of an answer are sent at
        // once.
        let _ = stream.set_nodelay(true);
        #[cfg(any(target_os = "android", target_os = "linux"))]
        let _ = socket2::SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_BYTES);
        let limits = self.all.limits;
        let stream = TimedStream::new(stream, limits.write);
        let claim = Claim {
            address: self.address.ip(),
            budget: stream.budget(),
            end: Arc::default(),
        };
        let end = Arc::clone(&claim.end);
        let service = service_fn(|mut request: Request<Incoming>| {
            self.was_asked.store(true, Ordering::SeqCst);
            request.extensions_mut().insert(Peer(self.address.ip()));
            let (connection, claim) = (Arc::clone(&self), claim.clone());
            let answer = answer.clone();
            async move {
                // A health check has a short answer and does not make the connection
                // busy.
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
                // The connection has ended, regularly or by an error of the client.
                _ = connection.as_mut() => return,
                // The client is too slow and has to give way.
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

/// Returns the refusal for a request that got no slot.
fn full() -> Response {
    let (mut response, _) = plain(
        StatusCode::SERVICE_UNAVAILABLE,
        "the server is sending as many responses as it can; try again soon",
    );
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A request that is being answered or waits for a slot.
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

/// A response body that keeps its connection busy until it is dropped.
struct Guarded {
    body: Body,
    _busy: Option<(Slot, Busy)>,
}

impl Guarded {
    /// Wraps a short body, which does not keep the connection busy.
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
