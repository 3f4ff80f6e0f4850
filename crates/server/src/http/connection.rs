//! Serves one connection: performs the TLS handshake, then passes each request to the pipeline.
//!
//! Only HTTP/1.1 is supported, with limits on the time and size of a request head. HTTP/2 would
//! need further limits, on stream resets and settings, without a benefit for the pages.

use crate::http::client::{ConnectionInfo, TrustedProxy};
use crate::http::connection_limiter::ConnectionPermit;
use crate::http::lingering_socket::LingeringSocket;
use crate::http::listen;
use crate::http::options::ServerLimits;
use crate::http::pipeline::RequestPipeline;
use crate::http::shutdown::ServerStopper;
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
pub(crate) struct ServerState {
    pub limits: ServerLimits,
    pub gate: RequestPipeline,
    pub stopper: ServerStopper,
    pub proxy: Option<TrustedProxy>,
}

/// Response if there is no free slot for the connection.
const TOO_MANY_CONNECTIONS_RESPONSE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\n\
    retry-after: 1\r\nconnection: close\r\ncontent-length: 20\r\n\r\ntoo many connections";

/// Serves a TCP connection from its handshake to its end.
pub(crate) async fn serve_tcp(
    socket: TcpStream,
    tls: Option<TlsAcceptor>,
    info: ConnectionInfo,
    shared: Arc<ServerState>,
    permit: ConnectionPermit,
) {
    // By default, the last packet of a response may wait for the client's delayed acknowledgment.
    let _ = socket.set_nodelay(true);
    listen::set_user_timeout(&socket, shared.limits.stalled_answer);
    let Some(tls) = tls else {
        return serve_plain(socket, info, shared, permit).await;
    };
    let socket = LingeringSocket::new(socket, &shared.limits);
    let handshake = tokio::time::timeout(shared.limits.head_timeout, tls.accept(socket));
    tokio::select! {
        // After a failed handshake, the client cannot receive a response.
        result = handshake => if let Ok(Ok(socket)) = result { serve_requests(socket, info, shared, &permit).await },
        () = shared.stopper.wait_until_stopped() => (),
        () = permit.wait_until_evicted() => (),
    }
}

/// Serves a connection without TLS.
pub(crate) async fn serve_plain<S>(
    socket: S,
    info: ConnectionInfo,
    shared: Arc<ServerState>,
    permit: ConnectionPermit,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    serve_requests(LingeringSocket::new(socket, &shared.limits), info, shared, &permit).await;
}

async fn serve_requests<S>(
    socket: S,
    info: ConnectionInfo,
    shared: Arc<ServerState>,
    permit: &ConnectionPermit,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let state = Arc::clone(&shared);
    let service = service_fn(move |request| {
        permit.mark_active();
        let shared = Arc::clone(&state);
        async move { Ok::<_, Infallible>(answer_request(&shared, &info, request, permit).await) }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(shared.limits.head_timeout)
            // hyper requires at least 8 kB.
            .max_buf_size(shared.limits.head_bytes.max(8 << 10))
            .serve_connection(TokioIo::new(socket), service)
    );
    // Ignore connection errors: the client is gone or does not speak HTTP. hyper has sent a
    // response if possible.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = shared.stopper.wait_until_stopped() => connection.as_mut().graceful_shutdown(),
        // An evicted connection is closed without a response.
        () = permit.wait_until_evicted() => return,
    }
    let _ = connection.await;
}

/// Answers a request. If the connection exceeds the per-address limit, the request must carry
/// credentials.
async fn answer_request(
    shared: &ServerState,
    info: &ConnectionInfo,
    request: Request<Incoming>,
    permit: &ConnectionPermit,
) -> Response {
    let headers = request.headers();
    let has_credentials = headers.contains_key(AUTHORIZATION) || headers.contains_key(COOKIE);
    let is_within = permit.is_within_quota();
    if !is_within && !has_credentials {
        return shared.gate.reject_request(info, request);
    }
    let (mut response, has_login) = shared.gate.answer_request(info, request).await;
    if has_login {
        permit.record_login();
    } else if !is_within {
        let fields = response.headers_mut();
        fields.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Answers a connection that does not get a slot. Does not read its request.
pub(crate) async fn reject_connection(socket: TcpStream, limits: &ServerLimits) {
    let mut socket = LingeringSocket::new(socket, limits);
    // One write is enough: the send buffer of a new socket has room for these few bytes.
    if poll_fn(|cx| Pin::new(&mut socket).poll_write(cx, TOO_MANY_CONNECTIONS_RESPONSE))
        .await
        .is_ok()
    {
        let _ = poll_fn(|cx| Pin::new(&mut socket).poll_shutdown(cx)).await;
    }
}
