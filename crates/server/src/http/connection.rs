//! Serves one connection: performs the TLS handshake, then passes each request to the pipeline.
//! Limits the number of connections.
//!
//! Only HTTP/1.1 is supported, with limits on the time and size of a request head. HTTP/2 would
//! need further limits, on stream resets and settings, without a benefit for the pages.
//!
//! A connection is silent until it has sent its first request. If all slots are taken, a new
//! connection evicts the connection that has been silent longest. This hardly ever affects
//! browsers, which send their request immediately. A connection that has sent a request keeps its
//! slot.
//!
//! Each address has two quotas: a general one that is open to any connection, and a login quota for
//! authenticated connections. The login quota exists because many users may share an address. An
//! IPv6 /64 network counts as one address. [`ConnectionLimiter::acquire_slot`],
//! [`ConnectionPermit::is_within_quota`] and [`ConnectionPermit::record_login`] decide which quota
//! a connection counts towards.

use crate::http::client::{ConnectionInfo, address_group};
use crate::http::pipeline::RequestPipeline;
use crate::http::{ServerLimits, listen, lock};
use axum::http::header::{AUTHORIZATION, CONNECTION, COOKIE};
use axum::http::{HeaderValue, Request};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};
use tokio_rustls::TlsAcceptor;

/// Response if there is no free slot for the connection.
const TOO_MANY_CONNECTIONS_RESPONSE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\n\
    retry-after: 1\r\nconnection: close\r\ncontent-length: 20\r\n\r\ntoo many connections";

/// Serves a TCP connection from its handshake to its end.
pub(crate) async fn serve_tcp(
    socket: TcpStream,
    tls: Option<TlsAcceptor>,
    info: ConnectionInfo,
    shared: Arc<RequestPipeline>,
    permit: ConnectionPermit,
) {
    // By default, the last packet of a response may wait for the client's delayed acknowledgment.
    let _ = socket.set_nodelay(true);
    listen::set_user_timeout(&socket, shared.options.limits.stalled_answer);
    let Some(tls) = tls else {
        return serve_plain(socket, info, shared, permit).await;
    };
    let socket = LingeringSocket::new(socket, &shared.options.limits);
    let handshake = tokio::time::timeout(shared.options.limits.head_timeout, tls.accept(socket));
    tokio::select! {
        // After a failed handshake, the client cannot receive a response.
        result = handshake => if let Ok(Ok(socket)) = result { serve_requests(socket, info, shared, &permit).await },
        () = shared.options.stopper.wait_until_stopped() => (),
        () = permit.slot.evicted.notified() => (),
    }
}

/// Serves a connection without TLS.
pub(crate) async fn serve_plain<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    socket: S,
    info: ConnectionInfo,
    shared: Arc<RequestPipeline>,
    permit: ConnectionPermit,
) {
    serve_requests(LingeringSocket::new(socket, &shared.options.limits), info, shared, &permit)
        .await;
}

async fn serve_requests<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    socket: S,
    info: ConnectionInfo,
    shared: Arc<RequestPipeline>,
    permit: &ConnectionPermit,
) {
    let state = Arc::clone(&shared);
    let service = service_fn(move |request| {
        // A request protects the slot from eviction.
        lock(&permit.limiter.state).silent.remove(&permit.number);
        let shared = Arc::clone(&state);
        async move { Ok::<_, Infallible>(answer_request(&shared, &info, request, permit).await) }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(shared.options.limits.head_timeout)
            // hyper requires at least 8 kB.
            .max_buf_size(shared.options.limits.head_bytes.max(8 << 10))
            .serve_connection(TokioIo::new(socket), service)
    );
    // Ignore connection errors: the client is gone or does not speak HTTP. hyper has sent a
    // response if possible.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = shared.options.stopper.wait_until_stopped() => connection.as_mut().graceful_shutdown(),
        // An evicted connection is closed without a response.
        () = permit.slot.evicted.notified() => return,
    }
    let _ = connection.await;
}

/// Answers a request. If the connection exceeds the per-address limit, the request must carry
/// credentials.
async fn answer_request(
    shared: &RequestPipeline,
    info: &ConnectionInfo,
    request: Request<Incoming>,
    permit: &ConnectionPermit,
) -> Response {
    let headers = request.headers();
    let has_credentials = headers.contains_key(AUTHORIZATION) || headers.contains_key(COOKIE);
    let is_within = permit.is_within_quota();
    if !is_within && !has_credentials {
        return shared.reject_request(info, request);
    }
    let (mut response, has_login) = shared.answer_request(info, request).await;
    if has_login {
        permit.record_login();
    } else if !is_within {
        let fields = response.headers_mut();
        fields.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Answers a connection that does not get a slot. Does not read its request.
pub(crate) async fn reject_connection(socket: TcpStream, limits: &ServerLimits) {
    let mut socket = LingeringSocket::new(socket, limits);
    // One write is enough: the send buffer of a new socket has room for these few bytes.
    if poll_fn(|cx| Pin::new(&mut socket).poll_write(cx, TOO_MANY_CONNECTIONS_RESPONSE))
        .await
        .is_ok()
    {
        let _ = poll_fn(|cx| Pin::new(&mut socket).poll_shutdown(cx)).await;
    }
}

/// Maximum number of reads of a closing connection before other connections get their turn.
const MAX_READS_PER_POLL: usize = 16;

/// Socket with a timeout for clients that do not read, and a lingering close.
pub(crate) struct LingeringSocket<S> {
    socket: S,
    limits: ServerLimits,
    /// Runs while a write is blocked. If it expires, the write fails.
    stall_timer: Option<Pin<Box<Sleep>>>,
    /// Runs once the writing side is closed. If it expires, the connection is closed.
    linger_timer: Option<Pin<Box<Sleep>>>,
}

impl<S> LingeringSocket<S> {
    pub(crate) fn new(socket: S, limits: &ServerLimits) -> LingeringSocket<S> {
        LingeringSocket { socket, limits: limits.clone(), stall_timer: None, linger_timer: None }
    }

    /// Returns the result of a write, or an error if writes have been blocked for too long.
    fn check_stalled<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stall_timer = None;
            return written;
        }
        let limit = self.limits.stalled_answer;
        let timer = self.stall_timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(ErrorKind::TimedOut, "the client stopped reading")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LingeringSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LingeringSocket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.check_stalled(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, pieces);
        self.check_stalled(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(cx);
        self.check_stalled(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.linger_timer.is_none() {
            ready!(Pin::new(&mut this.socket).poll_shutdown(cx))?;
        }
        let limit = this.limits.linger;
        let timer = this.linger_timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        if timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let mut space = [0; 8 << 10];
        for _ in 0..MAX_READS_PER_POLL {
            let mut buffer = ReadBuf::new(&mut space);
            match ready!(Pin::new(&mut this.socket).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => (),
                // The client has closed its side or is gone.
                Ok(()) | Err(_) => return Poll::Ready(Ok(())),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Maximum number of connections that receive a 503 response, for lack of a slot, at the same time.
/// Further connections are closed without a response.
const MAX_REJECTIONS: usize = 64;

/// Limits and current number of connections.
pub(crate) struct ConnectionLimiter {
    slots: Arc<Semaphore>,
    connections: u32,
    limits: ServerLimits,
    state: Mutex<LimiterState>,
    /// Permits for sending 503 to connections without a slot.
    pub(crate) rejections: Arc<Semaphore>,
}

/// Slots in use.
#[derive(Default)]
struct LimiterState {
    by_address: HashMap<IpAddr, AddressCounts>,
    /// Connections that have not sent a request yet, in order of arrival.
    silent: BTreeMap<u64, Arc<ConnectionSlot>>,
    next: u64,
}

/// Number of connections of one address.
#[derive(Default)]
struct AddressCounts {
    /// Connections in the general quota.
    general: usize,
    /// Connections in the login quota. They are authenticated, or their next request must carry
    /// credentials.
    login: usize,
}

/// Holds the slot of a connection, and releases it on drop.
pub(crate) struct ConnectionPermit {
    limiter: Arc<ConnectionLimiter>,
    slot: Arc<ConnectionSlot>,
    number: u64,
}

struct ConnectionSlot {
    address: Option<IpAddr>,
    /// Whether the connection counts towards the general quota. Changed only while
    /// [`LimiterState`] is locked.
    is_within: AtomicBool,
    /// `None` after eviction.
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    evicted: Notify,
}

impl ConnectionLimiter {
    pub(crate) fn new(limits: &ServerLimits) -> ConnectionLimiter {
        let connections = limits.connections.clamp(1, Semaphore::MAX_PERMITS);
        ConnectionLimiter {
            slots: Arc::new(Semaphore::new(connections)),
            connections: u32::try_from(connections).unwrap_or(u32::MAX),
            limits: limits.clone(),
            state: Mutex::default(),
            rejections: Arc::new(Semaphore::new(MAX_REJECTIONS)),
        }
    }

    /// Returns a slot. If no slot is free, evicts a silent connection. Returns `None` if there is
    /// none to evict, or if the address has exhausted both quotas.
    pub(crate) fn acquire_slot(
        self: &Arc<ConnectionLimiter>,
        address: Option<IpAddr>,
    ) -> Option<ConnectionPermit> {
        let address = address.map(address_group);
        let mut state = lock(&self.state);
        let counts = address.and_then(|address| state.by_address.get(&address));
        let (general, login) = counts.map_or((0, 0), |counts| (counts.general, counts.login));
        let is_within = general < self.limits.connections_per_address;
        if address.is_some() && !is_within && login >= self.limits.connections_logged_in {
            return None;
        }
        let free = Arc::clone(&self.slots).try_acquire_owned().ok();
        let permit = free.or_else(|| state.evict_silent())?;
        if let Some(address) = address {
            let counts = state.by_address.entry(address).or_default();
            *counts.count_mut(is_within) += 1;
        }
        let number = state.next;
        state.next += 1;
        let slot = Arc::new(ConnectionSlot {
            address,
            is_within: AtomicBool::new(is_within),
            permit: Mutex::new(Some(permit)),
            evicted: Notify::new(),
        });
        state.silent.insert(number, Arc::clone(&slot));
        drop(state);
        Some(ConnectionPermit { limiter: Arc::clone(self), slot, number })
    }

    /// Waits until all slots are free.
    pub(crate) async fn wait_until_empty(&self) {
        // The semaphore is never closed.
        drop(self.slots.acquire_many(self.connections).await);
    }
}

impl AddressCounts {
    fn count_mut(&mut self, is_within: bool) -> &mut usize {
        if is_within { &mut self.general } else { &mut self.login }
    }
}

impl LimiterState {
    /// Evicts the connection that has been silent longest and returns its permit.
    fn evict_silent(&mut self) -> Option<OwnedSemaphorePermit> {
        let (_, slot) = self.silent.pop_first()?;
        slot.evicted.notify_one();
        let permit = lock(&slot.permit).take()?;
        self.remove_slot(&slot);
        Some(permit)
    }

    /// Removes a connection from the counts of its address.
    fn remove_slot(&mut self, slot: &ConnectionSlot) {
        let Some(address) = slot.address else { return };
        if let Some(counts) = self.by_address.get_mut(&address) {
            *counts.count_mut(slot.is_within.load(Ordering::Relaxed)) -= 1;
            if counts.general + counts.login == 0 {
                self.by_address.remove(&address);
            }
        }
    }

    /// Counts a connection towards the other quota of its address from now on. `is_within` is true
    /// for the general quota.
    fn move_to_quota(&mut self, slot: &ConnectionSlot, is_within: bool) {
        // An evicted connection was already removed from the counts.
        if lock(&slot.permit).is_none() {
            return;
        }
        let Some(counts) = slot.address.and_then(|address| self.by_address.get_mut(&address))
        else {
            return;
        };
        *counts.count_mut(!is_within) -= 1;
        *counts.count_mut(is_within) += 1;
        slot.is_within.store(is_within, Ordering::Relaxed);
    }
}

impl ConnectionPermit {
    /// Whether the connection counts towards the general quota. If the connection counts towards
    /// the login quota but the general quota has room again, it counts towards the general quota
    /// from now on.
    fn is_within_quota(&self) -> bool {
        if self.slot.is_within.load(Ordering::Relaxed) {
            return true;
        }
        let mut state = lock(&self.limiter.state);
        let address = self.slot.address;
        let counts = address.and_then(|address| state.by_address.get(&address));
        let limit = self.limiter.limits.connections_per_address;
        if counts.is_none_or(|counts| counts.general >= limit) {
            return false;
        }
        state.move_to_quota(&self.slot, true);
        true
    }

    /// Records that the connection is authenticated. If the login quota of its address has room,
    /// the connection counts towards the login quota from now on.
    pub(crate) fn record_login(&self) {
        let mut state = lock(&self.limiter.state);
        let address = self.slot.address;
        let counts = address.and_then(|address| state.by_address.get(&address));
        let limit = self.limiter.limits.connections_logged_in;
        let has_room = counts.is_some_and(|counts| counts.login < limit);
        if has_room && self.slot.is_within.load(Ordering::Relaxed) {
            state.move_to_quota(&self.slot, false);
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut state = lock(&self.limiter.state);
        state.silent.remove(&self.number);
        // An evicted connection was already removed from the counts.
        if let Some(permit) = lock(&self.slot.permit).take() {
            state.remove_slot(&self.slot);
            drop(permit);
        }
    }
}
