//! Passes events of connections and streams from the tasks to the event loop, and classifies
//! failures. Start at [`H3Event`].

use crate::http1::{ResponseSummary, ResponseWatch};
use h3::error::{Code, StreamError};
use quinn::{ConnectionError, TransportErrorCode};
use rustls::pki_types::CertificateDer;
use speedwell_model::load::outcomes::ErrorClass;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

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
pub(crate) type RequestSender = h3::client::SendRequest<h3_quinn::OpenStreams, bytes::Bytes>;

/// An established connection; pass it to `H3Connection::establish` before sending requests.
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
