//! A request, written down once in the form that `h3` takes.

use crate::http1::{Asked, RequestError, RequestParts, check};
use crate::http2::is_left_out;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderName};
use http::{HeaderValue, Method, Uri};

/// A request as it is sent.
#[derive(Debug, Clone)]
pub(in crate::generator) struct Request {
    head: http::Request<()>,
    pub body: Bytes,
    pub asked: Asked,
}

impl Request {
    /// Checks the parts. As with HTTP/2, Host becomes `:authority` and fields that speak of an
    /// HTTP/1 connection are left out (RFC 9114, section 4.2).
    ///
    /// # Errors
    /// A part would not be read as what it is meant to be, or asks a proxy.
    pub fn new(parts: &RequestParts) -> Result<Request, RequestError> {
        check(parts)?;
        let target = || RequestError::Target(parts.target.to_owned());
        if parts.method == "CONNECT" || !(parts.target == "*" || parts.target.starts_with('/')) {
            return Err(target());
        }
        let host = parts.values("host").next().unwrap_or(parts.host.as_bytes());
        let uri = Uri::builder()
            .scheme("https")
            .authority(host)
            .path_and_query(parts.target)
            .build()
            .map_err(|_| target())?;
        let method = Method::from_bytes(parts.method.as_bytes())
            .map_err(|_| RequestError::Method(parts.method.to_owned()))?;
        let mut head = http::Request::new(());
        *head.method_mut() = method;
        *head.uri_mut() = uri;
        for (name, value) in parts.headers {
            if !is_left_out(name, value) {
                let value = HeaderValue::from_bytes(value.trim_ascii())
                    .map_err(|_| RequestError::Value((*name).to_owned()))?;
                let name = HeaderName::from_bytes(name.as_bytes())
                    .map_err(|_| RequestError::Name((*name).to_owned()))?;
                head.headers_mut().append(name, value);
            }
        }
        if let Some(length) = parts.length()
            && !head.headers().contains_key(CONTENT_LENGTH)
        {
            head.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
        Ok(Request {
            head,
            body: Bytes::copy_from_slice(parts.body.unwrap_or_default()),
            asked: Asked::for_method(parts.method),
        })
    }

    /// A copy of the head, to be sent.
    pub fn head(&self) -> http::Request<()> {
        self.head.clone()
    }
}
