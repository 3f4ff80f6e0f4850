//! A small server with a page for each kind of response. It speaks HTTP/1.0 and 1.1 and keeps
//! connections alive only on request, so that ab itself can test it, too.

use rustix::net::sockopt::set_socket_linger;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Counts and heads of the requests.
#[derive(Default)]
struct SeenRequests {
    requests: AtomicU64,
    by_page: Mutex<std::collections::HashMap<String, u64>>,
    heads: Mutex<Vec<String>>,
}

/// The server. It stops accepting when it is dropped.
pub struct PageServer {
    pub address: SocketAddr,
    seen: Arc<SeenRequests>,
    over: Arc<AtomicBool>,
}

impl PageServer {
    pub fn start() -> PageServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(SeenRequests::default());
        let over = Arc::new(AtomicBool::new(false));
        let (of_threads, is_over) = (seen.clone(), over.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let seen = of_threads.clone();
                std::thread::spawn(move || serve(stream, &seen));
            }
        });
        PageServer { address, seen, over }
    }

    pub fn url(&self, page: &str) -> String {
        format!("http://{}{page}", self.address)
    }

    /// Number of requests that were read completely.
    pub fn requests(&self) -> u64 {
        self.seen.requests.load(Ordering::SeqCst)
    }

    pub fn heads(&self) -> Vec<String> {
        self.seen.heads.lock().unwrap().clone()
    }
}

impl Drop for PageServer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

pub fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn serve(mut stream: TcpStream, seen: &SeenRequests) {
    stream.set_nodelay(true).unwrap();
    let mut unread = Vec::new();
    while let Some((head, body)) = read_request(&mut stream, &mut unread) {
        seen.requests.fetch_add(1, Ordering::SeqCst);
        seen.heads.lock().unwrap().push(head.clone());
        let page = head.split(' ').nth(1).unwrap_or("/").to_owned();
        let number = {
            let mut counts = seen.by_page.lock().unwrap();
            let count = counts.entry(page.clone()).or_insert(0);
            *count += 1;
            *count
        };
        if !answer(&mut stream, &head, &page, number, body.len()) {
            return;
        }
    }
}

/// Sends a response; returns whether to keep the connection.
fn answer(stream: &mut TcpStream, head: &str, page: &str, number: u64, uploaded: usize) -> bool {
    let first_line = head.lines().next().unwrap_or_default();
    let lower = head.to_ascii_lowercase();
    let keeps = if first_line.ends_with("HTTP/1.0") {
        lower.contains("\r\nconnection: keep-alive")
    } else {
        !lower.contains("\r\nconnection: close")
    };
    let (mut status, mut body) = ("200 OK", "hello, world!\n".to_owned());
    match page.rsplit('/').next().unwrap_or_default() {
        // One to five bytes, in turn.
        "var" => body = "x".repeat(1 + (number % 5) as usize),
        "missing" => (status, body) = ("404 Not Found", "nothing\n".to_owned()),
        "slow" => std::thread::sleep(Duration::from_millis(20)),
        "never" => {
            std::thread::sleep(Duration::from_secs(20));
            return false;
        }
        "reset" if number.is_multiple_of(2) => {
            reset(stream);
            return false;
        }
        // As if the file had been truncated while it was sent.
        "cut" if number.is_multiple_of(2) => {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n";
            let _ = stream.write_all(format!("{head}{}", "x".repeat(50)).as_bytes());
            return false;
        }
        "upload" => body = format!("{uploaded}\n"),
        _ => {}
    }
    let length = body.len();
    if first_line.starts_with("HEAD ") {
        body.clear();
    }
    let connection = if keeps { "keep-alive" } else { "close" };
    let version = if first_line.ends_with("HTTP/1.0") { "1.0" } else { "1.1" };
    let answer = format!(
        "HTTP/{version} {status}\r\nServer: demo/1\r\nContent-Length: {length}\r\n\
         Connection: {connection}\r\n\r\n{body}"
    );
    stream.write_all(answer.as_bytes()).is_ok() && keeps
}

/// Closes a connection with RST instead of FIN (socket(7), SO_LINGER), which the peer sees as an
/// error.
fn reset(stream: &TcpStream) {
    set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
}

fn read_request(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let end =
        read_until(stream, unread, |bytes| bytes.windows(4).position(|end| end == b"\r\n\r\n"))?;
    let head = String::from_utf8_lossy(&unread[..end]).into_owned();
    unread.drain(..end + 4);
    let lower = head.to_ascii_lowercase();
    let length: usize = lower
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .map_or(0, |length| length.trim().parse().unwrap());
    read_until(stream, unread, |bytes| (bytes.len() >= length).then_some(0))?;
    let body = unread.drain(..length).collect();
    Some((head, body))
}

fn read_until(
    stream: &mut TcpStream,
    unread: &mut Vec<u8>,
    found: impl Fn(&[u8]) -> Option<usize>,
) -> Option<usize> {
    let mut piece = [0; 4096];
    loop {
        if let Some(at) = found(unread) {
            return Some(at);
        }
        match stream.read(&mut piece) {
            Ok(count) if count > 0 => unread.extend_from_slice(&piece[..count]),
            _ => return None,
        }
    }
}
