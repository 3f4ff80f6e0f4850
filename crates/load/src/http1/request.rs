//! Checks and encodes a request once, so that it can be sent any number of times.
//!
//! This module decides which bytes are sent, not where they are sent. It rejects requests that
//! could not be framed or would smuggle a second request. Start at [`Http1Request::new`].

use super::MethodKind;
use super::head::is_token;

/// HTTP version of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Http1Version {
    /// HTTP/1.0: the connection ends with the response unless the request asks to keep it.
    Http10,
    /// HTTP/1.1: the connection persists unless the request asks to close it.
    #[default]
    Http11,
}

/// What a request asks the server to do with the connection after the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ConnectionOption {
    /// Keep the connection for the next request.
    #[default]
    KeepAlive,
    /// Close the connection.
    Close,
}

/// The parts of a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestParts<'a> {
    /// Method, case-sensitive.
    pub method: &'a str,
    /// Request target: a percent-encoded path with query; a full URL for a proxy; `*` for OPTIONS;
    /// host and port for CONNECT.
    pub target: &'a str,
    /// Value of Host, unless `headers` contains one.
    pub host: &'a str,
    /// Additional header fields, in this order. Connection and Content-Length are added if they are
    /// needed and not among these fields.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// Body. For `None`, Content-Length is sent only with methods that are expected to have a body.
    pub body: Option<&'a [u8]>,
    /// HTTP version.
    pub version: Http1Version,
    /// Whether to keep the connection.
    pub connection: ConnectionOption,
}

/// Why a request cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    /// The method is not a token.
    #[error("invalid method '{0}'")]
    Method(String),
    /// The target is empty, does not suit the method, or contains a fragment, blanks, control
    /// characters or non-ASCII characters.
    #[error("invalid request target '{0}'")]
    Target(String),
    /// The value of Host contains characters that are invalid in host and port.
    #[error("invalid host '{0}'")]
    Host(String),
    /// The name of a header field is not a token.
    #[error("invalid header field name '{0}'")]
    Name(String),
    /// The value of this header field contains control characters.
    #[error("the value of '{0}' contains control characters")]
    Value(String),
    /// A Content-Length field differs from the body's length in bytes.
    #[error("Content-Length does not match the body, which has {0} bytes")]
    Length(u64),
    /// Transfer-Encoding is present, but bodies are always sent in one piece, with Content-Length.
    #[error("Transfer-Encoding is not supported, because the body is sent in one piece")]
    TransferEncoding,
}

/// An encoded request.
///
/// ```
/// use speedwell_load::http1::{Http1Request, RequestParts};
///
/// let request = Http1Request::new(&RequestParts {
///     method: "GET",
///     target: "/index.html",
///     host: "localhost:8080",
///     headers: &[("Accept", b"*/*")],
///     ..RequestParts::default()
/// })?;
/// assert_eq!(request.bytes(), b"GET /index.html HTTP/1.1\r\nHost: localhost:8080\r\nAccept: */*\r\n\r\n");
/// # Ok::<(), speedwell_load::http1::InvalidRequest>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http1Request {
    bytes: Vec<u8>,
    head_bytes: usize,
    method: MethodKind,
    closes: bool,
}

impl Http1Request {
    /// Checks and encodes the parts.
    ///
    /// # Errors
    /// Fails if a part is invalid or if a server would parse it as another part.
    pub fn new(parts: &RequestParts) -> Result<Http1Request, InvalidRequest> {
        validate_parts(parts)?;
        let mut bytes = Vec::with_capacity(512 + parts.body.map_or(0, <[u8]>::len));
        bytes.extend_from_slice(parts.method.as_bytes());
        bytes.push(b' ');
        bytes.extend_from_slice(parts.target.as_bytes());
        bytes.extend_from_slice(match parts.version {
            Http1Version::Http10 => b" HTTP/1.0\r\n",
            Http1Version::Http11 => b" HTTP/1.1\r\n",
        });
        if !parts.has_field("host") {
            push_field(&mut bytes, "Host", parts.host.as_bytes());
        }
        for (name, value) in parts.headers {
            push_field(&mut bytes, name, value);
        }
        if !parts.has_field("connection") {
            match (parts.version, parts.connection) {
                (Http1Version::Http11, ConnectionOption::Close) => {
                    push_field(&mut bytes, "Connection", b"close");
                }
                (Http1Version::Http10, ConnectionOption::KeepAlive) => {
                    push_field(&mut bytes, "Connection", b"Keep-Alive");
                }
                _ => {}
            }
        }
        if let Some(length) = parts.content_length().filter(|_| !parts.has_field("content-length"))
        {
            push_field(&mut bytes, "Content-Length", length.to_string().as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        let head_bytes = bytes.len();
        bytes.extend_from_slice(parts.body.unwrap_or_default());
        Ok(Http1Request {
            bytes,
            head_bytes,
            method: MethodKind::for_method(parts.method),
            closes: parts.asks_to_close(),
        })
    }

    /// The complete request.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The body, i.e. the part of [`Http1Request::bytes`] after the head.
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.head_bytes..]
    }

    /// The method kind that [`super::ResponseReader::expect_response`] needs.
    pub fn method(&self) -> MethodKind {
        self.method
    }

    /// Whether the request asks to close the connection after the response.
    pub fn closes(&self) -> bool {
        self.closes
    }
}

impl RequestParts<'_> {
    fn has_field(&self, name: &str) -> bool {
        self.field_values(name).next().is_some()
    }

    pub(crate) fn field_values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.headers
            .iter()
            .filter(move |(candidate, _)| candidate.eq_ignore_ascii_case(name))
            .map(|(_, value)| *value)
    }

    /// Value of Content-Length to send. If a method is expected to have a body but has none, the
    /// value is 0 (RFC 9110, section 8.6).
    pub(crate) fn content_length(&self) -> Option<usize> {
        match (self.body, self.method) {
            (Some(body), _) => Some(body.len()),
            (None, "POST" | "PUT" | "PATCH") => Some(0),
            (None, _) => None,
        }
    }

    fn asks_to_close(&self) -> bool {
        let names = |option: &str| {
            self.field_values("connection")
                .flat_map(|value| value.split(|byte| *byte == b','))
                .any(|candidate| candidate.trim_ascii().eq_ignore_ascii_case(option.as_bytes()))
        };
        match (self.has_field("connection"), self.version) {
            (false, _) => self.connection == ConnectionOption::Close,
            (true, Http1Version::Http11) => names("close"),
            (true, Http1Version::Http10) => names("close") || !names("keep-alive"),
        }
    }
}

fn push_field(bytes: &mut Vec<u8>, name: &str, value: &[u8]) {
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(b": ");
    bytes.extend_from_slice(value);
    bytes.extend_from_slice(b"\r\n");
}

/// Checks the parts against the rules that all HTTP versions have in common.
pub(crate) fn validate_parts(parts: &RequestParts) -> Result<(), InvalidRequest> {
    if !is_token(parts.method.as_bytes()) {
        return Err(InvalidRequest::Method(parts.method.into()));
    }
    if !is_target(parts.method, parts.target) {
        return Err(InvalidRequest::Target(parts.target.into()));
    }
    let is_host = |byte: u8| byte.is_ascii_graphic() && !b"/?#@\\<>\"".contains(&byte);
    if !parts.host.bytes().all(is_host) {
        return Err(InvalidRequest::Host(parts.host.into()));
    }
    for (name, value) in parts.headers {
        if !is_token(name.as_bytes()) {
            return Err(InvalidRequest::Name((*name).into()));
        }
        // A line end here would start another field or request (RFC 9110, section 5.5).
        let is_text = |byte: &u8| *byte == b'\t' || (*byte >= 32 && *byte != 127);
        if !value.iter().all(is_text) {
            return Err(InvalidRequest::Value((*name).into()));
        }
    }
    if parts.has_field("transfer-encoding") {
        return Err(InvalidRequest::TransferEncoding);
    }
    let length = parts.content_length().unwrap_or(0);
    let mut given = parts.field_values("content-length");
    if given.any(|value| value.trim_ascii() != length.to_string().as_bytes()) {
        return Err(InvalidRequest::Length(length as u64));
    }
    Ok(())
}

/// Whether the target has one of the four forms of RFC 9112, section 3.2, and suits the method.
/// Fragments are never sent (RFC 9110, section 7.1).
fn is_target(method: &str, target: &str) -> bool {
    let is_text = target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    let is_absolute = || {
        target.split_once("://").is_some_and(|(scheme, rest)| {
            scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
                && !scheme.is_empty()
                && !rest.is_empty()
        })
    };
    is_text
        && match method {
            "CONNECT" => target.contains(':') && !target.contains('/'),
            "OPTIONS" if target == "*" => true,
            _ => target.starts_with('/') || is_absolute(),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get() -> RequestParts<'static> {
        RequestParts { method: "GET", target: "/", host: "h", ..RequestParts::default() }
    }

    #[track_caller]
    fn sent_text(parts: &RequestParts) -> String {
        String::from_utf8(Http1Request::new(parts).unwrap().bytes().to_vec()).unwrap()
    }

    #[test]
    fn a_body_has_its_length_and_comes_last() {
        let request = Http1Request::new(&RequestParts {
            method: "POST",
            body: Some(b"a=1"),
            headers: &[("content-type", b"text/plain"), ("X-A", b"\xe4 b")],
            ..get()
        })
        .unwrap();
        assert_eq!(
            request.bytes(),
            b"POST / HTTP/1.1\r\nHost: h\r\ncontent-type: text/plain\r\nX-A: \xe4 b\r\n\
              Content-Length: 3\r\n\r\na=1"
        );
        assert_eq!(request.body(), b"a=1");
    }

    #[test]
    fn only_methods_that_should_have_a_body_state_a_length_of_zero() {
        let of =
            |method| sent_text(&RequestParts { method, ..get() }).contains("Content-Length: 0\r\n");
        assert!(of("POST") && of("PUT") && of("PATCH"));
        assert!(!of("GET") && !of("HEAD") && !of("DELETE"));
    }

    #[test]
    fn keep_alive_is_sent_where_it_is_not_the_default() {
        let of = |version, connection| {
            let parts = RequestParts { version, connection, ..get() };
            let request = Http1Request::new(&parts).unwrap();
            assert_eq!(request.closes(), connection == ConnectionOption::Close);
            sent_text(&parts)
        };
        use {ConnectionOption::*, Http1Version::*};
        assert_eq!(of(Http11, KeepAlive), "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(of(Http11, Close).ends_with("\r\nConnection: close\r\n\r\n"));
        assert!(
            of(Http10, KeepAlive)
                .ends_with(" HTTP/1.0\r\nHost: h\r\nConnection: Keep-Alive\r\n\r\n")
        );
        assert_eq!(of(Http10, Close), "GET / HTTP/1.0\r\nHost: h\r\n\r\n");
    }

    #[test]
    fn default_fields_do_not_replace_or_repeat_given_fields() {
        let parts = RequestParts {
            method: "POST",
            headers: &[
                ("host", b"other"),
                ("CONNECTION", b"upgrade, Close"),
                ("Content-length", b"2"),
            ],
            body: Some(b"hi"),
            ..get()
        };
        assert_eq!(
            sent_text(&parts),
            "POST / HTTP/1.1\r\nhost: other\r\nCONNECTION: upgrade, Close\r\nContent-length: 2\r\n\r\nhi"
        );
        assert!(Http1Request::new(&parts).unwrap().closes());
    }

    #[test]
    fn malformed_request_parts_are_rejected() {
        let refused = |parts: RequestParts| Http1Request::new(&parts).unwrap_err();
        for method in ["", "GET ", "G\r\nX", "GE:T"] {
            let error = refused(RequestParts { method, ..get() });
            assert_eq!(error, InvalidRequest::Method(method.into()));
        }
        for target in ["", "a", "/a b", "/a\r\nX: y", "/#top", "/\u{e4}", "*", "://x", "/\u{7f}"] {
            let error = refused(RequestParts { target, ..get() });
            assert_eq!(error, InvalidRequest::Target(target.into()));
        }
        for host in ["a b", "a\r\n", "u@h", "h/"] {
            let error = refused(RequestParts { host, ..get() });
            assert_eq!(error, InvalidRequest::Host(host.into()));
        }
        let headers = |headers| refused(RequestParts { headers, ..get() });
        assert_eq!(headers(&[("A b", b"")]), InvalidRequest::Name("A b".into()));
        assert_eq!(headers(&[("A", b"\r\nB: c")]), InvalidRequest::Value("A".into()));
        assert_eq!(headers(&[("A", b"\0")]), InvalidRequest::Value("A".into()));
        assert_eq!(headers(&[("Content-Length", b"1")]), InvalidRequest::Length(0));
        assert_eq!(headers(&[("transfer-encoding", b"chunked")]), InvalidRequest::TransferEncoding);
    }

    #[test]
    fn every_form_of_target_is_sent_with_the_method_it_is_for() {
        for (method, target) in [
            ("GET", "/a?b=c%20d&e"),
            ("GET", "http://h:1/"),
            ("OPTIONS", "*"),
            ("CONNECT", "h:443"),
        ] {
            let parts = RequestParts { method, target, ..get() };
            assert!(sent_text(&parts).starts_with(&format!("{method} {target} HTTP/1.1\r\n")));
            assert_eq!(Http1Request::new(&parts).unwrap().method(), MethodKind::for_method(method));
        }
    }
}
