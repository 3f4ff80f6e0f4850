//! A small web server inside the test: it responds by path and records every request.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request as it came over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebRequest {
    /// Request line and header fields, with their line ends.
    pub head: String,
    pub body: String,
}

type SeenRequestList = Arc<Mutex<Vec<WebRequest>>>;

/// Serves until the test program exits; its threads are not joined.
pub struct WebServer {
    pub address: SocketAddr,
    seen: SeenRequestList,
}

impl WebServer {
    pub fn start() -> WebServer {
        WebServer::at(IpAddr::from([127, 0, 0, 1]))
    }

    /// A server at another address of this machine.
    pub fn at(address: IpAddr) -> WebServer {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = SeenRequestList::default();
        let shared = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = shared.clone();
                std::thread::spawn(move || talk(stream, &seen));
            }
        });
        WebServer { address, seen }
    }

    /// A server on a Unix socket instead; its address is meaningless.
    pub fn at_path(path: &Path) -> WebServer {
        let listener = UnixListener::bind(path).unwrap();
        let seen = SeenRequestList::default();
        let shared = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = shared.clone();
                std::thread::spawn(move || talk(stream, &seen));
            }
        });
        WebServer { address: SocketAddr::from(([127, 0, 0, 1], 0)), seen }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn requests(&self) -> Vec<WebRequest> {
        self.seen.lock().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

/// A port without a listener: from below the ephemeral range of the kernel, so that no other
/// process gets it before it is used.
pub fn free_port() -> u16 {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let next = || {
        let own = std::process::id() * 97 + ASKED.fetch_add(1, Ordering::Relaxed);
        20_000 + (own % 12_000) as u16
    };
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    std::iter::repeat_with(next).find(is_free).unwrap()
}

fn talk(mut stream: impl Read + Write, seen: &SeenRequestList) {
    let mut buffer = Vec::new();
    while let Some(request) = next(&mut stream, &mut buffer) {
        let path = request.head.split(' ').nth(1).unwrap_or("/").to_owned();
        let head = request.head.to_lowercase();
        // An HTTP/1.0 connection is kept alive only if both sides ask for it (RFC 9112, section
        // 9.3).
        let is_old = head.contains(" http/1.0\r\n");
        let stays = is_old && head.contains("connection: keep-alive");
        let closes = head.contains("connection: close") || (is_old && !stays);
        seen.lock().unwrap().push(request);
        if path == "/later" {
            std::thread::sleep(Duration::from_millis(100));
        }
        let kept = if stays { "Connection: keep-alive\r\n" } else { "" };
        let answer = answer(&path, kept);
        // A response to HEAD is its head alone.
        let said = if head.starts_with("head ") {
            answer.split_inclusive("\r\n\r\n").next().unwrap_or_default()
        } else {
            &answer
        };
        if stream.write_all(said.as_bytes()).is_err() || closes {
            return;
        }
    }
}

fn answer(path: &str, kept: &str) -> String {
    let (status, field, body) = match path {
        "/missing" => ("404 Not Found", "", "nothing"),
        "/moved" => ("302 Found", "Location: /there\r\n", ""),
        _ => ("200 OK", "", "hello, world"),
    };
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nServer: test\r\n{kept}{field}Content-Length: {length}\r\n\r\n{body}"
    )
}

/// The next request of a connection; `None` at its end.
fn next(stream: &mut impl Read, buffer: &mut Vec<u8>) -> Option<WebRequest> {
    let mut chunk = [0; 4096];
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(buffer[..end + 4].to_vec()).unwrap();
            let length: usize = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok())
                .unwrap_or(0);
            if buffer.len() >= end + 4 + length {
                let body = String::from_utf8(buffer[end + 4..end + 4 + length].to_vec()).unwrap();
                buffer.drain(..end + 4 + length);
                return Some(WebRequest { head, body });
            }
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(count) => buffer.extend_from_slice(&chunk[..count]),
        }
    }
}
