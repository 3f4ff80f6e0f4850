//! Passes events of connections and streams from the tasks to the event loop, with failures
//! classified.

use bytes::Bytes;
use h3::client;
use h3::error::{Code, StreamError};
use http::HeaderMap;
use quinn::{ConnectionError, TransportErrorCode};
use rustls::pki_types::CertificateDer;
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
    NotEstablished(H3ConnectError),
    /// The server accepts no further requests.
    Closing,
    /// The connection has ended.
    Ended(ConnectionEnd),
    /// An event of a request.
    Stream(StreamKey, StreamEvent),
}

/// Sends requests on a connection.
pub(crate) type RequestSender = client::SendRequest<h3_quinn::OpenStreams, Bytes>;

/// An established connection; pass it to [`crate::http3::H3Connection::establish`] before sending
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
#[derive(Debug, Clone, Default)]
pub struct H3Response {
    /// Status code.
    pub status: u16,
    /// Number of interim responses before this response (RFC 9110, section 15.2).
    pub interim: u32,
    /// Status code of the last interim response; 0 if there was none.
    pub interim_status: u16,
    /// Length of the body.
    pub body_bytes: u64,
    /// The parts kept for inspection, if they were requested.
    pub kept: Option<KeptResponse>,
}

/// Parts of a response kept for inspection.
#[derive(Debug, Clone, Default)]
pub struct KeptResponse {
    /// Header fields.
    pub fields: HeaderMap,
    /// Beginning of the body.
    pub body: Vec<u8>,
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

/// Why a connection could not be established.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum H3ConnectError {
    /// Nothing listens on the port, or the server rejects the connection.
    Refused,
    /// There is no route to the server.
    Unreachable,
    /// No addresses, ports, descriptors or connection IDs are left, or the socket failed in another
    /// way.
    NoPort,
    /// The server did not respond.
    TimedOut,
    /// The server does not speak HTTP/3.
    Alpn,
    /// The server's certificate is not trusted.
    Certificate,
    /// The handshake failed in another way.
    Handshake,
    /// HTTP/3 could not be started on the connection.
    Protocol,
}

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
    /// The request head exceeds the server's limit; it was not sent.
    HeadTooLarge,
    /// The server did not process the request (RFC 9114, section 4.1.1).
    Rejected,
    /// The server had announced that it accepts no further requests.
    GoAway,
    /// The server reset the stream with this code.
    Reset(u64),
    /// The server tried to switch protocols, which HTTP/3 does not support (RFC 9114, section 4.5).
    SwitchingProtocols,
    /// The header fields are malformed or too large.
    Fields,
    /// Content-Length is malformed or does not match the body.
    Length,
    /// The server violated HTTP/3.
    Protocol,
    /// The connection was lost. A separate event reports how the connection ended.
    ConnectionLost,
}

impl H3ConnectError {
    pub(crate) fn from_socket_error(error: &io::Error) -> H3ConnectError {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => H3ConnectError::Refused,
            io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown => H3ConnectError::Unreachable,
            _ => H3ConnectError::NoPort,
        }
    }

    pub(crate) fn from_handshake_error(error: &ConnectionError) -> H3ConnectError {
        let of_alert = |code: u64, is_ours: bool| match code.wrapping_sub(TLS_ALERT_CODES.start) {
            ALPN_ALERT => H3ConnectError::Alpn,
            // If the server sends one of these alerts, it rejects the client's certificate instead.
            alert if is_ours && CERTIFICATE_ALERTS.contains(&alert) => H3ConnectError::Certificate,
            _ => H3ConnectError::Handshake,
        };
        match error {
            ConnectionError::TransportError(error)
                if TLS_ALERT_CODES.contains(&error.code.into()) =>
            {
                of_alert(error.code.into(), true)
            }
            ConnectionError::ConnectionClosed(close) => match close.error_code {
                TransportErrorCode::CONNECTION_REFUSED => H3ConnectError::Refused,
                code if TLS_ALERT_CODES.contains(&code.into()) => of_alert(code.into(), false),
                _ => H3ConnectError::Handshake,
            },
            // The server speaks QUIC, but not the version that HTTP/3 requires.
            ConnectionError::VersionMismatch => H3ConnectError::Alpn,
            ConnectionError::TimedOut => H3ConnectError::TimedOut,
            ConnectionError::Reset | ConnectionError::ApplicationClosed(_) => {
                H3ConnectError::Refused
            }
            ConnectionError::CidsExhausted => H3ConnectError::NoPort,
            _ => H3ConnectError::Handshake,
        }
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
        if errors.contains(&code) || compression.contains(&code) {
            ConnectionEnd::Reset
        } else {
            ConnectionEnd::Closed
        }
    }
}

impl RequestFailure {
    pub(crate) fn from_stream_error(error: StreamError) -> RequestFailure {
        match error {
            StreamError::RemoteTerminate { code, .. } => match code {
                Code::H3_REQUEST_REJECTED => RequestFailure::Rejected,
                code => RequestFailure::Reset(code.value()),
            },
            StreamError::StreamError { code, .. } if code == Code::H3_MESSAGE_ERROR => {
                RequestFailure::Fields
            }
            StreamError::HeaderTooBig { .. } => RequestFailure::Fields,
            StreamError::RemoteClosing => RequestFailure::GoAway,
            StreamError::ConnectionError(_) => RequestFailure::ConnectionLost,
            _ => RequestFailure::Protocol,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_operating_system_have_classes() {
        let class = |kind: io::ErrorKind| H3ConnectError::from_socket_error(&kind.into());
        assert_eq!(class(io::ErrorKind::ConnectionRefused), H3ConnectError::Refused);
        assert_eq!(class(io::ErrorKind::HostUnreachable), H3ConnectError::Unreachable);
        assert_eq!(class(io::ErrorKind::AddrInUse), H3ConnectError::NoPort);
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
