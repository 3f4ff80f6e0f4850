//! Classifies the many errors of QUIC, TLS and HTTP/3 into a few failure classes.

use h3::error::{Code, StreamError};
use quinn::{ConnectionError, TransportErrorCode};
use std::io;

/// Alerts that rustls sends when it rejects a certificate (RFC 8446, section 6): bad_certificate to
/// certificate_unknown, unknown_ca, access_denied, decrypt_error (signature mismatch),
/// bad_certificate_status_response. QUIC preserves the alert, but not the underlying error.
const CERTIFICATE_ALERTS: [u64; 9] = [42, 43, 44, 45, 46, 48, 49, 51, 113];

/// no_application_protocol (RFC 7301, section 3.2).
const ALPN_ALERT: u64 = 120;

/// QUIC error codes for TLS alerts: 0x100 plus the alert (RFC 9001, section 4.8).
const TLS_CODES: std::ops::Range<u64> = 0x100..0x200;

/// Why a connection could not be established.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectError {
    /// Nothing listens on the port, or the server rejects the connection.
    Refused,
    /// There is no route to the server.
    Unreachable,
    /// Out of addresses, ports, descriptors or connection IDs.
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
pub enum Ended {
    /// The server closed it without an error.
    Closed,
    /// The server or the operating system aborted it.
    Reset,
    /// The idle timeout expired.
    Idle,
    /// The server violated QUIC or HTTP/3.
    Protocol,
}

/// Why a request has no complete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
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
    /// The connection was lost, which has its own event.
    WithConnection,
}

impl ConnectError {
    /// Classifies an error of the operating system.
    pub(crate) fn of_socket(error: &io::Error) -> ConnectError {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => ConnectError::Refused,
            io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown => ConnectError::Unreachable,
            _ => ConnectError::NoPort,
        }
    }

    /// Classifies an error of the handshake.
    pub(crate) fn of_handshake(error: &ConnectionError) -> ConnectError {
        let of_alert = |code: u64, is_ours: bool| match code.wrapping_sub(TLS_CODES.start) {
            ALPN_ALERT => ConnectError::Alpn,
            // From the server, the same alert is about a client certificate.
            alert if is_ours && CERTIFICATE_ALERTS.contains(&alert) => ConnectError::Certificate,
            _ => ConnectError::Handshake,
        };
        match error {
            ConnectionError::TransportError(error) if TLS_CODES.contains(&error.code.into()) => {
                of_alert(error.code.into(), true)
            }
            ConnectionError::ConnectionClosed(close) => match close.error_code {
                TransportErrorCode::CONNECTION_REFUSED => ConnectError::Refused,
                code if TLS_CODES.contains(&code.into()) => of_alert(code.into(), false),
                _ => ConnectError::Handshake,
            },
            // The server speaks QUIC, but not the version that HTTP/3 requires.
            ConnectionError::VersionMismatch => ConnectError::Alpn,
            ConnectionError::TimedOut => ConnectError::TimedOut,
            ConnectionError::Reset | ConnectionError::ApplicationClosed(_) => ConnectError::Refused,
            ConnectionError::CidsExhausted => ConnectError::NoPort,
            _ => ConnectError::Handshake,
        }
    }
}

impl Ended {
    /// Classifies the reason for which a connection was closed.
    pub(crate) fn of_connection(error: &ConnectionError) -> Ended {
        match error {
            ConnectionError::ApplicationClosed(close) => {
                Ended::of_code(close.error_code.into_inner())
            }
            ConnectionError::ConnectionClosed(close) => match close.error_code {
                TransportErrorCode::NO_ERROR => Ended::Closed,
                _ => Ended::Reset,
            },
            ConnectionError::Reset => Ended::Reset,
            ConnectionError::TimedOut => Ended::Idle,
            // We close a connection on our own only after a protocol violation.
            _ => Ended::Protocol,
        }
    }

    /// Classifies an application error code. Unknown codes mean no error (RFC 9114, section 9); of
    /// the known ones, all but H3_NO_ERROR are errors.
    fn of_code(code: u64) -> Ended {
        let errors = Code::H3_GENERAL_PROTOCOL_ERROR.value()..=Code::H3_VERSION_FALLBACK.value();
        let compression =
            Code::QPACK_DECOMPRESSION_FAILED.value()..=Code::QPACK_DECODER_STREAM_ERROR.value();
        if errors.contains(&code) || compression.contains(&code) {
            Ended::Reset
        } else {
            Ended::Closed
        }
    }
}

impl Failure {
    /// Classifies an error of a stream.
    pub(crate) fn of_stream(error: StreamError) -> Failure {
        match error {
            StreamError::RemoteTerminate { code, .. } => match code {
                Code::H3_REQUEST_REJECTED => Failure::Rejected,
                code => Failure::Reset(code.value()),
            },
            StreamError::StreamError { code, .. } if code == Code::H3_MESSAGE_ERROR => {
                Failure::Fields
            }
            StreamError::HeaderTooBig { .. } => Failure::Fields,
            StreamError::RemoteClosing => Failure::GoAway,
            StreamError::ConnectionError(_) => Failure::WithConnection,
            _ => Failure::Protocol,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_operating_system_have_classes() {
        let class = |kind: io::ErrorKind| ConnectError::of_socket(&kind.into());
        assert_eq!(
            class(io::ErrorKind::ConnectionRefused),
            ConnectError::Refused
        );
        assert_eq!(
            class(io::ErrorKind::HostUnreachable),
            ConnectError::Unreachable
        );
        assert_eq!(class(io::ErrorKind::AddrInUse), ConnectError::NoPort);
    }

    #[test]
    fn only_codes_that_mean_errors_break_a_connection_off() {
        assert_eq!(Ended::of_code(Code::H3_NO_ERROR.value()), Ended::Closed);
        assert_eq!(Ended::of_code(0), Ended::Closed);
        assert_eq!(Ended::of_code(0x21), Ended::Closed, "a reserved code");
        for code in [Code::H3_INTERNAL_ERROR, Code::QPACK_DECOMPRESSION_FAILED] {
            assert_eq!(Ended::of_code(code.value()), Ended::Reset);
        }
    }
}
