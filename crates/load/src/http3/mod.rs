//! Provides HTTP/3 to an event loop that drives many client connections in one thread.
//!
//! The protocols are implemented by `quinn` and `h3`. Their tasks run only during
//! [`H3Engine::run_until_event`]. The event loop calls this method instead of waiting for sockets,
//! and receives [`H3Event`]s from it. This module knows nothing about the timing or the purpose of
//! requests, and counts only traffic. Start at [`H3Engine`], then
//! [`H3Connection::send`].

mod engine;
mod exchange;

pub use engine::H3Engine;
pub use exchange::{H3Request, RequestHandle};

use crate::http1::{MethodKind, ResponseSummary, ResponseWatch};
use bytes::Bytes;
use engine::{QuicSocket, RaceWinner, TrafficCounters, race_futures};
use exchange::RequestTask;
use h3::error::{Code, StreamError};
use h3::{ConnectionState, client};
use quinn::crypto::rustls::HandshakeData;
use quinn::{
    ClientConfig, ConnectionError, Endpoint, EndpointConfig, TokioRuntime, TransportErrorCode,
    VarInt,
};
use rustls::pki_types::CertificateDer;
use speedwell_model::load::outcomes::ErrorClass;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use tokio::sync::oneshot;
use tokio::task::yield_now;

// A connection has a handle and a task. The event loop holds the handle. The task opens the
// connection, drives it until it ends, and reports when requests can be sent and why they no longer
// can. Start at [`H3Engine::connect`] and [`H3Connection::send`], then read `ConnectionTask::run`.

type Driver = client::Connection<h3_quinn::Connection, Bytes>;

/// Maximum number of times that the task yields after the connection ends. Meanwhile, requests can
/// read data that has already arrived.
const MAX_DRAIN_YIELDS: u32 = 64;

/// Handle of a connection. Dropping it abandons the connection.
pub struct H3Connection {
    number: u64,
    sender: Option<RequestSender>,
    users: Arc<()>,
    _given_up: oneshot::Sender<()>,
}

impl H3Connection {
    /// Stores the sender from the connection's event [`EventKind::Established`].
    pub fn establish(&mut self, established: EstablishedConnection) {
        self.sender = Some(established.sender);
    }

    /// Whether the server has announced that it accepts no further requests.
    pub fn is_closing(&self) -> bool {
        self.sender.as_ref().is_some_and(ConnectionState::is_closing)
    }

    /// Sends a request. Its events carry `key`. If the response is inspected, its contents go
    /// into `watch`. Dropping the result cancels the request. Returns `None` until the connection is
    /// established.
    pub fn send(
        &self,
        engine: &mut H3Engine,
        key: StreamKey,
        request: &H3Request,
        watch: Option<ResponseWatch>,
    ) -> Option<RequestHandle> {
        let sender = self.sender.clone()?;
        // The receiver resolves when the handle is dropped.
        let (give_up, given_up) = oneshot::channel();
        let exchange = RequestTask {
            sender,
            head: request.head.clone(),
            body: request.body.clone(),
            expects_body: request.method == MethodKind::Body,
            watch,
            events: engine.events.clone(),
            connection: self.number,
            key,
            given_up,
            users: self.users.clone(),
        };
        engine.queue_task(exchange.run());
        Some(RequestHandle { _given_up: give_up })
    }
}

impl H3Engine {
    /// Starts connecting, from the address `local` if given. The connection's events carry
    /// `number`.
    pub fn connect(&mut self, to: SocketAddr, local: Option<IpAddr>, number: u64) -> H3Connection {
        let users = Arc::new(());
        let task = ConnectionTask {
            to,
            local,
            name: self.name.clone(),
            config: self.config.clone(),
            traffic: self.traffic.clone(),
            events: self.events.clone(),
            number,
            users: users.clone(),
        };
        // The receiver resolves when the handle is dropped.
        let (give_up, given_up) = oneshot::channel();
        self.queue_task(task.run(given_up));
        H3Connection { number, sender: None, users, _given_up: give_up }
    }
}

struct ConnectionTask {
    to: SocketAddr,
    local: Option<IpAddr>,
    /// Server name for the handshake.
    name: String,
    config: ClientConfig,
    traffic: Arc<TrafficCounters>,
    events: Arc<EventQueue>,
    number: u64,
    /// Counts the users of the connection: the event loop, this task and every request in flight
    /// hold a reference.
    users: Arc<()>,
}

/// Strong count of [`ConnectionTask::users`] when no request is in flight.
const IDLE_USERS: usize = 2;

type ConnectedParts = (quinn::Connection, Arc<QuicSocket>, Driver, EstablishedConnection);

impl ConnectionTask {
    /// Connects and drives the connection until it ends or the handle is dropped.
    async fn run(self, mut given_up: oneshot::Receiver<()>) {
        let connected = race_futures(self.connect(), &mut given_up).await;
        let (connection, datagrams, driver, established) = match connected {
            RaceWinner::First(Ok(parts)) => parts,
            RaceWinner::First(Err(error)) => {
                return self.report_event(EventKind::NotEstablished(error));
            }
            // The handle was dropped first. Returning drops the attempt to connect, which closes
            // the connection.
            RaceWinner::Second(_) => return,
        };
        self.report_event(EventKind::Established(Box::new(established)));
        let end = self.wait_for_end(&connection, driver, &datagrams);
        if let RaceWinner::First(ended) = race_futures(end, given_up).await {
            self.drain_requests().await;
            self.report_event(EventKind::Ended(ended));
        }
        // The conversion is lossless, because the code (0x100) has only 9 bits.
        connection.close(VarInt::from_u32(Code::H3_NO_ERROR.value() as u32), b"");
    }

    fn report_event(&self, kind: EventKind) {
        self.events.push_event(self.number, kind);
    }

    async fn connect(&self) -> Result<ConnectedParts, ErrorClass> {
        let socket = QuicSocket::open(self.to, self.local, self.traffic.clone());
        let datagrams = Arc::new(socket.map_err(|error| socket_error_class(&error))?);
        let endpoint = Endpoint::new_with_abstract_socket(
            EndpointConfig::default(),
            None,
            datagrams.clone(),
            Arc::new(TokioRuntime),
        )
        .map_err(|error| socket_error_class(&error))?;
        let connecting = endpoint
            .connect_with(self.config.clone(), self.to, &self.name)
            .map_err(|_| ErrorClass::TlsHandshake)?;
        let connection = match race_futures(datagrams.wait_for_failure(), connecting).await {
            RaceWinner::First(error) => return Err(socket_error_class(&error)),
            RaceWinner::Second(Err(error)) => {
                return Err(handshake_error_class(&error));
            }
            RaceWinner::Second(Ok(connection)) => connection,
        };
        let alpn = connection
            .handshake_data()
            .and_then(|data| data.downcast::<HandshakeData>().ok())
            .and_then(|data| data.protocol)
            .unwrap_or_default();
        if alpn != b"h3" {
            return Err(ErrorClass::TlsAlpn);
        }
        let certificate = connection
            .peer_identity()
            .and_then(|chain| chain.downcast::<Vec<CertificateDer>>().ok())
            .and_then(|chain| chain.into_iter().next());
        let (driver, sender) = client::builder()
            .send_grease(false)
            .build(h3_quinn::Connection::new(connection.clone()))
            .await
            .map_err(|_| {
                // HTTP/3 may fail to start on a connection that was already open: a server that
                // requires a client certificate rejects the connection only after the client has
                // completed its handshake.
                let reason = connection.close_reason();
                reason.map_or(ErrorClass::H3Protocol, |error| handshake_error_class(&error))
            })?;
        let established = EstablishedConnection { sender, alpn, certificate };
        Ok((connection, datagrams, driver, established))
    }

    /// Waits for the end of the connection. If the server first announces that it accepts no
    /// further requests, reports an event.
    async fn wait_for_end(
        &self,
        connection: &quinn::Connection,
        mut driver: Driver,
        datagrams: &QuicSocket,
    ) -> ConnectionEnd {
        let mut is_closing_reported = false;
        let driving = poll_fn(|context| {
            let polled = driver.poll_close(context);
            if !is_closing_reported && driver.is_closing() {
                is_closing_reported = true;
                self.report_event(EventKind::Closing);
            }
            polled
        });
        match race_futures(datagrams.wait_for_failure(), driving).await {
            RaceWinner::First(_) => ConnectionEnd::Reset,
            RaceWinner::Second(_) => match connection.close_reason() {
                Some(error) => ConnectionEnd::from_connection_error(&error),
                None => ConnectionEnd::Protocol,
            },
        }
    }

    /// Lets requests read data that arrived before the end.
    async fn drain_requests(&self) {
        for _ in 0..MAX_DRAIN_YIELDS {
            if Arc::strong_count(&self.users) <= IDLE_USERS {
                return;
            }
            yield_now().await;
        }
    }
}

// The code below passes events of connections and streams from the tasks to the event loop, and
// classifies failures.

/// An event on a connection.
pub struct H3Event {
    /// The number passed to `H3Engine::connect`.
    pub connection: u64,
    /// Time of the event.
    pub at: Instant,
    /// Kind of event.
    pub kind: EventKind,
}

/// Kinds of connection events.
pub enum EventKind {
    /// Requests can be sent.
    Established(Box<EstablishedConnection>),
    /// The connection could not be established.
    NotEstablished(ErrorClass),
    /// The server accepts no further requests.
    Closing,
    /// The connection has ended.
    Ended(ConnectionEnd),
    /// An event of a request.
    Stream(StreamKey, StreamEvent),
}

/// Sends requests on a connection.
pub(crate) type RequestSender = client::SendRequest<h3_quinn::OpenStreams, Bytes>;

/// An established connection; pass it to [`H3Connection::establish`] before sending
/// requests.
pub struct EstablishedConnection {
    pub(crate) sender: RequestSender,
    /// The protocol that ALPN selected.
    pub alpn: Vec<u8>,
    /// The server's certificate.
    pub certificate: Option<CertificateDer<'static>>,
}

/// Identifies a request within a connection. The caller chooses both numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamKey {
    /// Number of a slot, which holds one request at a time and is reused by later requests.
    pub slot: u32,
    /// Distinguishes successive requests in a slot.
    pub serial: u64,
}

/// Kinds of request events.
pub enum StreamEvent {
    /// The request head cannot be sent yet, usually because the server's stream limit is reached.
    Waits,
    /// The stream was opened after a [`StreamEvent::Waits`].
    Opened,
    /// A response head arrived, possibly an interim one.
    Head,
    /// The response is complete.
    Response(Box<H3Response>),
    /// The response will not be completed.
    Failed(RequestFailure),
}

/// A complete response.
pub struct H3Response {
    /// Status, length of the body and interim responses. Sizes on the wire are unknown.
    pub summary: ResponseSummary,
    /// Its contents, if they are inspected.
    pub watch: Option<ResponseWatch>,
}

/// Queue of events from the tasks to the event loop.
#[derive(Default)]
pub(crate) struct EventQueue {
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    events: Vec<H3Event>,
    waker: Option<Waker>,
}

impl EventQueue {
    /// Tasks and event loop share one thread, so the lock is never contended. The list is
    /// consistent even if a panic occurred while the lock was held.
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event with the current time.
    pub fn push_event(&self, connection: u64, kind: EventKind) {
        let at = Instant::now();
        let mut state = self.lock();
        state.events.push(H3Event { connection, at, kind });
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.lock().events.is_empty()
    }

    /// Becomes ready once there are events.
    pub fn poll(&self, context: &mut Context) -> Poll<()> {
        let mut state = self.lock();
        if !state.events.is_empty() {
            return Poll::Ready(());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Moves all events into `list`. The queue takes over the buffer of `list` for later events.
    pub fn drain_into(&self, list: &mut Vec<H3Event>) {
        let mut state = self.lock();
        state.waker = None;
        list.clear();
        std::mem::swap(&mut state.events, list);
    }
}

// The code below classifies the many errors of QUIC, TLS and HTTP/3 into a few failure classes.

/// Alerts that rustls sends when it rejects a certificate (RFC 8446, section 6): bad_certificate to
/// certificate_unknown, unknown_ca, access_denied, decrypt_error (signature mismatch),
/// bad_certificate_status_response. QUIC preserves the alert, but not the underlying error.
const CERTIFICATE_ALERTS: [u64; 9] = [42, 43, 44, 45, 46, 48, 49, 51, 113];

/// The TLS alert no_application_protocol (RFC 7301, section 3.2).
const ALPN_ALERT: u64 = 120;

/// QUIC error codes for TLS alerts: 0x100 plus the alert (RFC 9001, section 4.8).
const TLS_ALERT_CODES: std::ops::Range<u64> = 0x100..0x200;

/// How an established connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// The server closed the connection without an error.
    Closed,
    /// The server or the operating system aborted the connection.
    Reset,
    /// The idle timeout expired.
    Idle,
    /// The server violated QUIC or HTTP/3.
    Protocol,
}

/// Why a request has no complete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFailure {
    /// The server reset the stream with this code.
    Reset(u64),
    /// Another failure of the request.
    Failed(ErrorClass),
    /// The connection was lost. A separate event reports how the connection ended.
    ConnectionLost,
}

/// Class of an error of the socket. Errors without a class of their own, such as a lack of
/// addresses, ports or descriptors, count as a missing port.
pub(crate) fn socket_error_class(error: &io::Error) -> ErrorClass {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => ErrorClass::ConnectRefused,
        io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::NetworkDown => ErrorClass::ConnectUnreachable,
        _ => ErrorClass::ConnectNoPort,
    }
}

/// Class of an error before the connection was established.
pub(crate) fn handshake_error_class(error: &ConnectionError) -> ErrorClass {
    let of_alert = |code: u64, is_ours: bool| match code.wrapping_sub(TLS_ALERT_CODES.start) {
        ALPN_ALERT => ErrorClass::TlsAlpn,
        // If the server sends one of these alerts, it rejects the client's certificate instead.
        alert if is_ours && CERTIFICATE_ALERTS.contains(&alert) => ErrorClass::TlsVerify,
        _ => ErrorClass::TlsHandshake,
    };
    match error {
        ConnectionError::TransportError(error) if TLS_ALERT_CODES.contains(&error.code.into()) => {
            of_alert(error.code.into(), true)
        }
        ConnectionError::ConnectionClosed(close) => match close.error_code {
            TransportErrorCode::CONNECTION_REFUSED => ErrorClass::ConnectRefused,
            code if TLS_ALERT_CODES.contains(&code.into()) => of_alert(code.into(), false),
            _ => ErrorClass::TlsHandshake,
        },
        // The server speaks QUIC, but not the version that HTTP/3 requires.
        ConnectionError::VersionMismatch => ErrorClass::TlsAlpn,
        ConnectionError::TimedOut => ErrorClass::ConnectTimeout,
        ConnectionError::Reset | ConnectionError::ApplicationClosed(_) => {
            ErrorClass::ConnectRefused
        }
        ConnectionError::CidsExhausted => ErrorClass::ConnectNoPort,
        _ => ErrorClass::TlsHandshake,
    }
}

impl ConnectionEnd {
    /// Classifies the reason why a connection was closed.
    pub(crate) fn from_connection_error(error: &ConnectionError) -> ConnectionEnd {
        match error {
            ConnectionError::ApplicationClosed(close) => {
                ConnectionEnd::from_error_code(close.error_code.into_inner())
            }
            ConnectionError::ConnectionClosed(close) => match close.error_code {
                TransportErrorCode::NO_ERROR => ConnectionEnd::Closed,
                _ => ConnectionEnd::Reset,
            },
            ConnectionError::Reset => ConnectionEnd::Reset,
            ConnectionError::TimedOut => ConnectionEnd::Idle,
            // We close a connection on our own only after a protocol violation.
            _ => ConnectionEnd::Protocol,
        }
    }

    /// Classifies an application error code. Unknown codes mean no error (RFC 9114, section 9); all
    /// known codes but H3_NO_ERROR are errors.
    fn from_error_code(code: u64) -> ConnectionEnd {
        let errors = Code::H3_GENERAL_PROTOCOL_ERROR.value()..=Code::H3_VERSION_FALLBACK.value();
        let compression =
            Code::QPACK_DECOMPRESSION_FAILED.value()..=Code::QPACK_DECODER_STREAM_ERROR.value();
        let is_error = errors.contains(&code) || compression.contains(&code);
        if is_error { ConnectionEnd::Reset } else { ConnectionEnd::Closed }
    }
}

impl RequestFailure {
    pub(crate) fn from_stream_error(error: StreamError) -> RequestFailure {
        match error {
            StreamError::RemoteTerminate { code, .. } => match code {
                Code::H3_REQUEST_REJECTED => RequestFailure::Failed(ErrorClass::H3Refused),
                code => RequestFailure::Reset(code.value()),
            },
            StreamError::StreamError { code, .. } if code == Code::H3_MESSAGE_ERROR => {
                RequestFailure::Failed(ErrorClass::ProtocolHeader)
            }
            StreamError::HeaderTooBig { .. } => RequestFailure::Failed(ErrorClass::ProtocolHeader),
            StreamError::RemoteClosing => RequestFailure::Failed(ErrorClass::H3GoAway),
            StreamError::ConnectionError(_) => RequestFailure::ConnectionLost,
            _ => RequestFailure::Failed(ErrorClass::H3Protocol),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_operating_system_have_classes() {
        let class = |kind: io::ErrorKind| socket_error_class(&kind.into());
        assert_eq!(class(io::ErrorKind::ConnectionRefused), ErrorClass::ConnectRefused);
        assert_eq!(class(io::ErrorKind::HostUnreachable), ErrorClass::ConnectUnreachable);
        assert_eq!(class(io::ErrorKind::AddrInUse), ErrorClass::ConnectNoPort);
    }

    #[test]
    fn only_error_codes_count_as_a_reset() {
        assert_eq!(
            ConnectionEnd::from_error_code(Code::H3_NO_ERROR.value()),
            ConnectionEnd::Closed
        );
        assert_eq!(ConnectionEnd::from_error_code(0), ConnectionEnd::Closed);
        assert_eq!(ConnectionEnd::from_error_code(0x21), ConnectionEnd::Closed, "a reserved code");
        for code in [Code::H3_INTERNAL_ERROR, Code::QPACK_DECOMPRESSION_FAILED] {
            assert_eq!(ConnectionEnd::from_error_code(code.value()), ConnectionEnd::Reset);
        }
    }
}
