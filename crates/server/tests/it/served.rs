//! A server under test, and a client that sends exactly the given bytes.

use axum::body::{Body, Bytes};
use axum::extract::{Extension, Request};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{AppendHeaders, IntoResponse};
use axum::routing::{get, post};
use axum::{Router, middleware};
use speedwell_server::http::assets::AssetTable;
use speedwell_server::http::events::{EventHub, ServerEvent};
use speedwell_server::http::{
    BoundAddress, ClientInfo, HttpError, HttpServer, ListenAddress, RequestLog, ServerLimits,
    ServerOptions, ServerStopper,
};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longer than a busy machine needs: exceeding it is a bug.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Long enough that it is compressed.
pub const STYLE: &[u8] = &[b' '; 2000];

/// What reached the router and the handlers.
#[derive(Default)]
pub struct ObservedRequests {
    /// Requests that reached the router.
    pub requests: AtomicUsize,
    /// Body bytes read by handlers.
    pub body_bytes: AtomicU64,
}

/// Server on a thread of this process, stopped on drop.
pub struct TestServer {
    pub addresses: Vec<BoundAddress>,
    pub stopper: ServerStopper,
    pub seen: Arc<ObservedRequests>,
    pub hub: EventHub,
    pub style: String,
    lines: Mutex<Receiver<String>>,
    thread: Option<JoinHandle<()>>,
}

pub fn local_options() -> ServerOptions {
    ServerOptions {
        listen: vec![ListenAddress::Loopback { first: 0, last: 0 }],
        limits: test_limits(),
        ..ServerOptions::default()
    }
}

/// Limits that a test does not hit by accident, with bodies that it can exceed quickly.
pub fn test_limits() -> ServerLimits {
    ServerLimits {
        head_timeout: TEST_TIMEOUT,
        body_bytes: 8 << 20,
        body_grace: TEST_TIMEOUT,
        stalled_answer: TEST_TIMEOUT,
        connections_per_address: 512,
        ..ServerLimits::default()
    }
}

impl TestServer {
    pub fn start(mut options: ServerOptions) -> TestServer {
        let seen = Arc::new(ObservedRequests::default());
        let hub = EventHub::with_final_event(ServerEvent::new("over", ""));
        options.stopper.add_hub(&hub);
        let mut assets = AssetTable::default();
        let style = assets.add_file("style.css", "text/css; charset=utf-8", STYLE);
        let router = test_router(&seen, &hub).merge(assets.router());
        let counting = Arc::clone(&seen);
        let router =
            router.layer(middleware::from_fn(move |request: Request, next: middleware::Next| {
                counting.requests.fetch_add(1, Ordering::SeqCst);
                next.run(request)
            }));
        let (line, lines) = channel();
        let json = format!("{:?}", options.log).contains("json: true");
        options.log = RequestLog::with_sink(move |text| drop(line.send(text.to_owned())));
        if json {
            options.log = options.log.as_json();
        }
        let server = HttpServer::bind(options, router).unwrap();
        TestServer {
            addresses: server.addresses().to_vec(),
            stopper: server.stopper(),
            seen,
            hub,
            style,
            lines: Mutex::new(lines),
            thread: Some(std::thread::spawn(move || server.run().unwrap())),
        }
    }

    pub fn start_local() -> TestServer {
        TestServer::start(local_options())
    }

    pub fn start_with_limits(limits: ServerLimits) -> TestServer {
        TestServer::start(ServerOptions { limits, ..local_options() })
    }

    pub fn address(&self) -> SocketAddr {
        match &self.addresses[0] {
            BoundAddress::Tcp(address) => *address,
            BoundAddress::Unix(path) => panic!("a Unix socket: {path:?}"),
        }
    }

    pub fn connect(&self) -> TestConnection<TcpStream> {
        let socket = TcpStream::connect(self.address()).unwrap();
        socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        socket.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
        TestConnection::new(socket)
    }

    /// Sends one request on a new connection: `GET /path`, and header lines besides `Host`.
    pub fn send_request(&self, request: &str, lines: &[&str]) -> TestResponse {
        let host = format!("Host: {}", self.address());
        self.send_raw_request(request, &[&[&host[..]], lines].concat())
    }

    /// Like [`TestServer::send_request`], without a `Host`.
    pub fn send_raw_request(&self, request: &str, lines: &[&str]) -> TestResponse {
        let mut wire = self.connect();
        let head: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        wire.send(format!("{request} HTTP/1.1\r\n{head}\r\n"));
        wire.read_response()
    }

    pub fn log_line(&self) -> String {
        self.lines.lock().unwrap().recv_timeout(TEST_TIMEOUT).unwrap()
    }

    pub fn request_count(&self) -> usize {
        self.seen.requests.load(Ordering::SeqCst)
    }

    /// Waits until the server has ended by itself.
    pub fn wait_for_end(&mut self) {
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn test_router(seen: &Arc<ObservedRequests>, hub: &EventHub) -> Router {
    let (reading, watched) = (Arc::clone(seen), hub.clone());
    Router::new()
        .route("/", get(|| async { "hello" }).post(|| async { "changed" }))
        .route("/text", get(|| async { "0123456789 ".repeat(1000) }))
        .route("/refused", get(refused_handler))
        .route("/endless", get(|| async { vec![b'x'; 256 << 20] }))
        .route("/panic", get(panic_handler))
        .route(
            "/client",
            get(|client: Extension<ClientInfo>| async move { format!("{:?}", client.0) }),
        )
        .route(
            "/known",
            get(|client: Extension<ClientInfo>, headers: HeaderMap| async move {
                let known = headers.get("authorization").is_some_and(|word| word == "right");
                if known {
                    client.record_login();
                }
                format!("{known}")
            }),
        )
        .route("/read", post(|body: Bytes| async move { format!("{} bytes", body.len()) }))
        .route("/ignore", post(|| async { "not read" }))
        .route("/pieces", post(move |body: Body| count_pieces(body, reading)))
        .route(
            "/events",
            get(move || async move { watched.stream_response(ServerEvent::new("now", "first")) }),
        )
}

async fn panic_handler() -> &'static str {
    std::panic::resume_unwind(Box::new("on purpose"))
}

async fn refused_handler() -> impl IntoResponse {
    let cookies = [(SET_COOKIE, "a=b"), (SET_COOKIE, "c=d")];
    let refusal = HttpError::new(StatusCode::UNAUTHORIZED, "there is no such token");
    (AppendHeaders(cookies), refusal.with_hint("make one").with_retry_after(7))
}

/// Counts the bytes that arrive before the body is rejected, and responds as if nothing had
/// happened.
async fn count_pieces(mut body: Body, seen: Arc<ObservedRequests>) -> &'static str {
    use axum::body::HttpBody;
    let mut body = std::pin::Pin::new(&mut body);
    while let Some(Ok(frame)) = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
        seen.body_bytes.fetch_add(bytes, Ordering::SeqCst);
    }
    "fine"
}

/// Connection with a read buffer.
pub struct TestConnection<S> {
    pub socket: S,
    ahead: Vec<u8>,
}

impl<S: Read + Write> TestConnection<S> {
    pub fn new(socket: S) -> TestConnection<S> {
        TestConnection { socket, ahead: Vec::new() }
    }

    /// Sends these bytes. The server may close meanwhile; the response will show it.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.socket.write_all(bytes.as_ref());
        let _ = self.socket.flush();
    }

    /// Reads more bytes; `false` at the end.
    fn read(&mut self) -> bool {
        let mut space = [0; 16 << 10];
        match self.socket.read(&mut space) {
            Ok(0) => false,
            Ok(bytes) => {
                self.ahead.extend_from_slice(&space[..bytes]);
                true
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("nothing comes; so far {:?}", String::from_utf8_lossy(&self.ahead))
            }
            Err(_) => false,
        }
    }

    /// Reads up to and including this text.
    pub fn read_to(&mut self, end: &str) -> Option<String> {
        loop {
            let found = self.ahead.windows(end.len()).position(|part| part == end.as_bytes());
            if let Some(index) = found {
                let rest = self.ahead.split_off(index + end.len());
                let text = std::mem::replace(&mut self.ahead, rest);
                return Some(String::from_utf8(text).unwrap());
            }
            if !self.read() {
                return None;
            }
        }
    }

    fn read_bytes(&mut self, bytes: usize) -> Vec<u8> {
        while self.ahead.len() < bytes && self.read() {}
        assert!(self.ahead.len() >= bytes, "the answer broke off");
        let rest = self.ahead.split_off(bytes);
        std::mem::replace(&mut self.ahead, rest)
    }

    /// Reads the head of the next response.
    pub fn read_head(&mut self) -> Option<TestResponse> {
        let text = self.read_to("\r\n\r\n")?;
        let mut lines = text.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers: HashMap<String, String> = HashMap::new();
        for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
            let seen = headers.entry(name.to_lowercase()).or_default();
            let comma = if seen.is_empty() { "" } else { ", " };
            *seen = format!("{seen}{comma}{value}");
        }
        Some(TestResponse { status, headers, body: Vec::new() })
    }

    /// Reads the next response.
    pub fn read_response(&mut self) -> TestResponse {
        self.try_read_response().expect("the connection was closed without an answer")
    }

    pub fn try_read_response(&mut self) -> Option<TestResponse> {
        let mut answer = self.read_head()?;
        if let Some(length) = answer.headers.get("content-length") {
            let length = length.parse().unwrap();
            answer.body = self.read_bytes(length);
        } else if answer.headers.contains_key("transfer-encoding") {
            loop {
                let line = self.read_to("\r\n").unwrap();
                let size = usize::from_str_radix(line.trim(), 16).unwrap();
                answer.body.extend(self.read_bytes(size));
                self.read_to("\r\n").unwrap();
                if size == 0 {
                    break;
                }
            }
        }
        Some(answer)
    }

    /// Waits until the server closes the connection, and returns what came before.
    pub fn read_to_end(&mut self) -> String {
        while self.read() {}
        String::from_utf8_lossy(&self.ahead).into_owned()
    }
}

#[derive(Debug)]
pub struct TestResponse {
    pub status: u16,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl TestResponse {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}
