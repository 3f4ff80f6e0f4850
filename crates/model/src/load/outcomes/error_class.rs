//! Defines the classes of request failures and their stable names.

/// Defines the classes, each with its name and its description, as a sentence fragment.
macro_rules! error_classes {
    ($($(#[$text:meta])* $class:ident = $name:literal: $description:literal;)+) => {
        /// Why a request failed. A class has a name such as `connect.timeout`. The part before the
        /// dot is the category of the failure. The part after the dot distinguishes failures of the
        /// same category.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorClass {
            $($(#[$text])* $class,)+
        }

        /// Name and description of each class, in enum order.
        const CLASS_DESCRIPTIONS: [(ErrorClass, &str, &str); ErrorClass::COUNT] =
            [$((ErrorClass::$class, $name, $description)),+];
    };
}

error_classes! {
    /// The server name could not be resolved.
    Dns = "dns": "the server's name could not be resolved";
    /// The server refused the connection, or connecting failed for a reason without a class of
    /// its own.
    ConnectRefused = "connect.refused": "the server refused the connection";
    /// The operating system gave up connecting or, with HTTP/3, the server did not respond.
    ConnectTimeout = "connect.timeout": "the operating system gave up connecting";
    /// There is no route to the server's address.
    ConnectUnreachable = "connect.unreachable": "the server's address is unreachable";
    /// No local port or file descriptor was available.
    ConnectNoPort = "connect.no-port": "no local port or file descriptor was free for a connection";
    /// The TLS handshake failed.
    TlsHandshake = "tls.handshake": "the TLS handshake failed";
    /// The server's certificate could not be verified.
    TlsVerify = "tls.verify": "the server's certificate could not be verified";
    /// The TLS handshake (ALPN) did not select the protocol of the load.
    TlsAlpn = "tls.alpn": "the server did not accept the protocol";
    /// TLS failed after the handshake.
    TlsRecord = "tls.record": "TLS failed after the handshake";
    /// The connection was closed without the close_notify of TLS, and only the close of the
    /// connection marked the end of the body. An attacker may have truncated the body (RFC 8446,
    /// section 6.1).
    TlsTruncated = "tls.truncated": "the response was cut off without a TLS close_notify";
    /// The request could not be written.
    Send = "send": "the request could not be written";
    /// The server reset the connection before the response.
    ResetBeforeFirstByte = "reset.before-first-byte":
        "the server reset the connection before it responded";
    /// The server reset the connection within the response head.
    ResetInHead = "reset.in-head": "the server reset the connection during the response head";
    /// The server reset the connection within the response body.
    ResetInBody = "reset.in-body": "the server reset the connection during the response body";
    /// The server closed a new connection without a response.
    EofFirst = "eof.first": "the server closed a new connection without a response";
    /// The server closed a reused connection without a response, usually because the request
    /// arrived just as the server closed the idle connection.
    EofStale = "eof.stale": "the server closed a reused connection without a response";
    /// The server closed the connection within the response head.
    EofInHead = "eof.in-head": "the server closed the connection during the response head";
    /// The server closed the connection within the response body.
    EofInBody = "eof.in-body": "the server closed the connection during the response body";
    /// The response does not start with an HTTP status line, or it switches to another protocol
    /// (101).
    ProtocolStatusLine = "protocol.status-line":
        "the response does not begin with an HTTP status line, or switches to another protocol (101)";
    /// The response has a malformed header, or its head is too large.
    ProtocolHeader = "protocol.header":
        "the response has a malformed header, or a head of more than 64 KiB or 1000 fields";
    /// The response announces two different lengths.
    ProtocolLength = "protocol.length": "the response states two different lengths";
    /// The response has a malformed chunk.
    ProtocolChunk = "protocol.chunk": "the response has a malformed chunk";
    /// Extra bytes followed the response.
    ProtocolExtraBytes = "protocol.extra-bytes": "bytes followed the end of the response";
    /// The response arrived before its request was sent.
    ProtocolEarly = "protocol.early": "a response arrived before its request was sent";
    /// Connecting exceeded the timeout.
    TimeoutConnect = "timeout.connect": "the connection was not established within the timeout";
    /// The first byte of the response did not arrive within the timeout.
    TimeoutFirstByte = "timeout.first-byte":
        "the first byte of the response did not arrive within the timeout";
    /// The response was not complete within the timeout.
    TimeoutTotal = "timeout.total": "the response was not complete within the timeout";
    /// The server closed the HTTP/2 connection.
    H2GoAway = "h2.goaway": "the server closed the HTTP/2 connection";
    /// The server reset the HTTP/2 stream.
    H2Reset = "h2.rst-stream": "the server reset the HTTP/2 stream";
    /// The server refused the HTTP/2 stream.
    H2Refused = "h2.refused": "the server refused the HTTP/2 stream";
    /// The timeout expired while the request waited for an HTTP/2 flow control window.
    H2FlowStall = "h2.flow-stall": "HTTP/2 flow control stalled";
    /// The server flooded the connection with header blocks or control frames.
    H2Flood = "h2.flood":
        "the server flooded the HTTP/2 connection with header blocks or control frames";
    /// The server violated HTTP/2.
    H2Protocol = "h2.protocol": "the server violated HTTP/2";
    /// The server closed the HTTP/3 connection.
    H3GoAway = "h3.goaway": "the server closed the HTTP/3 connection";
    /// The server reset the HTTP/3 stream.
    H3Reset = "h3.reset": "the server reset the HTTP/3 stream";
    /// The server refused the HTTP/3 stream.
    H3Refused = "h3.refused": "the server refused the HTTP/3 stream";
    /// The idle timeout of the HTTP/3 connection expired.
    H3Idle = "h3.idle": "the HTTP/3 connection was idle for too long";
    /// The server violated HTTP/3 or QUIC.
    H3Protocol = "h3.protocol": "the server violated HTTP/3 or QUIC";
    /// The status code counts as a failure.
    Status = "status": "the response status counts as failure";
    /// The response is not the expected one.
    Assertion = "assertion": "the response is not the expected one";
}

impl ErrorClass {
    /// Number of classes.
    pub const COUNT: usize = 40;

    /// Iterates over all classes in enum order.
    pub fn all_classes() -> impl Iterator<Item = ErrorClass> {
        CLASS_DESCRIPTIONS.iter().map(|(class, _, _)| *class)
    }

    /// Whether requests to a server that has died typically fail with this class.
    pub fn indicates_dead_server(self) -> bool {
        use ErrorClass::*;
        matches!(
            self,
            ConnectRefused
                | Send
                | TlsTruncated
                | ResetBeforeFirstByte
                | ResetInHead
                | ResetInBody
                | EofFirst
                | EofStale
                | EofInHead
                | EofInBody
        )
    }

    /// Index of this class in an array with one entry per class.
    pub fn index(self) -> usize {
        self as usize
    }

    /// Stable name in files, e.g. `reset.in-body`.
    pub fn name(self) -> &'static str {
        CLASS_DESCRIPTIONS[self.index()].1
    }

    /// The category: the part of the name before the dot, e.g. `reset`.
    pub fn phase(self) -> &'static str {
        let name = self.name();
        name.split_once('.').map_or(name, |(phase, _)| phase)
    }

    /// Description, as a sentence fragment.
    pub fn description(self) -> &'static str {
        CLASS_DESCRIPTIONS[self.index()].2
    }

    /// Finds a class by name.
    pub fn from_name(name: &str) -> Option<ErrorClass> {
        ErrorClass::all_classes().find(|class| class.name() == name)
    }

    /// Whether a request that fails with this class has received a complete response.
    pub fn has_response(self) -> bool {
        matches!(self, ErrorClass::Status | ErrorClass::Assertion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_class_is_found_by_its_own_name_and_in_its_own_place() {
        let names: BTreeSet<&str> = ErrorClass::all_classes().map(ErrorClass::name).collect();
        assert_eq!(names.len(), ErrorClass::COUNT);
        for (place, class) in ErrorClass::all_classes().enumerate() {
            assert_eq!(class.index(), place);
            assert_eq!(ErrorClass::from_name(class.name()), Some(class));
            assert!(class.description().len() > 20);
        }
        assert_eq!(ErrorClass::from_name("reset"), None);
    }

    #[test]
    fn error_classes_are_ordered_by_the_phases_of_a_request() {
        let mut phases: Vec<&str> = ErrorClass::all_classes().map(ErrorClass::phase).collect();
        phases.dedup();
        let expected = [
            "dns",
            "connect",
            "tls",
            "send",
            "reset",
            "eof",
            "protocol",
            "timeout",
            "h2",
            "h3",
            "status",
            "assertion",
        ];
        assert_eq!(phases, expected);
    }
}
