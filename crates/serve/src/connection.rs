//! One connection: the TLS handshake, then requests in sequence, each through the gate.
//!
//! HTTP/1.1 only: its request heads are bounded by time and size. HTTP/2 would add streams whose
//! resets and settings need limits of their own, and the pages of this server would not gain from
//! it.

use crate::client::{Arrival, Proxy};
use crate::gate::Gate;
use crate::line::Line;
use crate::listen;
use crate::options::Limits;
use crate::room::Place;
use crate::stopper::Stopper;
use axum::http::header::{AUTHORIZATION, CONNECTION, COOKIE};
use axum::http::{HeaderValue, Request};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// State shared by all connections of a server.
pub(crate) struct Shared {
    pub limits: Limits,
    pub gate: Gate,
    pub stopper: Stopper,
    pub proxy: Option<Proxy>,
}

/// Response to a connection that finds no free slot.
const NO_PLACE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\n\
    retry-after: 1\r\nconnection: close\r\ncontent-length: 30\r\n\r\nthere are too many connections";

/// Serves a TCP connection from its handshake to its end.
pub(crate) async fn tcp(
    socket: TcpStream,
    tls: Option<TlsAcceptor>,
    arrival: Arrival,
    shared: Arc<Shared>,
    place: Place,
) {
    // Otherwise the last packet of a response may wait for the client's delayed acknowledgment.
    let _ = socket.set_nodelay(true);
    listen::notice_vanished(&socket, shared.limits.stalled_answer);
    let Some(tls) = tls else {
        return plain(socket, arrival, shared, place).await;
    };
    let line = Line::new(socket, &shared.limits);
    let handshake = tokio::time::timeout(shared.limits.head, tls.accept(line));
    tokio::select! {
        // A client whose handshake fails cannot receive a response.
        agreed = handshake => if let Ok(Ok(line)) = agreed { serve(line, arrival, shared, &place).await },
        () = shared.stopper.stopped() => (),
        () = place.is_given_up() => (),
    }
}

/// Serves a connection without TLS.
pub(crate) async fn plain<S>(socket: S, arrival: Arrival, shared: Arc<Shared>, place: Place)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    serve(Line::new(socket, &shared.limits), arrival, shared, &place).await;
}

async fn serve<S>(line: S, arrival: Arrival, shared: Arc<Shared>, place: &Place)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let answering = Arc::clone(&shared);
    let service = service_fn(move |request| {
        place.keep();
        let shared = Arc::clone(&answering);
        async move { Ok::<_, Infallible>(answer(&shared, &arrival, request, place).await) }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(shared.limits.head)
            // hyper requires at least 8 kB.
            .max_buf_size(shared.limits.head_bytes.max(8 << 10))
            .serve_connection(TokioIo::new(line), service)
    );
    // An error means that the client is gone or does not speak HTTP; hyper has responded if
    // possible.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = shared.stopper.stopped() => connection.as_mut().graceful_shutdown(),
        // Closed without a response, as after a timeout of the request head.
        () = place.is_given_up() => return,
    }
    let _ = connection.await;
}

/// Answers a request. On a connection beyond the per-address limit, the request must carry
/// credentials.
async fn answer(
    shared: &Shared,
    arrival: &Arrival,
    request: Request<Incoming>,
    place: &Place,
) -> Response {
    let headers = request.headers();
    let brings_login = headers.contains_key(AUTHORIZATION) || headers.contains_key(COOKIE);
    let is_within = place.is_within();
    if !is_within && !brings_login {
        return shared.gate.turn_away(arrival, request);
    }
    let (mut response, has_login) = shared.gate.answer(arrival, request).await;
    if has_login {
        place.note_login();
    } else if !is_within {
        let fields = response.headers_mut();
        fields.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Answers a connection for which there is no slot, whatever it requests.
pub(crate) async fn turn_away(socket: TcpStream, limits: &Limits) {
    let mut line = Line::new(socket, limits);
    // The send buffer of a new socket takes these few bytes in one write.
    if poll_fn(|cx| Pin::new(&mut line).poll_write(cx, NO_PLACE))
        .await
        .is_ok()
    {
        let _ = poll_fn(|cx| Pin::new(&mut line).poll_shutdown(cx)).await;
    }
}
