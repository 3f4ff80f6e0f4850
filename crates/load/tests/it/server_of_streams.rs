//! An HTTP/2 server whose frames, valid or not, are written by the test.

use super::server::Server;
use speedwell_load::load::{HttpVersion, LoadConfig};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Encodes a frame (RFC 9113, section 4.1).
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// HEADERS with `:status: 200`, optionally ending the stream.
pub fn head(stream: u32, ends: bool) -> Vec<u8> {
    frame(1, 4 | u8::from(ends), stream, &[0x88])
}

/// DATA that ends the stream.
pub fn body(stream: u32, bytes: &[u8]) -> Vec<u8> {
    frame(0, 1, stream, bytes)
}

/// RST_STREAM with a code.
pub fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(3, 0, stream, &code.to_be_bytes())
}

/// GOAWAY: streams above `last` will not be processed.
pub fn goaway(last: u32, code: u32) -> Vec<u8> {
    let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
    frame(7, 0, 0, &payload)
}

/// A request as received by the server.
pub struct Stream<'a> {
    /// Number among all requests, from 0.
    pub number: u64,
    /// Stream ID: 1, 3, 5 ...
    pub id: u32,
    pub socket: &'a mut TcpStream,
}

impl Stream<'_> {
    pub fn say(&mut self, bytes: &[u8]) {
        // The client may be gone, as its counts will show.
        let _ = self.socket.write_all(bytes);
    }

    pub fn answer(&mut self) -> bool {
        self.say(&[head(self.id, false), body(self.id, b"good")].concat());
        true
    }
}

/// Starts a server; the handler returns whether its connection continues.
pub fn start(handler: impl Fn(Stream) -> bool + Send + Sync + 'static) -> Streams {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let streams = Streams {
        address: listener.local_addr().unwrap(),
        requests: Arc::default(),
        over: Arc::default(),
    };
    let (requests, over) = (streams.requests.clone(), streams.over.clone());
    let handler = Arc::new(handler);
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            if over.load(Ordering::SeqCst) {
                return;
            }
            let (requests, handler) = (requests.clone(), handler.clone());
            std::thread::spawn(move || serve(socket.unwrap(), &requests, &*handler));
        }
    });
    streams
}

/// A running server.
pub struct Streams {
    pub address: std::net::SocketAddr,
    pub requests: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

impl Streams {
    /// A closed load over HTTP/2.
    pub fn load(&self, concurrency: u32, capacity: u32, requests: u64) -> LoadConfig {
        LoadConfig {
            http: HttpVersion::Two { table_bytes: 0 },
            streams_per_connection: capacity,
            ..super::server::load_to(self.address, concurrency, requests)
        }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
    }
}

fn serve(
    mut socket: TcpStream,
    requests: &AtomicU64,
    handler: &dyn Fn(Stream) -> bool,
) -> Option<()> {
    socket.set_nodelay(true).ok()?;
    let mut preface = [0; 24];
    socket.read_exact(&mut preface).ok()?;
    assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    socket.write_all(&frame(4, 0, 0, &[])).ok()?;
    loop {
        let mut start = [0; 9];
        socket.read_exact(&mut start).ok()?;
        let length = u32::from_be_bytes([0, start[0], start[1], start[2]]) as usize;
        let id = u32::from_be_bytes([start[5], start[6], start[7], start[8]]);
        let mut payload = vec![0; length];
        socket.read_exact(&mut payload).ok()?;
        let (kind, flags) = (start[3], start[4]);
        if kind == 4 && flags & 1 == 0 {
            socket.write_all(&frame(4, 1, 0, &[])).ok()?;
        }
        if kind == 1 {
            let stream =
                Stream { number: requests.fetch_add(1, Ordering::SeqCst), id, socket: &mut socket };
            if !handler(stream) {
                // Read what the client still sends; otherwise closing would reset the connection.
                socket.shutdown(std::net::Shutdown::Write).ok()?;
                std::io::copy(&mut socket, &mut std::io::sink()).ok()?;
                return None;
            }
        }
    }
}

/// A server that does not speak HTTP/2.
pub fn deaf() -> Server {
    Server::start(|mut request| request.answer("400 Bad Request", "what?"))
}
