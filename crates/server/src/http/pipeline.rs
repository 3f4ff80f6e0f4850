//! Checks every request before the router sees it, and completes every response.
//!
//! A request is rejected, in this order, if it bypassed the TLS-terminating proxy (403), does not
//! name this server (421), does not state the length of its body (411), states a length that is
//! too large (413), comes from another site's page (403), or has a body with an encoding other than
//! gzip (415). The pipeline itself answers `/health`. It adds security headers to every response,
//! compresses the response, and logs the request.
//!
//! Requests from other sites' pages are those that such a page triggers in the user's browser.
//! Links that the user follows are allowed. Browsers report the source of a request
//! (`Sec-Fetch-Site`, Fetch Metadata; `Origin`, RFC 6454), and pages cannot forge these fields.
//! Programs other than browsers send neither field, but they have no cookies that a page could
//! abuse. The CORS layer of tower-http does the opposite: it grants access to other sites.

use crate::http::body::{BodyErrorSlot, GunzipBody, LimitedBody, body_too_large};
use crate::http::client::{ConnectionInfo, identify_client, single_value};
use crate::http::log::{LogEntry, LoggedBody};
use crate::http::{ClientInfo, HttpError, ServerOptions, compression};
use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, COOKIE, ORIGIN,
    REFERRER_POLICY, SERVER, TRANSFER_ENCODING, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as _, Incoming};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

/// Path of the health check. It also works for clients that bypass the proxy.
const HEALTH_PATH: &str = "/health";

/// Content security policy: pages load only this server's files, and pictures inlined in the page.
pub const CONTENT_SECURITY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
     img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
     frame-ancestors 'none'";

/// Security headers of every response. With [`DEFAULT_HEADERS`], they make browsers enforce two
/// rules. First, this server's pages load nothing from elsewhere, run no inline code and cannot be
/// framed. Second, other sites cannot read this server's pages or keep references to their windows.
const FIXED_HEADERS: [(HeaderName, &str); 4] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Headers that a handler may override, for example for downloads and immutable files.
const DEFAULT_HEADERS: [(HeaderName, &str); 2] =
    [(CONTENT_SECURITY_POLICY, CONTENT_SECURITY), (CACHE_CONTROL, "private")];

/// Handles a request on its way from a connection to the router, and the response on its way back.
/// All connections of a server share it.
pub(crate) struct RequestPipeline {
    pub(crate) options: ServerOptions,
    router: TowerToHyperService<Router>,
}

impl RequestPipeline {
    pub(crate) fn new(options: ServerOptions, router: Router) -> RequestPipeline {
        RequestPipeline {
            options,
            // The body limits of this module replace the default limit of axum.
            router: TowerToHyperService::new(router.layer(DefaultBodyLimit::disable())),
        }
    }

    /// Answers one request. Returns the response, and whether the client has authenticated.
    pub(crate) async fn answer_request(
        &self,
        info: &ConnectionInfo,
        request: Request<Incoming>,
    ) -> (Response, bool) {
        let (mut parts, body) = request.into_parts();
        let mut entry = LogEntry::new(&parts.method, &parts.uri, info.peer);
        let (uri, headers) = (&parts.uri, &mut parts.headers);
        let client = identify_client(&self.options.hosts, self.options.proxy, info, uri, headers);
        let login = client.as_ref().map(|client| Arc::clone(&client.login));
        if let Some(client) = &client {
            entry.address = client.address;
        }
        let proxy = self.options.proxy;
        let is_from_elsewhere = proxy.is_some() && !info.tls && !info.is_from_proxy(proxy);
        let is_bypass = is_from_elsewhere && uri.path() != HEALTH_PATH;
        let request_headers = parts.headers.clone();
        let error_slot = BodyErrorSlot::default();
        let has_body = !body.is_end_stream();
        let checked = if is_bypass {
            let message = "only the TLS-terminating proxy may connect here";
            Err(HttpError::new(StatusCode::FORBIDDEN, message))
        } else {
            self.check_request(&mut parts, body, client, &error_slot)
        };
        let response = match checked {
            Ok(body) => {
                let response = self.route_request(Request::from_parts(parts, body)).await;
                match (error_slot.refusal(), response.extensions().get::<HttpError>()) {
                    (Some(refusal), _) => refusal.to_response(&request_headers),
                    (None, Some(refusal)) => {
                        let rendered = refusal.to_response(&request_headers);
                        merge_headers(response, rendered)
                    }
                    (None, None) => response,
                }
            }
            Err(refusal) if has_body => refusal.close_connection().to_response(&request_headers),
            Err(refusal) => refusal.to_response(&request_headers),
        };
        let has_login = login.is_some_and(|login| login.load(Ordering::Relaxed));
        (self.finish_response(response, &request_headers, entry), has_login)
    }

    /// Rejects a request that arrived without credentials on a connection beyond the limit for its
    /// address.
    pub(crate) fn reject_request(
        &self,
        info: &ConnectionInfo,
        request: Request<Incoming>,
    ) -> Response {
        let (parts, _) = request.into_parts();
        let entry = LogEntry::new(&parts.method, &parts.uri, info.peer);
        let refusal = HttpError::new(StatusCode::SERVICE_UNAVAILABLE, "too many connections")
            .with_retry_after(1)
            .close_connection();
        self.finish_response(refusal.to_response(&parts.headers), &parts.headers, entry)
    }

    /// Returns the body for the handler, or the reason to reject the request.
    fn check_request(
        &self,
        parts: &mut axum::http::request::Parts,
        body: Incoming,
        client: Option<ClientInfo>,
        error_slot: &BodyErrorSlot,
    ) -> Result<Body, HttpError> {
        let client = client.ok_or_else(|| unknown_host_error(&parts.headers, &parts.uri))?;
        check_length(&parts.headers, self.options.limits.body_bytes)?;
        if let Some(refusal) = cross_site_error(&parts.method, &parts.headers, &client) {
            return Err(refusal);
        }
        let is_gzipped = is_gzip(&parts.headers)?;
        parts.extensions.insert(client);
        let limited = LimitedBody::new(body, &self.options.limits, error_slot.clone());
        if !is_gzipped {
            return Ok(Body::new(limited));
        }
        parts.headers.remove(CONTENT_ENCODING);
        parts.headers.remove(CONTENT_LENGTH);
        Ok(Body::new(GunzipBody::new(limited, &self.options.limits, error_slot.clone())))
    }

    async fn route_request(&self, request: Request<Body>) -> Response {
        if request.uri().path() == HEALTH_PATH {
            return if request.method().is_safe() {
                ([("cache-control", "no-store")], "ok\n").into_response()
            } else {
                StatusCode::METHOD_NOT_ALLOWED.into_response()
            };
        }
        match catch_panic(self.router.call(request)).await {
            Some(Ok(response)) => response,
            Some(Err(impossible)) => match impossible {},
            None => HttpError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal server error")
                .into_response(),
        }
    }

    fn finish_response(
        &self,
        response: Response,
        request_headers: &HeaderMap,
        mut entry: LogEntry,
    ) -> Response {
        let takes_gzip = compression::accepts_gzip(request_headers);
        let mut response = compression::compress_response(response, &entry.method, takes_gzip);
        set_security_headers(response.headers_mut());
        entry.status = response.status();
        response.map(|body| LoggedBody::wrap_body(body, entry, &self.options.log))
    }
}

/// Adds the security headers to a response. Removes `Server`, and headers that grant other
/// sites access.
fn set_security_headers(headers: &mut HeaderMap) {
    for (name, value) in FIXED_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in DEFAULT_HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.remove(SERVER);
    for name in ["access-control-allow-origin", "access-control-allow-credentials"] {
        headers.remove(name);
    }
}

/// Replaces the content of the handler's response and the header fields that `rendered` has.
fn merge_headers(mut response: Response, rendered: Response) -> Response {
    let (parts, body) = rendered.into_parts();
    *response.status_mut() = parts.status;
    *response.body_mut() = body;
    let headers = response.headers_mut();
    headers.remove(CONTENT_LENGTH);
    for (name, value) in &parts.headers {
        headers.insert(name, value.clone());
    }
    response
}

fn unknown_host_error(headers: &HeaderMap, uri: &Uri) -> HttpError {
    let host = headers.get("host").and_then(|host| host.to_str().ok());
    let host = uri.authority().map(|authority| authority.as_str()).or(host).unwrap_or_default();
    let host: String = host.chars().take(100).collect();
    HttpError::new(StatusCode::MISDIRECTED_REQUEST, format!("unknown host '{host}'"))
        .with_hint("use the address with which the server was started")
        .close_connection()
}

/// Rejects bodies that are too long, and requests with `Transfer-Encoding`. Without
/// `Content-Length`, proxy and server may disagree about the end of a body; this allows request
/// smuggling (RFC 9112, 11.2).
fn check_length(headers: &HeaderMap, limit: u64) -> Result<(), HttpError> {
    if headers.contains_key(TRANSFER_ENCODING) {
        let message = "the request body has no stated length";
        return Err(HttpError::new(StatusCode::LENGTH_REQUIRED, message)
            .with_hint("send Content-Length, not Transfer-Encoding")
            .close_connection());
    }
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    match length.and_then(|length| length.parse::<u64>().ok()) {
        Some(bytes) if bytes > limit => Err(body_too_large(limit)),
        _ => Ok(()),
    }
}

fn is_gzip(headers: &HeaderMap) -> Result<bool, HttpError> {
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    match (codings.next().map(HeaderValue::as_bytes), codings.next()) {
        (None | Some(b"identity"), None) => Ok(false),
        (Some(b"gzip"), None) => Ok(true),
        _ => {
            let message = "the Content-Encoding of the request is not supported";
            Err(HttpError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message)
                .with_hint("use gzip once, or no encoding"))
        }
    }
}

/// Returns the output of a future, or `None` if it panics.
async fn catch_panic<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    // This is safe, because the future is not used again after a panic.
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(output)) => Poll::Ready(Some(output)),
        Err(_) => Poll::Ready(None),
    })
    .await
}

/// Returns an error if the request was sent by a page of another site and must be rejected.
fn cross_site_error(
    method: &Method,
    headers: &HeaderMap,
    client: &ClientInfo,
) -> Option<HttpError> {
    // "none" means that the user typed the address or opened a bookmark.
    let fetch_site = headers
        .get("sec-fetch-site")
        .map(|site| matches!(site.as_bytes(), b"same-origin" | b"none"));
    let is_same_site = fetch_site.unwrap_or_else(|| match origin_header(headers) {
        Some(origin) => origin == client.origin,
        // Programs and very old browsers send neither field. Only browsers have cookies that a
        // page could abuse, so a request without a cookie is safe.
        None => method.is_safe() || !headers.contains_key(COOKIE),
    });
    // A form on a page with `Referrer-Policy: no-referrer` has the origin null. `Sec-Fetch-Site`,
    // which pages cannot set, tells whether that page is ours.
    let has_own_origin = origin_header(headers).is_none_or(|origin| {
        origin == client.origin || (origin == "null" && fetch_site == Some(true))
    });
    let is_rejected = if method.is_safe() {
        !is_same_site && !is_navigation(headers)
    } else {
        !is_same_site || !has_own_origin
    };
    is_rejected.then(|| {
        HttpError::new(StatusCode::FORBIDDEN, "the request was sent by a page of another site")
            .with_hint(format!("open {} and retry from there", client.origin))
    })
}

/// Returns the `Origin` field. If the field is repeated, returns an invalid origin.
fn origin_header(headers: &HeaderMap) -> Option<&str> {
    headers.contains_key(ORIGIN).then(|| {
        let origin = single_value(headers, &ORIGIN).and_then(|origin| origin.to_str().ok());
        origin.unwrap_or("invalid")
    })
}

/// Whether the user followed a link, the only kind of request that other sites may cause. A request
/// that has an `Origin`, but no `Sec-Fetch-Mode`, comes from a script or a form.
fn is_navigation(headers: &HeaderMap) -> bool {
    let has_value =
        |name: &str, value: &str| headers.get(name).is_some_and(|actual| actual == value);
    has_value("sec-fetch-mode", "navigate") && has_value("sec-fetch-dest", "document")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(method: &Method, lines: &[(&'static str, &str)]) -> bool {
        let client = ClientInfo {
            address: None,
            secure: false,
            origin: "http://127.0.0.1:7600".to_owned(),
            login: Default::default(),
        };
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), value.parse().unwrap())
        };
        let headers = lines.iter().map(pair).collect();
        cross_site_error(method, &headers, &client).is_some()
    }

    const OURS: (&str, &str) = ("origin", "http://127.0.0.1:7600");

    #[test]
    fn changes_are_accepted_only_from_own_pages_or_from_programs() {
        let allowed = |lines: &[(&'static str, &str)]| !is_refused(&Method::POST, lines);
        assert!(allowed(&[]));
        assert!(allowed(&[OURS]));
        assert!(allowed(&[OURS, ("sec-fetch-site", "same-origin"), ("cookie", "a=b")]));
        assert!(allowed(&[
            ("origin", "null"),
            ("sec-fetch-site", "same-origin"),
            ("cookie", "a=b")
        ]));
        for lines in [
            &[("origin", "http://evil.example")][..],
            &[("origin", "null")],
            &[("origin", "https://127.0.0.1:7600")],
            &[("origin", "http://127.0.0.1:7601")],
            &[OURS, ("sec-fetch-site", "cross-site")],
            &[OURS, ("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "something new")],
            &[("origin", "http://evil.example"), ("sec-fetch-site", "same-origin")],
            &[("cookie", "speedwell=stolen")],
        ] {
            for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
                assert!(is_refused(&method, lines), "{method} {lines:?}");
            }
        }
    }

    #[test]
    fn other_sites_may_link_to_pages_but_not_embed_or_fetch_them() {
        let allowed = |lines: &[(&'static str, &str)]| !is_refused(&Method::GET, lines);
        let other = ("sec-fetch-site", "cross-site");
        let visit = [other, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        assert!(allowed(&[]));
        assert!(allowed(&visit));
        assert!(allowed(&[("cookie", "a=b")]));
        for (mode, kind) in [
            ("no-cors", "image"),
            ("no-cors", "script"),
            ("cors", "empty"),
            ("navigate", "iframe"),
            ("navigate", "object"),
        ] {
            assert!(!allowed(&[other, ("sec-fetch-mode", mode), ("sec-fetch-dest", kind)]));
        }
        assert!(!allowed(&[("origin", "http://evil.example")]));
    }
}
