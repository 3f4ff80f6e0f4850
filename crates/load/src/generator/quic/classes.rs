//! Which class of failure an error of QUIC or HTTP/3 belongs to.

use crate::generator::sent::Lost;
use crate::outcomes::ErrorClass;
use h3::error::{Code, StreamError};
use quinn::{ConnectionError, TransportErrorCode};
use std::io;

/// Alerts that rustls sends when a certificate does not convince it (RFC 8446, section 6):
/// bad_certificate to certificate_unknown, unknown_ca, access_denied, decrypt_error (a signature does
/// not match), bad_certificate_status_response. QUIC keeps the alert and not the error behind it.
const CERTIFICATE_ALERTS: [u64; 9] = [42, 43, 44, 45, 46, 48, 49, 51, 113];

/// no_application_protocol (RFC 7301, section 3.2).
const ALPN_ALERT: u64 = 120;

/// Codes of QUIC for failures of TLS: the alert plus this (RFC 9001, section 4.8).
const TLS_CODES: std::ops::Range<u64> = 0x100..0x200;

/// Why a request has no whole answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::generator) enum Failure {
    ErrorClass(ErrorClass),
    /// The server reset the stream with this code.
    Reset(u64),
    /// The connection was lost, which is told by itself.
    WithConnection,
}

/// The class of a failure that the operating system told of.
pub(super) fn of_socket(error: &io::Error) -> ErrorClass {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => ErrorClass::ConnectRefused,
        io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::NetworkDown => ErrorClass::ConnectUnreachable,
        // No address, no port, or no descriptor is left for a socket.
        _ => ErrorClass::ConnectNoPort,
    }
}

/// The class of a connection that did not come about.
pub(super) fn of_handshake(error: &ConnectionError) -> ErrorClass {
    let of_alert = |code: u64, is_ours: bool| match code.wrapping_sub(TLS_CODES.start) {
        ALPN_ALERT => ErrorClass::TlsAlpn,
        // The same alert from the server is about a certificate of the client.
        alert if is_ours && CERTIFICATE_ALERTS.contains(&alert) => ErrorClass::TlsVerify,
        _ => ErrorClass::TlsHandshake,
    };
    match error {
        ConnectionError::TransportError(error) if TLS_CODES.contains(&error.code.into()) => {
            of_alert(error.code.into(), true)
        }
        ConnectionError::ConnectionClosed(close) => match close.error_code {
            TransportErrorCode::CONNECTION_REFUSED => ErrorClass::ConnectRefused,
            code if TLS_CODES.contains(&code.into()) => of_alert(code.into(), false),
            _ => ErrorClass::TlsHandshake,
        },
        // The server speaks QUIC, but not the version that HTTP/3 stands on.
        ConnectionError::VersionMismatch => ErrorClass::TlsAlpn,
        ConnectionError::TimedOut => ErrorClass::ConnectTimeout,
        ConnectionError::Reset | ConnectionError::ApplicationClosed(_) => {
            ErrorClass::ConnectRefused
        }
        ConnectionError::CidsExhausted => ErrorClass::ConnectNoPort,
        _ => ErrorClass::TlsHandshake,
    }
}

/// How a connection ended.
pub(super) fn of_connection(error: &ConnectionError) -> Lost {
    match error {
        ConnectionError::ApplicationClosed(close) => of_close(close.error_code.into_inner()),
        ConnectionError::ConnectionClosed(close) => match close.error_code {
            TransportErrorCode::NO_ERROR => Lost::End,
            _ => Lost::Reset,
        },
        ConnectionError::Reset => Lost::Reset,
        ConnectionError::TimedOut => Lost::Failed(ErrorClass::H3Idle),
        // What we closed without wanting to was closed because of a broken rule.
        _ => Lost::Failed(ErrorClass::H3Protocol),
    }
}

/// A code that HTTP/3 does not define means no error (RFC 9114, section 9); the others, but one, say
/// what is wrong.
fn of_close(code: u64) -> Lost {
    let errors = Code::H3_GENERAL_PROTOCOL_ERROR.value()..=Code::H3_VERSION_FALLBACK.value();
    let compression =
        Code::QPACK_DECOMPRESSION_FAILED.value()..=Code::QPACK_DECODER_STREAM_ERROR.value();
    if errors.contains(&code) || compression.contains(&code) {
        Lost::Reset
    } else {
        Lost::End
    }
}

/// What became of a request.
pub(super) fn of_stream(error: &StreamError) -> Failure {
    match error {
        StreamError::RemoteTerminate { code, .. } => match *code {
            Code::H3_REQUEST_REJECTED => Failure::ErrorClass(ErrorClass::H3Refused),
            code => Failure::Reset(code.value()),
        },
        StreamError::StreamError { code, .. } if *code == Code::H3_MESSAGE_ERROR => {
            Failure::ErrorClass(ErrorClass::ProtocolHeader)
        }
        StreamError::HeaderTooBig { .. } => Failure::ErrorClass(ErrorClass::ProtocolHeader),
        StreamError::RemoteClosing => Failure::ErrorClass(ErrorClass::H3GoAway),
        StreamError::ConnectionError(_) => Failure::WithConnection,
        _ => Failure::ErrorClass(ErrorClass::H3Protocol),
    }
}
