//! Checks every request before the router sees it, and completes every response.
//!
//! The checks, in this order: the request did not bypass the TLS-terminating proxy (403), names
//! this server (421), gives its length (411), does not come from a page of another site (403), and
//! has a body that is small enough and either uncompressed or gzip (413, 415). `/health` is
//! answered here. Responses get security headers and are compressed and logged.

use crate::body::{Fault, Limited, too_large};
use crate::client::{self, Arrival, Client, Proxy};
use crate::compression;
use crate::cross_site;
use crate::headers::protect;
use crate::hosts::Hosts;
use crate::log::{Entry, Log, Logged};
use crate::options::{Limits, Options};
use crate::refusal::{Refusal, Render};
use crate::unpack::Unpacked;
use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as _, Incoming};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

/// Health check, answered here for everyone.
const HEALTH: &str = "/health";

/// Error text when an address has too many connections.
pub(crate) const TOO_MANY: &str = "there are too many connections";

/// Everything between a connection and the router.
pub(crate) struct Gate {
    limits: Limits,
    hosts: Hosts,
    proxy: Option<Proxy>,
    log: Log,
    render: Option<Render>,
    router: TowerToHyperService<Router>,
}

impl Gate {
    pub(crate) fn new(options: Options, router: Router) -> Gate {
        Gate {
            limits: options.limits,
            hosts: options.hosts,
            proxy: options.proxy,
            log: options.log,
            render: options.render,
            // The limits of this crate replace axum's.
            router: TowerToHyperService::new(router.layer(DefaultBodyLimit::disable())),
        }
    }

    /// Answers one request; also returns whether its client has authenticated.
    pub(crate) async fn answer(
        &self,
        arrival: &Arrival,
        request: Request<Incoming>,
    ) -> (Response, bool) {
        let (mut parts, body) = request.into_parts();
        let mut entry = Entry::new(&parts.method, &parts.uri, arrival.peer);
        let (uri, headers) = (&parts.uri, &mut parts.headers);
        let client = client::client(&self.hosts, self.proxy, arrival, uri, headers);
        let login = client.as_ref().map(|client| Arc::clone(&client.login));
        if let Some(client) = &client {
            entry.address = client.address;
        }
        let is_past = arrival.is_past(self.proxy) && uri.path() != HEALTH;
        let asked = Asked {
            headers: parts.headers.clone(),
            method: parts.method.clone(),
        };
        let fault = Fault::default();
        let has_body = !body.is_end_stream();
        let admitted = if is_past {
            Err(past_the_proxy())
        } else {
            self.admit(&mut parts, body, client, &fault)
        };
        let response = match admitted {
            Ok(body) => {
                let response = self.route(Request::from_parts(parts, body)).await;
                match (fault.refusal(), response.extensions().get::<Refusal>()) {
                    (Some(refusal), _) => self.refuse(refusal, &asked.headers),
                    (None, Some(refusal)) => {
                        let rendered = self.refuse(refusal, &asked.headers);
                        with_fields_of(response, rendered)
                    }
                    (None, None) => response,
                }
            }
            Err(refusal) if has_body => self.refuse(&refusal.closing(), &asked.headers),
            Err(refusal) => self.refuse(&refusal, &asked.headers),
        };
        let has_login = login.is_some_and(|login| login.load(Ordering::Relaxed));
        (self.finish(response, &asked, entry), has_login)
    }

    /// Rejects a request on a connection beyond the limit of its address.
    pub(crate) fn turn_away(&self, arrival: &Arrival, request: Request<Incoming>) -> Response {
        let (parts, _) = request.into_parts();
        let entry = Entry::new(&parts.method, &parts.uri, arrival.peer);
        let asked = Asked {
            headers: parts.headers,
            method: parts.method,
        };
        let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, TOO_MANY)
            .retry_after(1)
            .closing();
        let response = self.refuse(&refusal, &asked.headers);
        self.finish(response, &asked, entry)
    }

    /// Returns the body as handlers read it, or the reason to reject the request.
    fn admit(
        &self,
        parts: &mut axum::http::request::Parts,
        body: Incoming,
        client: Option<Client>,
        fault: &Fault,
    ) -> Result<Body, Refusal> {
        let client = client.ok_or_else(|| misdirected(&parts.headers, &parts.uri))?;
        check_length(&parts.headers, self.limits.body_bytes)?;
        if let Some(refusal) = cross_site::refusal(&parts.method, &parts.headers, &client) {
            return Err(refusal);
        }
        let is_packed = is_gzip(&parts.headers)?;
        parts.extensions.insert(client);
        let limited = Limited::new(body, &self.limits, fault.clone());
        if !is_packed {
            return Ok(Body::new(limited));
        }
        parts.headers.remove(CONTENT_ENCODING);
        parts.headers.remove(CONTENT_LENGTH);
        Ok(Body::new(Unpacked::new(
            limited,
            &self.limits,
            fault.clone(),
        )))
    }

    async fn route(&self, request: Request<Body>) -> Response {
        if request.uri().path() == HEALTH {
            return health(request.method());
        }
        match caught(self.router.call(request)).await {
            Some(Ok(response)) => response,
            Some(Err(impossible)) => match impossible {},
            None => Refusal::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the server made a mistake with this request",
            )
            .into_response(),
        }
    }

    fn refuse(&self, refusal: &Refusal, asked: &HeaderMap) -> Response {
        let Some(render) = &self.render else {
            return refusal.answer(asked);
        };
        let mut response = render(refusal, asked);
        *response.status_mut() = refusal.status;
        refusal.mark(response.headers_mut());
        response
    }

    fn finish(&self, response: Response, asked: &Asked, mut entry: Entry) -> Response {
        let takes_gzip = compression::accepts_gzip(&asked.headers);
        let mut response = compression::pack(response, &asked.method, takes_gzip);
        protect(response.headers_mut());
        entry.status = response.status();
        response.map(|body| Logged::wrap(body, entry, &self.log))
    }
}

/// Adds the other header fields that the handler has set to the rendered refusal.
fn with_fields_of(response: Response, mut rendered: Response) -> Response {
    let own = rendered.headers().clone();
    let is_more = |name: &HeaderName| *name != CONTENT_LENGTH && !own.contains_key(name);
    let mut name = None;
    for (next, value) in response.into_parts().0.headers {
        // Further values of a field come without its name.
        name = next.or(name);
        if let Some(name) = name.clone().filter(is_more) {
            rendered.headers_mut().append(name, value);
        }
    }
    rendered
}

/// Parts of the request needed after the router has consumed it.
struct Asked {
    headers: HeaderMap,
    method: Method,
}

fn past_the_proxy() -> Refusal {
    Refusal::new(
        StatusCode::FORBIDDEN,
        "only the proxy that has TLS may ask here",
    )
}

fn misdirected(headers: &HeaderMap, uri: &Uri) -> Refusal {
    let named = headers.get("host").and_then(|host| host.to_str().ok());
    let named = uri
        .authority()
        .map(|authority| authority.as_str())
        .or(named)
        .unwrap_or_default();
    let named: String = named.chars().take(100).collect();
    Refusal::new(
        StatusCode::MISDIRECTED_REQUEST,
        format!("there is no site '{named}' at this server"),
    )
    .hint("use the address that it was started with")
    .closing()
}

/// Requires `Content-Length`. A body whose length is missing or ambiguous allows request smuggling
/// past proxies (RFC 9112, 11.2), so other ways of marking its end are rejected.
fn check_length(headers: &HeaderMap, limit: u64) -> Result<(), Refusal> {
    if headers.contains_key(TRANSFER_ENCODING) {
        let what = "the body of the request comes without its length";
        return Err(Refusal::new(StatusCode::LENGTH_REQUIRED, what)
            .hint("send Content-Length, not Transfer-Encoding")
            .closing());
    }
    let length = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok());
    match length.and_then(|length| length.parse::<u64>().ok()) {
        Some(bytes) if bytes > limit => Err(too_large(limit)),
        _ => Ok(()),
    }
}

fn is_gzip(headers: &HeaderMap) -> Result<bool, Refusal> {
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    match (codings.next().map(HeaderValue::as_bytes), codings.next()) {
        (None | Some(b"identity"), None) => Ok(false),
        (Some(b"gzip"), None) => Ok(true),
        _ => {
            let what = "the body of the request is packed in a way that is not known here";
            Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, what)
                .hint("use gzip, once, or nothing"))
        }
    }
}

fn health(method: &Method) -> Response {
    if method.is_safe() {
        ([("cache-control", "no-store")], "ok\n").into_response()
    } else {
        StatusCode::METHOD_NOT_ALLOWED.into_response()
    }
}

/// Returns the output of a future, or `None` if it panics.
async fn caught<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    // The future is not used again after a panic.
    poll_fn(
        |cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Some(output)),
            Err(_) => Poll::Ready(None),
        },
    )
    .await
}
