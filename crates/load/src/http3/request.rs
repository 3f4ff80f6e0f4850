//! Converts a request once to the types that `h3` takes, so that it can be sent any number of
//! times.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderName};
use http::{HeaderValue, Method, Uri};
use std::fmt;

/// Parts of a request head.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    /// Method.
    pub method: &'a str,
    /// Host and port, as in `:authority`.
    pub authority: &'a [u8],
    /// Path with query, or `*`.
    pub target: &'a str,
    /// Value of the Content-Length field to add. It is ignored if the fields already contain one.
    pub content_length: Option<usize>,
    /// Whether a response may have a body, i.e. the method is not HEAD.
    pub expects_body: bool,
}

/// A prepared request.
#[derive(Debug, Clone)]
pub struct H3Request {
    head: http::Request<()>,
    body: Bytes,
    expects_body: bool,
}

/// The malformed part of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum H3RequestError {
    /// The method is not a token.
    Method,
    /// Authority and target do not form a URL.
    Target,
    /// The name of this field is not a token.
    Name(String),
    /// The value of this field contains control characters.
    Value(String),
}

impl fmt::Display for H3RequestError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            H3RequestError::Method => f.write_str("the method is malformed"),
            H3RequestError::Target => f.write_str("the authority or the target is malformed"),
            H3RequestError::Name(name) => write!(f, "invalid field name '{name}'"),
            H3RequestError::Value(name) => write!(f, "the value of '{name}' is malformed"),
        }
    }
}

impl std::error::Error for H3RequestError {}

impl H3Request {
    /// Prepares a request. `fields` must not contain connection-specific fields of HTTP/1 (RFC
    /// 9114, section 4.2).
    ///
    /// # Errors
    /// Fails if a part is malformed.
    pub fn new<'a>(
        parts: &RequestHead,
        fields: impl Iterator<Item = (&'a str, &'a [u8])>,
        body: &[u8],
    ) -> Result<H3Request, H3RequestError> {
        let uri = Uri::builder()
            .scheme("https")
            .authority(parts.authority)
            .path_and_query(parts.target)
            .build()
            .map_err(|_| H3RequestError::Target)?;
        let mut head = http::Request::new(());
        *head.uri_mut() = uri;
        *head.method_mut() =
            Method::from_bytes(parts.method.as_bytes()).map_err(|_| H3RequestError::Method)?;
        for (name, value) in fields {
            let value = HeaderValue::from_bytes(value.trim_ascii())
                .map_err(|_| H3RequestError::Value(name.to_owned()))?;
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| H3RequestError::Name(name.to_owned()))?;
            head.headers_mut().append(name, value);
        }
        if let Some(length) = parts.content_length
            && !head.headers().contains_key(CONTENT_LENGTH)
        {
            head.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
        Ok(H3Request { head, body: Bytes::copy_from_slice(body), expects_body: parts.expects_body })
    }

    /// Returns a copy of the head to send.
    pub(crate) fn head(&self) -> http::Request<()> {
        self.head.clone()
    }

    pub(crate) fn body(&self) -> Bytes {
        self.body.clone()
    }

    pub(crate) fn expects_body(&self) -> bool {
        self.expects_body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: RequestHead = RequestHead {
        method: "GET",
        authority: b"localhost:8443",
        target: "/a?b=c",
        content_length: None,
        expects_body: true,
    };

    fn write_request(
        head: &RequestHead,
        fields: &[(&str, &[u8])],
    ) -> Result<H3Request, H3RequestError> {
        H3Request::new(head, fields.iter().copied(), b"")
    }

    #[test]
    fn a_request_contains_the_given_head_fields_and_body() {
        let head = RequestHead { method: "POST", content_length: Some(4), ..GET };
        let fields = [("Accept", &b" text/plain "[..]), ("accept", b"*/*")];
        let request = H3Request::new(&head, fields.into_iter(), b"body").unwrap();
        let sent = request.head();
        assert_eq!(sent.method(), "POST");
        assert_eq!(sent.uri(), "https://localhost:8443/a?b=c");
        let accept: Vec<_> = sent.headers().get_all("accept").iter().collect();
        assert_eq!(accept, ["text/plain", "*/*"]);
        assert_eq!(sent.headers()[CONTENT_LENGTH], "4");
        assert_eq!(&request.body()[..], b"body");
    }

    #[test]
    fn a_given_length_is_kept() {
        let head = RequestHead { content_length: Some(4), ..GET };
        let request = write_request(&head, &[("content-length", b"7")]).unwrap();
        assert_eq!(request.head().headers()[CONTENT_LENGTH], "7");
    }

    #[test]
    fn malformed_parts_are_named() {
        let method = RequestHead { method: "G T", ..GET };
        let target = RequestHead { authority: b"local host", ..GET };
        assert_eq!(write_request(&method, &[]).unwrap_err(), H3RequestError::Method);
        assert_eq!(write_request(&target, &[]).unwrap_err(), H3RequestError::Target);
        let name = write_request(&GET, &[("a b", b"")]).unwrap_err();
        assert_eq!(name, H3RequestError::Name("a b".to_owned()));
        let value = write_request(&GET, &[("a", b"\r\n")]).map(|_| ());
        assert_eq!(value, Ok(()), "spaces around a value are left out");
        let value = write_request(&GET, &[("a", b"x\ny")]).unwrap_err();
        assert_eq!(value, H3RequestError::Value("a".to_owned()));
    }
}
